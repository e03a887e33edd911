//! The skip connections of a stack: which output reaches which token or point, and how much of it.

use super::form::Form;
use super::polynomial::Polynomial;
use super::unroll::Unrolled;
use std::collections::BTreeSet;

/// What is connected.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Node {
    /// z^(k).
    Token(usize),
    /// The point, other than the layer's token, at which the gradient of this number is taken.
    Point(usize),
    /// f of this number.
    Output(usize),
}

/// A weight that is not 0.
#[derive(Clone, PartialEq, Debug)]
pub struct Connection {
    /// An output, or z^(0).
    pub from: Node,
    /// A token or a point.
    pub to: Node,
    pub weight: Polynomial,
}

/// The connections of L layers.
#[derive(Clone, Debug)]
pub struct Connections {
    /// Those without which z^(L) would be another: into z^(L), and into every point whose gradient reaches it.
    pub useful: Vec<Connection>,
    /// Those into every token and every point.
    pub all: Vec<Connection>,
}

impl Connection {
    /// That z^(0) is in every token is no skip connection of the optimizer's making; that it is in a point is.
    pub fn counts(&self) -> bool {
        !matches!((self.from, self.to), (Node::Token(_), Node::Token(_)))
    }
}

/// The connections of a stack.
pub fn connections(unrolled: &Unrolled) -> Connections {
    let (layers, gradients) = (unrolled.layers, unrolled.gradients);
    let tokens = (1..=layers).map(Node::Token);
    let points = (0..layers * gradients).filter(|number| unrolled.points[*number].is_lookahead).map(Node::Point);
    let all = tokens.chain(points).flat_map(|node| into(node, unrolled)).collect();

    // From the last gradient to the first: whoever is reached has been seen before.
    let mut useful = into(Node::Token(layers), unrolled);
    let mut reached: BTreeSet<Node> = useful.iter().map(|connection| connection.from).collect();
    for number in (0..layers * gradients).rev() {
        if reached.contains(&Node::Output(number)) {
            let found = into(place_of(number, unrolled), unrolled);
            reached.extend(found.iter().map(|connection| connection.from));
            useful.extend(found);
        }
    }
    useful.sort_by_key(|connection| (connection.to, connection.from));
    Connections { useful, all }
}

/// How many connections count.
pub fn count(connections: &[Connection]) -> usize {
    connections.iter().filter(|connection| connection.counts()).count()
}

/// Where the gradient of a number is taken.
pub fn place_of(number: usize, unrolled: &Unrolled) -> Node {
    match unrolled.points[number].is_lookahead {
        true => Node::Point(number),
        false => Node::Token(unrolled.place(number).0),
    }
}

/// The connections into a token or a point. What no output has reached is z^(0) itself, and nothing connects to it.
fn into(to: Node, unrolled: &Unrolled) -> Vec<Connection> {
    let form: &Form = match to {
        Node::Token(layer) => &unrolled.tokens[layer],
        Node::Point(number) => &unrolled.points[number].form,
        Node::Output(_) => return vec![],
    };
    if form.outputs.is_empty() {
        return vec![];
    }
    let origin = (!form.origin.is_zero()).then_some((Node::Token(0), &form.origin));
    let outputs = form.outputs.iter().map(|(number, weight)| (Node::Output(*number), weight));
    let connect = |(from, weight): (Node, &Polynomial)| Connection { from, to, weight: weight.clone() };
    origin.into_iter().chain(outputs).map(connect).collect()
}
