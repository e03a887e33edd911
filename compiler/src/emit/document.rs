//! The formulas of a derivation in the order a paper prints them.

use super::update;
use crate::calculus::{Meaning, Shares};
use crate::check::inputs;
use crate::check::recipe::{ParamValue, Recipe, Values, Whose};
use crate::derive::{self, Backward, COLUMN, Derivation, Hessian, Kink, Named, StepBackward};
use crate::ir::{Axis, Entropy, Expr, Leaf, Op, Role, rational, traverse};
use crate::notation::Writer;
use crate::notation::math::{Math, Symbol};
use crate::notation::write::{entropy_formula, entropy_symbol, mean_symbol, positive_part};
use num_traits::Signed;

/// A stage of the derivation that can be printed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    Energy,
    Gradient,
    Hessian,
    Update,
    Backward,
}

impl Stage {
    pub const ALL: [Stage; 5] = [Stage::Energy, Stage::Gradient, Stage::Hessian, Stage::Update, Stage::Backward];

    pub fn name(self) -> &'static str {
        match self {
            Stage::Energy => "energy",
            Stage::Gradient => "gradient",
            Stage::Hessian => "hessian",
            Stage::Update => "update",
            Stage::Backward => "backward",
        }
    }
}

/// A title and its sections.
#[derive(Clone, Debug)]
pub struct Document {
    pub title: String,
    pub sections: Vec<Section>,
}

/// One stage on paper.
#[derive(Clone, Debug)]
pub struct Section {
    pub stage: Stage,
    pub title: &'static str,
    pub lines: Vec<Line>,
}

/// An equation, perhaps with several right sides, or a sentence.
#[derive(Clone, Debug)]
pub enum Line {
    Equation { left: Math, right: Vec<Math>, with: Vec<(Math, Math)> },
    Note(Vec<Piece>),
}

/// A part of a sentence.
#[derive(Clone, Debug)]
pub enum Piece {
    Words(String),
    Formula(Math),
}

impl Line {
    pub fn equation(left: Math, right: Math) -> Line {
        Line::Equation { left, right: vec![right], with: vec![] }
    }
    /// Whether some formula is not written out to its end.
    fn omits(&self) -> bool {
        match self {
            Line::Equation { right, with, .. } => {
                right.iter().any(Math::omits) || with.iter().any(|(_, formula)| formula.omits())
            }
            Line::Note(pieces) => pieces.iter().any(|piece| matches!(piece, Piece::Formula(m) if m.omits())),
        }
    }
    /// A sentence with formulas in the places of `{}`.
    pub fn note(sentence: &str, formulas: &[Math]) -> Line {
        let mut formulas = formulas.iter();
        let mut pieces = Vec::new();
        for (j, words) in sentence.split("{}").enumerate() {
            if j > 0 {
                pieces.extend(formulas.next().cloned().map(Piece::Formula));
            }
            if !words.is_empty() {
                pieces.push(Piece::Words(words.to_string()));
            }
        }
        Line::Note(pieces)
    }
}

/// What there is to print besides the derivation itself.
#[derive(Clone, Copy, Default)]
pub struct Extras<'a> {
    pub hessian: Option<&'a Hessian>,
    pub backward: Option<&'a Backward>,
    pub step: Option<&'a StepBackward>,
}

/// The document of a derivation: the stages asked for, or the usual ones.
pub fn document(derivation: &Derivation, extras: Extras, stages: &[Stage]) -> Document {
    let mut sections = Vec::new();
    let mut defined = Defined::default();
    for &stage in stages {
        let (title, lines) = match stage {
            Stage::Energy => ("Energy", energy_lines(derivation, &mut defined)),
            Stage::Gradient => ("Gradient", gradient_lines(derivation, &mut defined)),
            Stage::Update => ("Update", update::lines(derivation, &mut defined)),
            Stage::Hessian => match extras.hessian {
                Some(hessian) => ("Hessian", hessian_lines(derivation, hessian, &mut defined)),
                None => continue,
            },
            Stage::Backward => match extras.backward {
                Some(backward) => {
                    let step = extras.step.map(|step| update::backward_lines(derivation, step)).unwrap_or_default();
                    let lines = backward_lines(derivation, backward, &mut defined);
                    ("Backward", lines.into_iter().chain(step).collect())
                }
                None => continue,
            },
        };
        let mut lines: Vec<Line> = lines;
        if lines.iter().any(Line::omits) {
            lines.push(Line::note("{} stands for what is too long to write out", &[Math::omitted()]));
        }
        sections.push(Section { stage, title, lines });
    }
    Document { title: derivation.recipe.name.clone(), sections }
}

/// The symbols a document has explained so far.
#[derive(Default)]
pub struct Defined(Vec<String>);

impl Defined {
    /// Whether it was explained.
    pub fn has(&self, name: &str) -> bool {
        self.0.iter().any(|n| n == name)
    }
    /// Whether this is the first time.
    pub fn first(&mut self, name: &str) -> bool {
        let is_new = !self.has(name);
        if is_new {
            self.0.push(name.to_string());
        }
        is_new
    }
}

/// A writer for a derivation's terms: it knows the local energy by name when that is long.
pub fn writer(derivation: &Derivation) -> Writer {
    Writer::new(known_energy(derivation).into_iter().collect())
}

/// The same for a page that says what unit vectors are.
pub fn page_writer(derivation: &Derivation) -> Writer {
    writer(derivation).with_unit_vectors(true)
}

/// A long local energy is written E_i inside other formulas.
fn known_energy(derivation: &Derivation) -> Option<(Expr, Leaf)> {
    let local = &derivation.local.term;
    let is_long = traverse::subterms(local).iter().any(|x| matches!(x.op(), Op::Select(_)));
    is_long.then(|| (local.clone(), inputs::energy(&[Axis::T, Axis::N], local.sign())))
}

/// E, F and the parameters.
fn energy_lines(derivation: &Derivation, defined: &mut Defined) -> Vec<Line> {
    let recipe = &derivation.recipe;
    let mut plain = Writer::default().with_unit_vectors(true);
    let mut writer = page_writer(derivation);
    let mut lines = vec![local_line(derivation, &mut plain), energy_line(derivation, &mut plain, &mut writer)];
    lines.extend(unit_lines(&[&plain, &writer], defined));
    lines.push(Line::Equation {
        left: Math::symbol("F"),
        right: vec![Math::product(vec![
            Math::fraction(Math::one(), Math::symbol("H")),
            Math::Over("Σ", "h".into(), Box::new(head("F"))),
        ])],
        with: projections(recipe),
    });
    for constraint in &recipe.constraints {
        let norm = Math::Norm(Box::new(Math::symbol(&constraint.vector.name)), None);
        lines.push(Line::equation(norm, Writer::default().write(&constraint.radius)));
    }
    if !recipe.constraints.is_empty() {
        lines.push(Line::note(
            if recipe.constraints.iter().any(|c| c.vector.same_input(&inputs::q())) {
                "The norms are put into {} before it is differentiated: the radial term, the derivative of {}, is dropped."
            } else {
                "The norms are put into {} before it is differentiated."
            },
            &[Math::symbol("F"), Math::Norm(Box::new(Math::symbol("q")), None)],
        ));
    }
    lines.extend(parameter_lines(recipe));
    lines
}

/// E_i.
pub fn local_line(derivation: &Derivation, plain: &mut Writer) -> Line {
    Line::equation(Math::indexed("E", "i"), plain.write(&derivation.local.term))
}

/// F_h over E_i, and written out.
pub fn energy_line(derivation: &Derivation, plain: &mut Writer, writer: &mut Writer) -> Line {
    let mut right = vec![plain.write(&derivation.global.term)];
    let whole = writer.write(&derivation.energy.term);
    if right[0] != whole {
        right.push(whole);
    }
    Line::Equation { left: head("F"), right, with: entropies(&derivation.energy.term) }
}

/// S(p) for the smooth maxima that are not logarithms of sums.
fn entropies(energy: &Expr) -> Vec<(Math, Math)> {
    let mut kinds: Vec<Entropy> = Vec::new();
    for x in traverse::subterms(energy) {
        match x.op() {
            Op::SmoothMax(kind, ..) if *kind != Entropy::Shannon && !kinds.contains(kind) => kinds.push(kind.clone()),
            _ => {}
        }
    }
    kinds.iter().map(|kind| (entropy_symbol(kind), entropy_formula(kind))).collect()
}

pub fn head(name: &str) -> Math {
    Math::indexed(name, "h")
}

fn projections(recipe: &Recipe) -> Vec<(Math, Math)> {
    let product = |w: &str, x: Math| Math::Product(vec![Math::symbol(w), x]);
    let mut all = vec![
        (Math::symbol("q"), product("W1", Math::symbol("z"))),
        (Math::indexed("k", "i"), product("W2", Math::indexed("h", "i"))),
    ];
    if recipe.values == Values::Free {
        all.push((Math::indexed("v", "i"), product("W_V", Math::indexed("h", "i"))));
    }
    all
}

fn parameter_lines(recipe: &Recipe) -> Vec<Line> {
    let symbolic = recipe.params.iter().map(|param| {
        let name = Math::symbol(&param.name);
        let at_i = Math::indexed(&param.name, "i");
        let value = |e: &Expr| Writer::default().write(e);
        match &param.value {
            ParamValue::Fixed(e) => Line::note("{} = {}", &[name, value(e)]),
            ParamValue::Learn { init, each } => {
                let one = match (each.head, each.component) {
                    (false, false) => "",
                    (true, false) => " one a head,",
                    (false, true) => " one a component,",
                    (true, true) => " one a head and component,",
                };
                Line::note(&format!("{{}} is learned,{one} from {{}}"), &[name, value(init)])
            }
            ParamValue::Gate(squash, Whose::Token) => Line::note(
                &format!("{{}} is a {} gate of token {{}}, in (0, 1)", squash.as_str()),
                &[at_i, Math::symbol("i")],
            ),
            ParamValue::Gate(squash, Whose::Query) => {
                Line::note(&format!("{{}} is a {} gate of the query's token, in (0, 1)", squash.as_str()), &[name])
            }
            ParamValue::Decay(squash) => Line::note(
                &format!(
                    "{{}} is the product of the {} decays of the tokens after {{}} up to the query, in (0, 1)",
                    squash.as_str()
                ),
                &[at_i, Math::symbol("i")],
            ),
        }
    });
    let structural = recipe.structural.iter();
    let structural =
        structural.map(|(name, value)| Line::note("{} = {}", &[Math::symbol(name), Math::Number(value.clone())]));
    symbolic.chain(structural).collect()
}

/// ∇_q F_h and what its symbols mean.
fn gradient_lines(derivation: &Derivation, defined: &mut Defined) -> Vec<Line> {
    let mut writer = page_writer(derivation);
    let gradient = shown(derivation, &derivation.gradient.term);
    let mut lines = vec![Line::equation(nabla_head(), writer.write(&gradient))];
    if gradient.is_zero() {
        lines.push(Line::note("The energy does not depend on {}: nothing moves.", &[Math::symbol("q")]));
    }
    lines.extend(definition_lines(derivation, &writer, &[&gradient], defined));
    lines
}

pub fn nabla_head() -> Math {
    Math::Product(vec![Math::indexed("∇", "q"), head("F")])
}

/// p_i, c_i, x̄ as far as the written terms use them and nothing above has explained them.
pub fn definition_lines(derivation: &Derivation, used: &Writer, terms: &[&Expr], defined: &mut Defined) -> Vec<Line> {
    let mut lines = Vec::new();
    for (weights, vector) in &used.used_means {
        let letter = "i";
        let body = Math::Product(vec![Math::indexed(&weights.name, letter), Math::indexed(&vector.name, letter)]);
        if defined.first(&format!("mean {} of {}", weights.name, vector.name)) {
            let left = mean_symbol(weights, vector);
            lines.push(Line::equation(Math::Symbol(left), Math::Over("Σ", letter.into(), Box::new(body))));
        }
    }
    let mut own = writer(derivation).with_unit_vectors(used.units);
    for named in derivation.names.iter().filter(|n| terms.iter().any(|e| traverse::mentions(e, &n.leaf))) {
        if defined.first(&named.leaf.name) {
            let mut line = definition_line(derivation, named, &mut own);
            // Z has been said with p_i.
            if let (Meaning::Rest(shares), Line::Equation { with, .. }) = (&named.meaning, &mut line)
                && defined.has(&shares.share.name)
            {
                with.clear();
            }
            lines.push(line);
        }
    }
    lines.extend(unit_lines(&[used, &own], defined));
    lines
}

/// x̂ = x/‖x‖ for the unit vectors that were written and that nothing above has explained.
fn unit_lines(used: &[&Writer], defined: &mut Defined) -> Vec<Line> {
    let mut lines = Vec::new();
    for x in used.iter().flat_map(|writer| &writer.used_units) {
        if !defined.first(&format!("unit {}", x.name)) {
            continue;
        }
        let indices = if x.role == Role::Query { vec![] } else { vec!["i".to_string()] };
        let plain = Symbol { indices, ..Symbol::new(&x.name) };
        let unit = Math::Symbol(Symbol { hat: true, ..plain.clone() });
        let plain = Math::Symbol(plain);
        lines.push(Line::equation(unit, Math::fraction(plain.clone(), Math::Norm(Box::new(plain), None))));
    }
    lines
}

/// The term with what is short written out where its name stands.
pub fn shown(derivation: &Derivation, e: &Expr) -> Expr {
    derive::reveal(e, &derivation.names.iter().filter(|named| is_short(named)).cloned().collect::<Vec<_>>())
}

/// A vector of one or two letters, such as q − k̄, needs no name, nor does a positive part [x]₊.
fn is_short(named: &Named) -> bool {
    let Meaning::Formula(value) = &named.meaning else { return false };
    if positive_part(value).is_some() {
        return true;
    }
    let is_mean = |body: &Expr| body.factors().len() == 2 && body.factors().iter().all(|f| f.as_leaf().is_some());
    let is_letter = |term: &Expr| term.as_leaf().is_some() || matches!(term.op(), Op::Sum(_, body) if is_mean(body));
    let terms = value.terms();
    let bare = terms
        .iter()
        .map(|term| term.split_coefficient())
        .all(|(c, rest)| c.abs() == rational::int(1) && is_letter(&rest));
    named.leaf.axes.contains(&Axis::E) && terms.len() <= 2 && bare
}

fn definition_line(derivation: &Derivation, named: &Named, writer: &mut Writer) -> Line {
    let left = Math::indexed(&named.leaf.name, "i");
    match &named.meaning {
        Meaning::Formula(e) | Meaning::Solution { system: e, .. } => {
            let left = if named.leaf.axes.contains(&Axis::N) { left } else { Math::symbol(&named.leaf.name) };
            Line::equation(left, writer.write(&shown(derivation, e)))
        }
        Meaning::Weights { kind, scores } => weights_line(left, &named.leaf.name, kind, scores, derivation, writer),
        Meaning::Share(shares) => shares_line(left, &named.leaf.name, &shares.part, shares, derivation, writer),
        Meaning::Rest(shares) => {
            shares_line(Math::symbol(&named.leaf.name), &shares.share.name, &shares.rest, shares, derivation, writer)
        }
    }
}

/// A share of a whole: p_i = f_i/Z, Z = r + Σ_j f_j.
fn shares_line(
    left: Math,
    name: &str,
    part: &Expr,
    shares: &Shares,
    derivation: &Derivation,
    writer: &mut Writer,
) -> Line {
    let z = own_letter("Z", name, derivation);
    let [part, token, rest] = [part, &shares.part, &shares.rest].map(|e| writer.write(e));
    let sum = Math::Over("Σ", "j".into(), Box::new(with_letter(&token, "i", "j")));
    let whole = match rest {
        Math::Sum(terms) => terms.into_iter().chain([(false, sum)]).collect(),
        rest => vec![(false, rest), (false, sum)],
    };
    Line::Equation { left, right: vec![Math::fraction(part, z.clone())], with: vec![(z, Math::Sum(whole))] }
}

/// A letter that belongs to some weights: numbered as they are, and never called as a parameter is.
fn own_letter(letter: &str, weights: &str, derivation: &Derivation) -> Math {
    let number = weights.trim_start_matches(|c: char| !c.is_ascii_digit());
    Math::symbol(&derive::unused(&format!("{letter}{number}"), &derivation.recipe))
}

/// The weights in closed form.
fn weights_line(
    left: Math,
    name: &str,
    kind: &Entropy,
    scores: &Expr,
    derivation: &Derivation,
    writer: &mut Writer,
) -> Line {
    let own = |letter: &str| own_letter(letter, name, derivation);
    match kind {
        Entropy::Shannon => {
            let exponential = writer.write(&scores.exp());
            let z = own("Z");
            let sum = Math::Over("Σ", "j".into(), Box::new(with_letter(&exponential, "i", "j")));
            Line::Equation { left, right: vec![Math::fraction(exponential, z.clone())], with: vec![(z, sum)] }
        }
        Entropy::Tsallis(alpha) => {
            let less = alpha - rational::int(1);
            let scaled = writer.write(&scores.scale(&less));
            let threshold = Math::Positive(Box::new(Math::Sum(vec![(false, scaled), (true, own("tau"))])));
            Line::Equation { left, right: vec![to_power(threshold, &less.recip())], with: vec![sum_to_one(name)] }
        }
        Entropy::Norm(gamma) => {
            let less = gamma - rational::int(1);
            let score = writer.write(scores);
            let threshold = Math::Positive(Box::new(Math::Sum(vec![(false, score), (true, own("tau"))])));
            let power = to_power(threshold.clone(), &less.recip());
            let norm = to_power(threshold, &(gamma / &less));
            let z = own("Z");
            let z_value = Math::Over("Σ", "j".into(), Box::new(with_letter(&power, "i", "j")));
            let condition = Math::Over("Σ", "j".into(), Box::new(with_letter(&norm, "i", "j")));
            Line::Equation {
                left,
                right: vec![Math::fraction(power, z.clone())],
                with: vec![(z, z_value), (condition, Math::one())],
            }
        }
    }
}

fn sum_to_one(name: &str) -> (Math, Math) {
    (Math::Over("Σ", "j".into(), Box::new(Math::indexed(name, "j"))), Math::one())
}

fn to_power(m: Math, r: &crate::ir::Rational) -> Math {
    if *r == rational::int(1) { m } else { Math::Power(Box::new(m), Box::new(Math::Number(r.clone()))) }
}

/// The formula with one token index renamed.
fn with_letter(m: &Math, from: &str, to: &str) -> Math {
    m.with_symbols(&|s| {
        let indices = s.indices.iter().map(|i| if i == from { to.to_string() } else { i.clone() }).collect();
        Math::Symbol(Symbol { indices, ..s.clone() })
    })
}

/// C·u, C where it can be written as a matrix, and where it does not exist.
fn hessian_lines(derivation: &Derivation, hessian: &Hessian, defined: &mut Defined) -> Vec<Line> {
    let mut writer = page_writer(derivation);
    let mut lines = Vec::new();
    let c = Math::Product(vec![
        Math::Power(Box::new(Math::symbol("∇")), Box::new(Math::Number(rational::int(2)))),
        head("F"),
    ]);
    if let Some(matrix) = writer.matrix(&hessian.matrix, Axis::E, COLUMN) {
        lines.push(Line::equation(c.clone(), matrix));
    }
    let product = writer.write(&hessian.product);
    lines.push(Line::equation(Math::Product(vec![c, Math::symbol(&hessian.probe.name)]), product));
    lines.extend(definition_lines(derivation, &writer, &[&hessian.product], defined));
    lines.extend(kink_lines(derivation, &hessian.kinks));
    lines
}

/// Where the second derivative does not exist.
pub fn kink_lines(derivation: &Derivation, kinks: &[Kink]) -> Vec<Line> {
    let place = |e: &Expr| Writer::default().write(&derive::hide(e, &derivation.names));
    let line = |kink: &Kink| {
        let sentence = format!("where {{}} = {{}}: {}", kink.what);
        Line::note(&sentence, &[place(&kink.place.0), place(&kink.place.1)])
    };
    let heading = (!kinks.is_empty()).then(|| Line::note("This holds almost everywhere. Kinks:", &[]));
    heading.into_iter().chain(kinks.iter().map(line)).collect()
}

/// Cotangents in the order they are computed.
fn backward_lines(derivation: &Derivation, backward: &Backward, defined: &mut Defined) -> Vec<Line> {
    let mut known: Vec<(Expr, Leaf)> = known_energy(derivation).into_iter().collect();
    // o itself, unless it is nothing but another name.
    let direction = &derivation.direction.term;
    if direction.split_coefficient().1.as_leaf().is_none() {
        known.push((shown(derivation, direction), backward.output.clone()));
    }
    let mut writer = Writer::new(known).with_unit_vectors(true);
    let index = |name: &str| Math::symbol(name);
    let mut lines = vec![Line::note(
        "{} is the cotangent of {}; a sum over {} beside an index {} runs over the queries that see token {}.",
        &[index(&backward.cotangent.name), index(&backward.output.name), index("t"), index("i"), index("i")],
    )];
    for definition in backward.definitions.iter().chain(&backward.gradients) {
        let shows_query =
            traverse::subterms(&definition.value.term).iter().any(|x| matches!(x.op(), Op::Sum(Axis::T, _)));
        let mut left = Symbol::new(&definition.leaf.name);
        for axis in &definition.leaf.axes {
            match axis.space {
                crate::ir::Space::Token => left.indices.push("i".into()),
                crate::ir::Space::Query if shows_query => left.indices.push("t".into()),
                _ => {}
            }
        }
        let right = writer.write(&shown(derivation, &definition.value.term));
        lines.push(Line::equation(Math::Symbol(left), right));
    }
    let terms = backward.definitions.iter().chain(&backward.gradients).map(|d| shown(derivation, &d.value.term));
    let terms: Vec<Expr> = terms.collect();
    let terms: Vec<&Expr> = terms.iter().collect();
    lines.extend(definition_lines(derivation, &writer, &terms, defined));
    if defined.first("o") {
        let mut writer = page_writer(derivation);
        let direction = writer.write(&shown(derivation, &derivation.direction.term));
        lines.push(Line::equation(Math::symbol(&backward.output.name), direction));
        lines.extend(unit_lines(&[&writer], defined));
    }
    lines
}
