//! One e-graph run: from a term to everything the rules reach.
//!
//! A run starts from one written form only. Were a term and its multiplied-out form put into one class, whatever
//! cancels between them would make the class contain itself (x = T·(T⁻¹·x)) and the graph would never settle.
//!
//! Limits count nodes and iterations, never time, so the same input gives the same result everywhere.

use super::language::{Encoder, Facts, Graph, KindName, Knowledge, Term, decode};
use super::pattern::Pattern;
use super::rules::{Condition, Rule, RuleSet, Use, independent};
use crate::ir::rational::is_even_integer;
use crate::ir::{Budget, Expr};
use egg::{ENodeOrVar, Id, Language, PatternAst, RecExpr, Rewrite, Runner, SimpleScheduler, StopReason, Subst, Var};
use std::time::Duration;

/// How far a run may go.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    pub nodes: usize,
    pub iterations: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { nodes: 1500, iterations: 7 }
    }
}

/// What it costs to try all rules on an empty graph.
const RULES: usize = 20;

/// The reason recorded for the union of a forward value's formula and its name.
const DEFINITION: &str = "definition";

/// A finished run.
pub struct Saturated {
    pub graph: Graph,
    pub root: Id,
    pub start: RecExpr<Term>,
    pub hit_limit: bool,
}

/// Saturates from `start`, with the values already at hand.
pub fn saturate(start: &Expr, given: &[Expr], rules: &RuleSet, limits: Limits, budget: &Budget) -> Saturated {
    let mut encoder = Encoder::default();
    let first = encoder.encode(start);
    let named: Vec<_> = given.iter().map(|e| (encoder.encode(e), encoder.name(e))).collect();
    let twins: Vec<_> = encoder.twins().iter().map(|e| (encoder.encode(e), encoder.name(e))).collect();
    let assumptions: Vec<_> =
        rules.rules.iter().filter(|r| r.is_assumption()).flat_map(|r| rewrites(r, &mut encoder)).collect();

    let mut graph = Graph::new(Knowledge { atoms: encoder.atoms })
        .with_explanations_enabled()
        .without_explanation_length_optimization();
    let root = graph.add_expr_uncanonical(&first);
    for (formula, name) in named.into_iter().chain(twins) {
        let (formula, name) = (graph.add_expr_uncanonical(&formula), graph.add_expr_uncanonical(&name));
        graph.union_trusted(formula, name, DEFINITION);
    }
    graph.rebuild();
    let runner: Runner<Term, Knowledge> = Runner::new(Knowledge::default())
        .with_egraph(graph)
        .with_scheduler(SimpleScheduler)
        .with_node_limit(limits.nodes)
        .with_iter_limit(limits.iterations)
        .with_time_limit(Duration::from_secs(86_400))
        .run(rules.compiled().iter().chain(&assumptions));
    // Every rule looks at a graph, however small.
    let visited = runner.iterations.iter().map(|iteration| RULES + iteration.egraph_nodes);
    budget.spend(visited.sum());
    let hit_limit = matches!(runner.stop_reason, Some(StopReason::NodeLimit(_)));
    let root = runner.egraph.find(root);
    Saturated { graph: runner.egraph, root, start: first, hit_limit }
}

/// The general rules, ready for the e-graph.
pub fn compile(rules: &[Rule]) -> Vec<Rewrite<Term, Knowledge>> {
    rules
        .iter()
        .filter(|r| r.usage.searches() && !r.is_assumption())
        .flat_map(|r| rewrites(r, &mut Encoder::default()))
        .collect()
}

/// A rule as the e-graph uses it: by itself and inside longer chains.
fn rewrites(rule: &Rule, encoder: &mut Encoder) -> Vec<Rewrite<Term, Knowledge>> {
    let mut make = |name: &str, left: &Pattern, right: &Pattern| {
        rewrite(name, &ast(left, encoder), &ast(right, encoder), &rule.conditions)
    };
    let mut out = vec![make(&rule.name, &rule.left, &rule.right)];
    if let Some((left, right)) = in_chain(&rule.left, &rule.right).filter(|_| rule.usage != Use::Silent) {
        out.push(make(&format!("{}{CHAIN}", rule.name), &left, &right));
    }
    out
}

pub(super) const CHAIN: &str = "-chain";
pub(super) const REST: &str = "?rest";

/// a ∘ b = c inside a longer chain: a ∘ (b ∘ rest) = c ∘ rest.
pub(super) fn in_chain(left: &Pattern, right: &Pattern) -> Option<(Pattern, Pattern)> {
    let Pattern::Node(head, args) = left else { return None };
    if head != "+" && head != "*" {
        return None;
    }
    let rest = Pattern::Variable(REST.into());
    let chain = |a: &Pattern, b: &Pattern| Pattern::Node(head.clone(), vec![a.clone(), b.clone()]);
    Some((chain(&args[0], &chain(&args[1], &rest)), chain(right, &rest)))
}

fn rewrite(
    name: &str,
    left: &PatternAst<Term>,
    right: &PatternAst<Term>,
    conditions: &[Condition],
) -> Rewrite<Term, Knowledge> {
    let (searcher, applier) = (egg::Pattern::new(left.clone()), egg::Pattern::new(right.clone()));
    let conditions = conditions.to_vec();
    let condition = move |graph: &mut Graph, _: Id, subst: &Subst| {
        let facts = |v: &str| variable(v).and_then(|v| subst.get(v)).map(|&id| &graph[id].data);
        conditions.iter().all(|c| holds(c, facts))
    };
    Rewrite::new(name, searcher, egg::ConditionalApplier { condition, applier })
        .expect("both sides use the same variables")
}

fn variable(name: &str) -> Option<Var> {
    name.parse().ok()
}

/// A condition asked of classes.
fn holds<'a>(condition: &Condition, facts: impl Fn(&str) -> Option<&'a Facts>) -> bool {
    match *condition {
        Condition::Free(v, i) => {
            matches!((facts(v), facts(i).and_then(|f| f.axis)), (Some(f), Some(i)) if !f.axes.contains(i))
        }
        Condition::Normalized(v, i) => {
            matches!((facts(v).and_then(|f| f.normalized), facts(i).and_then(|f| f.axis)), (Some(a), Some(b)) if a == b)
        }
        Condition::Independent(i, j) => {
            matches!((facts(i).and_then(|f| f.axis), facts(j).and_then(|f| f.axis)), (Some(i), Some(j)) if independent(i, j))
        }
        Condition::Even(v) => facts(v).and_then(|f| f.constant.as_ref()).is_some_and(is_even_integer),
        Condition::Positive(v) => facts(v).is_some_and(|f| f.sign == crate::ir::Sign::Positive),
        Condition::NotConstant(v) => facts(v).is_some_and(|f| f.constant.is_none()),
        Condition::Extended(v) => facts(v).is_some_and(|f| !f.axes.is_empty()),
        Condition::OfTokens(i) => facts(i).and_then(|f| f.axis).is_some_and(|i| i.space == crate::ir::Space::Token),
        Condition::NotSum(v) => facts(v).is_some_and(|f| !f.is_sum),
        Condition::NotProduct(v) => facts(v).is_some_and(|f| !f.is_product),
    }
}

/// A pattern in the e-graph's own form.
fn ast(pattern: &Pattern, encoder: &mut Encoder) -> PatternAst<Term> {
    fn go(p: &Pattern, encoder: &mut Encoder, out: &mut PatternAst<Term>) -> Id {
        match p {
            Pattern::Variable(v) => out.add(ENodeOrVar::Var(variable(v).expect("variables start with ?"))),
            Pattern::Number(r) => out.add(ENodeOrVar::ENode(Term::Number(r.clone()))),
            Pattern::Kind(k) => out.add(ENodeOrVar::ENode(Term::Kind(KindName(k.clone())))),
            Pattern::Ground(e) => {
                let encoded = encoder.encode(e);
                let mut ids: Vec<Id> = Vec::new();
                for (_, node) in encoded.items() {
                    let node = node.clone().map_children(|c| ids[usize::from(c)]);
                    ids.push(out.add(ENodeOrVar::ENode(node)));
                }
                ids[ids.len() - 1]
            }
            Pattern::Node(head, args) => {
                let ids: Vec<Id> = args.iter().map(|a| go(a, encoder, out)).collect();
                let node = <Term as egg::FromOp>::from_op(head, ids).expect("the table names known operations");
                out.add(ENodeOrVar::ENode(node))
            }
        }
    }
    let mut out = PatternAst::default();
    go(pattern, encoder, &mut out);
    out
}

impl Encoder {
    /// Sums that occur both opened and as atoms.
    fn twins(&self) -> Vec<Expr> {
        self.opened.iter().filter(|e| self.atoms.contains(e)).cloned().collect()
    }

    /// The whole term as one atom.
    fn name(&mut self, e: &Expr) -> RecExpr<Term> {
        let mut out = RecExpr::default();
        self.whole(e, &mut out);
        out
    }
}

impl Saturated {
    pub fn decode(&self, expr: &RecExpr<Term>) -> Result<Expr, String> {
        decode(expr, &self.graph.analysis.atoms)
    }
}
