//! Linear combinations of what a stack of layers is made of, and the terms of an optimizer evaluated on them.
//!
//! Everything an optimizer computes is `a z^(0) + Σ w f + c 1` as long as it only adds such combinations and scales
//! them. A combination of `1` alone is a number, the same in every component and whatever the data: any function of it
//! is fine too, so a step size may well be computed from a state that counts the layers.

use super::polynomial::{Budget, Polynomial, TooLarge};
use super::values::Values;
use crate::check::inputs;
use crate::ir::{Expr, Leaf, Op, Role, Space};
use std::collections::{BTreeMap, HashMap};

/// a z^(0) + Σ w f + c 1.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Form {
    /// The weight of z^(0).
    pub origin: Polynomial,
    /// The weight of 1, the vector of ones.
    pub ones: Polynomial,
    /// The weights of the layers' outputs, by the number of the gradient; none is 0.
    pub outputs: BTreeMap<usize, Polynomial>,
}

/// Why there are no weights.
#[derive(Clone, PartialEq, Debug)]
pub enum Stop {
    /// The optimizer does something to data that is not linear; the term that does.
    DependsOnData(Expr),
    TooLarge,
}

impl From<TooLarge> for Stop {
    fn from(_: TooLarge) -> Stop {
        Stop::TooLarge
    }
}

impl Form {
    /// z^(0).
    pub fn origin() -> Form {
        Form { origin: Polynomial::one(), ..Form::default() }
    }

    /// The same number in every component.
    pub fn number(ones: Polynomial) -> Form {
        Form { ones, ..Form::default() }
    }

    /// The gradient that is −f of this number.
    pub fn gradient(number: usize) -> Form {
        let outputs = BTreeMap::from([(number, Polynomial::one().negated())]);
        Form { outputs, ..Form::default() }
    }

    /// The number it is, if it does not depend on the data.
    fn as_number(&self) -> Option<&Polynomial> {
        (self.origin.is_zero() && self.outputs.is_empty()).then_some(&self.ones)
    }

    fn add(&mut self, other: Form, budget: &mut Budget) -> Result<(), TooLarge> {
        self.origin.add(other.origin, budget)?;
        self.ones.add(other.ones, budget)?;
        for (number, weight) in other.outputs {
            let known = self.outputs.entry(number).or_default();
            known.add(weight, budget)?;
            if known.is_zero() {
                self.outputs.remove(&number);
            }
        }
        Ok(())
    }

    /// The combination with `f` applied to its weights.
    fn map<E>(&self, mut f: impl FnMut(&Polynomial) -> Result<Polynomial, E>) -> Result<Form, E> {
        let mut outputs = BTreeMap::new();
        for (number, weight) in &self.outputs {
            let weight = f(weight)?;
            if !weight.is_zero() {
                outputs.insert(*number, weight);
            }
        }
        Ok(Form { origin: f(&self.origin)?, ones: f(&self.ones)?, outputs })
    }
}

/// What the leaves of an optimizer's terms stand for in one run.
pub struct Scope<'a> {
    pub token: Form,
    pub states: Vec<(Leaf, Form)>,
    pub gradients: Vec<Form>,
    pub values: &'a Values,
}

impl Scope<'_> {
    /// The combination a term stands for.
    pub fn evaluate(&self, e: &Expr, budget: &mut Budget) -> Result<Form, Stop> {
        self.go(e, budget, &mut HashMap::new())
    }

    fn go(&self, e: &Expr, budget: &mut Budget, memo: &mut HashMap<Expr, Form>) -> Result<Form, Stop> {
        let form = match memo.get(e) {
            Some(known) => known.clone(),
            None => self.compute(e, budget, memo)?,
        };
        // Copies are not for nothing.
        budget.spend(1 + form.outputs.values().map(Polynomial::count).sum::<usize>())?;
        memo.insert(e.clone(), form.clone());
        Ok(form)
    }

    fn compute(&self, e: &Expr, budget: &mut Budget, memo: &mut HashMap<Expr, Form>) -> Result<Form, Stop> {
        let mut number_of = |x: &Expr, budget: &mut Budget| {
            let form = self.go(x, budget, memo)?;
            form.as_number().map(Polynomial::to_expr).ok_or_else(|| Stop::DependsOnData(e.clone()))
        };
        let number = |e: &Expr, budget: &mut Budget| Ok(Form::number(Polynomial::of(e, budget)?));
        match e.op() {
            Op::Const(_) => number(e, budget),
            Op::Leaf(leaf) => self.leaf(leaf, e, budget),
            Op::Add(terms) => terms.iter().try_fold(Form::default(), |mut sum, term| {
                sum.add(self.go(term, budget, memo)?, budget)?;
                Ok(sum)
            }),
            Op::Mul(factors) => factors.iter().try_fold(Form::number(Polynomial::one()), |product, factor| {
                let factor = self.go(factor, budget, memo)?;
                let (data, number) = match (product.as_number(), factor.as_number()) {
                    (_, Some(number)) => (&product, number),
                    (Some(number), None) => (&factor, number),
                    (None, None) => return Err(Stop::DependsOnData(e.clone())),
                };
                Ok(data.map(|weight| weight.times(number, budget))?)
            }),
            Op::Pow(x, r) => number(&number_of(x, budget)?.pow(r), budget),
            Op::Call(func, x) => number(&Expr::call(*func, &number_of(x, budget)?), budget),
            // Σ over the d components of a number.
            Op::Sum(axis, x) if axis.space == Space::Model => {
                let [_, d, ..] = inputs::sizes();
                let d = self.values.get(&*d.name).cloned().unwrap_or_else(|| Expr::leaf(d));
                number(&number_of(x, budget)?.times(&d), budget)
            }
            Op::Select(parts) => {
                let (a, b) = (number_of(&parts[0], budget)?, number_of(&parts[1], budget)?);
                let (x, y) = (self.go(&parts[2], budget, memo)?, self.go(&parts[3], budget, memo)?);
                select(&a, &b, &x, &y, budget).map_err(Stop::from)
            }
            Op::Sum(..) | Op::Weights(..) | Op::SmoothMax(..) | Op::Solve(_) => Err(Stop::DependsOnData(e.clone())),
        }
    }

    fn leaf(&self, leaf: &Leaf, e: &Expr, budget: &mut Budget) -> Result<Form, Stop> {
        if leaf.same_input(&inputs::z()) {
            return Ok(self.token.clone());
        }
        let state = self.states.iter().find(|(state, _)| leaf.same_input(state));
        let gradients = self.gradients.iter().enumerate();
        let gradient = || gradients.into_iter().find(|(i, _)| leaf.same_input(&inputs::gradient(*i)));
        if let Some(form) = state.map(|(_, form)| form).or_else(|| gradient().map(|(_, form)| form)) {
            return Ok(form.clone());
        }
        match leaf.role {
            Role::Param | Role::Size => {
                let value = self.values.get(&*leaf.name).unwrap_or(e);
                Ok(Form::number(Polynomial::of(value, budget)?))
            }
            _ => Err(Stop::DependsOnData(e.clone())),
        }
    }
}

/// x where a ≤ b, else y, for numbers a and b: a choice for every weight.
fn select(a: &Expr, b: &Expr, x: &Form, y: &Form, budget: &mut Budget) -> Result<Form, TooLarge> {
    let mut choose = |x: &Polynomial, y: &Polynomial| {
        budget.spend(1)?;
        Polynomial::of(&Expr::select(a, b, &x.to_expr(), &y.to_expr()), budget)
    };
    let mut form = Form { origin: choose(&x.origin, &y.origin)?, ones: choose(&x.ones, &y.ones)?, ..Form::default() };
    let zero = Polynomial::default();
    for number in x.outputs.keys().chain(y.outputs.keys()) {
        let [left, right] = [x, y].map(|form| form.outputs.get(number).unwrap_or(&zero));
        let weight = choose(left, right)?;
        if !weight.is_zero() {
            form.outputs.insert(*number, weight);
        }
    }
    Ok(form)
}
