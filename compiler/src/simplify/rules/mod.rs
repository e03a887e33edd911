//! The rewrite rules: one row of data each, grouped by family.
//!
//! See `README.md` beside this file for the law a rule obeys.

mod constraint;
mod kinks;
pub mod memory;
mod ring;
mod smooth;
mod sums;
mod weights;

pub use constraint::constraint_rules;

use super::language::{Knowledge, Term};
use super::pattern::{Binding, Bindings, Pattern};
use super::saturate::compile;
use crate::ir::{Axis, AxisSet, Expr, Op, Role, Sign, Space};
use egg::Rewrite;
use memory::{Found, Key};
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

/// What must hold of the matched terms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Condition {
    /// The first variable's term does not extend along the second's axis.
    Free(&'static str, &'static str),
    /// The term sums to one along the axis.
    Normalized(&'static str, &'static str),
    /// The first axis does not decide what the second runs over (queries decide which tokens are seen), nor the reverse.
    Independent(&'static str, &'static str),
    /// The exponent is an even integer.
    Even(&'static str),
    /// The term is positive wherever it is defined.
    Positive(&'static str),
    /// The term extends along some axis.
    Extended(&'static str),
    /// The axis is one of tokens: what is named after its weights is a quantity per token.
    OfTokens(&'static str),
    /// The term is not a bare constant.
    NotConstant(&'static str),
    /// The term is not written as a sum itself; about search, not about truth.
    NotSum(&'static str),
    /// The term is not written as a product itself; about search, not about truth.
    NotProduct(&'static str),
}

/// Where a rule is used, always left to right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Use {
    /// When a term is tidied or multiplied out.
    Expand,
    /// In the e-graph.
    Search,
    /// In both.
    Everywhere,
    /// In the e-graph; an identity of the normal form, which a proof does not show.
    Silent,
}

impl Use {
    pub fn expands(self) -> bool {
        matches!(self, Use::Expand | Use::Everywhere)
    }
    pub fn searches(self) -> bool {
        self != Use::Expand
    }
}

/// One rewrite rule.
#[derive(Clone, Debug)]
pub struct Rule {
    pub name: String,
    pub left: Pattern,
    pub right: Pattern,
    pub conditions: Vec<Condition>,
    pub usage: Use,
}

impl Rule {
    /// Whether the rule states something about particular inputs.
    pub fn is_assumption(&self) -> bool {
        matches!(self.left, Pattern::Ground(_))
    }
}

/// A row of a family's table: name, left, right, conditions, use.
type Row = (&'static str, &'static str, &'static str, &'static [Condition], Use);

fn rule(&(name, left, right, conditions, usage): &Row) -> Rule {
    let parse = |text: &str| Pattern::parse(text).unwrap_or_else(|e| panic!("rule {name}: {e}"));
    Rule { name: name.into(), left: parse(left), right: parse(right), conditions: conditions.to_vec(), usage }
}

/// The whole table.
pub fn all() -> Vec<Rule> {
    [ring::ROWS, sums::ROWS, weights::ROWS, kinks::ROWS, smooth::ROWS].concat().iter().map(rule).collect()
}

/// The rules of one simplification: the general ones, those that assumptions add, without the ones taken away.
///
/// A set compiles its rules once and remembers what they made of each region; both are shared by its clones.
#[derive(Clone)]
pub struct RuleSet {
    pub rules: Vec<Rule>,
    compiled: Arc<OnceLock<Vec<Rewrite<Term, Knowledge>>>>,
    memory: Arc<Mutex<HashMap<Key, Found>>>,
}

impl Default for RuleSet {
    fn default() -> RuleSet {
        RuleSet::of(all())
    }
}

impl fmt::Debug for RuleSet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.debug_list().entries(self.rules.iter().map(|r| &r.name)).finish()
    }
}

impl RuleSet {
    pub fn of(rules: Vec<Rule>) -> RuleSet {
        RuleSet { rules, compiled: Arc::default(), memory: Arc::default() }
    }
    /// The same and more; the general rules stay compiled.
    pub fn with(&self, more: Vec<Rule>) -> RuleSet {
        if more.is_empty() {
            return self.clone();
        }
        let rules = self.rules.iter().cloned().chain(more).collect();
        RuleSet { rules, compiled: self.compiled.clone(), memory: Arc::default() }
    }
    pub fn without(&self, name: &str) -> RuleSet {
        RuleSet::of(self.rules.iter().filter(|r| r.name != name).cloned().collect())
    }
    pub fn get(&self, name: &str) -> Option<&Rule> {
        self.rules.iter().find(|r| r.name == name)
    }
    pub fn compiled(&self) -> &[Rewrite<Term, Knowledge>] {
        self.compiled.get_or_init(|| compile(&self.rules))
    }
    pub fn recall(&self, key: &Key) -> Option<Found> {
        self.memory.lock().ok()?.get(key).cloned()
    }
    pub fn remember(&self, key: Key, found: &Found) {
        if let Ok(mut memory) = self.memory.lock() {
            memory.insert(key, found.clone());
        }
    }
}

impl Condition {
    /// Whether the condition holds of the bound terms, by what the algebra knows of them.
    pub fn holds(&self, bindings: &Bindings) -> bool {
        let term = |v: &str| match bindings.get(v) {
            Some(Binding::Term(e)) => Some(e.clone()),
            Some(Binding::Number(r)) => Some(Expr::constant(r.clone())),
            _ => None,
        };
        let axis = |v: &str| match bindings.get(v) {
            Some(Binding::Axis(a)) => Some(*a),
            _ => None,
        };
        match *self {
            Condition::Free(v, i) => matches!((term(v), axis(i)), (Some(e), Some(i)) if !e.has_axis(i)),
            Condition::Normalized(v, i) => {
                matches!((term(v), axis(i)), (Some(e), Some(i)) if is_normalized(&e, i))
            }
            Condition::Independent(i, j) => matches!((axis(i), axis(j)), (Some(i), Some(j)) if independent(i, j)),
            Condition::Even(v) => {
                term(v).and_then(|e| e.as_const().map(crate::ir::rational::is_even_integer)) == Some(true)
            }
            Condition::Positive(v) => term(v).is_some_and(|e| e.sign() == Sign::Positive),
            Condition::NotConstant(v) => term(v).is_some_and(|e| e.as_const().is_none()),
            Condition::Extended(v) => term(v).is_some_and(|e| !e.axes().is_empty()),
            Condition::OfTokens(i) => axis(i).is_some_and(|i| i.space == Space::Token),
            Condition::NotSum(_) | Condition::NotProduct(_) => true,
        }
    }
}

/// Whether two reductions may change places.
pub fn independent(a: Axis, b: Axis) -> bool {
    !matches!((a.space, b.space), (Space::Query, Space::Token) | (Space::Token, Space::Query))
}

/// Whether Σ_axis e = 1 by construction.
pub fn is_normalized(e: &Expr, axis: Axis) -> bool {
    match e.op() {
        Op::Weights(_, along, _) => *along == axis,
        Op::Leaf(leaf) => leaf.role == Role::Weights && axis.space == Space::Token && leaf.axes.contains(&axis),
        _ => false,
    }
}

/// The axes of a set of terms.
pub(crate) fn union(axes: impl Iterator<Item = AxisSet>) -> AxisSet {
    axes.fold(AxisSet::EMPTY, AxisSet::union)
}
