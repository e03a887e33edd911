//! The e-graph's language and what is known of each class.
//!
//! Sums and products are binary here; everything else is as in the algebra. Parts that a run does not look into are
//! *atoms*: whole terms behind one node.
//!
//! # Axis scope
//!
//! Members of one class may mention different axes (Σ_i p_i c = c drops those of p). A class owns the *smallest* set:
//! the value cannot depend on an axis that one of its members does not have. Rules ask the class, so a factor may be
//! hoisted out of a binder although some member mentions the bound axis; extraction therefore refuses every member
//! that mentions an axis outside its class's set.

use super::rules::{is_normalized, union};
use crate::ir::expr::power_sign;
use crate::ir::memo::Memo;
use crate::ir::{Axis, AxisSet, Entropy, Expr, Func, Op, Rational, Sign, Space};
use egg::{Analysis, DidMerge, EGraph, Id, Language, RecExpr};
use num_traits::{One, Zero};
use std::fmt;
use std::str::FromStr;

/// An axis as a leaf of the e-graph.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AxisName(pub Axis);

impl fmt::Display for AxisName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "@{}", self.0)
    }
}
impl FromStr for AxisName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        text.strip_prefix('@').and_then(Axis::parse).map(AxisName).ok_or(())
    }
}

/// An entropy as a leaf of the e-graph.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KindName(pub Entropy);

impl fmt::Display for KindName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}
impl FromStr for KindName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        let (name, order) = text.strip_prefix('#').ok_or(())?.split_once(':').unwrap_or((&text[1..], ""));
        match (name, order.parse()) {
            ("shannon", _) => Ok(KindName(Entropy::Shannon)),
            ("tsallis", Ok(alpha)) => Ok(KindName(Entropy::Tsallis(alpha))),
            ("norm", Ok(gamma)) => Ok(KindName(Entropy::Norm(gamma))),
            _ => Err(()),
        }
    }
}

/// A whole term behind one node: its place in the run's table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AtomName(pub usize);

impl fmt::Display for AtomName {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "${}", self.0)
    }
}
impl FromStr for AtomName {
    type Err = ();
    fn from_str(text: &str) -> Result<Self, ()> {
        text.strip_prefix('$').and_then(|n| n.parse().ok()).map(AtomName).ok_or(())
    }
}

egg::define_language! {
    pub enum Term {
        "+" = Add([Id; 2]),
        "*" = Mul([Id; 2]),
        "pow" = Pow([Id; 2]),
        Call(Func, [Id; 1]),
        "select" = Select([Id; 4]),
        "sum" = Sum([Id; 2]),
        "smoothmax" = SmoothMax([Id; 3]),
        "weights" = Weights([Id; 3]),
        Number(Rational),
        Axis(AxisName),
        Kind(KindName),
        Atom(AtomName),
    }
}

/// What is known of a class.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    pub axes: AxisSet,
    pub sign: Sign,
    pub constant: Option<Rational>,
    /// The axis along which the class sums to one.
    pub normalized: Option<Axis>,
    /// The axis this class names, if it is one.
    pub axis: Option<Axis>,
    /// Whether a member is a sum.
    pub is_sum: bool,
    /// Whether a member is a product.
    pub is_product: bool,
}

/// The analysis: the run's atoms, and facts by class.
#[derive(Clone, Default)]
pub struct Knowledge {
    pub atoms: Vec<Expr>,
}

pub type Graph = EGraph<Term, Knowledge>;

/// The facts of one node, given its children's.
pub fn node_facts<'a>(node: &Term, atoms: &[Expr], of: impl Fn(Id) -> &'a Facts) -> Facts {
    let mut facts = Facts {
        axes: union(node.children().iter().map(|&c| of(c).axes)),
        sign: Sign::Unknown,
        constant: None,
        normalized: None,
        axis: None,
        is_sum: matches!(node, Term::Add(_)),
        is_product: matches!(node, Term::Mul(_)),
    };
    let constant = |id: &Id| of(*id).constant.clone();
    let reduced = |id: &Id, set: AxisSet| match of(*id).axis {
        Some(axis) if axis.space == Space::Token => set.without(axis).with(Axis::T),
        Some(axis) => set.without(axis),
        None => set,
    };
    match node {
        Term::Number(c) => {
            facts.sign = Expr::constant(c.clone()).sign();
            facts.constant = Some(c.clone());
        }
        Term::Axis(name) => facts.axis = Some(name.0),
        Term::Kind(_) => {}
        Term::Atom(name) => {
            let atom = &atoms[name.0];
            facts.axes = atom.axes();
            facts.sign = atom.sign();
            facts.normalized = atom.axes().iter().find(|&axis| is_normalized(atom, axis));
        }
        Term::Add([a, b]) => {
            facts.sign = of(*a).sign.plus(of(*b).sign);
        }
        Term::Mul([a, b]) => {
            facts.sign = of(*a).sign.times(of(*b).sign);
        }
        Term::Pow([x, r]) => {
            if let Some(r) = constant(r) {
                facts.sign = power_sign(of(*x).sign, &r);
            }
        }
        Term::Call(func, [x]) => facts.sign = func.sign(of(*x).sign),
        Term::SmoothMax(_) => {}
        Term::Select([_, _, x, y]) => facts.sign = of(*x).sign.join(of(*y).sign),
        Term::Sum([_, x]) => facts.sign = of(*x).sign,
        Term::Weights([_, i, _]) => {
            facts.sign = Sign::NonNegative;
            facts.normalized = of(*i).axis;
            if let Some(axis) = facts.normalized {
                facts.axes = facts.axes.with(axis);
                if axis.space == Space::Token {
                    facts.axes = facts.axes.with(Axis::T);
                }
            }
        }
    }
    match node {
        Term::Sum([i, _]) | Term::SmoothMax([_, i, _]) => facts.axes = reduced(i, facts.axes),
        _ => {}
    }
    facts
}

impl Analysis<Term> for Knowledge {
    type Data = Facts;

    fn make(egraph: &mut Graph, node: &Term, _id: Id) -> Facts {
        node_facts(node, &egraph.analysis.atoms, |id| &egraph[id].data)
    }

    fn merge(&mut self, a: &mut Facts, b: Facts) -> DidMerge {
        let merged = Facts {
            axes: a.axes.intersection(b.axes),
            sign: a.sign.meet(b.sign),
            constant: a.constant.clone().or_else(|| b.constant.clone()),
            normalized: a.normalized.or(b.normalized),
            axis: a.axis.or(b.axis),
            is_sum: a.is_sum || b.is_sum,
            is_product: a.is_product || b.is_product,
        };
        let changes = DidMerge(merged != *a, merged != b);
        *a = merged;
        changes
    }
}

/// Writes terms as e-graph expressions, collecting atoms.
#[derive(Default)]
pub struct Encoder {
    pub atoms: Vec<Expr>,
    /// Sums that were opened somewhere; where one is an atom elsewhere, both are the same class.
    pub opened: Vec<Expr>,
}

impl Encoder {
    /// The expression of a region: sums, products and integer powers are opened; other operations one level deep.
    pub fn encode(&mut self, e: &Expr) -> RecExpr<Term> {
        let mut out = RecExpr::default();
        self.open(e, true, &mut out);
        out
    }

    fn open(&mut self, e: &Expr, is_root: bool, out: &mut RecExpr<Term>) -> Id {
        match e.op() {
            Op::Add(xs) => {
                if !self.opened.contains(e) {
                    self.opened.push(e.clone());
                }
                let ids: Vec<Id> = xs.iter().map(|x| self.open(x, false, out)).collect();
                chain(&ids, out, Term::Add)
            }
            Op::Mul(xs) => {
                // Parameters and sizes act as one coefficient.
                let (coefficient, factors): (Vec<Expr>, Vec<Expr>) =
                    xs.iter().cloned().partition(|x| x.axes().is_empty() && x.as_const().is_none());
                let mut ids = Vec::new();
                if !coefficient.is_empty() {
                    ids.push(self.atom(&Expr::mul(coefficient), out));
                }
                ids.extend(factors.iter().map(|x| self.open(x, false, out)));
                chain(&ids, out, Term::Mul)
            }
            Op::Sum(axis, x) => {
                let axis = out.add(Term::Axis(AxisName(*axis)));
                let x = self.open(x, false, out);
                out.add(Term::Sum([axis, x]))
            }
            Op::Const(c) => out.add(Term::Number(c.clone())),
            Op::Pow(x, r) => {
                let x =
                    if r.is_integer() && r > &Rational::zero() { self.open(x, false, out) } else { self.atom(x, out) };
                let r = out.add(Term::Number(r.clone()));
                out.add(Term::Pow([x, r]))
            }
            Op::Call(func, x) => {
                let opens = is_root && *func == Func::Log;
                let x = if opens { self.open(x, false, out) } else { self.argument(*func, x, out) };
                out.add(Term::Call(*func, [x]))
            }
            Op::Select(p) => {
                let parts =
                    [self.atom(&p[0], out), self.atom(&p[1], out), self.frozen(&p[2], out), self.frozen(&p[3], out)];
                out.add(Term::Select(parts))
            }
            Op::Weights(kind, axis, s) if is_root => {
                let kind = out.add(Term::Kind(KindName(kind.clone())));
                let axis = out.add(Term::Axis(AxisName(*axis)));
                let s = self.open(s, false, out);
                out.add(Term::Weights([kind, axis, s]))
            }
            Op::SmoothMax(kind, axis, s) if is_root => {
                let kind = out.add(Term::Kind(KindName(kind.clone())));
                let axis = out.add(Term::Axis(AxisName(*axis)));
                let s = self.open(s, false, out);
                out.add(Term::SmoothMax([kind, axis, s]))
            }
            Op::Leaf(_) | Op::Weights(..) | Op::SmoothMax(..) | Op::Solve(_) => self.atom(e, out),
        }
    }

    /// The argument of a function. Of one that is at −x what it is at x in another way, −x is seen to be −1·x, and 2x to
    /// be 2·x.
    fn argument(&mut self, func: Func, x: &Expr, out: &mut RecExpr<Term>) -> Id {
        let (content, primitive) = x.split_content();
        match func {
            Func::Sigmoid | Func::Softplus if !content.is_one() && x.as_const().is_none() => {
                let ids = [out.add(Term::Number(content)), self.atom(&primitive, out)];
                chain(&ids, out, Term::Mul)
            }
            _ => self.atom(x, out),
        }
    }

    /// A product of atoms, so that common factors of select branches stay visible.
    fn frozen(&mut self, e: &Expr, out: &mut RecExpr<Term>) -> Id {
        match e.op() {
            Op::Mul(xs) => {
                let ids: Vec<Id> = xs.iter().map(|x| self.frozen(x, out)).collect();
                chain(&ids, out, Term::Mul)
            }
            Op::Add(_) => {
                let (content, primitive) = e.split_content();
                if content.is_one() {
                    return self.atom(e, out);
                }
                let ids = [out.add(Term::Number(content)), self.atom(&primitive, out)];
                chain(&ids, out, Term::Mul)
            }
            _ => self.atom(e, out),
        }
    }

    pub(super) fn whole(&mut self, e: &Expr, out: &mut RecExpr<Term>) -> Id {
        self.atom(e, out)
    }

    fn atom(&mut self, e: &Expr, out: &mut RecExpr<Term>) -> Id {
        if let Some(c) = e.as_const() {
            return out.add(Term::Number(c.clone()));
        }
        let index = self.atoms.iter().position(|a| a == e).unwrap_or_else(|| {
            self.atoms.push(e.clone());
            self.atoms.len() - 1
        });
        out.add(Term::Atom(AtomName(index)))
    }
}

/// How many nodes a region opens, written out as a tree.
pub fn opened(e: &Expr) -> usize {
    fn go(e: &Expr, known: &mut Memo<usize>) -> usize {
        let inside: &[Expr] = match e.op() {
            Op::Add(xs) | Op::Mul(xs) => xs,
            Op::Sum(_, x) => std::slice::from_ref(x),
            Op::Pow(x, r) if r.is_integer() && r > &Rational::zero() => std::slice::from_ref(x),
            _ => &[],
        };
        if inside.is_empty() {
            return 1;
        }
        if let Some(&nodes) = known.get(e) {
            return nodes;
        }
        let nodes = inside.iter().fold(1usize, |sum, x| sum.saturating_add(go(x, known)));
        known.insert(e.clone(), nodes);
        nodes
    }
    match e.op() {
        Op::Weights(_, _, x) | Op::SmoothMax(_, _, x) | Op::Call(Func::Log, x) => go(x, &mut Memo::default()),
        _ => go(e, &mut Memo::default()),
    }
}

/// A right-nested chain of a binary operation.
fn chain(ids: &[Id], out: &mut RecExpr<Term>, link: impl Fn([Id; 2]) -> Term) -> Id {
    let (&last, rest) = ids.split_last().expect("a chain has members");
    rest.iter().rev().fold(last, |tail, &id| out.add(link([id, tail])))
}

/// The term an e-graph expression stands for, in normal form.
pub fn decode(expr: &RecExpr<Term>, atoms: &[Expr]) -> Result<Expr, String> {
    let mut values: Vec<Option<Expr>> = Vec::new();
    let nodes: Vec<&Term> = expr.items().map(|(_, n)| n).collect();
    for node in &nodes {
        values.push(decode_node(
            node,
            atoms,
            |id| values[usize::from(id)].clone().ok_or("not a term".to_string()),
            |id| nodes[usize::from(id)],
        )?);
    }
    values.pop().flatten().ok_or("not a term".into())
}

/// One node of an expression; `None` for axes and entropies, which are not terms.
pub fn decode_node<'a>(
    node: &Term,
    atoms: &[Expr],
    value: impl Fn(Id) -> Result<Expr, String>,
    child: impl Fn(Id) -> &'a Term,
) -> Result<Option<Expr>, String> {
    let axis = |id: &Id| match child(*id) {
        Term::Axis(name) => Ok(name.0),
        other => Err(format!("`{other}` is not an axis")),
    };
    let kind = |id: &Id| match child(*id) {
        Term::Kind(name) => Ok(name.0.clone()),
        other => Err(format!("`{other}` is not an entropy")),
    };
    let at = |id: &Id| value(*id);
    Ok(Some(match node {
        Term::Axis(_) | Term::Kind(_) => return Ok(None),
        Term::Number(c) => Expr::constant(c.clone()),
        Term::Atom(name) => atoms.get(name.0).cloned().ok_or("unknown atom")?,
        Term::Add([a, b]) => at(a)?.plus(&at(b)?),
        Term::Mul([a, b]) => at(a)?.times(&at(b)?),
        Term::Pow([x, r]) => {
            let r = at(r)?;
            at(x)?.pow(r.as_const().unwrap_or(&Rational::one()))
        }
        Term::Call(func, [x]) => Expr::call(*func, &at(x)?),
        Term::Select([a, b, x, y]) => Expr::select(&at(a)?, &at(b)?, &at(x)?, &at(y)?),
        Term::Sum([i, x]) => Expr::sum(axis(i)?, &at(x)?),
        Term::SmoothMax([k, i, s]) => Expr::smoothmax(&kind(k)?, axis(i)?, &at(s)?),
        Term::Weights([k, i, s]) => Expr::weights(&kind(k)?, axis(i)?, &at(s)?),
    }))
}
