//! Skip connections: the closed forms of momentum and of Nesterov's gradient, optimizers nobody has written before
//! against a plain simulation, what cannot have weights, and the figure.

mod binary;

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use binary::{Run, run_in};
use energyc::ir::Rational;
use energyc::ir::rational::{int, ratio};
use serde_json::{Value, json};
use tempfile::TempDir;

impl Run {
    #[track_caller]
    fn json(self) -> Value {
        let run = self.exits(0);
        serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {run:#?}"))
    }
}

/// A folder with `a.recipe`, whose optimizer this is.
fn recipe(optimizer: &str) -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let text = format!("recipe a {{ local dot; global lse(T = sqrt(d_h)); optimizer {optimizer} }}");
    fs::write(folder.path().join("a.recipe"), text).expect("written");
    folder
}

/// `energyc skips a.recipe --layers …` with this optimizer.
fn skips(optimizer: &str, layers: usize, more: &[&str]) -> Run {
    let folder = recipe(optimizer);
    let layers = layers.to_string();
    run_in(folder.path(), &[&["skips", "a.recipe", "--layers", &layers], more].concat())
}

fn weights(optimizer: &str, layers: usize) -> Value {
    skips(optimizer, layers, &["--format", "json"]).json()
}

// ---- closed forms ----

/// Coefficients by the exponents of beta and eta.
type Exact = BTreeMap<(u32, u32), Rational>;

/// A polynomial in beta and eta as the command prints it.
fn read(text: &Value) -> Exact {
    let text = text.as_str().expect("a string").replace(" - ", " + -");
    let mut polynomial = Exact::new();
    for term in text.split(" + ").filter(|term| *term != "0") {
        let (minus, term) = term.strip_prefix('-').map_or((false, term), |term| (true, term));
        let (mut coefficient, mut exponents) = (int(if minus { -1 } else { 1 }), (0, 0));
        for factor in term.split('*') {
            let (base, power) = factor.split_once('^').unwrap_or((factor, "1"));
            let power: u32 = power.parse().expect("an exponent");
            match base {
                "beta" => exponents.0 += power,
                "eta" => exponents.1 += power,
                number => coefficient *= number.parse::<Rational>().expect("a number"),
            }
        }
        let before = polynomial.insert(exponents, coefficient);
        assert_eq!(before, None, "like terms are collected in {text}");
    }
    polynomial
}

/// η Σ_{n=0}^{L−1−k} β^n.
fn of_token(layers: usize, k: usize) -> Exact {
    (0..layers - k).map(|n| ((n as u32, 1), int(1))).collect()
}

/// η Σ_{n=0}^{L−1−k} β^n + β^{L−k}.
fn of_lookahead(layers: usize, k: usize) -> Exact {
    let mut polynomial = of_token(layers, k);
    polynomial.insert(((layers - k) as u32, 0), int(1));
    polynomial
}

#[test]
fn momentum_and_nesterov_have_their_closed_forms() {
    for layers in 1..=8 {
        let (momentum, nesterov) = (weights("momentum;", layers), weights("nag;", layers));
        for value in [&momentum, &nesterov] {
            assert_eq!(value["layers"], json!(layers));
            assert_eq!(value["z"].as_array().expect("weights").len(), layers);
            for k in 0..layers {
                assert_eq!(read(&value["z"][k]), of_token(layers, k), "L = {layers}, k = {k}");
            }
            assert_eq!((&value["z0"]["z"], &value["ones"]["z"]), (&json!("1"), &json!("0")));
        }
        assert_eq!(momentum["lookahead"], json!([]));
        let ahead = nesterov["lookahead"].as_array().expect("weights");
        assert_eq!(ahead.len(), layers);
        for (k, weight) in ahead.iter().enumerate() {
            assert_eq!(read(weight), of_lookahead(layers, k), "L = {layers}, k = {k}");
        }
        let connections = layers * (layers + 1) / 2;
        assert_eq!(momentum["connections"], json!({ "useful": connections, "all": connections }));
        let useful = layers + (layers + 2) * (layers - 1) / 2;
        let all = useful + layers * (layers - 1) / 2;
        assert_eq!(nesterov["connections"], json!({ "useful": useful, "all": all }));
    }
}

#[test]
fn weights_are_written_in_the_language_and_sorted() {
    let three = weights("nag;", 3);
    assert_eq!(three["z"], json!(["eta + beta*eta + beta^2*eta", "eta + beta*eta", "eta"]));
    let ahead = ["eta + beta*eta + beta^2*eta + beta^3", "eta + beta*eta + beta^2", "eta + beta"];
    assert_eq!(three["lookahead"], json!(ahead));
    assert_eq!(weights("gd;", 4)["z"], json!(["eta", "eta", "eta", "eta"]));
    // One layer that steps by a weight has that weight.
    let odd = "o(a = learn(1), b = 2) where a > 0 {
        state s = 0;
        s = sqrt(a) * s - grad(z) / (1 + b);
        z = z + a^3 * exp(b) * s / 7 + max(a, b) * s;
    }";
    let weight = weights(odd, 3)["z"][0].as_str().expect("a string").to_string();
    for part in ["sqrt(a)", "exp(b)", "(1 + b)^(-1)", "1/7*a^3", "if "] {
        assert!(weight.contains(part) || weight.contains(&part.replace("1 + b", "b + 1")), "{part} in {weight}");
    }
    let again = format!("o(a = learn(1), b = 2) where a > 0 {{ z = z - ({weight}) * grad(z); }}");
    assert_eq!(weights(&again, 1)["z"][0], json!(weight));
}

#[test]
fn long_stacks_stay_exact() {
    let layers = 64;
    let value = weights("nag;", layers);
    for k in [0, 1, 31, 63] {
        assert_eq!(read(&value["z"][k]), of_token(layers, k));
        assert_eq!(read(&value["lookahead"][k]), of_lookahead(layers, k));
    }
}

// ---- any optimizer, against a simulation ----

/// Numbers that look random.
fn noise(seed: usize) -> f64 {
    ((seed as f64 * 12.9898).sin() * 43758.5453).fract()
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| panic!("{value} is no number"))
}

#[track_caller]
fn close(a: f64, b: f64) {
    assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs())), "{a} is not {b}");
}

/// a z0 + Σ w f + c.
fn combined(value: &Value, weights: &str, z0: f64, f: &dyn Fn(usize, usize) -> f64) -> f64 {
    let mut sum = number(&value["z0"][weights]) * z0 + number(&value["ones"][weights]);
    for (k, entry) in value[weights].as_array().expect("weights").iter().enumerate() {
        let entries = entry.as_array().cloned().unwrap_or_else(|| vec![entry.clone()]);
        sum += entries.iter().enumerate().map(|(i, w)| number(w) * f(k, i)).sum::<f64>();
    }
    sum
}

#[test]
fn two_states_and_two_lookaheads_as_simulated() {
    let optimizer = "o(a = learn(0.9), b = learn(0.3), eta = learn(0.7), mu = 0.2) {
        state p = 0;
        state s = 1 / 2;
        let y = z - a * p + b * s;
        let g = grad(y);
        let x = y - mu * g;
        s = b * s + (1 - b) * g;
        p = a * p + grad(x) + s / 3;
        z = 0.95 * z - eta * p - sqrt(eta) * s;
    }";
    for (layers, at, [a, b, eta, mu]) in [
        (1, "a=0.9", [0.9, 0.3, 0.7, 0.2]),
        (4, "a=0.5,mu=-1", [0.5, 0.3, 0.7, -1.0]),
        (7, "eta=2,b=1.25,a=0", [0.0, 1.25, 2.0, 0.2]),
    ] {
        let value = skips(optimizer, layers, &["--format", "json", "--at", at]).json();
        let gradient = |k: usize, i: usize| noise(17 * k + 5 * i + 1);
        let start = 0.37;
        let (mut z, mut p, mut s) = (start, 0.0, 0.5);
        let mut points = [0.0; 2];
        for k in 0..=layers {
            let [first, second] = [gradient(k, 0), gradient(k, 1)];
            let ahead = z - a * p + b * s;
            points = [ahead, ahead - mu * first];
            if k < layers {
                s = b * s + (1.0 - b) * first;
                p = a * p + second + s / 3.0;
                z = 0.95 * z - eta * p - f64::sqrt(eta) * s;
            }
        }
        let f = |k: usize, i: usize| -gradient(k, i);
        close(combined(&value, "z", start, &f), z);
        close(combined(&value, "lookahead", start, &f), points[0]);
        // The second point also sees the first gradient of its own layer.
        let second = &value["points"][1];
        assert_eq!((&second["lookahead"], &second["own"]), (&json!(true), &json!([mu])));
        let of_second = json!({
            "z": second["weights"],
            "z0": { "z": second["z0"] },
            "ones": { "z": second["ones"] },
        });
        close(combined(&of_second, "z", start, &f) + mu * f(layers, 0), points[1]);
    }
}

#[test]
fn a_step_size_may_depend_on_the_layer() {
    let optimizer = "o(eta = learn(0.5)) {
        state n = 0;
        state last = 0;
        let y = z + n / (n + 3) * (z - last);
        last = z;
        z = y - eta / sqrt(1 + abs(n)) * grad(y);
        n = n + 1;
    }";
    let layers = 5;
    let value = skips(optimizer, layers, &["--format", "json", "--at", "eta=0.25"]).json();
    let gradient = |k: usize, _: usize| noise(k + 3);
    let (mut z, mut last) = (1.5, 0.0);
    for k in 0..layers {
        let n = k as f64;
        let y = z + n / (n + 3.0) * (z - last);
        last = z;
        z = y - 0.25 / f64::sqrt(1.0 + n) * gradient(k, 0);
    }
    close(combined(&value, "z", 1.5, &|k, i| -gradient(k, i)), z);
}

#[test]
fn several_steps_are_several_gradients() {
    let stepped = weights("gd; steps 2;", 3);
    let written = weights("o(eta = 1) { let y = z - eta * grad(z); z = y - eta * grad(y); }", 3);
    for key in ["z", "lookahead", "connections", "points", "z0"] {
        assert_eq!(stepped[key], written[key], "{key}");
    }
    assert_eq!(stepped["z"][0], json!(["eta", "eta"]));
    assert_eq!(stepped["gradients"], json!(2));
    assert_eq!(stepped["points"][0]["lookahead"], json!(false));
}

#[test]
fn a_weight_that_vanishes_is_no_connection() {
    // The state forgets everything but the gradient before.
    let forgetful = "o(eta = learn(1)) { state p = 0; let g = grad(z); z = z - eta * (g - p); p = g; }";
    let value = weights(forgetful, 4);
    assert_eq!(value["z"], json!(["0", "0", "0", "eta"]));
    assert_eq!(value["connections"], json!({ "useful": 4, "all": 4 }));
    // What only moves the second state never reaches the token.
    let aside = "o(eta = learn(1)) { state p = 0; p = p + grad(z - p); z = z - eta * grad(z); }";
    let value = weights(aside, 2);
    assert_eq!(value["z"], json!([["0", "eta"], ["0", "eta"]]));
    assert_eq!(value["connections"], json!({ "useful": 3, "all": 6 }));
}

#[test]
fn a_token_may_shrink_and_states_may_start_anywhere() {
    let value =
        weights("o(eta = 1, lambda = 0.1, c = 2) { state p = c; p = p + grad(z); z = (1 - lambda) * z - eta * p; }", 2);
    assert_eq!(value["z0"]["z"], json!("1 - 2*lambda + lambda^2"));
    assert_eq!(value["ones"]["z"], json!("-2*eta*c + eta*lambda*c"));
    let text = skips("o(c = 2) { state p = c; p = p + grad(z); z = z - p; }", 2, &[]).exits(0);
    text.prints("z⁽²⁾ is the weighted sum of").prints("    1     −2c\n");
}

// ---- refusals ----

#[test]
fn weights_that_depend_on_the_data_are_refused() {
    for optimizer in [
        "o(eta = 1) { state s = 0; s = s + grad(z)^2; z = z - eta * grad(z) / sqrt(1 + abs(s)); }",
        "o(eta = 1) { z = z - eta * grad(z) / (1 + norm(grad(z))); }",
        "o(eta = 1) { z = z - eta * sign(grad(z)); }",
        "o(eta = 1) { z = z - eta * dot(z, grad(z)) * grad(z); }",
        "o(eta = 1) { z = z - eta * max(grad(z), 0); }",
        "o(eta = 1) { z = z - eta * sum(grad(z)) * z / 2; }",
        "o(eta = 1) { z = z - eta * grad(exp(z)); }",
    ] {
        for layers in [1, 3] {
            let refused = skips(optimizer, layers, &[]).exits(1).says("depend on the data");
            assert_eq!(refused.out, "", "{optimizer}");
        }
    }
}

#[test]
fn layers_are_bounded() {
    let folder = recipe("momentum;");
    for layers in ["0", "65", "-1", "x", "1.5", "", "99999999999999999999"] {
        run_in(folder.path(), &["skips", "a.recipe", "--layers", layers]).exits(2).says("--layers");
    }
    run_in(folder.path(), &["skips", "a.recipe"]).exits(2).says("--layers");
    let crowd = "o(a = learn(1), b = learn(1), c = learn(1), e = learn(1)) {
        state p = 0; p = (a + b + c + e) * p + a * z + grad(z); z = (a + b * c) * z - p; }";
    skips(crowd, 3, &[]).exits(0);
    skips(crowd, 64, &[]).exits(2).says("ask for fewer layers");
    skips(crowd, 64, &["--at", "a=0.5,b=0.25"]).exits(0);
}

#[test]
fn recipes_that_are_wrong_are_exit_code_1() {
    skips("momentun;", 3, &[]).exits(1).says("did you mean `momentum`?");
    let folder = recipe("momentum;");
    run_in(folder.path(), &["skips", "missing.recipe", "--layers", "3"]).exits(1).says("E0004");
}

// ---- --at ----

#[test]
fn numbers_are_exact_and_the_recipe_fills_in() {
    let value = skips("nag;", 3, &["--format", "json", "--at", "beta=0.8,eta=0.5"]).json();
    assert_eq!(value["z"], json!([1.22, 0.9, 0.5]));
    assert_eq!(value["lookahead"], json!([1.732, 1.54, 1.3]));
    assert_eq!(value["at"], json!({ "beta": 0.8, "eta": 0.5 }));
    // beta starts at 0.9.
    let value = skips("momentum;", 2, &["--format", "json", "--at", "eta=-2"]).json();
    assert_eq!(value["z"], json!([-3.8, -2.0]));
    // At 0 the shape stays what it is.
    let value = skips("nag;", 2, &["--format", "json", "--at", "beta=0, eta=1"]).json();
    assert_eq!((&value["z"], &value["lookahead"]), (&json!([1.0, 1.0]), &json!([1.0, 1.0])));
    for (beta, eta) in [(ratio(9, 10), int(1)), (ratio(-1, 4), ratio(1, 8)), (ratio(5, 2), int(3))] {
        let decimal = |r: &Rational| energyc::ir::rational::to_f64(r).to_string();
        let at = format!("beta={},eta={}", decimal(&beta), decimal(&eta));
        let value = skips("nag;", 5, &["--format", "json", "--at", &at]).json();
        for k in 0..5 {
            let exact = |polynomial: &Exact| -> Rational {
                polynomial.iter().map(|((m, n), c)| c * beta.pow(*m as i32) * eta.pow(*n as i32)).sum()
            };
            let expected = |polynomial: &Exact| energyc::ir::rational::to_f64(&exact(polynomial));
            assert_eq!(number(&value["z"][k]), expected(&of_token(5, k)));
            assert_eq!(number(&value["lookahead"][k]), expected(&of_lookahead(5, k)));
        }
    }
}

#[test]
fn values_are_refused_when_wrong() {
    let folder = recipe("momentum;");
    let at = |values: &str| run_in(folder.path(), &["skips", "a.recipe", "--layers", "3", "--at", values]).exits(2);
    for wrong in ["", "beta", "beta=", "beta=x", "beta=nan", "beta=inf", "beta=1,beta=2", "beta=1,", "beta=1e999", "=1"]
    {
        at(wrong).says("--at");
    }
    at("beta=1,beta=2").says("`beta` is given twice");
    at("betta=1").says("did you mean `beta`?");
    at("omega=1").says("it has beta, eta");
    at("T=1").says("`T` is no parameter of the optimizer");
    // A value that depends on a size needs the size.
    let sized = "gd(eta = learn(1 / sqrt(d_h)));";
    skips(sized, 2, &["--at", "d_h=64"]).exits(0).prints("0.125");
    skips(sized, 2, &["--at", "eta=3"]).exits(0).prints("η = 3");
    skips(sized, 2, &["--at", "eta=1,d_h=9"]).exits(0);
    let both = "o(eta = learn(1 / sqrt(d_h)), b = 1) { z = z - eta * b * grad(z); }";
    skips(both, 2, &["--at", "b=2"]).exits(2).says("no number without `d_h`");
    let inline = "o(a = 1) { z = z - a * grad(z) / d; }";
    skips(inline, 2, &["--at", "a=1"]).exits(2).says("`d` needs a value");
    skips(inline, 2, &["--at", "d=4"]).exits(0).prints("0.25");
    let huge = "o(a = 1) { z = z - exp(a) * grad(z); }";
    skips(huge, 1, &["--at", "a=1000"]).exits(2).says("no finite number");
}

// ---- text and LaTeX ----

#[test]
fn text_shows_geometric_sums() {
    let text = skips("nag;", 8, &[]).exits(0);
    let text = text.prints("a: skip connections over 8 layers").prints("    f⁽⁰⁾  η(1 + β + … + β⁷)\n");
    let text = text.prints("    f⁽⁵⁾  η(1 + β + β²) + β³\n").prints("z̃⁽⁸⁾ is the weighted sum of");
    text.prints("43 useful skip connections").prints("71 with");
    skips("momentum;", 1, &[]).exits(0).prints("over 1 layer\n").prints("1 skip connection:");
    skips("momentum;", 2, &["--at", "beta=0.5"]).exits(0).prints(" at β = 0.5, η = 1\n").prints("f⁽⁰⁾  1.5\n");
}

#[test]
fn latex_is_a_whole_file_that_compiles() {
    let folder = recipe("nag;");
    let odd = "o(a = learn(1), b = 2) { state p = a; let y = z - p / (1 + b^2);
        p = exp(b) * p + grad(y); z = z - a * p - grad(y - p); }";
    let files = [
        skips("nag;", 6, &["--format", "latex"]),
        skips("nag;", 40, &["--format", "latex", "--at", "beta=0.1,eta=1e-9"]),
        skips(odd, 3, &["--format", "latex"]),
    ];
    let engine = Command::new("pdflatex").arg("--version").output().is_ok_and(|output| output.status.success());
    for (j, run) in files.into_iter().enumerate() {
        let text = run.exits(0).out;
        assert!(text.starts_with("\\documentclass") && text.ends_with("\\end{document}\n"), "{text}");
        assert!(text.contains(r"\tilde{z}"), "{text}");
        assert!(text.is_ascii(), "{text}");
        let name = format!("{j}.tex");
        fs::write(folder.path().join(&name), &text).expect("written");
        if engine {
            let mut command = Command::new("pdflatex");
            let command = command.args(["-interaction=nonstopmode", "-halt-on-error", &name]);
            let output = command.current_dir(folder.path()).output().expect("it starts");
            assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stdout));
        }
    }
}

// ---- the figure ----

/// The tags of an XML file without comments and sections, with their attributes; panics unless they are balanced.
fn elements(xml: &str) -> Vec<(String, BTreeMap<String, String>)> {
    let (mut open, mut found) = (Vec::new(), Vec::new());
    for piece in xml.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        let entities = text.replace("&amp;", "").replace("&lt;", "").replace("&gt;", "").replace("&quot;", "");
        assert!(!entities.contains('&'), "{text}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop().as_deref(), Some(name));
            continue;
        }
        let (body, is_closed) = tag.strip_suffix('/').map_or((tag, false), |body| (body, true));
        let (name, mut rest) = body.split_once(' ').unwrap_or((body, ""));
        let mut attributes = BTreeMap::new();
        while let Some((key, value)) = rest.trim().split_once("=\"") {
            let (value, after) = value.split_once('"').expect("a value ends");
            assert_eq!(attributes.insert(key.trim().to_string(), value.to_string()), None, "{tag}");
            rest = after;
        }
        assert_eq!(rest.trim(), "", "{tag}");
        if !is_closed {
            open.push(name.to_string());
        }
        found.push((name.to_string(), attributes));
    }
    assert_eq!(open, Vec::<String>::new());
    found
}

fn figure(optimizer: &str, layers: usize, more: &[&str]) -> Vec<(String, BTreeMap<String, String>)> {
    let folder = recipe(optimizer);
    let layers = layers.to_string();
    let args = [&["skips", "a.recipe", "--layers", &layers, "--svg", "a.svg"], more].concat();
    run_in(folder.path(), &args).exits(0).says("wrote a.svg");
    let text = fs::read_to_string(folder.path().join("a.svg")).expect("a figure");
    assert!(text.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""), "{text}");
    elements(&text)
}

fn of_class(elements: &[(String, BTreeMap<String, String>)], class: &str) -> usize {
    elements.iter().filter(|(_, attributes)| attributes.get("class").is_some_and(|c| c == class)).count()
}

#[test]
fn every_connection_is_an_arc() {
    for layers in [1, 2, 3, 6] {
        let momentum = figure("momentum;", layers, &[]);
        assert_eq!(of_class(&momentum, "arc token"), layers * (layers + 1) / 2);
        assert_eq!(of_class(&momentum, "arc lookahead"), 0);
        assert_eq!(of_class(&momentum, "arc origin"), layers);
        assert_eq!(of_class(&momentum, "weight"), layers * (layers + 1) / 2);
        assert_eq!(of_class(&momentum, "node output"), layers);
        let nesterov = figure("nag;", layers, &["--at", "beta=0.8,eta=0.5"]);
        assert_eq!(of_class(&nesterov, "arc token"), layers + layers * (layers + 1) / 2);
        assert_eq!(of_class(&nesterov, "arc lookahead"), 2 * (layers * (layers - 1) / 2));
        assert_eq!(of_class(&nesterov, "arc origin"), 2 * (layers - 1) + 1 + layers);
    }
}

#[test]
fn labels_never_overlap_and_stay_inside() {
    let two = "o(a = learn(0.9), b = learn(0.3), eta = learn(0.7)) {
        state p = 0; state s = 0;
        let y = z - a * p + b * s;
        s = b * s + (1 - b) * grad(y);
        p = a * p + grad(y - s) + s / 3;
        z = z - eta * p - sqrt(eta) * s;
    }";
    for (optimizer, layers, more) in [
        ("momentum;", 3, &[][..]),
        ("momentum;", 6, &[]),
        ("nag;", 3, &[]),
        ("nag;", 6, &[]),
        ("nag;", 6, &["--at", "beta=0.8,eta=0.5"]),
        ("momentum;", 12, &["--at", "beta=0.123456"]),
        (two, 3, &[]),
        ("gd; steps 3;", 2, &[]),
    ] {
        let found = figure(optimizer, layers, more);
        let value = |attributes: &BTreeMap<String, String>, key: &str| -> f64 {
            attributes.get(key).expect(key).parse().expect("a number")
        };
        let [right, bottom] = ["width", "height"].map(|key| value(&found[0].1, key));
        let grounds = found.iter().filter(|(_, a)| a.get("class").is_some_and(|class| class == "ground"));
        let boxes: Vec<[f64; 4]> =
            grounds.map(|(_, a)| ["x", "y", "width", "height"].map(|key| value(a, key))).collect();
        assert!(!boxes.is_empty());
        for (j, [x, y, w, h]) in boxes.iter().enumerate() {
            assert!(*x >= 0.0 && *y >= 0.0 && x + w <= right && y + h <= bottom, "{optimizer} {layers}");
            for [u, v, p, q] in &boxes[..j] {
                let is_apart = x + w <= *u || u + p <= *x || y + h <= *v || v + q <= *y;
                assert!(is_apart, "labels meet: {optimizer} {layers} at {x} {y} and {u} {v}");
            }
        }
    }
}

#[test]
fn a_figure_is_written_over_an_older_one_but_over_nothing_else() {
    let folder = recipe("momentum;");
    let draw =
        |path: &str| run_in(folder.path(), &["skips", "a.recipe", "--layers", "2", "--format", "json", "--svg", path]);
    let value = draw("a.svg").json();
    assert_eq!(value["layers"], json!(2));
    let first = fs::read_to_string(folder.path().join("a.svg")).expect("a figure");
    draw("a.svg").exits(0);
    assert_eq!(fs::read_to_string(folder.path().join("a.svg")).expect("a figure"), first);
    let before = fs::read_to_string(folder.path().join("a.recipe")).expect("a recipe");
    draw("a.recipe").exits(2).says("no place for a figure");
    draw("./a.recipe").exits(2);
    draw("-").exits(2);
    assert_eq!(fs::read_to_string(folder.path().join("a.recipe")).expect("a recipe"), before);
    fs::create_dir(folder.path().join("dir")).expect("a directory");
    draw("dir").exits(1).says("cannot write `dir`");
    draw("missing/a.svg").exits(1).says("cannot write");
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 3);
}

/// What the shipped optimizers look like, in every format; the figure included.
#[test]
fn shipped_optimizers_unroll_as_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../tests/golden/skips");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for name in ["momentum", "nag"] {
            for format in ["text", "latex", "json"] {
                let printed = run_in(folder.path(), &["skips", name, "--layers", "3", "--format", format]).exits(0).out;
                insta::assert_snapshot!(format!("{name}.{format}"), printed);
            }
            run_in(folder.path(), &["skips", name, "--layers", "3", "--svg", "figure.svg"]).exits(0);
            let figure = fs::read_to_string(folder.path().join("figure.svg")).expect("a figure");
            insta::assert_snapshot!(format!("{name}.figure"), figure);
        }
    });
}
