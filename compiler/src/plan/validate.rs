//! The validator: whether a plan means what it says.
//!
//! Emitters and the interpreter take its word ([`Valid`]) and check nothing themselves. It asks three questions, none of
//! which needs to know how the plan came about:
//!
//! - Does every operand extend along the axes its operation reads it along, and every output along those of its domain?
//! - Is everything that a step reads there when the step runs: given, computed by an earlier step, or inside of its own
//!   loop? Sums over queries are there only after all of them.
//! - Does a buffer still hold what is read from it, where several values share it?

use super::graph::{Built, Entry, Graph, Id, KEY_VECTOR, Misfit, Op, ROW_VECTOR, TILE, TRIPLE};
use super::lower::Unsupported;
use super::schedule::{Domain, Loop, Pass, PassKind, Place, Step, loop_domain, sums_queries, writes};
use super::{Plan, Reach};
use crate::ir::{Axis, AxisSet};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::ops::Deref;

/// What is wrong with a plan.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A value is read along other axes than it has.
    Axes(Misfit),
    /// A value of a node is said to extend along other axes than its operation gives it.
    Said { id: Id, said: AxisSet, is: AxisSet },
    /// A sum runs along an axis that its body does not have.
    Uncounted { id: Id, axis: Axis },
    /// An operand comes after what uses it.
    Order { id: Id, operand: Id },
    /// A step reads what is not there.
    Missing { pass: PassKind, step: String, id: Id },
    /// A step reads what another value has overwritten.
    Overwritten { pass: PassKind, id: Id, by: Id },
    /// A value is computed in a loop over another domain than its own.
    Domain { pass: PassKind, id: Id, domain: Domain },
    /// A value is to be stored and has no place, or an output is never written.
    Homeless { pass: PassKind, id: Id },
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Fault::Axes(misfit) => write!(f, "{misfit}"),
            Fault::Said { id, said, is } => write!(f, "{id} is said to extend along {said}, and extends along {is}"),
            Fault::Uncounted { id, axis } => write!(f, "{id} is a sum along {axis}, which its body does not have"),
            Fault::Order { id, operand } => write!(f, "{id} is made of {operand}, which comes later"),
            Fault::Missing { pass, step, id } => write!(f, "{pass}: {step} reads {id} before it is there"),
            Fault::Overwritten { pass, id, by } => write!(f, "{pass}: {id} is read where {by} has taken its buffer"),
            Fault::Domain { pass, id, domain } => {
                write!(f, "{pass}: {id} stands in a loop over {}", domain.describe())
            }
            Fault::Homeless { pass, id } => write!(f, "{pass}: {id} is stored nowhere"),
        }
    }
}

impl From<Misfit> for Fault {
    fn from(misfit: Misfit) -> Fault {
        Fault::Axes(misfit)
    }
}

impl From<Fault> for Unsupported {
    fn from(fault: Fault) -> Unsupported {
        Unsupported::Fault(format!("its plan does not hold together: {fault}"))
    }
}

/// A plan the validator has looked at. There is no other way to have one.
#[derive(Clone, Debug)]
pub struct Valid(Plan);

impl Deref for Valid {
    type Target = Plan;
    fn deref(&self) -> &Plan {
        &self.0
    }
}

impl Valid {
    /// The same plan, computed in single precision that far.
    pub fn in_single(self, single: Reach) -> Valid {
        Valid(Plan { single, ..self.0 })
    }
}

/// A whole plan.
pub fn validate(plan: Plan) -> Result<Valid, Fault> {
    graph(&plan.graph)?;
    plan.passes().try_for_each(|each| pass(&plan.graph, each))?;
    Ok(Valid(plan))
}

/// Every value of a graph.
pub fn graph(graph: &Graph) -> Result<(), Fault> {
    for (i, node) in graph.nodes.iter().enumerate() {
        let id = Id(i as u32);
        if let Some(operand) = node.op.operands().into_iter().find(|operand| operand.index() >= i) {
            return Err(Fault::Order { id, operand });
        }
        let is = graph.axes_of(&node.op);
        if is != node.axes {
            return Err(Fault::Said { id, said: node.axes, is });
        }
        if !is.is_subset(AxisSet::of(&TRIPLE)) {
            return Err(Misfit { id, own: is, wanted: AxisSet::of(&TRIPLE) }.into());
        }
        operands(graph, id)?;
    }
    Ok(())
}

/// The operands of one value.
fn operands(graph: &Graph, id: Id) -> Result<(), Fault> {
    let just = |id: Id, axes: &[Axis]| -> Built {
        let (own, wanted) = (graph.axes(id), AxisSet::of(axes));
        if own == wanted { Ok(id) } else { Err(Misfit { id, own, wanted }) }
    };
    let within = |id: Id, axes: &[Axis]| -> Built {
        let (own, wanted) = (graph.axes(id), AxisSet::of(axes));
        if own.is_subset(wanted) { Ok(id) } else { Err(Misfit { id, own, wanted }) }
    };
    match &graph[id].op {
        Op::Input(_) | Op::Number(_) | Op::Map(..) => {}
        Op::Fold(_, axis, x) if graph[*x].has(*axis) => {}
        Op::Fold(_, axis, _) => return Err(Fault::Uncounted { id, axis: *axis }),
        Op::Dot { row, key } | Op::Distance { row, key } => {
            just(*row, &ROW_VECTOR)?;
            just(*key, &KEY_VECTOR)?;
        }
        Op::Apply { tile, key } => {
            just(*tile, &TILE)?;
            just(*key, &KEY_VECTOR)?;
        }
        Op::Gather { tile, row } => {
            just(*tile, &TILE)?;
            just(*row, &ROW_VECTOR)?;
        }
        Op::Steps { tile, decay } => {
            just(*tile, &TILE)?;
            just(*decay, &TILE)?;
        }
        Op::ScanSteps { linear, row } => {
            if let Some((x, y)) = linear.pair {
                just(x, &ROW_VECTOR)?;
                just(y, &KEY_VECTOR)?;
            }
            just(linear.value, &KEY_VECTOR)?;
            just(*row, &ROW_VECTOR)?;
        }
        Op::Threshold(_, scores) => drop(just(*scores, &TILE)?),
        Op::Total(x) => drop(just(*x, &[Axis::N])?),
        Op::Scan(l) | Op::ScanBack(l) => {
            if let Some((x, y)) = l.pair {
                just(x, &ROW_VECTOR)?;
                just(y, &KEY_VECTOR)?;
            }
            let is_forward = matches!(graph[id].op, Op::Scan(_));
            just(l.value, if is_forward { &KEY_VECTOR } else { &ROW_VECTOR })?;
        }
        Op::Solve { matrix, right } => {
            within(*right, &ROW_VECTOR)?;
            for entry in matrix {
                match entry {
                    Entry::Diagonal(x) => drop(within(*x, &ROW_VECTOR)?),
                    Entry::Outer(x, y) => {
                        within(*x, &ROW_VECTOR)?;
                        within(*y, &ROW_VECTOR)?;
                    }
                    Entry::Moment(w, x, y) => {
                        just(*w, &TILE)?;
                        within(*x, &TRIPLE)?;
                        within(*y, &TRIPLE)?;
                    }
                }
            }
        }
    }
    Ok(())
}

/// Every step of a pass, in the order they run.
pub fn pass(graph: &Graph, pass: &Pass) -> Result<(), Fault> {
    for output in &pass.outputs {
        let (own, wanted) = (graph.axes(output.id), AxisSet::of(output.domain.axes()));
        if own != wanted {
            return Err(Misfit { id: output.id, own, wanted }.into());
        }
    }
    let mut machine = Machine { graph, pass, ready: BTreeSet::new(), holders: BTreeMap::new() };
    if !pass.is_saving {
        machine.ready.extend(&pass.saved);
    }
    machine.run(&pass.before)?;
    let done = machine.run_rows()?;
    machine.ready.extend(done);
    machine.run(&pass.after)?;
    let is_computed = |id: &Id| !matches!(graph[*id].op, Op::Input(_) | Op::Number(_));
    let roots = pass.outputs.iter().map(|o| o.id).chain(pass.saved.iter().copied());
    match roots.filter(is_computed).find(|id| !machine.ready.contains(id)) {
        Some(id) => Err(Fault::Homeless { pass: pass.kind, id }),
        None => Ok(()),
    }
}

/// What is there while a pass runs.
struct Machine<'a> {
    graph: &'a Graph,
    pass: &'a Pass,
    ready: BTreeSet<Id>,
    /// Whose value a tile's buffer holds.
    holders: BTreeMap<Place, Id>,
}

impl Machine<'_> {
    fn run(&mut self, steps: &[Step]) -> Result<(), Fault> {
        for step in steps {
            self.step(step)?;
            self.write(step)?;
        }
        Ok(())
    }

    /// The steps of a block of queries; sums over queries are complete behind all of them.
    fn run_rows(&mut self) -> Result<Vec<Id>, Fault> {
        let mut sums = Vec::new();
        for step in &self.pass.rows {
            self.step(step)?;
            let written = writes(step);
            self.write(step)?;
            for id in written.into_iter().filter(|id| sums_queries(&self.graph[*id].op)) {
                self.ready.remove(&id);
                sums.push(id);
            }
        }
        Ok(sums)
    }

    fn step(&self, step: &Step) -> Result<(), Fault> {
        match step {
            Step::Node(id) => {
                let (step, mut there) = (format!("{id}"), HashSet::new());
                self.graph[*id].op.operands().into_iter().try_for_each(|o| self.read(o, &step, &mut there))
            }
            Step::Loop(l) => self.fused(l),
        }
    }

    fn fused(&self, l: &Loop) -> Result<(), Fault> {
        let wanted = AxisSet::of(l.domain.axes());
        let is_foreign = |id: &&Id| loop_domain(self.graph, **id) != Some(l.domain);
        if let Some(id) = l.folds.iter().chain(&l.stores).find(is_foreign) {
            return Err(Fault::Domain { pass: self.pass.kind, id: *id, domain: l.domain });
        }
        let name = format!("a loop over {}", l.domain.describe());
        let mut there = HashSet::new();
        for map in &l.maps {
            if !self.graph.axes(*map).is_subset(wanted) {
                return Err(Fault::Domain { pass: self.pass.kind, id: *map, domain: l.domain });
            }
            self.graph[*map].op.operands().into_iter().try_for_each(|o| self.read(o, &name, &mut there))?;
            there.insert(*map);
        }
        let folded = l.folds.iter().flat_map(|fold| self.graph[*fold].op.operands());
        folded.chain(l.stores.iter().copied()).try_for_each(|o| self.read(o, &name, &mut there))
    }

    /// Whether a value is there: given, in its place, made by the step before, or made of what is there by those who read
    /// it; then it is there from now on.
    fn read(&self, id: Id, step: &str, there: &mut HashSet<Id>) -> Result<(), Fault> {
        let is_given = matches!(self.graph[id].op, Op::Input(_) | Op::Number(_));
        if is_given || there.contains(&id) {
            return Ok(());
        }
        if self.ready.contains(&id) {
            let holder = self.pass.places.get(&id).and_then(|place| self.holders.get(place));
            return match holder.filter(|by| **by != id) {
                Some(by) => Err(Fault::Overwritten { pass: self.pass.kind, id, by: *by }),
                None => Ok(()),
            };
        }
        // Numbers per query, negatives and values per pair and component are made where they are read.
        let is_again = matches!(self.graph[id].op, Op::Map(..)) && !self.pass.places.contains_key(&id);
        match is_again {
            true => self.graph[id].op.operands().into_iter().try_for_each(|o| self.read(o, step, there))?,
            false => return Err(Fault::Missing { pass: self.pass.kind, step: step.to_string(), id }),
        }
        there.insert(id);
        Ok(())
    }

    fn write(&mut self, step: &Step) -> Result<(), Fault> {
        for id in writes(step) {
            let Some(place) = self.pass.places.get(&id) else {
                return Err(Fault::Homeless { pass: self.pass.kind, id });
            };
            if matches!(place, Place::Buffer(Domain::Tile, _)) {
                self.holders.insert(*place, id);
            }
            self.ready.insert(id);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::inputs;
    use crate::plan::graph::{Fold, Map};
    use crate::plan::schedule::{Output, schedule};

    fn vectors(graph: &mut Graph) -> (Id, Id) {
        (graph.input(&inputs::q()), graph.input(&inputs::k()))
    }

    #[test]
    fn a_graph_of_its_constructors_is_valid() {
        let mut graph = Graph::default();
        let (q, k) = vectors(&mut graph);
        let dot = graph.dot(q, k).expect("it fits");
        let sum = graph.fold(Fold::Sum, Axis::N, dot);
        graph.along(sum, &ROW_VECTOR).expect("it is spread");
        assert_eq!(super::graph(&graph), Ok(()));
    }

    #[test]
    fn a_vector_of_the_query_is_no_vector_of_tokens() {
        let mut graph = Graph::default();
        let (q, _) = vectors(&mut graph);
        assert!(graph.dot(q, q).is_err());
        let bad = graph.unchecked(Op::Dot { row: q, key: q });
        let wanted = AxisSet::of(&KEY_VECTOR);
        let own = AxisSet::of(&ROW_VECTOR);
        assert_eq!(super::graph(&graph), Err(Fault::Axes(Misfit { id: q, own, wanted })), "{bad}");
    }

    #[test]
    fn a_sum_counts_what_it_sums_over() {
        let mut graph = Graph::default();
        let one = graph.number(&crate::ir::rational::int(1));
        let id = graph.unchecked(Op::Fold(Fold::Sum, Axis::E, one));
        assert_eq!(super::graph(&graph), Err(Fault::Uncounted { id, axis: Axis::E }));
    }

    #[test]
    fn an_output_extends_along_its_domain() {
        let mut graph = Graph::default();
        let (q, _) = vectors(&mut graph);
        let norm = graph.fold(Fold::Sum, Axis::E, q);
        let output = Output { name: "out".into(), id: norm, domain: Domain::RowVector };
        let planned = schedule(&graph, PassKind::Forward, vec![output], &[], true).expect("a schedule");
        let (own, wanted) = (AxisSet::of(&[Axis::T]), AxisSet::of(&ROW_VECTOR));
        assert_eq!(super::pass(&graph, &planned), Err(Fault::Axes(Misfit { id: norm, own, wanted })));
    }

    #[test]
    fn steps_that_change_places_are_found() {
        let mut graph = Graph::default();
        let (q, k) = vectors(&mut graph);
        let dot = graph.dot(q, k).expect("it fits");
        let tile = graph.map(Map::Call(crate::ir::Func::Exp), &[dot]);
        let out = graph.apply(tile, k).expect("it fits");
        let output = Output { name: "out".into(), id: out, domain: Domain::RowVector };
        let mut planned = schedule(&graph, PassKind::Forward, vec![output], &[], true).expect("a schedule");
        assert_eq!(super::pass(&graph, &planned), Ok(()));
        planned.rows.reverse();
        assert!(matches!(super::pass(&graph, &planned), Err(Fault::Missing { .. })));
    }
}
