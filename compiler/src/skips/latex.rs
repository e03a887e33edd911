//! The weights as a LaTeX file: z^(L) and the points of layer L as sums, a line for every output.

use super::connections::{Connections, count};
use super::form::Form;
use super::polynomial::Polynomial;
use super::series;
use super::unroll::Unrolled;
use crate::emit::latex::{escape, file};

/// A file that compiles with any LaTeX that has amsmath.
pub fn print(recipe: &str, unrolled: &Unrolled, connections: &Connections, as_numbers: bool) -> String {
    let layers = unrolled.layers;
    let mut out = format!("\\section*{{{}}}\n", escape(recipe));
    let about = if layers == 1 { "1 layer".to_string() } else { format!("{layers} layers") };
    out.push_str(&format!("\\paragraph{{Skip connections over {about}}}\n"));
    out.push_str("With $f^{(k)} = -\\nabla F$ in layer $k$,\n\\allowdisplaybreaks\n");
    let ahead = unrolled.points_of(layers).iter().enumerate().filter(|(_, point)| point.is_lookahead);
    let ahead: Vec<(usize, &Form)> = ahead.map(|(i, point)| (i, &point.form)).collect();
    let mut equations = vec![equation(&format!("z^{{({layers})}}"), unrolled.result(), unrolled, as_numbers)];
    for (i, form) in &ahead {
        let index = if ahead.len() > 1 { format!("_{{{}}}", i + 1) } else { String::new() };
        equations.push(equation(&format!(r"\tilde{{z}}{index}^{{({layers})}}"), form, unrolled, as_numbers));
    }
    out.push_str(&format!("\\begin{{align*}}\n{}\n\\end{{align*}}\n", equations.join(" \\\\\n")));
    let (useful, all) = (count(&connections.useful), count(&connections.all));
    out.push_str(&match ahead.is_empty() {
        true => format!("There are {all} skip connections into $z^{{(k)}}$, $k = 1, \\dots, {layers}$.\\par\n"),
        false => format!(
            "{useful} skip connections contribute to $z^{{({layers})}}$; there are {all} with those into every \
             $z^{{(k)}}$.\\par\n"
        ),
    });
    file(&out)
}

/// left = a z^(0) + Σ w f + c 1, a term a line.
fn equation(left: &str, form: &Form, unrolled: &Unrolled, as_numbers: bool) -> String {
    let origin = (!form.origin.is_zero()).then(|| term(&form.origin, "z^{(0)}", as_numbers));
    let outputs = form.outputs.iter().map(|(number, weight)| {
        let (layer, i) = unrolled.place(*number);
        let index = if unrolled.gradients > 1 { format!("_{{{}}}", i + 1) } else { String::new() };
        term(weight, &format!("f{index}^{{({layer})}}"), as_numbers)
    });
    let ones = (!form.ones.is_zero()).then(|| term(&form.ones, r"\mathbf{1}", as_numbers));
    let terms: Vec<String> = origin.into_iter().chain(outputs).chain(ones).collect();
    let right = if terms.is_empty() { "0".to_string() } else { terms.join(" \\\\\n  &\\quad + ") };
    format!("  {left} &= {right}")
}

fn term(weight: &Polynomial, what: &str, as_numbers: bool) -> String {
    if weight.is_one() {
        return what.to_string();
    }
    let value = as_numbers.then(|| weight.value()).flatten();
    let text = value.map_or_else(|| series::in_latex(weight), number);
    let parts = if value.is_some() { 1 } else { series::series(weight).len() };
    if parts > 1 || text.starts_with('-') {
        return format!(r"\left( {text} \right) {what}");
    }
    format!(r"{text}\, {what}")
}

/// 1.2e−9 as 1.2 · 10⁻⁹.
fn number(value: f64) -> String {
    let text = series::rounded(value).replace('−', "-");
    match text.split_once('e') {
        Some((digits, exponent)) => format!(r"{digits} \cdot 10^{{{exponent}}}"),
        None => text,
    }
}
