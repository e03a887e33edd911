//! Proofs out of an e-graph: the steps from a run's start to a member of its class.
//!
//! The e-graph's own explanation writes out the whole term after every step, and most steps only reorder a sum or a
//! product, which the normal form does by itself. So every distinct subterm is decoded once, whatever step it stands in.

use super::language::{AtomName, AxisName, KindName, Term, decode_node};
use super::pattern::{Binding, Bindings, Pattern};
use super::proof::{Step, hole, hole_axes};
use super::rules::{Rule, RuleSet};
use super::saturate::{CHAIN, REST, Saturated, in_chain};
use crate::ir::{Budget, Expr};
use egg::{FlatTerm, Id, Language, RecExpr, Symbol, TreeTerm};
use std::collections::HashMap;
use std::rc::Rc;

/// An explanation that would take more nodes than this to write out is not worth having.
const MAX_EXPLANATION: usize = 1_000_000;

/// A chain of trees that rewrites a term from the first to the last.
type Trees = [Rc<TreeTerm<Term>>];

impl Saturated {
    /// The steps from the start to a member of its class; steps the normal form makes by itself are left out. Nothing
    /// when there are too many.
    pub fn explain(
        &mut self,
        end: &RecExpr<Term>,
        rules: &RuleSet,
        budget: &Budget,
    ) -> Result<Option<Vec<Step>>, String> {
        let mut explanation = self.graph.explain_equivalence(&self.start, end);
        let length = length(&explanation.explanation_trees, &mut HashMap::new());
        let nodes = length.saturating_mul(self.start.len());
        budget.spend(nodes.min(MAX_EXPLANATION));
        if nodes > MAX_EXPLANATION {
            budget.refuse();
            return Ok(None);
        }
        let mut table = Table::new(self.graph.analysis.atoms.clone());
        let mut steps = Vec::new();
        let mut before: Option<Id> = None;
        for flat in explanation.make_flat_explanation() {
            let after = table.intern(flat)?;
            if let Some(before) =
                before.filter(|&before| table.values[usize::from(before)] != table.values[usize::from(after)])
            {
                steps.push(step(&mut table, before, after, flat, rules)?);
            }
            before = Some(after);
        }
        Ok(Some(steps))
    }
}

/// How many terms an explanation has when it is written out.
fn length(trees: &Trees, known: &mut HashMap<*const TreeTerm<Term>, usize>) -> usize {
    trees.iter().fold(0usize, |sum, tree| {
        let at = Rc::as_ptr(tree);
        let own = known.get(&at).copied().unwrap_or_else(|| {
            let own = tree
                .child_proofs
                .iter()
                .fold(1usize, |sum, proof| sum.saturating_add(length(proof, known).saturating_sub(1)));
            known.insert(at, own);
            own
        });
        sum.saturating_add(own)
    })
}

/// The step between two terms that differ, of which the second says where it was rewritten.
fn step(table: &mut Table, before: Id, after: Id, flat: &FlatTerm<Term>, rules: &RuleSet) -> Result<Step, String> {
    let (path, reason, forward) = rewritten_at(flat).ok_or("a step without a rewrite")?;
    let (name, in_a_chain) = strip(reason.as_str(), CHAIN);
    let rule: &Rule = rules.get(name).ok_or_else(|| format!("no rule `{name}`"))?;
    let sides = (rule.left.clone(), rule.right.clone());
    let (left, right) = if in_a_chain { in_chain(&sides.0, &sides.1).ok_or("no chain")? } else { sides };
    let (left, right) = if forward { (left, right) } else { (right, left) };
    let (source, target) = (table.at(before, &path), table.at(after, &path));
    let mut bound = Vec::new();
    if !(table.matches(&left, source, &mut bound) && table.matches(&right, target, &mut bound)) {
        return Err(format!("`{reason}` does not match its own step"));
    }
    let mut bindings: Bindings =
        bound.into_iter().map(|(v, id)| Ok((v, table.binding(id)?))).collect::<Result<_, String>>()?;
    let rest = bindings.remove(REST);
    let (s, t) = (rule.left.instantiate(&bindings)?, rule.right.instantiate(&bindings)?);
    let mut filling = hole(&hole_axes(&s, &t));
    if let Some(rest) = &rest {
        filling = beside(&filling, rest, table.node(source))?;
    }
    let whole = path.is_empty() && rest.is_none();
    let context = (!whole).then(|| table.context(before, &path, &filling)).transpose()?;
    let (from, to) = (table.value(before)?, table.value(after)?);
    Ok(Step { rule: name.to_string(), forward, bindings, context, from, to })
}

/// Distinct terms of the e-graph's language, each with what it stands for.
struct Table {
    atoms: Vec<Expr>,
    places: HashMap<Term, Id>,
    nodes: Vec<Term>,
    values: Vec<Option<Expr>>,
}

impl Table {
    fn new(atoms: Vec<Expr>) -> Table {
        Table { atoms, places: HashMap::new(), nodes: Vec::new(), values: Vec::new() }
    }

    fn node(&self, id: Id) -> &Term {
        &self.nodes[usize::from(id)]
    }

    fn value(&self, id: Id) -> Result<Expr, String> {
        self.values[usize::from(id)].clone().ok_or_else(|| "not a term".to_string())
    }

    fn intern(&mut self, flat: &FlatTerm<Term>) -> Result<Id, String> {
        let ids = flat.children.iter().map(|child| self.intern(child)).collect::<Result<Vec<Id>, String>>()?;
        self.place(with_children(&flat.node, &ids))
    }

    /// The place of a node over places.
    fn place(&mut self, node: Term) -> Result<Id, String> {
        if let Some(&id) = self.places.get(&node) {
            return Ok(id);
        }
        let value = decode_node(&node, &self.atoms, |id| self.value(id), |id| self.node(id))?;
        let id = Id::from(self.nodes.len());
        self.places.insert(node.clone(), id);
        self.nodes.push(node);
        self.values.push(value);
        Ok(id)
    }

    fn at(&self, root: Id, path: &[usize]) -> Id {
        path.iter().fold(root, |id, &j| self.node(id).children()[j])
    }

    fn binding(&self, id: Id) -> Result<Binding, String> {
        Ok(match self.node(id) {
            Term::Axis(AxisName(axis)) => Binding::Axis(*axis),
            Term::Kind(KindName(kind)) => Binding::Kind(kind.clone()),
            Term::Number(r) => Binding::Number(r.clone()),
            _ => Binding::Term(self.value(id)?),
        })
    }

    /// The term with its subterm at `path` replaced by `filling`.
    fn context(&mut self, root: Id, path: &[usize], filling: &Expr) -> Result<Expr, String> {
        self.atoms.push(filling.clone());
        let hole = self.place(Term::Atom(AtomName(self.atoms.len() - 1)))?;
        let cut = self.replaced(root, path, hole)?;
        self.value(cut)
    }

    fn replaced(&mut self, root: Id, path: &[usize], by: Id) -> Result<Id, String> {
        let Some((&first, rest)) = path.split_first() else { return Ok(by) };
        let node = self.node(root).clone();
        let mut children = node.children().to_vec();
        children[first] = self.replaced(children[first], rest, by)?;
        self.place(with_children(&node, &children))
    }

    /// Plain one-sided matching of a pattern with a term.
    fn matches(&self, p: &Pattern, id: Id, bound: &mut Vec<(String, Id)>) -> bool {
        let node = self.node(id);
        match p {
            Pattern::Variable(v) => match bound.iter().find(|(name, _)| name == v) {
                Some((_, other)) => *other == id,
                None => {
                    bound.push((v.clone(), id));
                    true
                }
            },
            Pattern::Number(r) => *node == Term::Number(r.clone()),
            Pattern::Kind(k) => *node == Term::Kind(KindName(k.clone())),
            // A ground side has nothing to bind; the checker compares it with the step.
            Pattern::Ground(_) => true,
            Pattern::Node(head, args) => {
                let children = node.children();
                node.to_string() == *head
                    && args.len() == children.len()
                    && args.iter().zip(children).all(|(p, &child)| self.matches(p, child, bound))
            }
        }
    }
}

/// The node over other children.
fn with_children(node: &Term, ids: &[Id]) -> Term {
    let mut next = ids.iter();
    node.clone().map_children(|child| next.next().copied().unwrap_or(child))
}

fn strip<'a>(name: &'a str, suffix: &str) -> (&'a str, bool) {
    name.strip_suffix(suffix).map_or((name, false), |name| (name, true))
}

/// The hole with the rest of its chain.
fn beside(hole: &Expr, rest: &Binding, chain: &Term) -> Result<Expr, String> {
    let rest = match rest {
        Binding::Term(e) => e.clone(),
        Binding::Number(r) => Expr::constant(r.clone()),
        _ => return Err("the rest of a chain is a term".into()),
    };
    Ok(match chain {
        Term::Add(_) => hole.plus(&rest),
        _ => hole.times(&rest),
    })
}

/// Where a flat term was rewritten, by what, and whether left to right.
fn rewritten_at(t: &FlatTerm<Term>) -> Option<(Vec<usize>, Symbol, bool)> {
    if let Some(rule) = t.forward_rule {
        return Some((vec![], rule, true));
    }
    if let Some(rule) = t.backward_rule {
        return Some((vec![], rule, false));
    }
    t.children.iter().enumerate().find_map(|(j, child)| {
        let (mut path, rule, forward) = rewritten_at(child)?;
        path.insert(0, j);
        Some((path, rule, forward))
    })
}
