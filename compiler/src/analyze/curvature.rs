//! Convex, concave or affine: what composition alone proves about a term as a function of one input.
//!
//! This is disciplined convex programming over the algebra. It speaks of values, not of derivatives, so kinks do not
//! disturb it: |x| is convex at 0 too. Beside its curvature a nonnegative term may have a *degree* p, which says that its
//! p-th root is convex still; that is what makes norms convex, for (Σ_e h_e^p)^(1/p) is a p-norm of convex h_e ≥ 0.
//!
//! | term | curvature | degree |
//! |---|---|---|
//! | \|a\|, a affine | convex | 1 |
//! | x^r, r > 0, x of degree p | convex if r·p ≥ 1 | r·p |
//! | Σ x, x of degree p ≥ 1 | convex | p (the least of them) |
//! | exp x, x convex | convex | every one: log-convex |
//! | log x | convex if x is log-convex, concave if x is concave | |
//! | smoothmax s, s convex | convex | |
//! | g(s) by cases | by g' not falling where the cases meet | |

use super::known::Known;
use crate::calculus;
use crate::ir::{Expr, Func, Leaf, Op, Rational, Role, Sign, rational, traverse};
use crate::simplify::{Options, simplify};
use num_traits::{One, Signed};
use std::collections::HashMap;

/// The shape of a term as a function of the input, everything else held fixed at any value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Curvature {
    /// The input does not occur.
    Constant,
    Affine,
    Convex,
    Concave,
    Unknown,
}

use Curvature::*;

impl Curvature {
    pub fn is_convex(self) -> bool {
        matches!(self, Constant | Affine | Convex)
    }
    pub fn is_concave(self) -> bool {
        matches!(self, Constant | Affine | Concave)
    }
    pub fn is_affine(self) -> bool {
        matches!(self, Constant | Affine)
    }
    fn negate(self) -> Curvature {
        match self {
            Convex => Concave,
            Concave => Convex,
            other => other,
        }
    }
    /// The curvature of a sum, and of a value that is one of two whatever the input is.
    fn plus(self, other: Curvature) -> Curvature {
        match (self, other) {
            (Constant, c) | (c, Constant) => c,
            (Affine, c) | (c, Affine) => c,
            (a, b) if a == b => a,
            _ => Unknown,
        }
    }
    /// The curvature of c·x for a c that is free of the input.
    fn times(self, c: Sign) -> Curvature {
        match self {
            Constant | Affine => self,
            _ if c.is_nonnegative() => self,
            _ if c.negate().is_nonnegative() => self.negate(),
            _ => Unknown,
        }
    }
}

/// How high a root of a nonnegative term is convex.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
enum Degree {
    Root(Rational),
    /// All of them: the logarithm is convex.
    Log,
}

impl Degree {
    fn at_least_one(&self) -> bool {
        match self {
            Degree::Root(p) => *p >= Rational::one(),
            Degree::Log => true,
        }
    }
    fn times(&self, r: &Rational) -> Degree {
        match self {
            Degree::Root(p) => Degree::Root(p * r),
            Degree::Log => Degree::Log,
        }
    }
    fn least(a: Degree, b: Degree) -> Degree {
        if b < a { b } else { a }
    }
    fn most(a: Degree, b: Degree) -> Degree {
        if b < a { a } else { b }
    }
}

#[derive(Clone, Debug)]
struct Shape {
    curvature: Curvature,
    degree: Option<Degree>,
}

/// Finds curvatures with respect to one input, each subterm once.
pub struct Curvatures<'a> {
    input: &'a Leaf,
    known: Known,
    memo: HashMap<Expr, Shape>,
}

/// The curvature of a term in one input, whatever the parameters.
pub fn curvature(e: &Expr, input: &Leaf) -> Curvature {
    Curvatures::of_input(input, Known::default()).of(e)
}

impl Curvatures<'_> {
    pub fn of_input(input: &Leaf, known: Known) -> Curvatures<'_> {
        Curvatures { input, known, memo: HashMap::new() }
    }

    pub fn of(&mut self, e: &Expr) -> Curvature {
        self.shape(e).curvature
    }

    fn shape(&mut self, e: &Expr) -> Shape {
        if let Some(done) = self.memo.get(e) {
            return done.clone();
        }
        let mut shape = self.rule(e);
        if self.known.sign(e).is_nonnegative() {
            let least = match shape.curvature {
                Constant => Some(Degree::Log),
                Affine | Convex => Some(Degree::Root(Rational::one())),
                _ => None,
            };
            shape.degree = match (shape.degree, least) {
                (Some(a), Some(b)) => Some(Degree::most(a, b)),
                (a, b) => a.or(b),
            };
        }
        self.memo.insert(e.clone(), shape.clone());
        shape
    }

    fn rule(&mut self, e: &Expr) -> Shape {
        let plain = |curvature| Shape { curvature, degree: None };
        let children = e.children();
        let is_input = e.as_leaf().is_some_and(|leaf| leaf.same_input(self.input));
        if !is_input && children.iter().all(|x| self.of(x) == Constant) {
            return plain(Constant);
        }
        match e.op() {
            Op::Leaf(_) => plain(Affine),
            Op::Add(xs) => {
                let shapes: Vec<Shape> = xs.iter().map(|x| self.shape(x)).collect();
                let curvature = shapes.iter().fold(Constant, |c, s| c.plus(s.curvature));
                norm_of(curvature, shapes.into_iter().map(|s| s.degree).reduce(both).flatten())
            }
            Op::Sum(_, x) => {
                let shape = self.shape(x);
                norm_of(shape.curvature, shape.degree)
            }
            Op::Mul(xs) => self.product(xs),
            Op::Pow(x, r) => self.power(x, r),
            Op::Call(Func::Exp, x) if self.of(x).is_convex() => Shape { curvature: Convex, degree: Some(Degree::Log) },
            Op::Call(Func::Log, x) => {
                let shape = self.shape(x);
                match shape.degree {
                    Some(Degree::Log) => plain(Convex),
                    _ if shape.curvature.is_concave() => plain(Concave),
                    _ => plain(Unknown),
                }
            }
            Op::Call(Func::Abs, x) if self.of(x).is_affine() => plain(Convex),
            Op::Call(Func::Abs, x) if self.known.sign(x).is_nonnegative() => self.shape(x),
            Op::Call(Func::Abs, x) if self.known.sign(x).negate().is_nonnegative() => plain(self.of(x).negate()),
            // Convex and increasing.
            Op::Call(Func::Softplus, x) if self.of(x).is_convex() => plain(Convex),
            // Convex, and increasing with |x|.
            Op::Call(Func::LogCosh, x) if self.of(x).is_affine() => plain(Convex),
            Op::Call(Func::LogCosh, x) if self.known.sign(x).is_nonnegative() && self.of(x).is_convex() => {
                plain(Convex)
            }
            // Above 0 it is concave and increasing, below 0 convex and increasing.
            Op::Call(Func::Tanh, x) if self.known.sign(x).is_nonnegative() && self.of(x).is_concave() => plain(Concave),
            Op::Call(Func::Tanh, x) if self.known.sign(x).negate().is_nonnegative() && self.of(x).is_convex() => {
                plain(Convex)
            }
            Op::SmoothMax(_, _, s) if self.of(s).is_convex() => plain(Convex),
            Op::Select(p) => plain(self.cases(&p[0], &p[1], &p[2], &p[3])),
            _ => plain(Unknown),
        }
    }

    fn product(&mut self, xs: &[Expr]) -> Shape {
        let (fixed, moving): (Vec<Expr>, Vec<Expr>) = xs.iter().cloned().partition(|x| self.of(x) == Constant);
        let c = self.known.sign(&Expr::mul(fixed));
        let shapes: Vec<Shape> = moving.iter().map(|x| self.shape(x)).collect();
        let degree = |shapes: Vec<Shape>| shapes.into_iter().map(|s| s.degree).reduce(both).flatten();
        match shapes.as_slice() {
            [one] => {
                Shape { curvature: one.curvature.times(c), degree: one.degree.clone().filter(|_| c.is_nonnegative()) }
            }
            // A product of log-convex terms is log-convex.
            _ => match degree(shapes) {
                Some(Degree::Log) => {
                    Shape { curvature: Convex.times(c), degree: c.is_nonnegative().then_some(Degree::Log) }
                }
                _ => Shape { curvature: Unknown, degree: None },
            },
        }
    }

    fn power(&mut self, x: &Expr, r: &Rational) -> Shape {
        let Shape { curvature, degree } = self.shape(x);
        let is_even = rational::is_even_integer(r);
        let sign = self.known.sign(x);
        let below_zero = sign.negate().is_nonnegative();
        let mut root = degree.filter(|_| r.is_positive()).map(|p| p.times(r));
        if is_even && r.is_positive() && (curvature.is_affine() || (below_zero && curvature.is_concave())) {
            let even = Degree::Root(r.clone());
            root = Some(root.map_or(even.clone(), |root| Degree::most(root, even)));
        }
        // A fractional power is of a term that is nonnegative wherever it is looked at.
        let is_fractional = !r.is_integer() && r.is_positive();
        let found = if root.as_ref().is_some_and(Degree::at_least_one) {
            Convex
        } else if is_fractional && *r < Rational::one() && curvature.is_concave() {
            Concave
        } else if is_fractional && *r > Rational::one() && curvature.is_convex() {
            Convex
        } else if r.is_integer() && r.is_positive() && !is_even && below_zero && curvature.is_concave() {
            Concave
        } else if r.is_negative() && sign == Sign::Positive && curvature.is_concave() {
            Convex
        } else {
            Unknown
        };
        Shape { curvature: found, degree: root }
    }

    /// x where a ≤ b, else y.
    fn cases(&mut self, a: &Expr, b: &Expr, x: &Expr, y: &Expr) -> Curvature {
        let branches = self.of(x).plus(self.of(y));
        if self.of(a) == Constant && self.of(b) == Constant {
            return branches;
        }
        // max(a, b) and min(a, b).
        if (x, y) == (b, a) && branches.is_convex() {
            return Convex;
        }
        if (x, y) == (a, b) && branches.is_concave() {
            return Concave;
        }
        let found = if self.of(b) == Constant {
            self.of_one_number(a, b, x, y)
        } else if self.of(a) == Constant {
            self.of_one_number(b, a, y, x)
        } else {
            None
        };
        found.unwrap_or(Unknown)
    }

    /// The curvature of g(s) with g = `low` up to s = bound and `high` beyond, when both are functions of s alone.
    fn of_one_number(&mut self, s: &Expr, bound: &Expr, low: &Expr, high: &Expr) -> Option<Curvature> {
        let (s, bound) = without_factor(s, bound);
        let found = self.of_variable(&s, &bound, self.known.sign(&s), low, high);
        match s.op() {
            // x^r ≤ b is x ≤ b^(1/r), and the cases may be told by x, which is nonnegative as the base of a root.
            Op::Pow(x, r) if found.is_none() && r.is_positive() && self.known.sign(&bound).is_nonnegative() => {
                self.of_variable(x, &bound.pow(&r.recip()), Sign::NonNegative, low, high)
            }
            _ => found,
        }
    }

    fn of_variable(&mut self, s: &Expr, bound: &Expr, sign: Sign, low: &Expr, high: &Expr) -> Option<Curvature> {
        let variable = Leaf {
            axes: s.axes().iter().collect(),
            ..Leaf::new(Role::Named, u16::MAX, "argument of the cases", &[], sign)
        };
        let [low, high] = [low, high].map(|branch| in_terms_of(branch, s, &Expr::leaf(variable.clone())));
        if traverse::mentions(&low, self.input) || traverse::mentions(&high, self.input) {
            return None;
        }
        let at_bound =
            |e: &Expr| traverse::substitute_leaves(e, &mut |l| l.same_input(&variable).then(|| bound.clone()));
        let known = self.known.clone();
        let sign = |e: &Expr| known.sign(&simplify(&with_roots_collected(e), &Options::default()).term);
        let [slope_low, slope_high] = [&low, &high].map(|branch| slope(branch, &variable));
        if sign(&at_bound(&low).minus(&at_bound(&high))) != Sign::Zero {
            return None;
        }
        let jump = sign(&at_bound(&slope_high).minus(&at_bound(&slope_low)));
        let mut of_branch = Curvatures::of_input(&variable, known.clone());
        let branches = of_branch.of(&low).plus(of_branch.of(&high));
        let rises = known.sign(&slope_low).join(known.sign(&slope_high));
        let outer = match branches {
            c if c.is_convex() && jump.is_nonnegative() => Convex,
            c if c.is_concave() && jump.negate().is_nonnegative() => Concave,
            _ => return None,
        };
        let inner = self.of(s);
        let (along, against) = if outer == Convex { (Convex, Concave) } else { (Concave, Convex) };
        let keeps = inner.is_affine()
            || (inner == along && rises.is_nonnegative())
            || (inner == against && rises.negate().is_nonnegative());
        keeps.then_some(outer)
    }
}

/// Sums of terms of degree p ≥ 1 are p-norms to the p.
fn norm_of(curvature: Curvature, degree: Option<Degree>) -> Shape {
    let degree = degree.filter(Degree::at_least_one);
    let is_convex = curvature == Unknown && degree.is_some();
    Shape { curvature: if is_convex { Convex } else { curvature }, degree }
}

fn both(a: Option<Degree>, b: Option<Degree>) -> Option<Degree> {
    Some(Degree::least(a?, b?))
}

/// c·s ≤ bound as s ≤ bound/c, for a positive c that does not extend along anything.
pub fn without_factor(s: &Expr, bound: &Expr) -> (Expr, Expr) {
    let is_scale = |f: &Expr| f.axes().is_empty() && f.sign() == Sign::Positive;
    let (scale, rest): (Vec<Expr>, Vec<Expr>) = s.factors().into_iter().partition(is_scale);
    (Expr::mul(rest), bound.over(&Expr::mul(scale)))
}

/// The term with (1/2)^r as 2^(−r), so that it cancels against 2^r.
fn with_roots_collected(e: &Expr) -> Expr {
    traverse::rewrite_bottom_up(e, &mut |x| match x.op() {
        Op::Pow(base, r) => match base.as_const() {
            Some(c) if c.is_positive() && *c < Rational::one() => Expr::constant(c.recip()).pow(&-r),
            _ => x,
        },
        _ => x,
    })
}

/// The term with `s` called `variable`; where s is a root, its base is a power of the variable.
pub fn in_terms_of(e: &Expr, s: &Expr, variable: &Expr) -> Expr {
    let e = traverse::replace(e, s, variable);
    match s.op() {
        Op::Pow(base, r) if r.is_positive() => traverse::replace(&e, base, &variable.pow(&r.recip())),
        _ => e,
    }
}

/// de/dvariable, number by number.
fn slope(e: &Expr, variable: &Leaf) -> Expr {
    let step = Leaf { role: Role::Probe, ..variable.clone() };
    let tangent = calculus::tangent(e, variable, &step, &[]);
    traverse::substitute_leaves(&tangent, &mut |leaf: &Leaf| leaf.same_input(&step).then(Expr::one))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;
    use crate::ir::Axis;

    fn check(e: &Expr, expected: Curvature) {
        assert_eq!(curvature(e, &inputs::q()), expected, "{e}");
    }

    fn q() -> Expr {
        Expr::leaf(inputs::q())
    }

    fn apart() -> Expr {
        q().minus(&Expr::leaf(inputs::k()))
    }

    fn norm(x: &Expr) -> Expr {
        Expr::sum(Axis::E, &x.square()).sqrt()
    }

    #[test]
    fn norms_and_their_powers_are_convex_from_one_on() {
        for (r, expected) in [(1, Convex), (2, Convex), (3, Convex), (4, Convex)] {
            check(&norm(&apart()).pow(&rational::int(r)), expected);
        }
        check(&norm(&apart()).sqrt(), Unknown);
        check(&Expr::one().plus(&norm(&apart()).square()).sqrt(), Convex);
        check(&Expr::one().plus(&norm(&apart()).square()).log(), Unknown);
        let cubes = Expr::sum(Axis::E, &apart().abs().pow(&rational::int(3)));
        check(&cubes.pow(&rational::ratio(1, 3)), Convex);
        check(&cubes.pow(&rational::ratio(1, 4)), Unknown);
    }

    #[test]
    fn signs_turn_curvature_around() {
        let inner = Expr::dot(&q(), &Expr::leaf(inputs::k()));
        check(&inner, Affine);
        check(&inner.square().neg(), Concave);
        check(&inner.pow(&rational::int(3)), Unknown);
        check(&inner.square().times(&inner), Unknown);
        check(&inner.abs().neg(), Concave);
        check(&inner.exp(), Convex);
        check(&Expr::one().plus(&inner.exp()).log(), Convex);
        check(&Expr::leaf(inputs::k()), Constant);
        // The sign of a component of k is not known.
        check(&Expr::sum(Axis::E, &q().square().times(&Expr::leaf(inputs::k()))), Unknown);
    }

    #[test]
    fn cases_are_convex_where_the_slope_does_not_fall() {
        let zero = Expr::zero();
        let inner = Expr::dot(&q(), &Expr::leaf(inputs::k()));
        let length = norm(&apart());
        let two = Expr::int(2);
        check(&Expr::select(&inner, &zero, &zero, &inner), Convex);
        check(&Expr::select(&inner, &zero, &zero, &inner.square()), Convex);
        check(&Expr::select(&inner, &zero, &zero, &inner.neg()), Concave);
        check(&Expr::select(&inner, &zero, &zero, &inner.plus(&two)), Unknown);
        // s²/2 up to 2, then 2s − 2: the slopes meet.
        let outside = length.scale(&rational::int(2)).minus(&two);
        check(&Expr::select(&length, &two, &length.square().scale(&rational::ratio(1, 2)), &outside), Convex);
        // s² up to 2, then s + 2: the slope falls.
        check(&Expr::select(&length, &two, &length.square(), &length.plus(&two)), Unknown);
        // Falling branches of a convex number are not convex.
        check(&Expr::select(&length, &two, &length.neg(), &two.neg()), Unknown);
        check(&Expr::select(&two, &length, &length, &two), Convex);
        // With x ≥ 0 affine: x up to 2, then √8 √x − 2. The slopes meet, and told by √x the cases would say nothing.
        let x = Expr::int(3).minus(&inner);
        let root = x.sqrt().times(&Expr::int(2).sqrt());
        check(&Expr::select(&root, &two, &x, &root.scale(&rational::int(2)).minus(&two)), Concave);
        check(&Expr::select(&two, &inner, &inner, &two), Convex);
        check(&Expr::select(&two, &inner, &two, &inner), Concave);
    }
}
