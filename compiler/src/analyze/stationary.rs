//! Stationary points: ∇_q F_h = 0, solved for q where q stands by itself in the gradient.
//!
//! A gradient c·q − R with a number c > 0 vanishes where q = R/c. Both may depend on q through weights and norms, so this
//! is an equation that a minimum satisfies, not a formula for it.

use super::curvature::{in_terms_of, without_factor};
use super::subject::Subject;
use crate::check::inputs;
use crate::derive::{Kink, Named, SECOND_DERIVATIVE, hide};
use crate::emit::document::{Defined, Line, definition_lines, head, nabla_head, writer};
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, traverse};
use crate::notation::math::{Math, Symbol};
use crate::notation::{Writer, text};
use crate::simplify::rules::is_normalized;
use crate::simplify::{Options, simplify};

/// A left side of more letters than this pushes the right side off the page.
const LONGEST_LEFT: usize = 48;

/// c and R of a gradient c·q − R; R is free of q as a vector.
pub fn split(gradient: &Expr) -> Option<(Expr, Expr)> {
    let (c, rest) = collect(gradient);
    (!c.is_zero() && !in_vector_part(&rest)).then(|| (c, rest.neg()))
}

/// (c, x) with e = c·q + x.
fn collect(e: &Expr) -> (Expr, Expr) {
    let as_it_is = || (Expr::zero(), e.clone());
    match e.op() {
        Op::Leaf(leaf) if is_bare(leaf) => (Expr::one(), Expr::zero()),
        Op::Add(xs) => {
            let (c, x): (Vec<Expr>, Vec<Expr>) = xs.iter().map(collect).unzip();
            (Expr::add(c), Expr::add(x))
        }
        Op::Mul(xs) => {
            let (vectors, numbers): (Vec<Expr>, Vec<Expr>) = xs.iter().cloned().partition(|x| x.has_axis(Axis::E));
            let ([vector], numbers) = (vectors.as_slice(), Expr::mul(numbers)) else { return as_it_is() };
            let (c, x) = collect(vector);
            if c.is_zero() { as_it_is() } else { (c.times(&numbers), x.times(&numbers)) }
        }
        Op::Sum(axis, body) => {
            let (c, x) = collect(body);
            if c.is_zero() { as_it_is() } else { (Expr::sum(*axis, &c), Expr::sum(*axis, &x)) }
        }
        _ => as_it_is(),
    }
}

fn is_bare(leaf: &Leaf) -> bool {
    leaf.same_input(&inputs::q()) && leaf.axes.contains(&Axis::E)
}

fn in_vector_part(e: &Expr) -> bool {
    traverse::subterms(e).iter().any(|x| x.as_leaf().is_some_and(is_bare))
}

/// Whether the number is above 0: by its sign, or as a mean of positive numbers.
fn is_positive(c: &Expr, names: &[Named]) -> bool {
    match c.op() {
        _ if c.sign() == Sign::Positive => true,
        Op::Mul(xs) => xs.iter().all(|x| is_positive(x, names)),
        Op::Leaf(leaf) => names.iter().any(|n| n.leaf.same_input(leaf) && is_positive_by_cases(&n.value())),
        Op::Sum(axis, body) => {
            let (weights, rest): (Vec<Expr>, Vec<Expr>) =
                body.factors().into_iter().partition(|f| is_normalized(f, *axis));
            weights.len() == 1 && is_positive(&Expr::mul(rest), names)
        }
        _ => false,
    }
}

/// x > 0 where a ≤ b, and y > 0 where a > b; there a is positive if b is not negative.
fn is_positive_by_cases(e: &Expr) -> bool {
    let Op::Select(p) = e.op() else { return false };
    let [a, b, x, y] = &**p;
    let (s, bound) = without_factor(a, b);
    let sign = if bound.sign().is_nonnegative() { Sign::Positive } else { s.sign() };
    let above = Leaf { axes: s.axes().iter().collect(), ..Leaf::new(Role::Named, u16::MAX, "s", &[], sign) };
    x.sign() == Sign::Positive && in_terms_of(y, &s, &Expr::leaf(above)).sign() == Sign::Positive
}

/// The conditions on paper.
pub fn lines(subject: &Subject, options: &Options, defined: &mut Defined) -> Vec<Line> {
    let derivation = &subject.derivation;
    let zero = || Math::Number(num_traits::Zero::zero());
    let mut writer = writer(derivation);
    let gradient = &derivation.gradient.term;
    let mut lines = vec![Line::note("Where {} = 0, one head by itself:", &[nabla_head()])];
    let tidy = |e: &Expr| hide(&simplify(e, options).term, &derivation.names);
    let q = || Math::symbol("q");
    match split(gradient).map(|(c, r)| (tidy(&c), tidy(&r))) {
        Some((c, r)) if is_positive(&c, &derivation.names) => {
            let solved = if c.is_one() { r } else { tidy(&r.over(&c)) };
            lines.push(Line::equation(q(), Writer::default().write(&solved)));
            if traverse::mentions(&solved, &inputs::q()) || mentions_weights(&solved) {
                lines.push(Line::note("The right side depends on {} too.", &[q()]));
            }
            let token = through_w2(&Writer::default().write(&solved));
            lines.push(Line::note("With one head and {} = {}:", &[Math::symbol("W1"), Math::symbol("I")]));
            lines.push(Line::equation(Math::symbol("z"), token));
        }
        Some((c, r)) if is_short(&writer.write(&c)) => {
            let (number, c) = c.split_content();
            let left = Math::product(vec![writer.write(&c), q()]);
            lines.push(Line::equation(left, Writer::default().write(&r.scale(&number.recip()))));
        }
        _ => {
            let (_, direction) = gradient.split_content();
            writer.means = false;
            let direction = writer.write(&direction);
            let is_short = is_short(&direction);
            let (left, right) = if is_short { (direction, zero()) } else { (zero(), direction) };
            lines.push(Line::equation(left, right));
        }
    }
    lines.extend(definition_lines(derivation, &Writer::default(), &[gradient], defined));
    let back = Math::Product(vec![Math::Transposed(Box::new(Math::symbol("W1"))), nabla_head()]);
    lines.push(Line::note("All heads together:", &[]));
    lines.push(Line::equation(Math::Over("Σ", "h".into(), Box::new(back)), zero()));
    if derivation.recipe.constraints.iter().any(|c| c.vector.same_input(&inputs::q())) {
        let norm = Math::Norm(Box::new(q()), None);
        lines.push(Line::note("With {} held fixed, a multiple of {} may stand in the place of 0.", &[norm, q()]));
    }
    if subject.hessian.kinks.iter().any(breaks_gradient) {
        lines.push(Line::note("A minimum at a kink of {} need not satisfy this.", &[head("F")]));
    }
    lines
}

/// Whether the gradient itself may fail to exist at a kink.
fn breaks_gradient(kink: &Kink) -> bool {
    !matches!(kink.place.0.op(), Op::Weights(..)) && kink.what != SECOND_DERIVATIVE
}

/// Whether a formula may stand on the left of an equation.
fn is_short(formula: &Math) -> bool {
    text::print(formula).chars().count() <= LONGEST_LEFT
}

fn mentions_weights(e: &Expr) -> bool {
    traverse::inputs(e).iter().any(|leaf| leaf.role == Role::Weights)
}

/// The formula with k_i = W2 h_i put in.
fn through_w2(formula: &Math) -> Math {
    formula.with_symbols(&|symbol| {
        let is_key = symbol.name == *inputs::k().name;
        let token = || Math::Symbol(Symbol { name: inputs::h().name.to_string(), ..symbol.clone() });
        if is_key { Math::Product(vec![Math::symbol("W2"), token()]) } else { Math::Symbol(symbol.clone()) }
    })
}
