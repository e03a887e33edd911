//! The analysis in formulas and sentences.

use super::ball::Bound;
use super::draws::{self, Ball};
use super::matrix::{Formula, Shown, Writing};
use super::numbers::{Evidence, Witness};
use super::parts::{Definite, Part, Reason};
use super::subject::Subject;
use super::verdict::{Verdict, witnesses};
use crate::check::Recipe;
use crate::derive::{Derivation, unused};
use crate::emit::document::{
    self, Defined, Line, Piece, definition_lines, energy_line, kink_lines, local_line, writer,
};
use crate::ir::{Entropy, Expr, rational};
use crate::notation::math::{Math, Symbol};
use crate::notation::{Writer, text};
use crate::simplify::Options;

/// A sum of matrices wider than this is written part by part.
const WIDEST_SUM: usize = 84;

/// F_h.
pub fn head() -> Math {
    document::head("F")
}

/// F_ρ.
pub fn on_ball() -> Math {
    Math::indexed("F", "ρ")
}

fn zero() -> Math {
    Math::Number(rational::int(0))
}

fn q() -> Math {
    Math::symbol("q")
}

fn squared(m: Math) -> Math {
    Math::Power(Box::new(m), Box::new(Math::Number(rational::int(2))))
}

/// ∇² F.
fn nabla_squared(energy: &Math) -> Math {
    Math::Product(vec![squared(Math::symbol("∇")), energy.clone()])
}

/// F_h itself.
pub fn energy(subject: &Subject) -> Vec<Line> {
    let derivation = &subject.derivation;
    let mut plain = Writer::default();
    vec![local_line(derivation, &mut plain), energy_line(derivation, &mut plain, &mut writer(derivation))]
}

/// ∇²F as a sum of parts with their signs, and where it does not exist.
pub fn hessian(subject: &Subject, name: &Math, options: &Options, defined: &mut Defined) -> Vec<Line> {
    let derivation = &subject.derivation;
    let probe = &subject.claims.probe;
    let mut writing = Writing::new(derivation, options, probe, writer(derivation));
    let shown = subject.claims.parts.iter().filter_map(|part| Some((part, writing.show(part)?)));
    let shown: Vec<(&Part, Shown)> = shown.collect();
    let left = nabla_squared(name);
    let matrices: Option<Vec<Math>> = shown.iter().map(|(_, shown)| shown.matrix()).collect();
    let whole = matrices.map(sum).filter(|sum| text::print(sum).chars().count() <= WIDEST_SUM);
    let mut lines = Vec::new();
    match (&whole, shown.as_slice()) {
        (_, []) => lines.push(Line::equation(left.clone(), zero())),
        (Some(sum), _) => {
            lines.push(Line::equation(left.clone(), sum.clone()));
            for (part, shown) in &shown {
                let matrix = if shown_alone(&shown.formula, sum) { left.clone() } else { shown.symbol() };
                lines.push(sign_line(matrix, part));
            }
        }
        (None, all) => {
            let letters = letters(all.len(), derivation);
            if all.len() > 1 {
                lines.push(Line::equation(left.clone(), sum(letters.clone())));
            }
            for ((part, shown), letter) in all.iter().zip(letters) {
                let name = if all.len() > 1 { letter } else { left.clone() };
                lines.push(match &shown.formula {
                    Formula::Matrix(matrix) => Line::equation(name.clone(), matrix.clone()),
                    Formula::Product(product) => {
                        Line::equation(Math::Product(vec![name.clone(), Math::symbol(&probe.name)]), product.clone())
                    }
                });
                lines.push(sign_line(name, part));
            }
        }
    }
    for (name, value) in shown.iter().flat_map(|(_, shown)| &shown.definitions) {
        lines.push(Line::equation(name.clone(), value.clone()));
    }
    let terms: Vec<&Expr> = shown.iter().flat_map(|(_, shown)| &shown.terms).collect();
    lines.extend(definition_lines(derivation, &writing.writer, &terms, defined));
    lines.extend(kink_lines(derivation, &subject.hessian.kinks));
    lines
}

impl Shown {
    fn matrix(&self) -> Option<Math> {
        match &self.formula {
            Formula::Matrix(matrix) => Some(matrix.clone()),
            Formula::Product(_) => None,
        }
    }
    fn symbol(&self) -> Math {
        match &self.formula {
            Formula::Matrix(m) | Formula::Product(m) => m.clone(),
        }
    }
}

fn shown_alone(formula: &Formula, sum: &Math) -> bool {
    matches!(formula, Formula::Matrix(m) if m == sum)
}

/// Formulas added up, each with its own sign.
fn sum(terms: Vec<Math>) -> Math {
    let signed = terms.into_iter().flat_map(|term| match term {
        Math::Sum(terms) if terms.len() == 1 => terms,
        term => vec![(false, term)],
    });
    Math::sum(signed.collect())
}

/// A, B, …, but for the recipe's own names and letters with a meaning.
fn letters(count: usize, derivation: &Derivation) -> Vec<Math> {
    let plain = ["A", "B", "C", "D", "G", "J", "K", "L", "M", "P", "Q", "R"];
    let letter = |j: usize| plain.get(j).map_or_else(|| format!("A{j}"), ToString::to_string);
    (0..count).map(|j| Math::symbol(&unused(&letter(j), &derivation.recipe))).collect()
}

/// "A ⪰ 0: why".
fn sign_line(matrix: Math, part: &Part) -> Line {
    let relation = match part.sign {
        Definite::Positive => "⪰ 0",
        Definite::Negative => "⪯ 0",
        Definite::Unknown => "is of unknown sign",
    };
    Line::note(&format!("{{}} {relation}: {}", reason(part)), &[matrix])
}

fn reason(part: &Part) -> &'static str {
    let is_covariance = part.scatter.as_ref().is_some_and(|s| s.kind == Entropy::Shannon);
    match (part.reason, part.sign) {
        (Reason::Squares, Definite::Negative) => "squares with weights ≤ 0",
        (Reason::Squares, _) => "squares with weights ≥ 0",
        (Reason::Convexity, Definite::Negative) => "the curvature of concave terms",
        (Reason::Convexity, _) => "the curvature of convex terms",
        (Reason::Scatter, Definite::Negative) if is_covariance => "minus a covariance",
        (Reason::Scatter, _) if is_covariance => "a covariance",
        (Reason::Scatter, Definite::Negative) => "minus a scatter around a mean, with weights ≥ 0",
        (Reason::Scatter, _) => "a scatter around a mean, with weights ≥ 0",
        (Reason::Cross, _) => "the changes of two factors, multiplied",
        (Reason::Factor, _) => "a factor may be positive or negative",
        (Reason::NoRule, _) => "no rule applies",
    }
}

/// The verdict with its reason, what it means for the token, and what was looked at.
pub fn curvature(subject: &Subject, name: &Math) -> Vec<Line> {
    let names = &[name.clone(), q()];
    let by = if subject.by_composition {
        if subject.has_kinks() { "by composition, kinks included" } else { "by composition" }
    } else {
        "every part of its Hessian is, and there are no kinks"
    };
    let place = if subject.is_in_ball { ", in the ball" } else { "" };
    let mut lines = match subject.verdict() {
        Verdict::Affine => vec![Line::note("{} is affine in {}, so convex and concave.", names)],
        Verdict::Convex => vec![Line::note(&format!("{{}} is convex in {{}}{place}: {by}."), names)],
        Verdict::Concave => vec![Line::note(&format!("{{}} is concave in {{}}{place}: {by}."), names)],
        Verdict::Neither => neither(subject, names),
        Verdict::Unknown => unknown(subject, names),
    };
    lines.push(looked_at(subject, name));
    lines.extend(subject.seen.problems.iter().take(1).map(|problem| words(&format!("Numbers disagree: {problem}."))));
    if *name == head() {
        lines.extend(in_z());
    }
    lines
}

fn neither(subject: &Subject, names: &[Math]) -> Vec<Line> {
    let mut lines = vec![Line::note("{} is neither convex nor concave in {}:", names)];
    let Some((one, other)) = witnesses(&subject.seen) else { return lines };
    let says = |evidence: &Evidence, convex: bool| {
        let witness = if convex { &evidence.not_convex } else { &evidence.not_concave };
        witness.as_ref().map_or(String::new(), |w| describe(w, if convex { "not convex" } else { "not concave" }))
    };
    let place = |evidence: &Evidence| draws::describe(&evidence.setting.env, &subject.derivation.recipe);
    let single = match (&one.not_convex, &other.not_concave) {
        (Some(Witness::Eigenvalue { value: a, place: p }), Some(Witness::Eigenvalue { value: b, place: r }))
            if p == r =>
        {
            let (a, b, p) = (draws::short(*a), draws::short(*b), draws::vector(p));
            Some(format!("with {}, at q = {p} the Hessian has the eigenvalues {a} and {b}.", place(one)))
        }
        _ => None,
    };
    if let Some(sentence) = single.filter(|_| std::ptr::eq(one, other)) {
        lines.push(words(&sentence));
    } else if std::ptr::eq(one, other) {
        let sentence = format!("with {}, {}, and {}.", place(one), says(one, true), says(one, false));
        lines.push(words(&sentence));
    } else {
        lines.push(words(&format!("with {}, {};", place(one), says(one, true))));
        lines.push(words(&format!("with {}, {}.", place(other), says(other, false))));
    }
    lines
}

fn describe(witness: &Witness, says: &str) -> String {
    match witness {
        Witness::Eigenvalue { value, place } => {
            format!("at q = {} the Hessian has the eigenvalue {} ({says})", draws::vector(place), draws::short(*value))
        }
        Witness::Chord { rise, ends: [a, b] } => {
            let side = if *rise > 0.0 { "above" } else { "below" };
            let (a, b) = (draws::vector(a), draws::vector(b));
            format!("midway from q = {a} to {b} it is {} {side} its chord ({says})", draws::short(rise.abs()))
        }
    }
}

fn unknown(subject: &Subject, names: &[Math]) -> Vec<Line> {
    let place = |evidence: &Evidence| draws::describe(&evidence.setting.env, &subject.derivation.recipe);
    let seen = subject.seen.evidence.iter().find_map(|evidence| {
        let witness = evidence.not_convex.as_ref().map(|w| describe(w, "not convex"));
        let witness = witness.or_else(|| evidence.not_concave.as_ref().map(|w| describe(w, "not concave")))?;
        Some(format!("and the draws speak against one only: with {}, {witness}.", place(evidence)))
    });
    let seen = seen.unwrap_or_else(|| "and no draw speaks against either.".to_string());
    let sentence = format!("Whether {{}} is convex or concave in {{}} is not known: no rule proves either, {seen}");
    vec![Line::note(&sentence, names)]
}

/// How many draws there were, and the eigenvalues.
fn looked_at(subject: &Subject, name: &Math) -> Line {
    let seen = &subject.seen;
    let Some((low, high)) = seen.range else {
        return Line::note(
            "No draw gave a Hessian to look at: {} is too steep, or a kink is everywhere.",
            std::slice::from_ref(name),
        );
    };
    // An eigenvalue that is 0 but for rounding.
    let rounding = 1e-12 * (low.abs() + high.abs());
    let [low, high] = [low, high].map(|x| if x.abs() <= rounding { 0.0 } else { x });
    let range = format!(
        "On {} draws the eigenvalues of {{}} lie between {} and {}",
        seen.draws,
        draws::short(low),
        draws::short(high)
    );
    let agreement = format!(
        "the parts have their signs and sum to it, and {} draws agree with finite differences of the gradient",
        seen.compared
    );
    let sentence = if seen.problems.is_empty() { format!("{range}; {agreement}.") } else { format!("{range}.") };
    Line::note(&sentence, &[nabla_squared(name)])
}

/// ∇²_z F, through q = W1 z.
fn in_z() -> Vec<Line> {
    let nabla = Math::Symbol(Symbol::indexed("∇", "z"));
    let w1 = || Math::symbol("W1");
    let body = Math::Product(vec![Math::Transposed(Box::new(w1())), nabla_squared(&head()), w1()]);
    let right = Math::product(vec![
        Math::fraction(Math::one(), Math::symbol("H")),
        Math::Over("Σ", "h".into(), Box::new(body)),
    ]);
    vec![
        Line::equation(Math::Product(vec![squared(nabla), Math::symbol("F")]), right),
        Line::note("so a part that is ⪰ 0 or ⪯ 0 in {} stays so in {}.", &[q(), Math::symbol("z")]),
    ]
}

fn norm(of: Math) -> Math {
    Math::Norm(Box::new(of), None)
}

fn radius(e: &Expr) -> Math {
    Writer::default().write(e)
}

/// Nothing to put in.
pub fn no_norms() -> Vec<Line> {
    let names = [norm(q()), norm(Math::indexed("k", "i")), head(), on_ball(), head()];
    vec![Line::note("Neither {} nor {} occurs in {}, so {} = {}.", &names)]
}

/// F̃, what is left of F_ρ without the numbers added to it.
fn without_constant(derivation: &Derivation) -> Option<Line> {
    let terms = derivation.energy.term.terms();
    let (constant, rest): (Vec<Expr>, Vec<Expr>) = terms.into_iter().partition(|term| term.axes().is_empty());
    if constant.is_empty() || rest.is_empty() {
        return None;
    }
    let tilde = || Math::symbol("Ftilde");
    let number = (false, Writer::default().write(&Expr::add(constant)));
    let rest = writer(derivation).write(&Expr::add(rest));
    Some(Line::Equation {
        left: on_ball(),
        right: vec![Math::Sum(vec![(false, tilde()), number])],
        with: vec![(tilde(), rest)],
    })
}

/// F_ρ, and whether it is a bound.
pub fn bound(derivation: &Derivation, ball: &Ball, recipe: &Recipe, found: &Bound) -> Vec<Line> {
    let value = writer(derivation).write(&derivation.energy.term);
    let in_full = Writer::default().write(&derivation.energy.term);
    let (key, query) = (Math::indexed("k", "i"), norm(q()));
    let put_in = [on_ball(), query.clone(), radius(&ball.query), norm(key.clone()), radius(&ball.key)];
    let mut lines = vec![Line::note("{} is the energy with {} = {} and {} = {} put in:", &put_in)];
    if value != in_full {
        lines.push(local_line(derivation, &mut Writer::default()));
    }
    lines.push(Line::equation(on_ball(), value));
    lines.extend(without_constant(derivation));
    // The energy that is bounded has no norms put in, whatever the recipe says.
    let energy = if recipe.constraints.is_empty() { head() } else { Math::symbol("F'") };
    if !recipe.constraints.is_empty() {
        lines.push(Line::note("{} is the energy without any norm put in.", std::slice::from_ref(&energy)));
    }
    let domain = [query, radius(&ball.query), norm(key), radius(&ball.key)];
    match found {
        Bound::Holds { draws } => {
            let formulas: Vec<Math> = [energy, on_ball()].into_iter().chain(domain).collect();
            lines.push(Line::note(
                &format!("{{}} ≤ {{}} where {{}} ≤ {{}} and {{}} ≤ {{}}: so on {draws} draws."),
                &formulas,
            ));
        }
        Bound::Fails { energy: below, bound, place } => {
            let formulas: Vec<Math> =
                [energy.clone(), on_ball()].into_iter().chain(domain).chain([energy, on_ball()]).collect();
            let (below, bound) = (draws::short(*below), draws::short(*bound));
            let sentence = format!(
                "{{}} ≤ {{}} does not hold for all {{}} ≤ {{}} and {{}} ≤ {{}}: {{}} = {below} and {{}} = {bound} at {place}."
            );
            lines.push(Line::note(&sentence, &formulas));
        }
    }
    lines
}

/// Where the energy can be smallest in the ball ‖q‖ ≤ ρ.
pub fn minima(name: &Math, rho: &Expr, subject: &Subject) -> Vec<Line> {
    let boundary = [name.clone(), norm(q()), radius(rho), norm(q()), radius(rho)];
    let kinks = if subject.has_kinks() { " or kinks" } else { "" };
    let sentence = match subject.verdict() {
        Verdict::Concave | Verdict::Affine if subject.is_analytic() => {
            "Minima of {} over {} ≤ {} lie on the boundary {} = {}: a local minimum inside would make it constant."
                .to_string()
        }
        Verdict::Concave | Verdict::Affine => {
            "{} is smallest over {} ≤ {} on the boundary {} = {}: around a local minimum inside it would be constant, \
             and at its largest."
                .to_string()
        }
        Verdict::Convex => {
            format!(
                "Local minima of {{}} over {{}} ≤ {{}} are global ones; they lie on the boundary {{}} = {{}} or inside at \
                 stationary points{kinks}."
            )
        }
        Verdict::Neither | Verdict::Unknown => {
            format!(
                "Local minima of {{}} over {{}} ≤ {{}} lie on the boundary {{}} = {{}} or inside at stationary points{kinks}."
            )
        }
    };
    vec![Line::note(&sentence, &boundary)]
}

fn words(sentence: &str) -> Line {
    Line::Note(vec![Piece::Words(sentence.to_string())])
}
