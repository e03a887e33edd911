//! The parameters of a recipe while it is being checked: who declared each, its value, and the leaf that stands
//! for it.
//!
//! A recipe is read twice. The first reading finds out which parameters are *structural* (used as an exponent or
//! to choose an entropy) and in which order the others come; the second puts in the structural ones as numbers and
//! gives every other parameter its final leaf.

use std::collections::{BTreeMap, BTreeSet};

use super::recipe::{Origin, Param, ParamValue, Whose};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Axis, Expr, Leaf, Rational, Role, Sign, traverse};
use crate::span::Span;

/// What the first reading found out.
#[derive(Clone, Default)]
pub struct Findings {
    structural: BTreeSet<String>,
    ordinals: BTreeMap<String, u16>,
}

/// A declared parameter.
pub struct Entry {
    pub param: Param,
    /// Where the file being checked gives the value, or uses the ingredient that does.
    pub site: Span,
}

#[derive(Default)]
pub struct Params {
    findings: Findings,
    entries: Vec<Entry>,
    structural: BTreeSet<String>,
}

impl Params {
    pub fn new(findings: Findings) -> Params {
        Params { findings, ..Params::default() }
    }

    pub fn get(&self, name: &str) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.param.name == name)
    }

    /// Adds a parameter and gives the term that stands for it.
    pub fn declare(
        &mut self,
        name: &str,
        value: ParamValue,
        sign: Option<Sign>,
        origin: Origin,
        site: Span,
    ) -> Result<Expr, Diagnostic> {
        if let Some(other) = self.get(name) {
            return Err(clash(name, origin, other, site));
        }
        let next = u16::try_from(self.entries.len()).unwrap_or(u16::MAX);
        let ordinal = self.findings.ordinals.get(name).copied().unwrap_or(next);
        let leaf = leaf_of(name, &value, sign, ordinal);
        let param = Param { name: name.to_string(), value, leaf: leaf.clone(), origin };
        let known = self.findings.structural.contains(name).then(|| number(&param.value)).flatten();
        self.entries.push(Entry { param, site });
        Ok(match known {
            Some(number) => {
                self.structural.insert(name.to_string());
                Expr::constant(number)
            }
            None => Expr::leaf(leaf),
        })
    }

    /// The term that stands for a declared parameter.
    pub fn term(&self, name: &str) -> Option<Expr> {
        let entry = self.get(name)?;
        let known = number(&entry.param.value).filter(|_| self.is_structural(entry));
        Some(known.map_or_else(|| Expr::leaf(entry.param.leaf.clone()), Expr::constant))
    }

    /// The parameter a leaf stands for.
    pub fn of_leaf(&self, leaf: &Leaf) -> Option<&Entry> {
        let is_param = matches!(leaf.role, Role::Param | Role::Gate | Role::Decay);
        self.get(&leaf.name).filter(|_| is_param)
    }

    /// The parameter in the term that is a number per component.
    pub fn vector_in(&self, e: &Expr) -> Option<&Entry> {
        let entries = traverse::inputs(e).into_iter().filter_map(|leaf| self.of_leaf(&leaf));
        entries.into_iter().find(|entry| entry.param.leaf.axes.contains(&Axis::E))
    }

    /// The term with every parameter that has a known number replaced by it; those are structural from now on.
    pub fn make_structural(&mut self, e: &Expr) -> Expr {
        let mut found = Vec::new();
        let result = traverse::substitute_leaves(e, &mut |leaf| {
            let number = number(&self.of_leaf(leaf)?.param.value)?;
            found.push(leaf.name.to_string());
            Some(Expr::constant(number))
        });
        self.structural.extend(found);
        result
    }

    /// The number for a term that fixed numbers make 0 or 1, which are structural then; any other term as it is.
    pub fn plain(&mut self, e: &Expr) -> Expr {
        let fixed =
            traverse::substitute_leaves(e, &mut |leaf| number(&self.of_leaf(leaf)?.param.value).map(Expr::constant));
        if fixed.is_zero() || fixed.is_one() { self.make_structural(e) } else { e.clone() }
    }

    /// The term with parameters at their values or initial values: a term over sizes, if there are no gates in it.
    pub fn at_start(&self, e: &Expr) -> Expr {
        traverse::substitute_leaves(e, &mut |leaf| self.of_leaf(leaf)?.param.value.start().cloned())
    }

    fn in_order(&self) -> Vec<&Entry> {
        let mut entries: Vec<&Entry> = self.entries.iter().collect();
        entries.sort_by_key(|entry| entry.param.origin);
        entries
    }

    fn is_structural(&self, entry: &Entry) -> bool {
        self.structural.contains(&entry.param.name)
    }

    pub fn findings(&self) -> Findings {
        let symbolic = self.in_order().into_iter().filter(|entry| !self.is_structural(entry));
        let numbered = symbolic.zip(0..).map(|(entry, ordinal)| (entry.param.name.clone(), ordinal));
        Findings { ordinals: numbered.collect(), structural: self.structural.clone() }
    }

    /// The symbolic parameters, in order.
    pub fn symbolic(&self) -> Vec<Param> {
        let symbolic = self.in_order().into_iter().filter(|entry| !self.is_structural(entry));
        symbolic.map(|entry| entry.param.clone()).collect()
    }

    /// The structural parameters, in order.
    pub fn structural(&self) -> Vec<(String, Rational)> {
        let structural = self.in_order().into_iter().filter(|entry| self.is_structural(entry));
        structural.filter_map(|entry| Some((entry.param.name.clone(), number(&entry.param.value)?))).collect()
    }
}

/// The number a parameter is fixed to, if it is one.
fn number(value: &ParamValue) -> Option<Rational> {
    match value {
        ParamValue::Fixed(value) => value.as_const().cloned(),
        _ => None,
    }
}

/// The sign is what a condition such as `T > 0` promises, or else that of the value the parameter starts with.
fn leaf_of(name: &str, value: &ParamValue, promised: Option<Sign>, ordinal: u16) -> Leaf {
    let (role, axes, sign): (_, &[Axis], _) = match value {
        ParamValue::Fixed(value) => (Role::Param, &[], promised.unwrap_or(Sign::Unknown).meet(value.sign())),
        ParamValue::Learn { init, each } => {
            let at_start = if init.sign() == Sign::Positive { Sign::Positive } else { Sign::Unknown };
            (Role::Param, if each.component { &[Axis::E] } else { &[] }, promised.unwrap_or(at_start))
        }
        ParamValue::Gate(_, Whose::Token) => (Role::Gate, &[Axis::N], Sign::Positive),
        ParamValue::Gate(_, Whose::Query) => (Role::Gate, &[Axis::T], Sign::Positive),
        ParamValue::Decay(_) => (Role::Decay, &[Axis::T, Axis::N], Sign::Positive),
    };
    Leaf::new(role, ordinal, name, axes, sign)
}

fn clash(name: &str, origin: Origin, other: &Entry, site: Span) -> Diagnostic {
    let whose = |origin: Origin| match origin {
        Origin::Ingredient(kind) => super::library::describe(kind),
        Origin::Recipe => "recipe",
    };
    let message = if origin == other.param.origin {
        format!("the {} has two parameters called `{name}`", whose(origin))
    } else {
        format!("the {} and the {} both have a parameter called `{name}`", whose(other.param.origin), whose(origin))
    };
    let clash = Diagnostic::new(Code::ParameterClash, message);
    let clash = if other.site == site {
        clash.at(site, format!("brings `{name}` each time it is used"))
    } else {
        clash
            .also(other.site, format!("`{name}` of the {}", whose(other.param.origin)))
            .at(site, format!("`{name}` of the {}", whose(origin)))
    };
    clash
        .note("the parameters of a recipe share one space, so that a layer has one of each name")
        .help("rename one of them, or pass an expression where the ingredient is called")
}
