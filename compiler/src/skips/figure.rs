//! The figure of a stack of layers: tokens, points and outputs in a row, skip connections as arcs with their weights.
//!
//! An optimizer that takes its gradients at the tokens has one panel: arcs f → z^(k) above, z^(0) → z^(k) below. With a
//! look-ahead there are two: the connections without which z^(L) would be another, then all of them, those into points
//! above and those into tokens below.
//!
//! Arcs that span the same number of columns have their tops, and so their labels, at the same height; longer arcs
//! are higher. Labels can then only meet along a row, and the columns are set as far apart as that takes.

use super::connections::{Connection, Connections, Node, count, place_of};
use super::series::{self, Spacing};
use super::svg::{At, Drawing, Letter, width};
use super::unroll::Unrolled;
use super::values::{Values, described};
use crate::notation::symbol;
use std::collections::{BTreeMap, BTreeSet};

const PINK: &str = "#d6247e";
const BLUE: &str = "#1f6fd0";
const GRAY: &str = "#9b9b9b";
const DARK: &str = "#555555";

/// Half the size of a node.
const RADIUS: f64 = 19.0;
/// Columns are at least this far apart.
const PITCH: f64 = 82.0;
/// Tokens and points stand this far below and above the outputs.
const STOREY: f64 = 56.0;
/// Rows of arcs, with labels and without.
const ROW: f64 = 33.0;
const BARE_ROW: f64 = 13.0;
const LABEL: f64 = 12.5;
const MARGIN: f64 = 24.0;
/// Labels wider than this are replaced by a name.
const WIDEST: f64 = 190.0;
/// Characters of a weight in the legend.
const LONGEST: usize = 110;

/// The SVG file of L layers.
pub fn figure(recipe: &str, unrolled: &Unrolled, connections: &Connections, values: Option<&Values>) -> String {
    let labels = Labels::new(&connections.all, values.is_some());
    let has_lookahead = unrolled.points.iter().any(|point| point.is_lookahead);
    let layers = unrolled.layers;
    let panels = match has_lookahead {
        false => vec![(count_text("", &connections.all), &connections.all)],
        true => vec![
            (
                count_text(&format!("(a) What contributes to z^{{({layers})}}: "), &connections.useful),
                &connections.useful,
            ),
            (count_text("(b) All of them: ", &connections.all), &connections.all),
        ],
    };
    let panels: Vec<(String, Panel)> =
        panels.into_iter().map(|(title, shown)| (title, Panel::new(unrolled, shown, &labels, has_lookahead))).collect();
    let pitch = panels.iter().map(|(_, panel)| panel.pitch()).fold(PITCH, f64::max);

    let mut drawing = Drawing::default();
    let plural = if layers == 1 { "" } else { "s" };
    let heading = format!("{recipe}: skip connections over {layers} layer{plural}{}", described(values));
    drawing.sentence(At { x: MARGIN, y: 32.0 }, 15.0, &heading);
    let mut y = 44.0;
    for (title, panel) in &panels {
        drawing.sentence(At { x: MARGIN, y: y + 16.0 }, 13.0, title);
        y = panel.draw(&mut drawing, y + 24.0, pitch);
    }
    let legend = legend(connections, has_lookahead);
    let mut names = labels.explained();
    if unrolled.tokens.iter().any(|form| !form.ones.is_zero()) {
        names.push("What initial states add to every component is not shown.".to_string());
    }
    for (color, line) in &legend {
        y += 19.0;
        let left = At { x: MARGIN, y: y - 4.0 };
        drawing.arrow("key", color, [left, At { x: MARGIN + 30.0, ..left }]);
        drawing.sentence(At { x: MARGIN + 40.0, y }, 12.0, line);
    }
    for name in &names {
        y += 19.0;
        drawing.sentence(At { x: MARGIN, y }, 12.0, name);
    }
    let columns = panels.iter().map(|(_, panel)| panel.columns).max().unwrap_or(0) as f64;
    let drawn = columns * pitch + 2.0 * (MARGIN + RADIUS);
    let written = legend.iter().map(|(_, line)| width(line) * 12.0 + 40.0).chain([width(&heading) * 15.0]);
    let written = written.chain(names.iter().map(|name| width(name) * 12.0)).fold(0.0, f64::max) * 0.92 + 2.0 * MARGIN;
    drawing.file(drawn.max(written), y + MARGIN, &heading)
}

fn count_text(before: &str, shown: &[Connection]) -> String {
    let count = count(shown);
    format!("{before}{count} skip connection{}", if count == 1 { "" } else { "s" })
}

fn legend(connections: &Connections, has_lookahead: bool) -> Vec<(&'static str, String)> {
    let mut lines = vec![(PINK, "weight of f^{(j)} in z^{(k)}".to_string())];
    if has_lookahead {
        lines.push((BLUE, "weight of f^{(j)} in the look-ahead point of layer k, z\u{303}^{(k)}".to_string()));
    }
    let mut from_origin = connections.all.iter().filter(|connection| connection.from == Node::Token(0));
    let own = if from_origin.all(|connection| connection.weight.is_one()) { ", with weight 1" } else { "" };
    lines.push((GRAY, format!("z^{{(0)}} itself{own}")));
    lines.push((DARK, "where layer k takes its gradient, which gives f^{(k)}".to_string()));
    lines
}

/// Weights as they stand beside arcs; those too long for that have names.
struct Labels {
    beside: BTreeMap<[Node; 2], String>,
    /// The long ones, in the order of their names.
    long: Vec<String>,
}

impl Labels {
    fn new(all: &[Connection], as_numbers: bool) -> Labels {
        let mut names: BTreeMap<String, String> = BTreeMap::new();
        let mut labels = Labels { beside: BTreeMap::new(), long: vec![] };
        for Connection { from, to, weight } in all {
            // That z^(0) passes unchanged goes without saying.
            let text = match *from == Node::Token(0) && weight.is_one() {
                true => String::new(),
                false => series::shown(weight, as_numbers, Spacing::Narrow),
            };
            let is_long = width(&text) * LABEL > WIDEST;
            let label = match names.get(&text) {
                Some(name) => name.clone(),
                None if is_long => {
                    labels.long.push(text.clone());
                    let name = format!("w{}", subscript(labels.long.len()));
                    names.insert(text, name.clone());
                    name
                }
                None => text,
            };
            labels.beside.insert([*from, *to], label);
        }
        labels
    }

    fn explained(&self) -> Vec<String> {
        let line = |(j, text): (usize, &String)| {
            let kept: String = text.chars().take(LONGEST).collect();
            let cut = if kept.len() < text.len() { "…" } else { "" };
            format!("w{} = {kept}{cut}", subscript(j + 1))
        };
        self.long.iter().enumerate().map(line).collect()
    }
}

fn subscript(n: usize) -> String {
    symbol::subscript(&n.to_string()).unwrap_or_default()
}

/// Which side of the row of outputs an arc is on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Above,
    Below,
}

struct Arc {
    from: Node,
    to: Node,
    side: Side,
    label: String,
    class: &'static str,
    color: &'static str,
    /// Columns between its ends.
    span: usize,
    /// Twice the column halfway.
    middle: usize,
}

/// Nodes in columns and storeys, and the arcs between them.
struct Panel {
    nodes: BTreeMap<Node, (usize, f64)>,
    letters: BTreeMap<Node, Letter>,
    arcs: Vec<Arc>,
    /// From where a gradient is taken to its output.
    feeds: Vec<[Node; 2]>,
    /// The last column.
    columns: usize,
}

impl Panel {
    fn new(unrolled: &Unrolled, shown: &[Connection], labels: &Labels, has_lookahead: bool) -> Panel {
        let places = places(unrolled, has_lookahead);
        let arc = |connection: &Connection| {
            let (is_origin, into_point) = (connection.from == Node::Token(0), matches!(connection.to, Node::Point(_)));
            let (class, color) = match (is_origin, into_point) {
                (true, _) => ("origin", GRAY),
                (_, true) => ("lookahead", BLUE),
                _ => ("token", PINK),
            };
            let side = match has_lookahead {
                true if into_point => Side::Above,
                false if !is_origin => Side::Above,
                _ => Side::Below,
            };
            let [from, to] = [connection.from, connection.to];
            let label = labels.beside.get(&[from, to]).cloned().unwrap_or_default();
            let [first, last] = [from, to].map(|node| places.get(&node).map_or(0, |(column, _)| *column));
            Arc { from, to, side, label, class, color, span: last.abs_diff(first), middle: first + last }
        };
        let arcs: Vec<Arc> = shown.iter().map(arc).collect();
        let columns = places.values().map(|(column, _)| *column).max().unwrap_or(0);
        let feed = |number: usize| {
            let place = place_of(number, unrolled);
            let from = if places.contains_key(&place) { place } else { Node::Token(0) };
            [from, Node::Output(number)]
        };
        let outputs = (0..unrolled.layers * unrolled.gradients).map(Node::Output);
        let ends: BTreeSet<Node> = arcs.iter().flat_map(|arc| [arc.from, arc.to]).collect();
        let used = |node: &Node| ends.contains(node);
        let numbers = outputs.filter(used).filter_map(|node| match node {
            Node::Output(number) => Some(number),
            _ => None,
        });
        let feeds: Vec<[Node; 2]> = numbers.map(feed).collect();
        let fed: BTreeSet<Node> = feeds.iter().flatten().copied().collect();
        let is_seen = |node: &Node| *node == Node::Token(0) || used(node) || fed.contains(node);
        let nodes: BTreeMap<Node, (usize, f64)> = places.into_iter().filter(|(node, _)| is_seen(node)).collect();
        let letters = nodes.keys().map(|node| (*node, letter(*node, unrolled))).collect();
        Panel { letters, arcs, feeds, columns, nodes }
    }

    /// How far apart columns must be for the labels of a row to stand beside each other.
    fn pitch(&self) -> f64 {
        let mut rows: BTreeMap<(Side, usize), Vec<(usize, f64)>> = BTreeMap::new();
        for arc in self.arcs.iter().filter(|arc| !arc.label.is_empty()) {
            let label = (arc.middle, width(&arc.label) * LABEL);
            rows.entry((arc.side, arc.span)).or_default().push(label);
        }
        let mut needed = 0.0f64;
        for row in rows.values_mut() {
            row.sort_by_key(|(middle, _)| *middle);
            for pair in row.windows(2) {
                let columns = (pair[1].0 - pair[0].0).max(1) as f64 / 2.0;
                needed = needed.max(((pair[0].1 + pair[1].1) / 2.0 + 12.0) / columns);
            }
        }
        needed
    }

    /// The distance of a row of arcs from the nodes, by its span.
    fn rows(&self, side: Side) -> BTreeMap<usize, f64> {
        let mut rows: BTreeMap<usize, bool> = BTreeMap::new();
        for arc in self.arcs.iter().filter(|arc| arc.side == side) {
            *rows.entry(arc.span).or_default() |= !arc.label.is_empty();
        }
        let mut distance = 4.0;
        rows.into_iter()
            .map(|(span, is_labelled)| {
                distance += if is_labelled { ROW } else { BARE_ROW };
                (span, distance)
            })
            .collect()
    }

    /// Draws the panel below a height; the height below it.
    fn draw(&self, drawing: &mut Drawing, top: f64, pitch: f64) -> f64 {
        let (above, below) = (self.rows(Side::Above), self.rows(Side::Below));
        let reach = |rows: &BTreeMap<usize, f64>| rows.values().copied().fold(0.0, f64::max) + 12.0;
        let storeys = || self.nodes.values().map(|(_, storey)| *storey);
        let (highest, lowest) = (storeys().fold(0.0, f64::min) - RADIUS, storeys().fold(0.0, f64::max) + RADIUS);
        let zero = top + reach(&above) - highest;
        let at = |node: &Node| {
            let (column, storey) = self.nodes.get(node).copied().unwrap_or((0, 0.0));
            At { x: MARGIN + RADIUS + column as f64 * pitch, y: zero + storey }
        };
        let bundles = self.bundles();
        let mut labels = Vec::new();
        // Long arcs first, so that short ones stay whole where they cross.
        let mut arcs: Vec<&Arc> = self.arcs.iter().collect();
        arcs.sort_by_key(|arc| std::cmp::Reverse((arc.class == "origin", arc.span)));
        for arc in arcs {
            let sign = if arc.side == Side::Above { -1.0 } else { 1.0 };
            let (rows, edge) = if arc.side == Side::Above { (&above, highest) } else { (&below, lowest) };
            let peak = zero + edge + sign * rows.get(&arc.span).copied().unwrap_or(ROW);
            let (from, to) = (at(&arc.from), at(&arc.to));
            let shift = |is_start: bool, node: Node| {
                let bundle = bundles.get(&(arc.side, is_start, node));
                bundle.map_or(0.0, |bundle| shift(arc.span, bundle, is_start))
            };
            let from = At { x: from.x + shift(true, arc.from), y: from.y + sign * RADIUS };
            let to = At { x: to.x + shift(false, arc.to), y: to.y + sign * RADIUS };
            let (bend, top) = bent([from, to], peak);
            drawing.arc(arc.class, arc.color, [from, to], bend);
            if !arc.label.is_empty() {
                labels.push((top, arc));
            }
        }
        for [from, to] in &self.feeds {
            drawing.arrow("feed", DARK, between(at(from), at(to)));
        }
        for (center, arc) in labels {
            drawing.label(center, LABEL, arc.color, &arc.label);
        }
        for node in self.nodes.keys() {
            match node {
                Node::Output(_) => drawing.square("output", "#fdeaf3", at(node), RADIUS - 2.0),
                Node::Token(_) => drawing.circle("token", "#f2f2f2", at(node), RADIUS),
                Node::Point(_) => drawing.circle("point", "#e6f0fc", at(node), RADIUS),
            }
            if let Some(letter) = self.letters.get(node) {
                drawing.symbol(at(node), letter);
            }
        }
        zero + lowest + reach(&below) + 14.0
    }

    /// The spans of the arcs that start or end on one side of a node.
    fn bundles(&self) -> BTreeMap<(Side, bool, Node), Vec<usize>> {
        let mut bundles: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for arc in &self.arcs {
            for (is_start, node) in [(true, arc.from), (false, arc.to)] {
                bundles.entry((arc.side, is_start, node)).or_default().push(arc.span);
            }
        }
        bundles
    }
}

/// Where along a node an arc starts or ends: longer arcs outside shorter ones, so that they do not cross.
fn shift(span: usize, bundle: &[usize], is_start: bool) -> f64 {
    let shorter = bundle.iter().filter(|other| **other < span).count() as f64;
    let last = bundle.len().saturating_sub(1) as f64;
    let gap = if last > 0.0 { (2.0 * RADIUS - 14.0) / last } else { 0.0 };
    let from_middle = (shorter - last / 2.0) * gap.min(7.0);
    if is_start { -from_middle } else { from_middle }
}

/// The height of the control points with which the curve between two points just reaches `peak`, and where it does.
///
/// With both control points at height b the curve is y(t) = (1−t)³ y₀ + 3t(1−t) b + t³ y₁, which is level at
/// t = √u/(√u + √v), u = |y₀ − b|, v = |y₁ − b|. The further b, the further the top: bisection finds it.
fn bent([from, to]: [At; 2], peak: f64) -> (f64, At) {
    let level = |bend: f64| {
        let [u, v] = [from.y, to.y].map(|y| (y - bend).abs().sqrt());
        if u + v > 0.0 { u / (u + v) } else { 0.5 }
    };
    let height = |bend: f64| {
        let t = level(bend);
        (1.0 - t).powi(3) * from.y + 3.0 * t * (1.0 - t) * bend + t.powi(3) * to.y
    };
    let outer = if peak < to.y { from.y.min(to.y) } else { from.y.max(to.y) };
    let (mut near, mut far) = (outer, outer + 4.0 * (peak - outer) + 2.0 * (peak - from.y.midpoint(to.y)));
    for _ in 0..50 {
        let middle = near.midpoint(far);
        if (height(middle) - outer).abs() < (peak - outer).abs() { near = middle } else { far = middle }
    }
    let t = level(near);
    let along = 3.0 * t * t - 2.0 * t.powi(3);
    (near, At { x: from.x + along * (to.x - from.x), y: peak })
}

/// The ends of an arrow from the edge of one node to that of another.
fn between(from: At, to: At) -> [At; 2] {
    let length = (to.x - from.x).hypot(to.y - from.y).max(1.0);
    let (dx, dy) = ((to.x - from.x) / length, (to.y - from.y) / length);
    // The square of an output reaches further along its diagonal.
    let reach = (RADIUS - 2.0) / dx.abs().max(dy.abs()).max(0.5) + 1.0;
    [
        At { x: from.x + dx * (RADIUS + 1.0), y: from.y + dy * (RADIUS + 1.0) },
        At { x: to.x - dx * reach, y: to.y - dy * reach },
    ]
}

/// The column and the storey of every node. A point stands above the token of its layer, or in a column of its own if it
/// is not the first.
fn places(unrolled: &Unrolled, has_lookahead: bool) -> BTreeMap<Node, (usize, f64)> {
    let storey = if has_lookahead { STOREY } else { 0.0 };
    let mut places = BTreeMap::from([(Node::Token(0), (0, 0.0))]);
    let mut column = 0;
    for layer in 0..unrolled.layers {
        for i in 0..unrolled.gradients {
            let number = layer * unrolled.gradients + i;
            let point = &unrolled.points[number];
            if point.is_lookahead && !point.form.outputs.is_empty() {
                column += usize::from(i > 0);
                places.insert(Node::Point(number), (column, -storey));
            }
            column += 1;
            places.insert(Node::Output(number), (column, 0.0));
        }
        column += 1;
        places.insert(Node::Token(layer + 1), (column, storey));
    }
    places
}

fn letter(node: Node, unrolled: &Unrolled) -> Letter {
    let of = |base, tilde, number: usize| {
        let (layer, i) = unrolled.place(number);
        let below = if unrolled.gradients > 1 { (i + 1).to_string() } else { String::new() };
        Letter { base, tilde, above: format!("({layer})"), below }
    };
    match node {
        Node::Token(layer) => Letter { base: "z", tilde: false, above: format!("({layer})"), below: String::new() },
        Node::Point(number) => of("z", true, number),
        Node::Output(number) => of("f", false, number),
    }
}
