//! The weights as JSON: `{"layers": L, "z": [w_0, …], "lookahead": [w_0, …], …}`.
//!
//! A weight is a string in the syntax of the recipe language, or a number when every parameter has one. Where a layer
//! takes several gradients, an entry is a list with a weight for each, in order.
//!
//! `lookahead` belongs to the first point of layer L that is not z^(L), and is empty if there is none. Where a layer
//! takes several gradients, `points` has all their points; `own` are the weights of the gradients of layer L itself that
//! are taken before.

use super::connections::{Connections, count};
use super::form::Form;
use super::polynomial::Polynomial;
use super::unroll::{Unrolled, weight};
use super::{language, values::Values};
use serde_json::{Map, Value, json};

/// The weights of z^(L) and of the points of layer L.
pub fn print(recipe: &str, unrolled: &Unrolled, connections: &Connections, values: Option<&Values>) -> Value {
    let shown = |polynomial: &Polynomial| entry(polynomial, values.is_some());
    let lookahead = unrolled.lookahead().map(|point| &point.form);
    let of_both = |part: fn(&Form) -> &Polynomial| {
        let both = [("z", Some(unrolled.result())), ("lookahead", lookahead)].into_iter();
        let both = both.filter_map(|(name, form)| Some((name.to_string(), shown(part(form?)))));
        Value::Object(both.collect())
    };
    let mut value = json!({
        "recipe": recipe,
        "layers": unrolled.layers,
        "gradients": unrolled.gradients,
        "z": weights(unrolled.result(), unrolled, &shown),
        "lookahead": lookahead.map_or_else(Vec::new, |form| weights(form, unrolled, &shown)),
        "z0": of_both(|form| &form.origin),
        "ones": of_both(|form| &form.ones),
        "connections": { "useful": count(&connections.useful), "all": count(&connections.all) },
    });
    if unrolled.gradients > 1 {
        value["points"] = Value::Array(points(unrolled, &shown));
    }
    if let Some(values) = values {
        let number = |term| Polynomial::constant_of(term).map_or(Value::Null, |polynomial| shown(&polynomial));
        let at: Map<String, Value> = values.iter().map(|(name, term)| (name.clone(), number(term))).collect();
        value["at"] = Value::Object(at);
    }
    value
}

/// The weights of layer 0, 1, …, L − 1.
fn weights(form: &Form, unrolled: &Unrolled, shown: &impl Fn(&Polynomial) -> Value) -> Vec<Value> {
    let gradients = unrolled.gradients;
    let of_layer = |layer: usize| {
        let numbers = layer * gradients..(layer + 1) * gradients;
        match gradients {
            1 => shown(&weight(form, layer)),
            _ => numbers.map(|number| shown(&weight(form, number))).collect(),
        }
    };
    (0..unrolled.layers).map(of_layer).collect()
}

fn points(unrolled: &Unrolled, shown: &impl Fn(&Polynomial) -> Value) -> Vec<Value> {
    let first = unrolled.layers * unrolled.gradients;
    let point = |(i, point): (usize, &super::unroll::Point)| {
        let own: Vec<Value> = (first..first + i).map(|number| shown(&weight(&point.form, number))).collect();
        json!({
            "lookahead": point.is_lookahead,
            "weights": weights(&point.form, unrolled, shown),
            "own": own,
            "z0": shown(&point.form.origin),
            "ones": shown(&point.form.ones),
        })
    };
    unrolled.points_of(unrolled.layers).iter().enumerate().map(point).collect()
}

/// A number or an expression.
fn entry(polynomial: &Polynomial, as_number: bool) -> Value {
    let value = as_number.then(|| polynomial.value()).flatten();
    value.map_or_else(|| Value::from(language::print(polynomial)), Value::from)
}
