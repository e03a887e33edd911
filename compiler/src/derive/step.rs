//! The backward pass of one run of the optimizer, with the heads opaque.
//!
//! A run takes z and the states to ẑ and the new states, by way of forces F_i taken at points y_i. With a cotangent for
//! every result, L = ⟨∂ẑ, ẑ⟩ + Σ ⟨∂p̂, p̂⟩ + Σ_i ⟨∂y_i, y_i⟩ has every cotangent as a gradient: that of F_i, from which
//! the heads make ∂y_i, then those of z, the states and the parameters.

use super::Definition;
use crate::calculus;
use crate::check::inputs;
use crate::check::recipe::{Program, Recipe};
use crate::ir::{Axis, Expr, Leaf, Role, Sign};
use crate::simplify::{Options, simplify};

/// The backward pass of a program.
#[derive(Clone, Debug)]
pub struct StepBackward {
    /// ∂ẑ and the cotangents of the new states.
    pub results: Vec<Leaf>,
    /// ∂y_i, which the heads send back to the point of the i-th force.
    pub points: Vec<Leaf>,
    /// The cotangent of the i-th force; it needs the ∂y_j of later forces.
    pub forces: Vec<Definition>,
    /// The cotangents of z, the states and the parameters of the program.
    pub inputs: Vec<(Leaf, Definition)>,
}

/// The backward pass of a recipe's program.
pub fn step_backward(recipe: &Recipe, options: &Options) -> StepBackward {
    let options = &options.clone().afresh();
    let program = &recipe.program;
    let outputs: Vec<(&str, &Expr)> = std::iter::once(("z", &program.z))
        .chain(program.states.iter().map(|state| &*state.leaf.name).zip(&program.next_states))
        .collect();
    let results: Vec<Leaf> =
        outputs.iter().enumerate().map(|(i, (name, _))| cotangent(i, &format!("∂{name}^"))).collect();
    let points: Vec<Leaf> = (0..program.gradients.len()).map(|i| cotangent(100 + i, &point_name(program, i))).collect();
    let paired = |leaf: &Leaf, e: &Expr| scalar(&Expr::leaf(leaf.clone()).times(e));
    let direct = results.iter().zip(&outputs).map(|(leaf, (_, e))| paired(leaf, e));
    let later = points.iter().zip(&program.gradients).map(|(leaf, e)| paired(leaf, e));
    let pieces: Vec<Expr> = direct.chain(later).collect();
    let known = results.len();
    let define = |input: &Leaf, name: String, upto: &[&Expr]| {
        let total = Expr::add(upto.iter().map(|piece| calculus::gradient(piece, input)));
        let leaf = Leaf { name: name.into(), ..input.clone() };
        Definition { leaf, value: simplify(&total, options) }
    };
    let forces = (0..program.gradients.len()).map(|i| {
        let upto: Vec<&Expr> = pieces[..known].iter().chain(&pieces[known + i + 1..]).collect();
        define(&inputs::gradient(i), force_name(program, i), &upto)
    });
    let all: Vec<&Expr> = pieces.iter().collect();
    let states = program.states.iter().map(|state| state.leaf.clone());
    let params = recipe.params.iter().map(|param| param.leaf.clone()).filter(|leaf| program.mentions(leaf));
    let sources = std::iter::once(inputs::z()).chain(states).chain(params);
    StepBackward {
        forces: forces.collect(),
        inputs: sources.map(|leaf| (leaf.clone(), define(&leaf, format!("∂{}", leaf.name), &all))).collect(),
        results,
        points,
    }
}

fn point_name(program: &Program, i: usize) -> String {
    if program.gradients.len() == 1 { "∂y".to_string() } else { format!("∂y{}", i + 1) }
}

fn force_name(program: &Program, i: usize) -> String {
    if program.gradients.len() == 1 { "∂f".to_string() } else { format!("∂f{}", i + 1) }
}

fn cotangent(ordinal: usize, name: &str) -> Leaf {
    let ordinal = u16::try_from(ordinal).unwrap_or(u16::MAX);
    Leaf::new(Role::Adjoint, 1000 + ordinal, name, &[Axis::T, Axis::C], Sign::Unknown)
}

/// Σ over queries and components.
fn scalar(e: &Expr) -> Expr {
    let inner = if e.has_axis(Axis::C) { Expr::sum(Axis::C, e) } else { e.clone() };
    Expr::sum(Axis::T, &inner)
}
