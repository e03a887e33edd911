//! An optimizer run through a stack of layers on symbols, gradients kept opaque.
//!
//! Layer k starts from z^(k) and the states it was handed, runs the program as many times as the recipe has steps, and
//! hands on z^(k+1) and the states. Its gradients are numbered through all layers: gradient i of layer k, counted over
//! the steps, has the number k·(gradients a layer) + i and is −f of that number.

use super::form::{Form, Scope, Stop};
use super::polynomial::{Budget, Polynomial};
use super::values::Values;
use crate::check::inputs;
use crate::check::recipe::{Program, Recipe};
use crate::ir::{Expr, Leaf};

/// More layers than anybody would draw.
pub const MAX_LAYERS: usize = 64;

/// Tokens and points of a stack of layers as combinations of z^(0) and the layers' outputs.
#[derive(Clone, Debug)]
pub struct Unrolled {
    pub layers: usize,
    /// What f^(k) is: −∇F, or the solution of the optimizer's system.
    pub output: &'static str,
    /// Gradients taken in one layer.
    pub gradients: usize,
    /// z^(0), …, z^(L).
    pub tokens: Vec<Form>,
    /// Where every gradient is taken, by its number; those of layer L, which comes next, included.
    pub points: Vec<Point>,
}

/// Where a gradient is taken.
#[derive(Clone, Debug)]
pub struct Point {
    pub form: Form,
    /// Whether it is another point than the token the layer starts from.
    pub is_lookahead: bool,
}

impl Unrolled {
    /// z^(L).
    pub fn result(&self) -> &Form {
        &self.tokens[self.layers]
    }

    /// The points of layer k.
    pub fn points_of(&self, layer: usize) -> &[Point] {
        &self.points[layer * self.gradients..(layer + 1) * self.gradients]
    }

    /// The first of a layer's points that is another than its token, in layer L.
    pub fn lookahead(&self) -> Option<&Point> {
        self.points_of(self.layers).iter().find(|point| point.is_lookahead)
    }

    /// The layer and the place in it of a gradient.
    pub fn place(&self, number: usize) -> (usize, usize) {
        (number / self.gradients, number % self.gradients)
    }
}

/// What L layers of a recipe make of z^(0), with values put in for some parameters.
pub fn unroll(recipe: &Recipe, layers: usize, values: &Values) -> Result<Unrolled, Stop> {
    let program = &recipe.program;
    let mut budget = Budget::new(Budget::USUAL);
    let nothing = Scope { token: Form::origin(), states: vec![], gradients: vec![], values };
    let mut states = Vec::new();
    for state in &program.states {
        states.push((state.leaf.clone(), nothing.evaluate(&state.init, &mut budget)?));
    }
    let steps = recipe.steps as usize;
    let gradients = steps * program.gradients.len();
    let output = if recipe.program.preconditioner.is_some() { "−A⁻¹∇F, head by head," } else { "−∇F" };
    let mut unrolled = Unrolled { layers, output, gradients, tokens: vec![Form::origin()], points: vec![] };
    // Of the layer that comes next only the points are wanted.
    for _ in 0..=layers {
        let token = unrolled.tokens.last().cloned().unwrap_or_default();
        let mut scope = Scope { token, states: std::mem::take(&mut states), gradients: vec![], values };
        for step in 0..steps {
            scope = run(program, scope, step, &mut unrolled.points, &mut budget)?;
        }
        unrolled.tokens.push(scope.token);
        states = scope.states;
    }
    unrolled.tokens.truncate(layers + 1);
    Ok(unrolled)
}

/// One run of the program; the points of its gradients are added to those there are.
fn run<'a>(
    program: &Program,
    mut scope: Scope<'a>,
    step: usize,
    points: &mut Vec<Point>,
    budget: &mut Budget,
) -> Result<Scope<'a>, Stop> {
    let token = Expr::leaf(inputs::z());
    scope.gradients.clear();
    for at in &program.gradients {
        let form = scope.evaluate(at, budget)?;
        scope.gradients.push(Form::gradient(points.len()));
        points.push(Point { form, is_lookahead: step > 0 || *at != token });
    }
    let token = scope.evaluate(&program.z, budget)?;
    let next = |(state, next): (&(Leaf, Form), &Expr)| Ok((state.0.clone(), scope.evaluate(next, budget)?));
    let states = scope.states.iter().zip(&program.next_states).map(next).collect::<Result<Vec<_>, Stop>>()?;
    Ok(Scope { token, states, ..scope })
}

/// The weight of an output in a combination.
pub fn weight(form: &Form, number: usize) -> Polynomial {
    form.outputs.get(&number).cloned().unwrap_or_default()
}
