//! The text form of a plan: what `energyc compile --emit plan` prints.

use super::Plan;
use super::graph::{Entry, Fold, Graph, Id, Map, Op};
use super::schedule::{Loop, Pass, Place, Step};
use std::fmt::Write;

/// The whole plan, pass by pass.
pub fn print(plan: &Plan) -> String {
    let mut text = format!("plan {}\n", plan.name);
    for pass in plan.passes().filter(|pass| !pass.outputs.is_empty()) {
        print_pass(plan, pass, &mut text);
    }
    text
}

fn print_pass(plan: &Plan, pass: &Pass, text: &mut String) {
    let graph = &plan.graph;
    let names = |ids: &[Id]| ids.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(", ");
    let way = if pass.is_scan { " by scans" } else { "" };
    let _ = writeln!(text, "\n{}{way}, in {}", pass.kind, plan.reach_of(pass.kind).words());
    if !pass.saved.is_empty() {
        let _ = writeln!(text, "    {} {}", if pass.is_saving { "saves" } else { "reads" }, names(&pass.saved));
    }
    for (title, steps) in
        [("per head", &pass.before), ("per block of queries", &pass.rows), ("at the end", &pass.after)]
    {
        if steps.is_empty() {
            continue;
        }
        let _ = writeln!(text, "  {title}");
        for step in steps {
            match step {
                Step::Node(id) => line(graph, pass, *id, 4, text),
                Step::Loop(l) => print_loop(graph, pass, l, text),
            }
        }
    }
    for output in &pass.outputs {
        let _ = writeln!(text, "  {} = {}", output.name, output.id);
    }
}

fn print_loop(graph: &Graph, pass: &Pass, l: &Loop, text: &mut String) {
    let _ = writeln!(text, "    loop {}", l.domain.describe());
    for &id in l.maps.iter().chain(&l.folds) {
        line(graph, pass, id, 8, text);
    }
}

fn line(graph: &Graph, pass: &Pass, id: Id, indent: usize, text: &mut String) {
    let place = match pass.places.get(&id) {
        Some(Place::Buffer(domain, i)) => format!("  → buffer {} {i}", domain.describe()),
        Some(Place::Output(i)) => format!("  → output {i}"),
        Some(Place::Saved(i)) => format!("  → saved {i}"),
        None => String::new(),
    };
    let _ = writeln!(text, "{:indent$}{id}{} = {}{place}", "", graph.axes(id), describe(graph, id));
}

/// An operand: inputs by name, numbers as they are, everything else by its number.
pub fn operand(graph: &Graph, id: Id) -> String {
    match &graph[id].op {
        Op::Input(leaf) => leaf.name.to_string(),
        Op::Number(c) => c.to_string(),
        _ => id.to_string(),
    }
}

/// How a value is computed.
pub fn describe(graph: &Graph, id: Id) -> String {
    let name = |id: &Id| operand(graph, *id);
    let list = |ids: &[Id], between: &str| ids.iter().map(name).collect::<Vec<_>>().join(between);
    match &graph[id].op {
        Op::Input(_) | Op::Number(_) => operand(graph, id),
        Op::Map(Map::Add, xs) => list(xs, " + "),
        Op::Map(Map::Mul, xs) => list(xs, " · "),
        Op::Map(Map::Pow(r), xs) => format!("{}^({r})", name(&xs[0])),
        Op::Map(Map::Call(func), xs) => format!("{}({})", func.name(), name(&xs[0])),
        Op::Map(Map::Log1p, xs) => format!("log(1 + {})", name(&xs[0])),
        Op::Map(Map::Expm1, xs) => format!("exp({}) − 1", name(&xs[0])),
        Op::Map(Map::Select, xs) => {
            format!("{} ≤ {} ? {} : {}", name(&xs[0]), name(&xs[1]), name(&xs[2]), name(&xs[3]))
        }
        Op::Map(Map::Spread(axes), xs) => format!("{} along {axes}", name(&xs[0])),
        Op::Map(Map::Positive, xs) => format!("max({}, 0)", name(&xs[0])),
        Op::Fold(Fold::Sum, axis, x) => format!("Σ_{axis} {}", name(x)),
        Op::Fold(Fold::Max, axis, x) => format!("max_{axis} {}", name(x)),
        Op::Dot { row, key } => format!("dot({}, {})", name(row), name(key)),
        Op::Apply { tile, key } => format!("apply({}, {})", name(tile), name(key)),
        Op::Gather { tile, row } => format!("gather({}, {})", name(tile), name(row)),
        Op::Distance { row, key } => format!("distance({}, {})", name(row), name(key)),
        Op::Threshold(kind, x) => format!("threshold {kind} ({})", name(x)),
        Op::Scan(l) | Op::ScanBack(l) => {
            let back = if matches!(graph[id].op, Op::ScanBack(_)) { " back" } else { "" };
            let operands: Vec<String> = graph[id].op.operands().iter().map(name).collect();
            let fading = if l.decay.is_some() { ", fading" } else { "" };
            format!("scan{back}({}{fading})", operands.join(", "))
        }
        Op::Steps { tile, decay } => format!("steps of {} ({})", name(decay), name(tile)),
        Op::ScanSteps { .. } => {
            let operands: Vec<String> = graph[id].op.operands().iter().map(name).collect();
            format!("scan steps({})", operands.join(", "))
        }
        Op::Total(x) => format!("total({})", name(x)),
        Op::Solve { matrix, right } => {
            let entries: Vec<String> = matrix
                .iter()
                .map(|entry| match entry {
                    Entry::Diagonal(x) => format!("diag({})", name(x)),
                    Entry::Outer(x, y) => format!("{} {}ᵀ", name(x), name(y)),
                    Entry::Moment(w, x, y) => format!("Σ_n {} {} {}ᵀ", name(w), name(x), name(y)),
                })
                .collect();
            format!("solve({}; {})", entries.join(" + "), name(right))
        }
    }
}
