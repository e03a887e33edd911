//! The backward pass of a direction, staged as a kernel would run it.
//!
//! With o the direction and g its cotangent, each named weight p gets its cotangent ∂p from the pieces that use it, then
//! its scores get theirs (the weights' Jacobian is symmetric: ∂s = J ∂p), and ⟨∂s, s⟩ with ∂s held constant becomes one
//! more piece. An input's gradient is the sum over the pieces ⟨g, o⟩, ⟨∂s, s⟩. Shares p_i and p₀ of a whole go together:
//! with D = Σ_i p_i ∂p_i + p₀ ∂p₀, ∂s_i = p_i (∂p_i − D) and ∂s₀ = p₀ (∂p₀ − D).

use super::naming::{in_shares, meanings, unused, vector_leaf};
use super::{Definition, Derivation, applied, hide, options_for};
use crate::calculus::{self, Meaning};
use crate::check::inputs;
use crate::ir::{Axis, Expr, Leaf, Op, Role, Sign, Space, traverse};
use crate::simplify::{Options, Simplified, simplify, simplify_sum};

/// A backward pass.
#[derive(Clone, Debug)]
pub struct Backward {
    /// g, the cotangent of the direction.
    pub cotangent: Leaf,
    /// o, the direction as the backward pass knows it from the forward one.
    pub output: Leaf,
    /// Cotangents of scores, in the order they are computed.
    pub definitions: Vec<Definition>,
    /// ∂s₀ beside the ∂s_i of shares: over all tokens and the rest, the cotangents of a row's scores sum to 0.
    pub of_rests: Vec<(Leaf, Expr)>,
    /// Cotangents of q, k, v and of every parameter and gate.
    pub gradients: Vec<Definition>,
}

/// The backward pass of the derived direction; the direction itself is at hand.
pub fn backward(derivation: &Derivation, options: &Options) -> Backward {
    let direction = &derivation.direction.term;
    let recipe = &derivation.recipe;
    let cotangent = Leaf::new(Role::Probe, 1, &unused("g", recipe), &[Axis::T, Axis::E], Sign::Unknown);
    let output = Leaf::new(Role::Named, 300, &unused("o", recipe), &[Axis::T, Axis::E], Sign::Unknown);
    let options = options_for(&derivation.recipe, options).afresh().given(vec![direction.clone()]);

    let solves = derivation.preconditioned.is_some();
    let hidden = |mut value: Simplified| {
        value.term = hide(&value.term, &derivation.names);
        value
    };
    let tidy = |e: &Expr| hidden(simplify(e, &options));
    let apart = |parts: &[Expr]| hidden(simplify_sum(parts, &options));
    // The parts a solved system sends are many, and each is simple; one direction may have something to share, unless that is
    // too much for one search.
    let tidy_sum = |parts: Vec<Expr>| {
        if solves {
            return apart(&parts);
        }
        let whole = tidy(&Expr::add(parts.iter().cloned()));
        let found = whole.hit_limit.then(|| apart(&parts));
        found.filter(|apart| !apart.hit_limit).unwrap_or(whole)
    };
    let terms = if solves { direction.terms() } else { vec![direction.clone()] };
    let mut pieces: Vec<Expr> =
        terms.iter().map(|term| scalar(&paired(&Expr::leaf(cotangent.clone()), term))).collect();
    let (mut definitions, mut of_rests) = (Vec::new(), Vec::new());
    let names: Vec<_> = derivation.names.iter().rev().collect();
    let scores_of = |name: &str| format!("∂{}", unused(&name.replacen('p', "s", 1), recipe));
    // What the share p₀ of a rest has received, until p_i, whose name comes before, is looked at.
    let mut of_rest = Expr::zero();
    for (number, named) in names.iter().enumerate() {
        let parts: Vec<Expr> = pieces.iter().map(|piece| calculus::gradient(piece, &named.leaf)).collect();
        let received = Expr::add(parts.iter().cloned());
        let is_awaited = matches!(named.meaning, Meaning::Share(_)) && !of_rest.is_zero();
        if received.is_zero() && !is_awaited {
            continue;
        }
        let (raw, name) = match &named.meaning {
            Meaning::Weights { kind, .. } => {
                // The Jacobian multiplies by the weights, which are 0 at what is not seen.
                let mut received = everywhere(&received);
                // What a solved system sends back is long enough to have a name before the Jacobian sees it.
                if solves {
                    let name = format!("∂{}", named.leaf.name);
                    let leaf = Leaf::new(Role::Named, 270 + number as u16, &name, &[Axis::T, Axis::N], Sign::Unknown);
                    definitions.push(Definition {
                        leaf: leaf.clone(),
                        value: tidy_sum(parts.iter().map(everywhere).collect()),
                    });
                    received = Expr::leaf(leaf);
                }
                let weights = Expr::leaf(named.leaf.clone());
                let centre = |centred: Expr| {
                    let name = unused(&named.leaf.name.replacen('p', "a", 1), recipe);
                    let leaf = Leaf::new(Role::Named, 250 + number as u16, &name, &[Axis::T, Axis::N], Sign::Unknown);
                    definitions.push(Definition { leaf: leaf.clone(), value: tidy(&centred) });
                    Expr::leaf(leaf)
                };
                let back = calculus::weights_jacobian_naming(kind, Axis::N, &weights, &received, centre);
                (back, scores_of(&named.leaf.name))
            }
            Meaning::Share(shares) => {
                let (share, rest) = (Expr::leaf(named.leaf.clone()), Expr::leaf(shares.rest_share.clone()));
                let received = everywhere(&received);
                let of_rest = std::mem::replace(&mut of_rest, Expr::zero());
                let mean = Expr::sum(Axis::N, &share.times(&received)).plus(&rest.times(&of_rest));
                let from_rest = tidy(&rest.times(&of_rest.minus(&mean)));
                let leaf_of =
                    |name: &str| Leaf::new(Role::Adjoint, number as u16, name, &named.leaf.axes, Sign::Unknown);
                let mut at_rest = from_rest.term.clone();
                // Its name is the one before.
                if !inputs_among(derivation, &[&shares.rest_score]).is_empty() {
                    let ordinal = number.saturating_sub(1) as u16;
                    let name = scores_of(&shares.rest_share.name);
                    let leaf = Leaf::new(Role::Adjoint, ordinal, &name, &[Axis::T], Sign::Unknown);
                    pieces.push(scalar(&Expr::leaf(leaf.clone()).times(&shares.rest_score)));
                    at_rest = Expr::leaf(leaf.clone());
                    definitions.push(Definition { leaf, value: from_rest });
                }
                let name = scores_of(&named.leaf.name);
                of_rests.push((leaf_of(&name), at_rest));
                (share.times(&received.minus(&mean)), name)
            }
            Meaning::Rest(_) => {
                let leaf = Leaf::new(
                    Role::Adjoint,
                    number as u16,
                    &format!("∂{}", named.leaf.name),
                    &[Axis::T],
                    Sign::Unknown,
                );
                of_rest = Expr::leaf(leaf.clone());
                definitions.push(Definition { leaf, value: tidy_sum(parts) });
                continue;
            }
            Meaning::Formula(_) => (received, format!("∂{}", named.leaf.name)),
            // A x = b:  λ = A⁻¹ ∂x, and then ⟨λ, b⟩ − ⟨λ, A x⟩ with λ and x held constant. A is symmetric.
            Meaning::Solution { system, product, probe } => {
                let (c, solution) = system.split_coefficient();
                let Op::Solve(s) = solution.op() else { continue };
                let leaf = Leaf { role: Role::Adjoint, ..vector_leaf("lambda", number, recipe) };
                let lambda = Expr::leaf(leaf.clone());
                let right = traverse::rename(&s.right, s.row, s.column).scale(&c);
                let moved = applied(product, probe, &Expr::leaf(named.leaf.clone()));
                pieces.push(scalar(&lambda.times(&right.minus(&moved))));
                let received = traverse::rename(&received, s.column, s.row);
                definitions.push(Definition { leaf, value: tidy(&Expr::solve(s.row, s.column, &s.matrix, &received)) });
                continue;
            }
        };
        let leaf = Leaf::new(Role::Adjoint, number as u16, &name, &named.leaf.axes, Sign::Unknown);
        pieces.push(scalar(&Expr::leaf(leaf.clone()).times(named.depends_on())));
        let value = if matches!(named.meaning, Meaning::Formula(_)) { tidy_sum(parts) } else { tidy(&raw) };
        definitions.push(Definition { leaf, value });
    }
    let gradients = differentiable_inputs(derivation)
        .into_iter()
        .map(|input| {
            let value = tidy_sum(pieces.iter().map(|piece| calculus::gradient(piece, &input)).collect());
            let leaf = Leaf { name: format!("∂{}", input.name).into(), ..input };
            Definition { leaf, value }
        })
        .collect();
    Backward { cotangent, output, definitions, of_rests, gradients }
}

/// The backward pass of the energy itself: what a cotangent of F_h, one number per query, sends to every input.
#[derive(Clone, Debug)]
pub struct EnergyBackward {
    pub cotangent: Leaf,
    pub gradients: Vec<Definition>,
}

pub fn energy_backward(derivation: &Derivation, options: &Options) -> EnergyBackward {
    let recipe = &derivation.recipe;
    let options = options_for(recipe, options).afresh();
    let cotangent = Leaf::new(Role::Probe, 2, &unused("u", recipe), &[Axis::T], Sign::Unknown);
    let piece = scalar(&Expr::leaf(cotangent.clone()).times(&in_shares(&derivation.energy.term, &derivation.names)));
    let names = meanings(&derivation.names);
    let gradients = inputs_among(derivation, &[&derivation.energy.term])
        .into_iter()
        .map(|input| {
            let mut value =
                simplify(&hide(&calculus::gradient_naming(&piece, &input, &names), &derivation.names), &options);
            value.term = hide(&value.term, &derivation.names);
            Definition { leaf: Leaf { name: format!("∂{}", input.name).into(), ..input }, value }
        })
        .collect();
    EnergyBackward { cotangent, gradients }
}

/// The inputs a backward pass answers for: those the direction or its scores mention.
fn differentiable_inputs(derivation: &Derivation) -> Vec<Leaf> {
    let scores = derivation.names.iter().map(|n| n.depends_on());
    let terms: Vec<&Expr> = std::iter::once(&derivation.direction.term).chain(scores).collect();
    inputs_among(derivation, &terms)
}

/// The inputs that some of the terms mention.
fn inputs_among(derivation: &Derivation, terms: &[&Expr]) -> Vec<Leaf> {
    let params = derivation.recipe.params.iter().map(|p| p.leaf.clone());
    [inputs::q(), inputs::k(), inputs::v()]
        .into_iter()
        .chain(params)
        .filter(|leaf| terms.iter().any(|e| traverse::mentions(e, leaf)))
        .collect()
}

/// The term as if every token were seen.
fn everywhere(e: &Expr) -> Expr {
    traverse::substitute_leaves(e, &mut |leaf| (leaf.role == Role::Visible).then(Expr::one))
}

/// Σ_e g_e x_e, with g inside of sums over tokens: Σ_i a_i (g·v_i), and not g·(Σ_i a_i v_i), since a derivative of the latter
/// has matrices. A mean such as Σ_i p_i v_i has none, and stays whole.
fn paired(g: &Expr, x: &Expr) -> Expr {
    let is_inside = |e: &Expr| matches!(sum_over_tokens(e), Some((_, body)) if !is_plain(&body));
    let (sums, others): (Vec<Expr>, Vec<Expr>) = x.terms().into_iter().partition(is_inside);
    let with_g = |e: &Expr| Expr::sum(Axis::E, &g.times(e));
    let inside = sums.iter().filter_map(|term| {
        let (axis, body) = sum_over_tokens(term)?;
        let (vectors, numbers): (Vec<Expr>, Vec<Expr>) = body.factors().into_iter().partition(|f| f.has_axis(Axis::E));
        Some(Expr::sum(axis, &Expr::mul(numbers).times(&paired(g, &Expr::mul(vectors)))))
    });
    Expr::add(inside.chain([with_g(&Expr::add(others))]))
}

/// A sum over tokens, with what stands in front of it put inside.
fn sum_over_tokens(e: &Expr) -> Option<(Axis, Expr)> {
    let factors = e.factors();
    let is_sum = |f: &Expr| matches!(f.op(), Op::Sum(axis, _) if axis.space == Space::Token && f.has_axis(Axis::E));
    let at = factors.iter().position(is_sum)?;
    let Op::Sum(axis, body) = factors[at].op() else { return None };
    let others = Expr::mul(factors.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, f)| f.clone()));
    // What stands in front may be inside of another sum over this axis.
    let fresh = body.axes().union(others.axes()).with(*axis).fresh(axis.space);
    Some((fresh, others.times(&traverse::rename(body, *axis, fresh))))
}

/// Whether a term is a product of inputs and names.
fn is_plain(e: &Expr) -> bool {
    e.factors().iter().all(|f| matches!(f.op(), Op::Leaf(_)))
}

/// Σ over every axis: one number.
fn scalar(e: &Expr) -> Expr {
    let inner = e.axes().iter().filter(|a| *a != Axis::T).fold(e.clone(), |x, axis| Expr::sum(axis, &x));
    Expr::sum(Axis::T, &inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::eval::{Sizes, evaluate};
    use crate::ir::sample::{Random, sample};

    #[test]
    fn the_cotangent_goes_inside_of_nested_sums() {
        let [q, k, v] = [inputs::q(), inputs::k(), inputs::v()].map(Expr::leaf);
        let g = Expr::leaf(Leaf::new(Role::Probe, 1, "g", &[Axis::T, Axis::E], Sign::Unknown));
        let score = Expr::sum(Axis::E, &q.times(&k));
        // Σ_i (s_i Σ_j s_j² v_j − s_i³ v_i), where both sums may run over the same axis.
        let inner = Expr::sum(Axis::N, &score.square().times(&v));
        let cube = score.square().times(&score);
        let x = Expr::sum(Axis::N, &score.times(&inner).minus(&cube.times(&v)));
        let whole = Expr::sum(Axis::E, &g.times(&x));
        let inside = paired(&g, &x);
        let sizes = Sizes { queries: 3, tokens: 4, head: 2, model: 2, heads: 1 };
        let env = sample(&[whole.clone(), inside.clone()], sizes, &[], &mut Random::new(5));
        let [whole, inside] = [whole, inside].map(|e| evaluate(&e, &env).expect("a value").data);
        assert!(
            whole.iter().zip(&inside).all(|(x, y)| (x - y).abs() < 1e-12 * (1.0 + x.abs())),
            "{whole:?} {inside:?}"
        );
    }
}
