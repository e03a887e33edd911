//! Plans: the update rule as work on blocks of rows.
//!
//! ```text
//! Derivation ──lower──▶ Graph (values by axes) ──schedule──▶ Pass (loops, matrix products, buffers)
//! ```
//! All passes of a recipe share one graph. What a later pass has in common with the forward pass, and what is no
//! larger than a row, is saved by the forward pass; everything per pair of a query and a token is computed again. That
//! one rule is the whole checkpointing policy.

mod balanced;
mod contract;
mod deviation;
mod entropy;
pub mod graph;
pub mod lower;
mod matrix;
mod merge;
mod near;
pub mod schedule;
mod separate;
mod shift;
pub mod text;
pub mod validate;

pub use lower::Unsupported;
pub use validate::Valid;

use crate::calculus;
use crate::check::recipe::{ParamValue, Recipe};
use crate::derive::{self, Definition, Derivation};
use crate::ir::{Axis, AxisSet, Expr, Leaf, Role};
use crate::primitives::scan::Course;
use crate::primitives::visible::Visible;
use crate::simplify::Options;
use graph::{Graph, Id, Op};
use lower::Lowering;
use schedule::{Domain, Output, Pass, PassKind, reachable, schedule};
use std::collections::BTreeSet;

/// What a kernel computes with between its inputs and its outputs, which are numbers of single precision.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Precision {
    #[default]
    Single,
    /// Where single precision would lose more digits than the problem does.
    Double,
}

impl Precision {
    /// The kind of numbers in words.
    pub fn words(self) -> &'static str {
        match self {
            Precision::Single => "single precision",
            Precision::Double => "double precision",
        }
    }
}

/// For which inputs single precision keeps the digits that the problem leaves.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub enum Reach {
    #[default]
    Everywhere,
    /// Where no entry of q, k and v is larger.
    UpTo(f32),
    Nowhere,
}

impl Reach {
    /// What inputs are computed with whose entries are at most this large.
    pub fn precision_at(self, largest: f32) -> Precision {
        match self {
            Reach::Everywhere => Precision::Single,
            Reach::UpTo(limit) if largest <= limit => Precision::Single,
            Reach::UpTo(_) | Reach::Nowhere => Precision::Double,
        }
    }

    /// The precisions there are.
    pub fn precisions(self) -> &'static [Precision] {
        match self {
            Reach::Everywhere => &[Precision::Single],
            Reach::UpTo(_) => &[Precision::Single, Precision::Double],
            Reach::Nowhere => &[Precision::Double],
        }
    }

    /// The larger one of them.
    pub fn widest(self) -> Precision {
        if self == Reach::Everywhere { Precision::Single } else { Precision::Double }
    }

    pub fn words(self) -> String {
        match self {
            Reach::UpTo(limit) => {
                format!("{} up to inputs of {limit}, {} beyond", Precision::Single.words(), Precision::Double.words())
            }
            other => other.widest().words().to_string(),
        }
    }
}

/// Everything a kernel computes for one recipe.
#[derive(Clone, Debug)]
pub struct Plan {
    pub name: String,
    /// Where the direction and its gradients are computed in single precision.
    pub single: Reach,
    pub graph: Graph,
    /// The passes block by block of queries, which serve every mask.
    pub tiles: Passes,
    /// The same without tiles, where every sum over tokens is linear in the query.
    pub scans: Option<Passes>,
    /// The cotangents of the direction and of the energy.
    pub cotangents: [Leaf; 2],
}

/// One pass of every kind.
#[derive(Clone, PartialEq, Debug)]
pub struct Passes {
    pub forward: Pass,
    pub energy: Pass,
    pub backward: Pass,
    pub constants: Pass,
    pub energy_backward: Pass,
    pub energy_constants: Pass,
}

impl Passes {
    /// All of them, in the order of their kinds.
    pub fn all(&self) -> [&Pass; 6] {
        let Passes { forward, energy, backward, constants, energy_backward, energy_constants } = self;
        [forward, energy, backward, constants, energy_backward, energy_constants]
    }

    /// Those a kernel has: training never asks for the gradients of constants.
    pub fn of_kernel(&self) -> [&Pass; 4] {
        [&self.forward, &self.energy, &self.backward, &self.energy_backward]
    }

    /// The same without tiles; nothing if some pass has them.
    fn by_scans(mut self, graph: &Graph) -> Option<Passes> {
        if !self.forward.is_scan || self.all().into_iter().any(|pass| has_tiles(graph, pass)) {
            return None;
        }
        let Passes { forward, energy, backward, constants, energy_backward, energy_constants } = &mut self;
        for pass in [forward, energy, backward, constants, energy_backward, energy_constants] {
            pass.is_scan = true;
        }
        Some(self)
    }
}

impl Plan {
    /// All passes there are.
    pub fn passes(&self) -> impl Iterator<Item = &Pass> {
        [&self.tiles].into_iter().chain(&self.scans).flat_map(Passes::all)
    }

    /// Where a pass is computed in single precision. The energy and what belongs to it, a difference of large numbers as often as not, and gradients
    /// of numbers that nobody learns take double precision whatever the direction takes.
    pub fn reach_of(&self, kind: PassKind) -> Reach {
        match kind {
            PassKind::Forward | PassKind::Backward => self.single,
            PassKind::Energy | PassKind::EnergyBackward => Reach::Nowhere,
            PassKind::Constants | PassKind::EnergyConstants => Reach::Nowhere,
        }
    }

    /// The arrays and numbers a pass is given; masks and dropout are not among them.
    pub fn inputs_of(&self, pass: &Pass) -> Vec<&Leaf> {
        let saved = pass.saved.iter().copied();
        let (roots, given): (BTreeSet<Id>, BTreeSet<Id>) = match pass.is_saving {
            true => (pass.outputs.iter().map(|o| o.id).chain(saved).collect(), BTreeSet::new()),
            false => (pass.outputs.iter().map(|o| o.id).collect(), saved.collect()),
        };
        let of = |id: Id| match &self.graph[id].op {
            Op::Input(leaf) if !matches!(leaf.role, Role::Visible | Role::Kept) => Some(leaf),
            _ => None,
        };
        reachable(&self.graph, &roots, &given).into_iter().filter_map(of).collect()
    }

    /// The passes for a mask: scans where there are scans, nothing is dropped and every query's tokens follow a course.
    pub fn passes_for(&self, visible: &[Visible], is_dropping: bool) -> &Passes {
        let has_course = |v: &Visible| Course::of(v.intervals(), v.tokens(), self.graph.has_decay()).is_some();
        match &self.scans {
            Some(scans) if !is_dropping && visible.iter().all(has_course) => scans,
            _ => &self.tiles,
        }
    }
}

/// The vector before a constraint brings it to its length.
pub fn unconstrained(vector: &Leaf) -> Leaf {
    Leaf { ordinal: 9, name: format!("{}₀", vector.name).into(), ..vector.clone() }
}

/// Derivation → plan.
pub fn plan(derivation: &Derivation, options: &Options) -> Result<Valid, Unsupported> {
    let derivation = &derive::with_dropout(derivation);
    let recipe = &derivation.recipe;
    let backward = derive::backward(derivation, options);
    let mut energy_backward = derive::energy_backward(derivation, options);
    let fresh = derive::options_for(recipe, options).afresh();
    for gradient in &mut energy_backward.gradients {
        gradient.value.term = entropy::with_entropies(&gradient.value, derivation, &fresh);
    }
    let mut lowering = Lowering::new(balanced::balanced(derivation, &backward));
    for constraint in &recipe.constraints {
        lowering.define(&constraint.vector, &at_length(&constraint.vector, &constraint.radius));
    }
    for named in &derivation.names {
        lowering.define(&named.leaf, &named.steady());
    }
    for definition in &backward.definitions {
        lowering.define(&definition.leaf, &definition.value.term);
    }
    let roots = [&derivation.direction.term, &derivation.energy.term];
    let gradients = backward.gradients.iter().chain(&energy_backward.gradients).map(|d| &d.value.term);
    roots.into_iter().chain(gradients).for_each(|term| lowering.note_sharp(term));

    let tiles = passes(&mut lowering, derivation, &backward.gradients, &energy_backward.gradients)?;
    lowering.start_scanning();
    let scans = passes(&mut lowering, derivation, &backward.gradients, &energy_backward.gradients).ok();
    let graph = lowering.graph;
    let scans = scans.and_then(|passes| passes.by_scans(&graph));
    let plan = Plan {
        name: recipe.name.clone(),
        single: Reach::default(),
        tiles,
        scans,
        cotangents: [backward.cotangent, energy_backward.cotangent],
        graph,
    };
    Ok(validate::validate(plan)?)
}

/// Whether some value of a pass is a number per pair of a query and a token.
fn has_tiles(graph: &Graph, pass: &Pass) -> bool {
    let roots = pass.outputs.iter().map(|o| o.id).collect();
    let given = if pass.is_saving { BTreeSet::new() } else { pass.saved.iter().copied().collect() };
    reachable(graph, &roots, &given).into_iter().any(|id| {
        let node = &graph[id];
        let is_pair = node.has(Axis::T) && node.has(Axis::N) && !matches!(node.op, Op::Input(_));
        is_pair || matches!(node.op, Op::Fold(_, Axis::N, _) | Op::Apply { .. } | Op::Gather { .. } | Op::Steps { .. })
    })
}

/// The passes, by scans or over tiles as the lowering has it.
fn passes(
    lowering: &mut Lowering,
    derivation: &Derivation,
    of_direction: &[Definition],
    of_energy: &[Definition],
) -> Result<Passes, Unsupported> {
    let recipe = &derivation.recipe;
    let out = lowering.lower(&derivation.direction.term)?;
    let energy = lowering.lower(&derivation.energy.term)?;
    let out = lowering.output("out", out, Domain::RowVector)?;
    let energy = lowering.output("energy", energy, Domain::Row)?;
    let all = gradient_outputs(lowering, recipe, of_direction)?;
    let is_fixed =
        |o: &Output| recipe.params.iter().any(|p| p.name == o.name && matches!(p.value, ParamValue::Fixed(_)));
    let (mut fixed, mut learned): (Vec<Output>, Vec<Output>) = all.into_iter().partition(is_fixed);
    let mut of_energy = gradient_outputs(lowering, recipe, of_energy)?;
    let given = row_values(&lowering.graph, out.id);
    checked(|| validate::graph(&lowering.graph))?;
    // The energy's passes read nothing of the forward pass: they have a precision of their own.
    let alone = BTreeSet::new();
    for (outputs, given) in [(&mut learned, &given), (&mut fixed, &alone), (&mut of_energy, &alone)] {
        let roots: Vec<Id> = outputs.iter().map(|o| o.id).collect();
        let merged = merge::merge(&mut lowering.graph, &roots, given)?;
        for (output, id) in outputs.iter_mut().zip(merged) {
            *output = lowering.output(&output.name, id, output.domain)?;
        }
    }
    checked(|| validate::graph(&lowering.graph))?;
    let graph = &lowering.graph;
    // What the backward pass reads of what the forward pass has computed.
    let needed = reachable(graph, &learned.iter().map(|o| o.id).collect(), &given);
    let saved: Vec<Id> = given.into_iter().filter(|id| needed.contains(id)).collect();
    let (fixed_of_energy, learned_of_energy) = of_energy.into_iter().partition(is_fixed);
    let passes = Passes {
        forward: schedule(graph, PassKind::Forward, vec![out], &saved, true)?,
        energy: schedule(graph, PassKind::Energy, vec![energy], &[], true)?,
        backward: schedule(graph, PassKind::Backward, learned, &saved, false)?,
        constants: schedule(graph, PassKind::Constants, fixed, &[], false)?,
        energy_backward: schedule(graph, PassKind::EnergyBackward, learned_of_energy, &[], false)?,
        energy_constants: schedule(graph, PassKind::EnergyConstants, fixed_of_energy, &[], false)?,
    };
    checked(|| passes.all().into_iter().try_for_each(|pass| validate::pass(graph, pass)))?;
    Ok(passes)
}

/// What the validator says between the stages of the planner, in tests and debug builds.
fn checked(validate: impl FnOnce() -> Result<(), validate::Fault>) -> Result<(), Unsupported> {
    if cfg!(debug_assertions) { Ok(validate()?) } else { Ok(()) }
}

/// ρ x/|x|, 0 at 0.
fn at_length(vector: &Leaf, radius: &Expr) -> Expr {
    let x = Expr::leaf(unconstrained(vector));
    Expr::mul([radius.clone(), x.clone(), Expr::sum(Axis::E, &x.square()).sqrt().pow(&crate::ir::rational::int(-1))])
}

/// What the forward pass computes per query and can save: sums and solutions, and the direction itself.
fn row_values(graph: &Graph, out: Id) -> BTreeSet<Id> {
    let is_row = |axes: AxisSet| axes.contains(Axis::T) && !axes.contains(Axis::N);
    let is_computed = |id: &Id| !matches!(graph[*id].op, Op::Map(..) | Op::Input(_) | Op::Number(_));
    let forward = reachable(graph, &BTreeSet::from([out]), &BTreeSet::new());
    forward.into_iter().filter(|id| is_row(graph.axes(*id)) && is_computed(id)).chain([out]).collect()
}

/// The gradients of a backward pass as outputs, by the names of the inputs.
fn gradient_outputs(
    lowering: &mut Lowering,
    recipe: &Recipe,
    gradients: &[Definition],
) -> Result<Vec<Output>, Unsupported> {
    let mut outputs: Vec<(String, Id, Domain)> = Vec::new();
    let mut lengths = Vec::new();
    for definition in gradients {
        let leaf = &definition.leaf;
        let name = leaf.name.trim_start_matches('∂').to_string();
        let term = &definition.value.term;
        let domain = Domain::of(AxisSet::of(&leaf.axes));
        let constraint = recipe.constraints.iter().find(|c| c.vector.role == leaf.role && *c.vector.name == *name);
        match (leaf.role, constraint) {
            (Role::Decay, _) => {
                let gamma = Leaf { name: name.as_str().into(), ..leaf.clone() };
                outputs.push((name, lowering.steps(&gamma, term)?, Domain::Key));
            }
            (_, Some(constraint)) => {
                let id = lowering.lower(term)?;
                let (gradient, length) = lowering.through_length(&constraint.vector, &constraint.radius, id)?;
                outputs.push((name, gradient, domain));
                lengths.push((constraint.radius.clone(), length));
            }
            _ => outputs.push((name, lowering.lower(term)?, domain)),
        }
    }
    // The lengths that constraints give are parameters too.
    for param in &recipe.params {
        for (radius, length) in &lengths {
            let slope = calculus::gradient(radius, &param.leaf);
            if slope.is_zero() {
                continue;
            }
            let slope = lowering.lower(&slope)?;
            let part = lowering.graph.mul(&[slope, *length]);
            match outputs.iter_mut().find(|(name, ..)| *name == param.name) {
                Some((_, id, _)) => *id = lowering.graph.add(&[*id, part]),
                None => outputs.push((param.name.clone(), part, Domain::of(AxisSet::of(&param.leaf.axes)))),
            }
        }
    }
    outputs.into_iter().map(|(name, id, domain)| lowering.output(&name, id, domain)).collect()
}
