//! Exponentials that neither overflow nor vanish: values carried as *mantissa × exp(Σ_j d_j m_j)*.
//!
//! exp(100) is no number of single precision, exp(100)/(1 + exp(100)) is one. So an exponential is not computed where
//! it stands: it is carried as the mantissa 1 and its exponent, and
//!
//! | operation | does with mantissas | does with degrees d_j |
//! |---|---|---|
//! | product | multiplies | adds |
//! | power x^r | raises | multiplies by r |
//! | sum of terms | adds what is measured from the same place | measures all from the largest exponent M, and carries that |
//! | Σ along an axis | Σ mantissa · exp(exponent − m) | carries m, the largest exponent along the axis |
//! | abs | takes it of the mantissa | keeps |
//! | sign, comparison | looks at mantissas measured from the same place | drops |
//! | log | log of the mantissa | adds Σ_j d_j m_j |
//!
//! A mantissa that is 0 has no exponent: wherever places are compared it counts as [`NOWHERE`], and its inverse, which is 0 too, is
//! measured from 0. Otherwise −∞, the logarithm of 0, would meet itself, and 0 could be measured from so far above that all else
//! vanished.
//!
//! Beside exponentials, σ and 1 − tanh² are carried as well: they are as small as exponentials are.
//!
//! Whatever else looks at a value takes the value itself: a function, an output, and a sum over queries, each of which
//! measures from a place of its own. Then exponents of numerators and denominators have met, and what is left is as large
//! as the value.

use super::graph::{Fold, Graph, Id, Map, Misfit, Op};
use super::lower::Lowering;
use crate::ir::{Axis, AxisSet, Func, Rational, rational};
use num_traits::{One, Signed, Zero};
use std::collections::BTreeMap;

/// Σ_j d_j m_j: values of the graph with their degrees.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Degrees(BTreeMap<Id, Rational>);

impl Degrees {
    pub fn of(exponent: Id, degree: &Rational) -> Degrees {
        let mut own = Degrees::default();
        own.add(exponent, degree);
        own
    }

    pub fn is_zero(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, exponent: Id, degree: &Rational) {
        let own = self.0.entry(exponent).or_insert_with(Rational::zero);
        *own += degree;
        if own.is_zero() {
            self.0.remove(&exponent);
        }
    }

    pub fn plus(mut self, other: &Degrees) -> Degrees {
        other.0.iter().for_each(|(exponent, degree)| self.add(*exponent, degree));
        self
    }

    fn times(&self, r: &Rational) -> Degrees {
        Degrees(self.0.iter().map(|(exponent, degree)| (*exponent, degree * r)).collect())
    }

    /// The exponents along an axis, and the others.
    fn split(&self, graph: &Graph, axis: Axis) -> (Degrees, Degrees) {
        let (with, without) = self.0.clone().into_iter().partition(|(exponent, _)| graph[*exponent].has(axis));
        (Degrees(with), Degrees(without))
    }

    fn axes(&self, graph: &Graph) -> AxisSet {
        self.0.keys().fold(AxisSet::EMPTY, |axes, exponent| axes.union(graph.axes(*exponent)))
    }

    /// The sum as a value.
    fn value(&self, graph: &mut Graph) -> Id {
        let terms: Vec<Id> = self.0.iter().map(|(exponent, degree)| scaled(graph, *exponent, degree)).collect();
        graph.add(&terms)
    }
}

fn scaled(graph: &mut Graph, x: Id, by: &Rational) -> Id {
    let by = graph.number(by);
    graph.mul(&[by, x])
}

fn exp(graph: &mut Graph, x: Id) -> Id {
    graph.map(Map::Call(Func::Exp), &[x])
}

/// exp(x − y).
fn exp_of_difference(graph: &mut Graph, x: Id, y: Id) -> Id {
    let minus = scaled(graph, y, &rational::int(-1));
    let difference = graph.add(&[x, minus]);
    exp(graph, difference)
}

fn larger(graph: &mut Graph, x: Id, y: Id) -> Id {
    graph.map(Map::Select, &[x, y, y, x])
}

/// mantissa × exp(degrees).
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Shifted {
    pub mantissa: Id,
    pub degrees: Degrees,
}

impl Shifted {
    /// A value as it is.
    pub fn plain(mantissa: Id) -> Shifted {
        Shifted { mantissa, degrees: Degrees::default() }
    }

    pub fn is_plain(&self) -> bool {
        self.degrees.is_zero()
    }
}

/// Where 0 is measured from: −10 to this power is far below every exponent, and so are its multiples, which are numbers of single
/// precision.
const NOWHERE: usize = 30;

/// A product of more exponentials than this is computed: its mantissa may be as large as they are small.
const MOST_EXPONENTS: usize = 8;

impl Lowering {
    /// exp(Σ_j d_j x_j).
    pub(super) fn exponential(&mut self, terms: &[(Id, Rational)]) -> Shifted {
        let mut degrees = Degrees::default();
        for (x, degree) in terms {
            degrees.add(*x, degree);
        }
        Shifted { mantissa: self.graph.number(&Rational::one()), degrees }
    }

    /// The value itself. Its exponential is multiplied in two halves, since the mantissa may bring back what one of them
    /// would lose.
    pub(super) fn applied(&mut self, x: &Shifted) -> Id {
        if x.is_plain() {
            return x.mantissa;
        }
        let graph = &mut self.graph;
        if graph.is_int(x.mantissa, 1) || graph.is_int(x.mantissa, -1) {
            let exponent = x.degrees.value(graph);
            let power = exp(graph, exponent);
            return graph.mul(&[x.mantissa, power]);
        }
        let half = x.degrees.times(&rational::ratio(1, 2)).value(graph);
        let half = exp(graph, half);
        graph.mul(&[x.mantissa, half, half])
    }

    pub(super) fn product(&mut self, factors: &[Shifted]) -> Shifted {
        let mantissas: Vec<Id> = factors.iter().map(|x| x.mantissa).collect();
        let degrees = factors.iter().fold(Degrees::default(), |all, x| all.plus(&x.degrees));
        let product = Shifted { mantissa: self.graph.mul(&mantissas), degrees };
        match product.degrees.0.len() > MOST_EXPONENTS {
            true => Shifted::plain(self.applied(&product)),
            false => product,
        }
    }

    pub(super) fn power(&mut self, x: &Shifted, r: &Rational) -> Shifted {
        Shifted { mantissa: self.graph.map(Map::Pow(r.clone()), &[x.mantissa]), degrees: x.degrees.times(r) }
    }

    /// x^−r of an x that may be 0.
    pub(super) fn inverse_power(&mut self, x: &Shifted, r: &Rational) -> Shifted {
        let power = self.power(x, r);
        if power.is_plain() || self.is_never_0(x.mantissa) {
            return power;
        }
        let graph = &mut self.graph;
        let (zero, exponent) = (graph.number(&Rational::zero()), power.degrees.value(graph));
        let size = graph.map(Map::Call(Func::Abs), &[x.mantissa]);
        let exponent = graph.map(Map::Select, &[size, zero, zero, exponent]);
        Shifted { degrees: Degrees::of(exponent, &Rational::one()), ..power }
    }

    /// Whether a mantissa is a number other than 0.
    fn is_never_0(&self, mantissa: Id) -> bool {
        matches!(&self.graph[mantissa].op, Op::Number(c) if !c.is_zero())
    }

    /// Σ of terms. What is measured from different places is measured from the largest exponent.
    pub(super) fn total_of(&mut self, terms: &[Shifted]) -> Result<Shifted, Misfit> {
        let mut groups: BTreeMap<&Degrees, Vec<Id>> = BTreeMap::new();
        for term in terms {
            groups.entry(&term.degrees).or_default().push(term.mantissa);
        }
        let mut all = Vec::new();
        for (degrees, mantissas) in groups {
            let mantissas = self.centred_products(mantissas)?;
            let mantissa = self.graph.add(&mantissas);
            if !self.graph.is_int(mantissa, 0) {
                all.push(Shifted { mantissa, degrees: degrees.clone() });
            }
        }
        Ok(match all.as_slice() {
            [] => Shifted::plain(self.graph.number(&Rational::zero())),
            [one] => one.clone(),
            _ => {
                let (mantissas, top) = self.aligned(&all);
                let degrees = Degrees::of(top, &Rational::one());
                Shifted { mantissa: self.graph.add(&mantissas), degrees }
            }
        })
    }

    /// Mantissas measured from the largest of the exponents, and that. A plain value c counts as exp(log|c|).
    fn aligned(&mut self, terms: &[Shifted]) -> (Vec<Id>, Id) {
        let exponents: Vec<Id> = terms.iter().map(|term| self.exponent(term)).collect();
        let graph = &mut self.graph;
        let top = exponents.iter().skip(1).fold(exponents[0], |top, x| larger(graph, top, *x));
        let measured = terms.iter().zip(exponents).map(|(term, exponent)| {
            if !term.is_plain() {
                let factor = exp_of_difference(graph, exponent, top);
                return graph.mul(&[term.mantissa, factor]);
            }
            // c e^(−M) in two halves, since c may be as small as e^M; there is nothing to measure of a 0.
            let zero = graph.number(&Rational::zero());
            let size = graph.map(Map::Call(Func::Abs), &[term.mantissa]);
            let half = scaled(graph, top, &rational::ratio(-1, 2));
            let half = match graph[term.mantissa].op {
                Op::Number(_) => half,
                _ => graph.map(Map::Select, &[size, zero, zero, half]),
            };
            let half = exp(graph, half);
            graph.mul(&[term.mantissa, half, half])
        });
        (measured.collect(), top)
    }

    /// What a term counts as when the largest exponent is looked for.
    fn exponent(&mut self, term: &Shifted) -> Id {
        if self.is_never_0(term.mantissa) {
            return term.degrees.value(&mut self.graph);
        }
        let graph = &mut self.graph;
        let size = graph.map(Map::Call(Func::Abs), &[term.mantissa]);
        let exponent = match term.is_plain() {
            true => graph.map(Map::Call(Func::Log), &[size]),
            false => term.degrees.value(graph),
        };
        let zero = graph.number(&Rational::zero());
        let nowhere = graph.number(&-num_traits::pow(rational::int(10), NOWHERE));
        graph.map(Map::Select, &[size, zero, nowhere, exponent])
    }

    /// Mantissas that compare as the values do.
    pub(super) fn comparable(&mut self, x: &Shifted, y: &Shifted) -> [Id; 2] {
        if x.degrees == y.degrees {
            return [x.mantissa, y.mantissa];
        }
        let (mantissas, _) = self.aligned(&[x.clone(), y.clone()]);
        [mantissas[0], mantissas[1]]
    }

    /// x where a ≤ b, else y.
    pub(super) fn chosen(&mut self, [a, b, x, y]: [&Shifted; 4]) -> Shifted {
        let [a, b] = self.comparable(a, b);
        let mantissa = self.graph.map(Map::Select, &[a, b, x.mantissa, y.mantissa]);
        if x.degrees == y.degrees {
            return Shifted { mantissa, degrees: x.degrees.clone() };
        }
        let [of_x, of_y] = [x, y].map(|side| side.degrees.value(&mut self.graph));
        let exponent = self.graph.map(Map::Select, &[a, b, of_x, of_y]);
        Shifted { mantissa, degrees: Degrees::of(exponent, &Rational::one()) }
    }

    /// σ(x) = σ(|x|) e^min(x, 0), and 1 − tanh²(x) = 4 σ(2|x|)² e^(−2|x|).
    pub(super) fn vanishing_call(&mut self, func: Func, x: Id) -> Shifted {
        let graph = &mut self.graph;
        let size = graph.map(Map::Call(Func::Abs), &[x]);
        match func {
            Func::TanhSlope => {
                let twice = scaled(graph, size, &rational::int(2));
                let sigmoid = graph.map(Map::Call(Func::Sigmoid), &[twice]);
                let square = graph.map(Map::Pow(rational::int(2)), &[sigmoid]);
                let mantissa = scaled(graph, square, &rational::int(4));
                Shifted { mantissa, degrees: Degrees::of(size, &rational::int(-2)) }
            }
            _ => {
                let mantissa = graph.map(Map::Call(Func::Sigmoid), &[size]);
                let opposite = scaled(graph, x, &rational::int(-1));
                let below = graph.map(Map::Positive, &[opposite]);
                Shifted { mantissa, degrees: Degrees::of(below, &rational::int(-1)) }
            }
        }
    }

    /// log x of a positive x.
    pub(super) fn logarithm(&mut self, x: &Shifted) -> Id {
        let log = match self.graph.is_int(x.mantissa, 1) && !x.is_plain() {
            true => self.graph.number(&Rational::zero()),
            false => self.graph.map(Map::Call(Func::Log), &[x.mantissa]),
        };
        let exponent = x.degrees.value(&mut self.graph);
        self.graph.add(&[log, exponent])
    }

    /// What a sum along an axis does with exponents: a factor along the axis that is 1 at the most, and the degrees that
    /// are left. A sum over queries takes exponentials as they are, and so does a scan those of tokens alone.
    pub(super) fn shifted_along(&mut self, axis: Axis, degrees: &Degrees) -> (Option<Id>, Degrees) {
        let (own, rest) = degrees.split(&self.graph, axis);
        if own.is_zero() {
            return (None, rest);
        }
        let graph = &mut self.graph;
        if axis == Axis::T {
            // Together with what could stay outside: one may be large only because the other is small.
            let exponent = degrees.value(graph);
            return (Some(exp(graph, exponent)), Degrees::default());
        }
        if self.is_scanning && axis == Axis::N && !own.axes(graph).contains(Axis::T) {
            let exponent = own.value(graph);
            return (Some(exp(graph, exponent)), rest);
        }
        // max(d x) = d max x for d > 0: multiples of one exponent are measured from one place.
        let single = own.0.iter().next().filter(|(_, degree)| own.0.len() == 1 && degree.is_positive());
        let (exponent, degree) = match single {
            Some((exponent, degree)) => (*exponent, degree.clone()),
            None => (own.value(graph), Rational::one()),
        };
        let top = graph.fold(Fold::Max, axis, exponent);
        let minus = scaled(graph, top, &rational::int(-1));
        let difference = graph.add(&[exponent, minus]);
        let difference = scaled(graph, difference, &degree);
        (Some(exp(graph, difference)), rest.plus(&Degrees::of(top, &degree)))
    }
}
