//! The backward pass of a direction, staged as a kernel would run it.
//!
//! Weights and smooth maxima are cut out of the direction. With o the direction and g its cotangent, each cut value w
//! gets its cotangent ∂w from the pieces that use it, then its scores get ∂s (the weights' Jacobian is symmetric:
//! ∂s = J ∂w), and ⟨∂s, s⟩ with ∂s held constant becomes one more piece. An input's gradient is the sum over pieces.

use super::{Definition, Derivation, options_for};
use crate::calculus;
use crate::check::inputs;
use crate::ir::{Axis, Entropy, Expr, Leaf, Op, Role, Sign, traverse};
use crate::simplify::{Options, simplify};

/// A backward pass.
#[derive(Clone, Debug)]
pub struct Backward {
    /// g, the cotangent of the direction.
    pub cotangent: Leaf,
    /// Cotangents of intermediate values, in the order they are computed.
    pub definitions: Vec<Definition>,
    /// Cotangents of q, k, v and of every parameter and gate.
    pub gradients: Vec<Definition>,
}

/// A value cut out of the direction.
struct Cut {
    node: Expr,
    leaf: Leaf,
    kind: Entropy,
    axis: Axis,
    scores: Expr,
    is_weights: bool,
}

/// The backward pass of the derived direction; forward values in `given` cost nothing.
pub fn backward(derivation: &Derivation, options: &Options) -> Backward {
    let direction = &derivation.direction.term;
    let cotangent = Leaf::new(Role::Probe, 1, "g", &[Axis::T, Axis::E], Sign::Unknown);
    let options = options_for(&derivation.recipe, options).given(vec![direction.clone()]);

    let cuts = cut_values(direction);
    let close = |e: &Expr| cuts.iter().fold(e.clone(), |e, cut| open_cut(&e, cut));
    let mut pieces = vec![scalar(&Expr::leaf(cotangent.clone()).times(&hide(direction, &cuts)))];
    let mut definitions = Vec::new();
    for (number, cut) in cuts.iter().enumerate() {
        let received = Expr::add(pieces.iter().map(|piece| calculus::gradient(piece, &cut.leaf)));
        if received.is_zero() {
            continue;
        }
        let name = if cuts.len() == 1 { "∂s".to_string() } else { format!("∂s{}", number + 1) };
        let received = close(&received);
        let back = match cut.is_weights {
            true => calculus::weights_jacobian(&cut.kind, cut.axis, &cut.node, &received),
            false => received.times(&Expr::weights(&cut.kind, cut.axis, &cut.scores)),
        };
        let value = simplify(&back, &options);
        let axes: Vec<Axis> = cut.scores.axes().with(Axis::T).with(Axis::N).iter().collect();
        let leaf = Leaf::new(Role::Named, 200 + number as u16, &name, &axes, Sign::Unknown);
        pieces.push(scalar(&Expr::leaf(leaf.clone()).times(&hide(&cut.scores, &cuts))));
        definitions.push(Definition { leaf, value });
    }
    let gradients = differentiable_inputs(derivation)
        .into_iter()
        .map(|input| {
            let total = Expr::add(pieces.iter().map(|piece| calculus::gradient(piece, &input)));
            let value = simplify(&close(&total), &options);
            let leaf = Leaf { name: format!("∂{}", input.name).into(), ..input };
            Definition { leaf, value }
        })
        .collect();
    Backward { cotangent, definitions, gradients }
}

/// The inputs a backward pass answers for.
fn differentiable_inputs(derivation: &Derivation) -> Vec<Leaf> {
    let direction = &derivation.direction.term;
    let params = derivation.recipe.params.iter().map(|p| p.leaf.clone());
    [inputs::q(), inputs::k(), inputs::v()]
        .into_iter()
        .chain(params)
        .filter(|leaf| traverse::mentions(direction, leaf))
        .collect()
}

/// Σ over every axis: one number.
fn scalar(e: &Expr) -> Expr {
    let inner = e.axes().iter().filter(|a| *a != Axis::T).fold(e.clone(), |x, axis| Expr::sum(axis, &x));
    Expr::sum(Axis::T, &inner)
}

/// The weights and smooth maxima of a term, outermost first, each once whatever its axis is called.
fn cut_values(e: &Expr) -> Vec<Cut> {
    let mut cuts: Vec<Cut> = Vec::new();
    for node in traverse::subterms(e).into_iter().rev() {
        let (kind, axis, scores, is_weights) = match node.op() {
            Op::Weights(kind, axis, scores) => (kind, *axis, scores, true),
            Op::SmoothMax(kind, axis, scores) => (kind, *axis, scores, false),
            _ => continue,
        };
        let scores = traverse::rename(scores, axis, Axis::N);
        let node = if is_weights { Expr::weights(kind, Axis::N, &scores) } else { node.clone() };
        if cuts.iter().any(|cut| cut.node == node) {
            continue;
        }
        let axes: Vec<Axis> = node.axes().iter().collect();
        let leaf = Leaf::new(Role::Named, 100 + cuts.len() as u16, &format!("cut{}", cuts.len()), &axes, node.sign());
        cuts.push(Cut { leaf, kind: kind.clone(), axis: Axis::N, scores, is_weights, node });
    }
    cuts
}

/// A term with the cut values replaced by their leaves.
fn hide(e: &Expr, cuts: &[Cut]) -> Expr {
    fn go(e: &Expr, cuts: &[Cut]) -> Expr {
        let place = match e.op() {
            Op::Weights(kind, axis, s) => Some((Expr::weights(kind, Axis::N, &traverse::rename(s, *axis, Axis::N)), *axis)),
            Op::SmoothMax(..) => Some((e.clone(), Axis::N)),
            _ => None,
        };
        if let Some((node, axis)) = place
            && let Some(cut) = cuts.iter().find(|cut| cut.node == node)
        {
            return traverse::rename(&Expr::leaf(cut.leaf.clone()), Axis::N, axis);
        }
        traverse::map_children(e, |x| go(x, cuts))
    }
    go(e, cuts)
}

/// The leaf of a cut replaced by its value again.
fn open_cut(e: &Expr, cut: &Cut) -> Expr {
    traverse::substitute_leaves(e, &mut |leaf| {
        leaf.same_input(&cut.leaf).then(|| {
            let axis = leaf.axes.iter().copied().find(|a| a.space == crate::ir::Space::Token);
            match axis {
                Some(axis) if cut.is_weights => traverse::rename(&cut.node, Axis::N, axis),
                _ => cut.node.clone(),
            }
        })
    })
}
