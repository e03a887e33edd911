//! Choosing one term from an e-graph.
//!
//! Both ways refuse a node that mentions an axis its class does not own (see [`super::language`]): such a node may have
//! been hoisted out of the binder of that axis.

use super::language::{Facts, Graph, Term, node_facts};
use crate::ir::Budget;
use egg::{Id, Language, RecExpr};
use std::collections::{BTreeMap, HashMap};

/// The cost a node adds by itself; infinite for forms that must not be chosen.
pub trait NodeCost {
    fn cost(&self, node: &Term, facts: &Facts, graph: &Graph) -> f64;
    /// Whether a value used twice is paid for once.
    fn shares(&self) -> bool;
}

/// What a class would cost, by the classes it needs (with their own costs), and the node to take.
#[derive(Clone)]
struct Choice {
    total: f64,
    needs: BTreeMap<Id, f64>,
    node: Term,
}

/// The cheapest member of the root's class.
pub fn extract(graph: &Graph, root: Id, cost: &impl NodeCost, budget: &Budget) -> Option<RecExpr<Term>> {
    let classes: Vec<Id> = {
        let mut ids: Vec<Id> = graph.classes().map(|c| c.id).collect();
        ids.sort();
        ids
    };
    let mut best: HashMap<Id, Choice> = HashMap::new();
    let mut changed = true;
    while changed {
        changed = false;
        for &id in &classes {
            for node in &graph[id].nodes {
                let Some(choice) = consider(graph, id, node, cost, &best) else { continue };
                budget.spend(1 + choice.needs.len());
                let better = best.get(&id).is_none_or(|old| choice.total < old.total - 1e-9 * old.total.abs());
                if better {
                    best.insert(id, choice);
                    changed = true;
                }
            }
        }
    }
    let root = graph.find(root);
    best.contains_key(&root).then(|| {
        let mut out = RecExpr::default();
        build(graph, root, &best, &mut HashMap::new(), &mut out);
        out
    })
}

fn consider(graph: &Graph, id: Id, node: &Term, cost: &impl NodeCost, best: &HashMap<Id, Choice>) -> Option<Choice> {
    let facts = node_facts(node, &graph.analysis.atoms, |c| &graph[c].data);
    if !facts.axes.is_subset(graph[id].data.axes) {
        return None;
    }
    let own = cost.cost(node, &graph[id].data, graph);
    if !own.is_finite() {
        return None;
    }
    let mut total = own;
    let mut needs = BTreeMap::new();
    for &child in node.children() {
        let chosen = best.get(&graph.find(child))?;
        total += chosen.total;
        if cost.shares() {
            needs.extend(chosen.needs.iter().map(|(&k, &v)| (k, v)));
        }
    }
    if cost.shares() {
        if needs.contains_key(&id) {
            return None;
        }
        needs.insert(id, own);
        total = needs.values().sum();
    }
    Some(Choice { total, needs, node: node.clone() })
}

fn build(graph: &Graph, id: Id, best: &HashMap<Id, Choice>, done: &mut HashMap<Id, Id>, out: &mut RecExpr<Term>) -> Id {
    let id = graph.find(id);
    if let Some(&built) = done.get(&id) {
        return built;
    }
    let node = best[&id].node.clone().map_children(|c| build(graph, c, best, done, out));
    let built = out.add(node);
    done.insert(id, built);
    built
}
