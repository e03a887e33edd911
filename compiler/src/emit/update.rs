//! The optimizer's step on paper: the program, what its forces are, and what the free matrices absorb.

use super::document::{Defined, Line, definition_lines, head, nabla_head, page_writer, shown};
use crate::calculus::Meaning;
use crate::check::inputs;
use crate::check::recipe::{Assigned, Method, Preconditioner, Recipe, State, Tokens, Values, WriteBack, Written};
use crate::derive::{self, COLUMN, Derivation, Named, Preconditioned, StepBackward};
use crate::ir::{Axis, Expr, Leaf, Role, Sign, rational, traverse};
use crate::notation::Writer;
use crate::notation::math::Math;
use crate::notation::write::HAT;

/// The step before and after parameterization.
pub fn lines(derivation: &Derivation, defined: &mut Defined) -> Vec<Line> {
    match &derivation.preconditioned {
        None => first_order(derivation, defined),
        Some(preconditioned) => second_order(derivation, preconditioned, defined),
    }
}

fn first_order(derivation: &Derivation, defined: &mut Defined) -> Vec<Line> {
    let page = Page::of(derivation);
    let mut lines = page.program();
    let force = page.over_heads(one_over_heads(), vec![matrix(WriteBack::Transpose), nabla_head()]);
    lines.push(Line::equation(page.force(), force));
    let mut writer = page_writer(derivation);
    let [gradient, direction] = [&derivation.gradient, &derivation.direction].map(|x| shown(derivation, &x.term));
    let descent = writer.write(&gradient.neg());
    lines.push(Line::note("As derived:", &[]));
    lines.push(page.moved(page.step_over_heads(), vec![matrix(WriteBack::Transpose), descent]));
    let is_free = derivation.recipe.values == Values::Free;
    if is_free || page.write_back() != WriteBack::Transpose {
        let title = if is_free { "Parameterized, with free values:" } else { "Parameterized:" };
        lines.push(Line::note(title, &[]));
        lines.push(page.moved(page.coefficient(), vec![matrix(page.write_back()), head("o")]));
        lines.push(Line::equation(head("o"), writer.write(&direction)));
        defined.first("o");
    }
    lines.extend(definition_lines(derivation, &writer, &[&gradient, &direction], defined));
    lines.extend(pseudo_inverse(page.write_back()));
    lines.extend(page.absorbed());
    lines.extend(page.carried());
    lines.extend(page.repeated());
    lines
}

fn second_order(derivation: &Derivation, preconditioned: &Preconditioned, defined: &mut Defined) -> Vec<Line> {
    let Some(how) = &derivation.recipe.program.preconditioner else { return vec![] };
    let page = Page::of(derivation);
    let mut writer = page_writer(derivation);
    let is_free = derivation.recipe.values == Values::Free;
    let mut lines = page.program();
    lines.extend(system_lines(&page, how, preconditioned, &mut writer));
    if !is_free {
        lines.push(Line::note("As derived:", &[]));
        lines.push(page.moved(page.step_over_heads(), vec![matrix(WriteBack::Pinv), head("o")]));
    }
    let direction = Line::equation(head("o"), direction(&page, preconditioned, &mut writer));
    defined.first("o");
    let terms = written_terms(derivation, preconditioned);
    // Written once for the means they bring; their lines come with the definitions.
    terms.iter().for_each(|term| drop(writer.write(term)));
    let definitions = definition_lines(derivation, &writer, &terms.iter().collect::<Vec<_>>(), defined);
    if is_free || page.write_back() != WriteBack::Pinv {
        lines.extend((!is_free).then(|| Line::note("Parameterized:", &[])));
        lines.push(page.moved(page.coefficient(), vec![matrix(page.write_back()), head("o")]));
    }
    lines.push(direction);
    lines.extend(definitions);
    lines.extend(page.absorbed());
    if how.curvature.sign() == Sign::Negative {
        let newton = Math::product(vec![inverse(hessian()), nabla_head()]).negated();
        let sentence = "{} has the opposite sign of {}: Newton's step itself would be {}.";
        lines.push(Line::note(sentence, &[page.system(), hessian(), newton]));
    }
    lines.extend(page.carried());
    lines.extend(page.repeated());
    lines
}

/// Δ, A, what was replaced in it, and how its inverse is taken.
fn system_lines(page: &Page, how: &Preconditioner, done: &Preconditioned, writer: &mut Writer) -> Vec<Line> {
    let factors = vec![matrix(WriteBack::Pinv), inverse(page.system()), nabla_head()];
    let mut lines = vec![Line::Equation {
        left: page.force(),
        right: vec![page.over_heads(one_over_heads(), factors)],
        with: vec![(page.system(), operator(&how.curvature, &how.shift))],
    }];
    lines.extend(pseudo_inverse(WriteBack::Pinv));
    if page.derivation.recipe.values == Values::Free {
        lines.push(Line::note(
            "Parameterized first, preconditioned then: {} takes the place of {} in the vector part of {} and on both \
             sides of {}.",
            &[Math::indexed("v", "i"), Math::indexed("k", "i"), nabla_head(), hessian()],
        ));
    }
    let written = writer.matrix(&done.system, Axis::E, COLUMN);
    lines.extend(written.map(|written| Line::equation(page.system(), written)));
    if done.scale != done.scale_used {
        let number = |e: &Expr| Writer::default().write(e);
        lines.push(Line::note("{} takes the place of {}.", &[number(&done.scale_used), number(&done.scale)]));
    }
    if let Method::Taylor { order, .. } = &how.method {
        lines.push(series_line(*order, done, page.system()));
    }
    lines
}

/// ±A⁻¹ r, or the series as −(g + …) with g as the gradient has it.
fn direction(page: &Page, done: &Preconditioned, writer: &mut Writer) -> Math {
    let derivation = page.derivation;
    if done.names.iter().any(is_solution) {
        let product = Math::Product(vec![inverse(page.system()), writer.write_inside(&done.right.term)]);
        return if done.is_negated { product } else { product.negated() };
    }
    if done.is_negated {
        return writer.write(&shown(derivation, &derivation.direction.term));
    }
    match writer.write(&shown(derivation, &derivation.direction.term.neg())) {
        sum @ Math::Sum(_) => Math::Sum(vec![(true, sum)]),
        other => other.negated(),
    }
}

/// What the lines of a solved step are written with: the gradient, A, and the vectors of a series.
fn written_terms(derivation: &Derivation, done: &Preconditioned) -> Vec<Expr> {
    let solution: Vec<Named> = done.names.iter().filter(|named| is_solution(named)).cloned().collect();
    let direction = derive::reveal(&shown(derivation, &derivation.direction.term), &solution);
    let vectors = done.names.iter().filter(|named| traverse::mentions(&direction, &named.leaf));
    let vectors: Vec<Expr> = vectors.map(|named| shown(derivation, &named.value())).collect();
    [derivation.gradient.term.clone(), done.system.clone(), direction].into_iter().chain(vectors).collect()
}

fn is_solution(named: &Named) -> bool {
    matches!(named.meaning, Meaning::Solution { .. })
}

fn inverse(m: Math) -> Math {
    Math::Power(Box::new(m), Box::new(Math::one().negated()))
}

/// The backward pass of a step that is more than z − η∇F(z).
pub fn backward_lines(derivation: &Derivation, step: &StepBackward) -> Vec<Line> {
    if derivation.update.step_size.is_some() {
        return vec![];
    }
    let page = Page::of(derivation).with_cotangents(step);
    let symbol = |leaf: &Leaf| Writer::default().write(&Expr::leaf(leaf.clone()));
    let mut lines = vec![Line::note("The optimizer's step:", &[])];
    for (i, point) in derivation.recipe.program.gradients.iter().enumerate() {
        let (force, point) = (page.gradient_symbol(i), Writer::default().write(&page.renamed(point)));
        let sentence = "{} is the cotangent of {}, and {} what the heads send back to {}.";
        lines.push(Line::note(sentence, &[symbol(&step.forces[i].leaf), force, symbol(&step.points[i]), point]));
    }
    let forces = step.forces.iter().rev().map(|force| (force.leaf.name.to_string(), force));
    let inputs = step.inputs.iter().map(|(input, definition)| (format!("∂{}", page.name_of(input)), definition));
    for (name, definition) in forces.chain(inputs) {
        let value = page.renamed(&definition.value.term);
        lines.push(Line::equation(Math::symbol(&name), Writer::default().write(&value)));
    }
    lines
}

/// A = αI − B, A⁻¹ ≈ α⁻¹ Σ_{j ≤ k} (B/α)^j.
fn series_line(order: u32, preconditioned: &Preconditioned, a: Math) -> Line {
    let b = || Math::symbol("B");
    let identity = || Math::symbol("I");
    let alpha = Writer::default().write(&preconditioned.alpha);
    let is_one = alpha.is_one();
    let along = if is_one { identity() } else { Math::product(vec![alpha.clone(), identity()]) };
    let split = Math::Sum(vec![(false, along), (true, b())]);
    let ratio = if is_one { b() } else { Math::fraction(b(), alpha.clone()) };
    let power = |j: u32| match j {
        0 => identity(),
        1 => ratio.clone(),
        j => Math::Power(Box::new(ratio.clone()), Box::new(Math::Number(rational::int(i64::from(j))))),
    };
    let terms = Math::sum((0..=order).map(|j| (false, power(j))).collect());
    let series = if is_one { terms } else { Math::product(vec![Math::fraction(Math::one(), alpha), terms]) };
    let inverse = inverse(a.clone());
    Line::note(
        &format!("{{}} = {{}}, and its inverse is taken to order {order}: {{}} ≈ {{}}."),
        &[a, split, inverse, series],
    )
}

/// a·∇²F_h + b.
fn operator(curvature: &Expr, shift: &Expr) -> Math {
    let number = |e: &Expr| Writer::default().write(e);
    let (minus, size) =
        if curvature.sign() == Sign::Negative { (true, curvature.neg()) } else { (false, curvature.clone()) };
    let curved = (minus, Math::product(vec![number(&size), hessian()]));
    match shift.is_zero() {
        true if !minus => curved.1,
        true => Math::Sum(vec![curved]),
        false => {
            let along = (false, Math::product(vec![number(shift), Math::symbol("I")]));
            Math::Sum(if minus { vec![along, curved] } else { vec![curved, along] })
        }
    }
}

fn hessian() -> Math {
    Math::Product(vec![Math::Power(Box::new(Math::symbol("∇")), Box::new(Math::Number(rational::int(2)))), head("F")])
}

/// What brings a head's direction back to the token.
fn matrix(write_back: WriteBack) -> Math {
    let w1 = || Math::symbol("W1");
    match write_back {
        WriteBack::Transpose => Math::Transposed(Box::new(w1())),
        WriteBack::Pinv => Math::Pseudoinverse(Box::new(w1())),
        WriteBack::Free => Math::symbol("W_O"),
        WriteBack::FreePinv => {
            Math::Product(vec![Math::symbol("W_O"), Math::symbol("W_V"), Math::Pseudoinverse(Box::new(w1()))])
        }
    }
}

/// W1⁺ = W1ᵀ (W1 W1ᵀ)⁻¹.
fn pseudo_inverse(write_back: WriteBack) -> Option<Line> {
    let w1 = || Math::symbol("W1");
    let square = Math::Product(vec![w1(), Math::Transposed(Box::new(w1()))]);
    let inverse = inverse(square);
    matches!(write_back, WriteBack::Pinv | WriteBack::FreePinv).then(|| {
        Line::equation(matrix(WriteBack::Pinv), Math::Product(vec![Math::Transposed(Box::new(w1())), inverse]))
    })
}

/// The factors with the sign and the number that the last one starts with in front.
fn without_number(mut factors: Vec<Math>) -> (bool, Math, Vec<Math>) {
    let Some(last) = factors.pop() else { return (false, Math::one(), factors) };
    let (minus, last) = match last {
        Math::Sum(mut terms) if terms.len() == 1 => terms.remove(0),
        other => (false, other),
    };
    let (number, last) = match last {
        Math::Product(mut parts) if matches!(&parts[0], Math::Number(c) if c.is_integer()) => {
            (parts.remove(0), Math::product(parts))
        }
        other => (Math::one(), other),
    };
    factors.push(last);
    (minus, number, factors)
}

fn one_over_heads() -> Math {
    Math::fraction(Math::one(), Math::symbol("H"))
}

/// Letters that mean something in every derivation.
const FIXED: [&str; 16] = ["z", "q", "k", "v", "h", "o", "u", "i", "j", "t", "E", "F", "H", "I", "S", "Z"];
/// What the program calls a letter that is taken is printed as one of these.
const FREE: [&str; 8] = ["m", "s", "r", "w", "x", "y", "g", "a"];

/// New names for what the program calls as another quantity of the derivation is called.
fn taken(derivation: &Derivation) -> Vec<(Leaf, String)> {
    let recipe = &derivation.recipe;
    let states = recipe.program.states.iter().map(|state| &state.leaf);
    let lets = lines_of(recipe).filter(|line| !line.is_state).map(|line| &line.leaf);
    let own: Vec<&Leaf> = states.chain(lets).collect();
    let means_more = |name: &str| FIXED.contains(&name) || derivation.names.iter().any(|n| &*n.leaf.name == name);
    let is_free =
        |name: &&str| !means_more(name) && recipe.param(name).is_none() && own.iter().all(|leaf| &*leaf.name != *name);
    let mut free = FREE.into_iter().filter(is_free);
    let taken = own.iter().filter(|leaf| means_more(&leaf.name));
    taken.map_while(|leaf| Some(((*leaf).clone(), free.next()?.to_string()))).collect()
}

fn lines_of(recipe: &Recipe) -> impl Iterator<Item = &Assigned> {
    recipe.program.written.iter().flat_map(|written| &written.lines)
}

/// What comes after the step.
fn hat(leaf: &Leaf) -> Leaf {
    Leaf { name: format!("{}{HAT}", leaf.name).into(), ..leaf.clone() }
}

/// What the lines of one step have in common.
struct Page<'a> {
    derivation: &'a Derivation,
    step: Option<Math>,
    /// Names of the program that are printed as another letter.
    taken: Vec<(Leaf, String)>,
    /// The new values of states, with hats, and their cotangents.
    after: Vec<(Leaf, String)>,
}

impl Page<'_> {
    fn of(derivation: &Derivation) -> Page<'_> {
        let step = derivation.update.step_size.as_ref().map(|e| Writer::default().write(e));
        let taken = taken(derivation);
        let printed = |leaf: &Leaf| match taken.iter().find(|(other, _)| other.name == leaf.name) {
            Some((_, name)) => format!("{name}{HAT}"),
            None => format!("{}{HAT}", leaf.name),
        };
        let recipe = &derivation.recipe;
        let lines = lines_of(recipe).filter(|line| line.is_state).map(|line| (line.leaf.clone(), printed(&line.leaf)));
        let states = recipe.program.states.iter().map(|state| (hat(&state.leaf), printed(&state.leaf)));
        let after = lines.chain(states).collect();
        Page { derivation, step, taken, after }
    }

    /// The same, for the cotangents of the new states too.
    fn with_cotangents(mut self, step: &StepBackward) -> Self {
        let states = self.derivation.recipe.program.states.iter();
        // The first result is ẑ.
        let cotangents = states.zip(&step.results[1..]).filter_map(|(state, cotangent)| {
            let name = self.name_of(&state.leaf);
            (*name != *state.leaf.name).then(|| (cotangent.clone(), format!("∂{name}{HAT}")))
        });
        let cotangents: Vec<(Leaf, String)> = cotangents.collect();
        self.after.extend(cotangents);
        self
    }

    /// The name an input is printed with.
    fn name_of<'a>(&'a self, leaf: &'a Leaf) -> &'a str {
        self.taken
            .iter()
            .chain(&self.after)
            .find(|(other, _)| other.same_input(leaf))
            .map_or(&leaf.name, |(_, name)| name)
    }

    fn write_back(&self) -> WriteBack {
        self.derivation.recipe.write_back
    }

    /// The matrix a step comes with by itself.
    fn natural(&self) -> WriteBack {
        if self.derivation.preconditioned.is_some() { WriteBack::Pinv } else { WriteBack::Transpose }
    }

    /// ∇F, or Δ for what a solved system gives.
    fn force_name(&self) -> String {
        match self.derivation.preconditioned {
            None => "∇F".to_string(),
            Some(_) => derive::unused("Delta", &self.derivation.recipe),
        }
    }

    fn force(&self) -> Math {
        Math::symbol(&self.force_name())
    }

    /// A, the matrix of the system.
    fn system(&self) -> Math {
        Math::symbol(&derive::unused("A", &self.derivation.recipe))
    }

    /// The i-th force; a number only where there are several.
    fn gradient_name(&self, i: usize) -> String {
        let force = self.force_name();
        if self.derivation.recipe.program.gradients.len() == 1 { force } else { format!("{force}{}", i + 1) }
    }

    fn gradient_symbol(&self, i: usize) -> Math {
        Math::symbol(&self.gradient_name(i))
    }

    /// A term of the program with its forces and states under the names they are printed with.
    fn renamed(&self, e: &Expr) -> Expr {
        traverse::substitute_leaves(e, &mut |leaf: &Leaf| {
            let name = self.name_of(leaf);
            if *name != *leaf.name {
                return Some(Expr::leaf(Leaf { name: name.into(), ..leaf.clone() }));
            }
            let i = leaf.ordinal.checked_sub(inputs::FIRST_GRADIENT)? as usize;
            let is_gradient = leaf.role == Role::Named && leaf.same_input(&inputs::gradient(i));
            is_gradient.then(|| Expr::leaf(Leaf { name: self.gradient_name(i).into(), ..leaf.clone() }))
        })
    }

    fn over_heads(&self, coefficient: Math, factors: Vec<Math>) -> Math {
        Math::product(vec![coefficient, Math::Over("Σ", "h".into(), Box::new(Math::product(factors)))])
    }

    /// ẑ = z + …, or the force as the program uses it.
    fn moved(&self, coefficient: Math, factors: Vec<Math>) -> Line {
        // A number in front of what the heads add, and its sign, stand in front of the sum over heads.
        let (minus, number, factors) = without_number(factors);
        let coefficient = match coefficient {
            Math::Fraction(above, below) => Math::fraction(Math::product(vec![number, *above]), *below),
            whole => Math::product(vec![number, whole]),
        };
        let added = self.over_heads(coefficient, factors);
        match self.step {
            Some(_) => Line::equation(Math::hat("z"), Math::Sum(vec![(false, Math::symbol("z")), (minus, added)])),
            None => Line::equation(self.force(), Math::sum(vec![(!minus, added)])),
        }
    }

    fn step_over_heads(&self) -> Math {
        Math::fraction(self.step.clone().unwrap_or_else(Math::one), Math::symbol("H"))
    }

    /// η/H, unless a free matrix takes it over.
    fn coefficient(&self) -> Math {
        match self.write_back() {
            WriteBack::Free | WriteBack::FreePinv => Math::one(),
            WriteBack::Transpose | WriteBack::Pinv => self.step_over_heads(),
        }
    }

    /// ẑ = z − η ∇F(z), or the states and look-ahead points of a longer program.
    fn program(&self) -> Vec<Line> {
        let program = &self.derivation.recipe.program;
        let mut lines = Vec::new();
        let rename = |e: &Expr| self.renamed(e);
        for (i, point) in program.gradients.iter().enumerate() {
            let at = Writer::default().write(&rename(point));
            if at != Math::symbol("z") {
                lines.push(Line::note("{} is taken at {}", &[self.gradient_symbol(i), at]));
            }
        }
        let (states, z) = match &program.written {
            Some(Written { lines, z }) => {
                (lines.iter().map(|line| (line.leaf.clone(), line.value.clone())).collect(), z.clone())
            }
            None => self.put_in(),
        };
        for (leaf, value) in states.into_iter().chain([(hat(&inputs::z()), z)]) {
            let [left, right] = [&Expr::leaf(leaf), &value].map(|e| Writer::default().write(&rename(e)));
            lines.push(Line::equation(left, right));
        }
        let sentence = "{} stands for the optimizer's {}, a letter that is taken here.";
        let taken = self.taken.iter();
        lines.extend(taken.map(|(leaf, name)| Line::note(sentence, &[Math::symbol(name), Math::symbol(&leaf.name)])));
        lines
    }

    /// The new states, and ẑ in them where it holds them as they are.
    fn put_in(&self) -> (Vec<(Leaf, Expr)>, Expr) {
        let program = &self.derivation.recipe.program;
        let states: Vec<(Leaf, Expr)> = program
            .states
            .iter()
            .zip(&program.next_states)
            .map(|(state, next)| (hat(&state.leaf), next.clone()))
            .collect();
        let z = states.iter().fold(program.z.clone(), |z, (hat, next)| {
            let (c, whole) = next.split_content();
            let is_long = whole.as_leaf().is_none() && whole.as_const().is_none();
            if is_long { traverse::replace(&z, &whole, &Expr::leaf(hat.clone()).scale(&c.recip())) } else { z }
        });
        (states, z)
    }

    /// What the free matrices take over; nothing is dropped silently.
    fn absorbed(&self) -> Vec<Line> {
        let uphill = self.derivation.update.step_size.as_ref().is_some_and(|e| e.sign() == Sign::Negative);
        let uphill = uphill.then(|| Line::note("The optimizer moves along {}: uphill.", &[self.force()]));
        let is_free = self.derivation.recipe.values == Values::Free;
        let mut lines = Vec::new();
        if !is_free && self.write_back() == self.natural() {
            let what = match (self.derivation.preconditioned.is_some(), uphill.is_some()) {
                (false, false) => "the descent step itself",
                (true, false) => "the step itself, with its true sign",
                (_, true) => "the step itself",
            };
            lines.push(Line::note(&format!("Nothing is absorbed: this is {what}."), &[]));
            return lines.into_iter().chain(uphill).collect();
        }
        lines.push(self.taken_place());
        lines.extend(self.values());
        lines.into_iter().chain(uphill).collect()
    }

    /// Which matrix stands in the place of which, and the sign of the direction.
    fn taken_place(&self) -> Line {
        let natural = Math::product(vec![self.step_over_heads(), matrix(self.natural())]);
        let sign = match self.derivation.preconditioned {
            None => "descent direction",
            Some(_) => "solved step",
        };
        let toward = match self.derivation.preconditioned {
            None => nabla_head().negated(),
            Some(_) => Math::product(vec![inverse(self.system()), nabla_head()]).negated(),
        };
        let has = format!("{{}} has the sign of the {sign} {{}}.");
        match self.write_back() {
            WriteBack::FreePinv if self.natural() == WriteBack::Pinv => {
                let free = Math::Product(vec![Math::symbol("W_O"), Math::symbol("W_V")]);
                let sentence = format!("{{}} takes the place of {{}}. {has} {{}} may absorb the minus.");
                Line::note(&sentence, &[free.clone(), self.step_over_heads(), head("o"), toward, free])
            }
            write_back => {
                let sentence = format!("{{}} takes the place of {{}}. {has}");
                let own = Math::product(vec![self.coefficient(), matrix(write_back)]);
                Line::note(&sentence, &[own, natural, head("o"), toward])
            }
        }
    }

    /// v in the place of k.
    fn values(&self) -> Option<Line> {
        let derivation = self.derivation;
        if derivation.recipe.values == Values::Tied {
            return None;
        }
        if !derive::vector_part(&derivation.gradient.term) {
            let sentence = "No attended token stands in the vector part, so {} does not occur.";
            return Some(Line::note(sentence, &[Math::symbol("v")]));
        }
        let value = Math::Product(vec![Math::symbol("W_V"), Math::indexed("h", "i")]);
        let natural = Math::product(vec![self.step_over_heads(), matrix(self.natural())]);
        let back = if derivation.preconditioned.is_some() { "step" } else { "descent step" };
        let (v, k) = (Math::indexed("v", "i"), Math::indexed("k", "i"));
        Some(match self.write_back() {
            WriteBack::Free => Line::note(
                &format!(
                    "{{}} = {{}} takes the place of {{}} in the vector part. {{}} = {{}} and {{}} = {{}} give the {back} \
                     back."
                ),
                &[v, value, k, Math::symbol("W_O"), natural, Math::symbol("W_V"), Math::symbol("W2")],
            ),
            _ => Line::note("{} = {} takes the place of {} in the vector part.", &[v, value, k]),
        })
    }

    /// Where states begin, and where they go.
    fn carried(&self) -> Vec<Line> {
        let states = self.derivation.recipe.program.states.iter();
        let sentence = "{} starts at {} and is carried from sublayer to sublayer, attention and FFN alike.";
        let line = |state: &State| {
            let name = self.name_of(&state.leaf);
            Line::note(sentence, &[Math::symbol(name), Writer::default().write(&state.init)])
        };
        states.map(line).collect()
    }

    /// Loops.
    fn repeated(&self) -> Option<Line> {
        let recipe = &self.derivation.recipe;
        let tokens = match recipe.tokens {
            Tokens::Fixed => "the attended tokens fixed",
            Tokens::Evolve => "the attended tokens moving along",
        };
        let sentence = format!("The layer takes this step {} times, {tokens}.", recipe.steps);
        (recipe.steps > 1).then(|| Line::note(&sentence, &[]))
    }
}
