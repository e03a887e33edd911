//! Optimizers: the second-order directions against loops written by hand and against numbers from another system,
//! programs against plain simulations, optimizers nobody has written before, series, linear systems in the algebra,
//! and loops.
//!
//! Expected values never come from the compiler: they are f64 loops over queries and tokens, small eliminations,
//! finite differences taken here, or constants whose origin is stated beside them.

use std::fs;
use std::path::Path;

use energyc::calculus;
use energyc::check::{Recipe, inputs};
use energyc::derive::{self, Backward, Derivation};
use energyc::diagnostic::{Diagnostic, render_all};
use energyc::emit::document::Stage;
use energyc::ir::eval::{Env, Sizes, evaluate};
use energyc::ir::sample::Random;
use energyc::ir::tensor::{Tensor, broadcast};
use energyc::ir::{Axis, Expr, Leaf, Role, Sign, Space, rational, traverse};
use energyc::pipeline;
use energyc::simplify::Options;
use energyc::span::Source;
use energyc::verify::{Outcome, Report, verify};

/// Values by row: queries or tokens first, components second.
type Rows = Vec<Vec<f64>>;

const TOKEN: [Axis; 2] = [Axis::T, Axis::C];
const HEAD: [Axis; 2] = [Axis::T, Axis::E];

// ---- recipes ----

/// A recipe that compiles without an error, its second-order step known to be possible.
fn recipe(text: &str) -> Recipe {
    let (recipe, diagnostics) = pipeline::front(text);
    let shown = render_all(&diagnostics, &Source::new("test.recipe", text), false);
    assert!(!diagnostics.iter().any(Diagnostic::is_error), "{text}\n{shown}");
    recipe.unwrap_or_else(|| panic!("{text}\n{shown}"))
}

/// A recipe file by name.
fn stored(name: &str) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(format!("{name}.recipe"));
    recipe(&fs::read_to_string(path).expect("a recipe"))
}

fn derived(recipe: &Recipe) -> Derivation {
    derive::derive(recipe, &Options::default())
}

/// What a head adds, names opened.
fn direction(recipe: &Recipe) -> Expr {
    let derivation = derived(recipe);
    derive::reveal(&derivation.direction.term, &derivation.names)
}

#[track_caller]
fn passes(recipe: &Recipe) -> Report {
    let report = verify(recipe, &Options::default());
    assert!(report.passed(), "{}\n{report}", recipe.name);
    report
}

/// Every line passes, and those of the direction, the backward pass and the whole step do apply.
#[track_caller]
fn is_right(text: &str) {
    let report = passes(&recipe(text));
    for name in ["gradient", "direction", "hessian", "vjp", "step", "simplified", "proofs", "awkward points"] {
        let line = report.line(name).unwrap_or_else(|| panic!("no line `{name}`: {text}\n{report}"));
        assert!(matches!(line.outcome, Outcome::Pass { .. }), "{text}\n{line}");
    }
}

// ---- numbers ----

fn random_rows(rows: usize, columns: usize, random: &mut Random) -> Rows {
    (0..rows).map(|_| (0..columns).map(|_| random.normal()).collect()).collect()
}

fn grid(rows: usize, columns: usize, entry: impl Fn(f64, f64) -> f64) -> Rows {
    (0..rows).map(|i| (0..columns).map(|j| entry(i as f64, j as f64)).collect()).collect()
}

fn tensor(rows: &Rows, axes: &[Axis]) -> Tensor {
    let shape = vec![rows.len(), rows[0].len()];
    Tensor { axes: axes.to_vec(), shape, data: rows.concat() }
}

/// The value of a term along exactly these axes, row by row of the last.
fn along(term: &Expr, axes: &[Axis], env: &Env) -> Rows {
    let length = |axis: Axis| env.sizes.length(axis);
    let value = evaluate(term, env).unwrap_or_else(|problem| panic!("{problem}: {term}"));
    let all = broadcast(&[&value, &Tensor::build(axes, length, |_| 0.0)], length, |v| v[0]);
    assert_eq!(all.axes, axes, "{term}");
    all.data.chunks(axes.last().map_or(1, |&axis| length(axis))).map(<[f64]>::to_vec).collect()
}

#[track_caller]
fn assert_close(got: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (j, (a, b)) in got.iter().zip(expected).enumerate() {
        let error = (a - b).abs() / (1.0 + b.abs());
        assert!(error <= tolerance, "{what}: entry {j} is {a}, expected {b} (relative error {error:.1e})");
    }
}

#[track_caller]
fn assert_rows_close(got: &Rows, expected: &Rows, tolerance: f64, what: &str) {
    assert_eq!(got.len(), expected.len(), "{what}");
    for (t, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert_close(got, expected, tolerance, &format!("{what}, row {t}"));
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn norm(a: &[f64]) -> f64 {
    dot(a, a).sqrt()
}

fn minus(a: &[f64], b: &[f64]) -> Vec<f64> {
    a.iter().zip(b).map(|(a, b)| a - b).collect()
}

fn scaled(a: &[f64], c: f64) -> Vec<f64> {
    a.iter().map(|a| c * a).collect()
}

/// Σ c·x over the pairs.
fn combined(parts: &[(f64, &[f64])]) -> Vec<f64> {
    let mut sum = vec![0.0; parts[0].1.len()];
    for (c, x) in parts {
        sum.iter_mut().zip(*x).for_each(|(s, x)| *s += c * x);
    }
    sum
}

/// matrix·x.
fn times(matrix: &Rows, x: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, x)).collect()
}

fn transposed(matrix: &Rows) -> Rows {
    (0..matrix[0].len()).map(|j| matrix.iter().map(|row| row[j]).collect()).collect()
}

/// b·I + a·matrix.
fn shifted(b: f64, a: f64, matrix: &Rows) -> Rows {
    let entry = |i: usize, j: usize| if i == j { b } else { 0.0 } + a * matrix[i][j];
    (0..matrix.len()).map(|i| (0..matrix.len()).map(|j| entry(i, j)).collect()).collect()
}

/// matrix⁻¹ right, by elimination with row exchanges.
fn eliminated(matrix: &Rows, right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut rows: Rows = matrix.iter().zip(right).map(|(row, b)| [row.as_slice(), &[*b]].concat()).collect();
    for step in 0..n {
        let pivot = (step..n).max_by(|&i, &j| rows[i][step].abs().total_cmp(&rows[j][step].abs())).expect("a row");
        rows.swap(step, pivot);
        let top = rows[step].clone();
        for row in &mut rows[step + 1..] {
            *row = combined(&[(1.0, row), (-row[step] / top[step], &top)]);
        }
    }
    let mut x = vec![0.0; n];
    for i in (0..n).rev() {
        let known: f64 = (i + 1..n).map(|j| rows[i][j] * x[j]).sum();
        x[i] = (rows[i][n] - known) / rows[i][i];
    }
    x
}

fn softmax(scores: &[f64]) -> Vec<f64> {
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores.iter().map(|s| (s - top).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| p / total).collect()
}

/// Σ p x.
fn mean(p: &[f64], rows: &Rows) -> Vec<f64> {
    combined(&p.iter().zip(rows).map(|(p, row)| (*p, row.as_slice())).collect::<Vec<_>>())
}

/// Σ p (x − x̄)(x − x̄)ᵀ.
fn covariance(p: &[f64], rows: &Rows) -> Rows {
    let (centre, n) = (mean(p, rows), rows[0].len());
    let entry = |i: usize, j: usize| -> f64 {
        p.iter().zip(rows).map(|(p, x)| p * (x[i] - centre[i]) * (x[j] - centre[j])).sum()
    };
    (0..n).map(|i| (0..n).map(|j| entry(i, j)).collect()).collect()
}

// ---- heads ----

/// What some queries see.
#[derive(Clone)]
struct Case {
    q: Rows,
    k: Rows,
    v: Rows,
    sees: Vec<Vec<bool>>,
}

/// One query with the tokens it sees, and the parameters.
struct View<'a> {
    q: &'a [f64],
    k: Rows,
    v: Rows,
    params: &'a [(&'a str, f64)],
}

impl View<'_> {
    fn param(&self, name: &str) -> f64 {
        self.params.iter().find(|(known, _)| *known == name).expect("a parameter").1
    }
    /// softmax(−½‖q − k‖²/T).
    fn by_distance(&self) -> Vec<f64> {
        let score = |k: &Vec<f64>| -dot(&minus(self.q, k), &minus(self.q, k)) / 2.0 / self.param("T");
        softmax(&self.k.iter().map(score).collect::<Vec<_>>())
    }
    /// softmax(q·k/T).
    fn by_product(&self) -> Vec<f64> {
        softmax(&self.k.iter().map(|k| dot(self.q, k) / self.param("T")).collect::<Vec<_>>())
    }
}

impl Case {
    fn random(queries: usize, tokens: usize, head: usize, seed: u64) -> Case {
        let random = &mut Random::new(seed);
        Case {
            q: random_rows(queries, head, random),
            k: random_rows(tokens, head, random),
            v: random_rows(tokens, head, random),
            sees: vec![vec![true; tokens]; queries],
        }
    }

    /// Every query sees its own part of the tokens; the first one, if it is blind, sees none.
    fn masked(mut self, blind: bool) -> Case {
        let tokens = self.k.len();
        for (t, row) in self.sees.iter_mut().enumerate() {
            row.iter_mut().enumerate().for_each(|(n, sees)| *sees = (n + t) % 3 != 1 || n == t % tokens);
        }
        self.sees[0].iter_mut().for_each(|sees| *sees &= !blind);
        self
    }

    fn env(&self, params: &[(&str, f64)]) -> Env {
        let (queries, tokens, head) = (self.q.len(), self.k.len(), self.q[0].len());
        let mut env = Env::new(Sizes { queries, tokens, head, model: head + 1, heads: 2 });
        for (leaf, rows) in [(inputs::q(), &self.q), (inputs::k(), &self.k), (inputs::v(), &self.v)] {
            env.values.insert(leaf.name.to_string(), tensor(rows, &leaf.axes));
        }
        for (name, value) in params {
            env.values.insert((*name).to_string(), Tensor::scalar(*value));
        }
        if self.sees.concat().contains(&false) {
            env.visible = Some(self.sees.concat());
        }
        env
    }

    /// The rule at every query, 0 at one that sees nothing.
    fn each(&self, params: &[(&str, f64)], rule: impl Fn(&View) -> Vec<f64>) -> Rows {
        let row = |(q, sees): (&Vec<f64>, &Vec<bool>)| {
            let seen = |rows: &Rows| -> Rows {
                rows.iter().zip(sees).filter(|(_, sees)| **sees).map(|(row, _)| row.clone()).collect()
            };
            let view = View { q, k: seen(&self.k), v: seen(&self.v), params };
            if sees.contains(&true) { rule(&view) } else { vec![0.0; q.len()] }
        };
        self.q.iter().zip(&self.sees).map(row).collect()
    }
}

// ---- the paper's directions ----

/// −[I − Cov/T]⁻¹ (q − k̄).
fn newton(head: &View) -> Vec<f64> {
    let p = head.by_distance();
    let r = minus(head.q, &mean(&p, &head.k));
    let system = shifted(1.0, -1.0 / head.param("T"), &covariance(&p, &head.k));
    scaled(&eliminated(&system, &r), -1.0)
}

/// b = Σ p k (k·r) − k̄ (k̄·r).
fn spread(p: &[f64], rows: &Rows, r: &[f64]) -> Vec<f64> {
    let centre = mean(p, rows);
    let weights: Vec<f64> = p.iter().zip(rows).map(|(p, k)| p * dot(k, r)).collect();
    combined(&[(1.0, &mean(&weights, rows)), (-dot(&centre, r), &centre)])
}

/// −(q − k̄ + τ b).
fn newton_taylor(head: &View) -> Vec<f64> {
    let p = head.by_distance();
    let r = minus(head.q, &mean(&p, &head.k));
    combined(&[(-1.0, &r), (-head.param("tau"), &spread(&p, &head.k, &r))])
}

/// −(q − k̄ + b/T + b₂/T²), b₂ made of b as b is of q − k̄.
fn newton_taylor2(head: &View) -> Vec<f64> {
    let (p, t) = (head.by_distance(), head.param("T"));
    let r = minus(head.q, &mean(&p, &head.k));
    let b = spread(&p, &head.k, &r);
    let b2 = spread(&p, &head.k, &b);
    combined(&[(-1.0, &r), (-1.0 / t, &b), (-1.0 / (t * t), &b2)])
}

/// v̄ + τ (Σ p v (v·v̄) − v̄ (v̄·v̄)).
fn newton_light(head: &View) -> Vec<f64> {
    let p = head.by_product();
    let centre = mean(&p, &head.v);
    combined(&[(1.0, &centre), (head.param("tau"), &spread(&p, &head.v, &centre))])
}

/// [εI + Cov]⁻¹ v̄.
fn newton_light_exact(head: &View) -> Vec<f64> {
    let p = head.by_product();
    eliminated(&shifted(head.param("eps"), 1.0, &covariance(&p, &head.v)), &mean(&p, &head.v))
}

/// Queries, tokens, d_h: an ordinary one, fewer tokens than components, one token, one component, one of everything.
const SHAPES: [(usize, usize, usize); 6] = [(3, 7, 5), (3, 3, 5), (2, 1, 4), (3, 7, 1), (4, 2, 3), (1, 1, 1)];

fn check_direction(name: &str, rule: impl Fn(&View) -> Vec<f64>) {
    let derived = direction(&stored(name));
    let params = [("T", 3.1), ("tau", 0.3), ("eps", 0.7)];
    for (queries, tokens, head) in SHAPES {
        for seed in 0..4 {
            let case = Case::random(queries, tokens, head, seed);
            for case in [case.clone(), case.clone().masked(false), case.masked(true)] {
                let what = format!("{name}: {queries} queries, N = {tokens}, d_h = {head}, seed {seed}");
                let got = along(&derived, &HEAD, &case.env(&params));
                assert_rows_close(&got, &case.each(&params, &rule), 1e-9, &what);
            }
        }
    }
}

#[test]
fn newton_is_the_papers() {
    check_direction("newton", newton);
}

#[test]
fn newton_taylor_is_the_papers() {
    check_direction("newton_taylor", newton_taylor);
}

#[test]
fn newton_taylor2_is_the_papers() {
    check_direction("newton_taylor2", newton_taylor2);
}

#[test]
fn newton_light_is_the_papers() {
    check_direction("newton_light", newton_light);
}

#[test]
fn newton_light_exact_is_the_papers() {
    check_direction("newton_light_exact", newton_light_exact);
}

/// What is not seen may be anything.
#[test]
fn unseen_tokens_contribute_nothing() {
    let params = [("T", 2.0), ("tau", 0.3), ("eps", 0.7)];
    for name in ["newton", "newton_taylor", "newton_taylor2", "newton_light", "newton_light_exact"] {
        let mut case = Case::random(2, 5, 3, 11);
        case.sees = vec![vec![true, false, true, true, false]; 2];
        let derived = direction(&stored(name));
        let before = along(&derived, &HEAD, &case.env(&params));
        for hidden in [1, 4] {
            case.k[hidden] = vec![1e3, -2e3, 5e2];
            case.v[hidden] = vec![-1e4, 3.0, 1e5];
        }
        assert_eq!(along(&derived, &HEAD, &case.env(&params)), before, "{name}");
    }
}

// ---- numbers from another system ----

/// Inputs both systems can make: 3 queries, 4 tokens, d_h = 3, and a mask.
fn agreed() -> (Case, Rows) {
    let case = Case {
        q: grid(3, 3, |i, j| (1.0 + 3.0 * i + 7.0 * j).sin()),
        k: grid(4, 3, |i, j| 1.5 * (2.0 + 5.0 * i + 3.0 * j).cos()),
        v: grid(4, 3, |i, j| (4.0 + 2.0 * i + 5.0 * j).sin()),
        sees: vec![vec![true; 4], vec![true, true, false, true], vec![false, true, true, false]],
    };
    (case, grid(3, 3, |i, j| (1.0 + i + 2.0 * j).cos()))
}

/// Σ_ij x_ij cos(1 + 2i + 3j), or the one number there is.
fn digest(rows: &Rows) -> f64 {
    if rows.len() == 1 {
        return rows[0][0];
    }
    let row = |(i, row): (usize, &Vec<f64>)| -> f64 {
        row.iter().enumerate().map(|(j, x)| x * (1.0 + 2.0 * i as f64 + 3.0 * j as f64).cos()).sum()
    };
    rows.iter().enumerate().map(row).sum()
}

/// A term of the backward pass with every name replaced by what it stands for.
fn opened(term: &Expr, derivation: &Derivation, backward: &Backward) -> Expr {
    let plain = backward.definitions.iter().rev().fold(term.clone(), |e, definition| {
        traverse::substitute_leaves(&e, &mut |leaf| {
            let value = || derive::at_axes(&definition.value.term, &definition.leaf.axes, &leaf.axes);
            leaf.same_input(&definition.leaf).then(value)
        })
    });
    derive::reveal(&plain, &derivation.names)
}

/// The direction's diagonal, its digest, and the digests of the cotangents ⟨g, direction⟩ sends back.
struct Reference {
    diagonal: [f64; 3],
    direction: f64,
    cotangents: &'static [(&'static str, f64)],
}

fn check_reference(recipe: &Recipe, params: &[(&str, f64)], reference: &Reference) {
    let derivation = derived(recipe);
    let backward = derive::backward(&derivation, &Options::default());
    let (case, g) = agreed();
    let mut env = case.env(params);
    env.values.insert(backward.cotangent.name.to_string(), tensor(&g, &HEAD));
    let o = along(&derive::reveal(&derivation.direction.term, &derivation.names), &HEAD, &env);
    let name = &recipe.name;
    for (t, expected) in reference.diagonal.iter().enumerate() {
        assert_close(&[o[t][t]], &[*expected], 1e-9, &format!("{name}: o[{t}, {t}]"));
    }
    assert_close(&[digest(&o)], &[reference.direction], 1e-9, &format!("{name}: o"));
    let sent: Vec<&str> = backward.gradients.iter().map(|d| &*d.leaf.name).collect();
    let expected: Vec<String> = reference.cotangents.iter().map(|(input, _)| format!("∂{input}")).collect();
    assert_eq!(sent, expected, "{name}");
    for (gradient, (input, expected)) in backward.gradients.iter().zip(reference.cotangents) {
        let term = opened(&gradient.value.term, &derivation, &backward);
        let got = digest(&along(&term, &gradient.leaf.axes, &env));
        assert_close(&[got], &[*expected], 1e-9, &format!("{name}: ∂{input}"));
    }
}

const PARAMS: [(&str, f64); 4] = [("T", 1.7), ("tau", 0.3), ("eps", 0.6), ("delta", 1.9)];

// The constants below were computed in double precision with PyTorch 2 on the inputs of `agreed`, query by query over
// the tokens it sees. F is written as its definition; g and H are its gradient and Hessian by automatic differentiation;
// systems are solved with torch.linalg.solve; the cotangents are the gradients of Σ g∘o by automatic differentiation
// through all of that.

/// F = −T logsumexp(−½‖q − k‖²/T), o = −H⁻¹ g.
#[test]
fn newton_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.51517481404122, 1.51518286298953, 0.33906839711495],
        direction: 1.81773605232978,
        cotangents: &[("q", 0.31297423006168), ("k", 2.37517228213859), ("T", 0.13985701252603)],
    };
    check_reference(&stored("newton"), &PARAMS, &reference);
}

/// The same F, o = −(g + τ T (I − H) g).
#[test]
fn newton_taylor_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.73748775284883, 1.40031016800866, 0.33055430837161],
        direction: 1.05795647597389,
        cotangents: &[
            ("q", 1.49328996022251),
            ("k", 2.37669158456224),
            ("T", 0.50989326596152),
            ("tau", -0.29223457514601),
        ],
    };
    check_reference(&stored("newton_taylor"), &PARAMS, &reference);
}

/// The same F, o = −(g + B g + B² g) with B = I − H.
#[test]
fn newton_taylor2_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.80725126281267, 1.48168210005216, 0.33905801286333],
        direction: 1.15692301641889,
        cotangents: &[("q", 2.52724655579174), ("k", 4.05616326607277), ("T", 1.14414375354173)],
    };
    check_reference(&stored("newton_taylor2"), &PARAMS, &reference);
}

/// p = softmax(k q/T), m = p v, C = Σ p (v − m)(v − m)ᵀ, o = m + τ C m.
#[test]
fn newton_light_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.03578633005273, 0.28649576861433, -0.52005556801086],
        direction: 0.31655454099693,
        cotangents: &[
            ("q", 0.72159505486237),
            ("k", -0.27918400731059),
            ("v", 0.80618688081725),
            ("T", -0.11078650426817),
            ("tau", 0.00155069903354),
        ],
    };
    check_reference(&stored("newton_light"), &PARAMS, &reference);
}

/// The same p, m and C, o = (εI + C)⁻¹ m.
#[test]
fn newton_light_exact_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.01616680093687, -0.13307521565358, -0.82670597597416],
        direction: 0.22648147295360,
        cotangents: &[
            ("q", 0.51636482553874),
            ("k", -0.18166933903048),
            ("v", 0.78523291931849),
            ("T", -0.07228923038942),
            ("eps", 0.33150832211751),
        ],
    };
    check_reference(&stored("newton_light_exact"), &PARAMS, &reference);
}

/// Huber's loss of ‖q − k‖ in the place of ½‖q − k‖², δ between the distances, o = −(g + B g + B² g) with B = I − H.
#[test]
fn a_huber_series_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-1.33389895869946, 1.56816035531853, 0.78506044665341],
        direction: 1.35215587465919,
        cotangents: &[
            ("q", 5.49711044096000),
            ("k", 4.06327577021070),
            ("delta", -1.34156028957983),
            ("T", 1.48234246997202),
        ],
    };
    let text = "recipe huber_series {
        local huber(delta = learn(1)); global lse(T = learn(1));
        optimizer newton(solve = taylor(2, alpha = 1)); values tied;
    }";
    check_reference(&recipe(text), &PARAMS, &reference);
}

/// F = Σ p E − T Σ (p − p^1.5)/0.75 with E = ½‖q − k‖² and p = [s − τ]₊², s = −E/(2T), by its closed form: with m the
/// mean of s over the support and w the sum of its squared deviations, τ = m − √((1 − w)/|S|). Two tokens of four have
/// weight at the first query. o = −(H + εI)⁻¹ g.
#[test]
fn an_entmax_system_agrees_with_automatic_differentiation() {
    let reference = Reference {
        diagonal: [-0.86779611408012, 0.93934284778801, 0.18327655764100],
        direction: 0.12150638975004,
        cotangents: &[
            ("q", 0.08098017085144),
            ("k", 1.61203050398167),
            ("T", -0.11080854348707),
            ("eps", 0.92457682767925),
        ],
    };
    let text = "recipe entmax_system {
        local euclidean; global tsallis(alpha = 1.5, T = learn(1));
        optimizer newton(eps = learn(1)); values tied;
    }";
    check_reference(&recipe(text), &[("T", 0.4), ("eps", 0.6)], &reference);
}

// ---- programs ----

/// The token and the states, as a program carries them.
#[derive(Clone, Debug)]
struct Carried {
    z: Rows,
    states: Vec<Rows>,
}

/// ∇F at a point.
type Force<'a> = &'a dyn Fn(&Rows) -> Rows;

/// Entry by entry.
fn each_entry(rows: [&Rows; 3], f: impl Fn(f64, f64, f64) -> f64) -> Rows {
    let [a, b, c] = rows;
    let row = |t: usize| (0..a[t].len()).map(|j| f(a[t][j], b[t][j], c[t][j])).collect();
    (0..a.len()).map(row).collect()
}

/// The program of a recipe, run by the interpreter.
struct Interpreted {
    recipe: Recipe,
    env: Env,
}

impl Interpreted {
    fn new(recipe: Recipe, params: &[(&str, f64)], queries: usize, model: usize) -> Interpreted {
        let mut env = Env::new(Sizes { queries, tokens: queries, head: 2, model, heads: 2 });
        for (name, value) in params {
            env.values.insert((*name).to_string(), Tensor::scalar(*value));
        }
        Interpreted { recipe, env }
    }

    fn start(&self, z: &Rows) -> Carried {
        let states = self.recipe.program.states.iter().map(|state| along(&state.init, &TOKEN, &self.env)).collect();
        Carried { z: z.clone(), states }
    }

    fn step(&self, now: &Carried, force: Force) -> Carried {
        let program = &self.recipe.program;
        let mut env = self.env.clone();
        let know = |env: &mut Env, leaf: Leaf, rows: &Rows| {
            env.values.insert(leaf.name.to_string(), tensor(rows, &TOKEN));
        };
        know(&mut env, inputs::z(), &now.z);
        program.states.iter().zip(&now.states).for_each(|(state, rows)| know(&mut env, state.leaf.clone(), rows));
        for (i, point) in program.gradients.iter().enumerate() {
            let gradient = force(&along(point, &TOKEN, &env));
            know(&mut env, inputs::gradient(i), &gradient);
        }
        let states = program.next_states.iter().map(|next| along(next, &TOKEN, &env)).collect();
        Carried { z: along(&program.z, &TOKEN, &env), states }
    }
}

/// Attention of two heads over the tokens up to one's own, every layer with matrices of its own.
struct Layer {
    /// W_Q, W_K, W_V, W_O of every head.
    heads: Vec<[Rows; 4]>,
}

impl Layer {
    fn random(model: usize, head: usize, random: &mut Random) -> Layer {
        let mut matrix = |rows: usize, columns: usize| random_rows(rows, columns, random);
        let mut inward = || matrix(head, model);
        let projections: Vec<[Rows; 3]> = (0..2).map(|_| [inward(), inward(), inward()]).collect();
        let heads = projections.into_iter().map(|[q, k, v]| [q, k, v, matrix(model, head)]);
        Layer { heads: heads.collect() }
    }

    /// −Σ_h W_O o_h, with o_h what `head` makes of the projections.
    fn force(&self, z: &Rows, head: impl Fn(&Case) -> Rows) -> Rows {
        let mut total = grid(z.len(), z[0].len(), |_, _| 0.0);
        for [w_q, w_k, w_v, w_o] in &self.heads {
            let projected = |w: &Rows| z.iter().map(|z| times(w, z)).collect::<Rows>();
            let sees = (0..z.len()).map(|t| (0..z.len()).map(|n| n <= t).collect()).collect();
            let case = Case { q: projected(w_q), k: projected(w_k), v: projected(w_v), sees };
            for (total, o) in total.iter_mut().zip(head(&case)) {
                *total = minus(total, &times(w_o, &o));
            }
        }
        total
    }
}

fn momentum_by_hand(now: &Carried, (beta, eta): (f64, f64), force: Force) -> Carried {
    let gradient = force(&now.z);
    let p = each_entry([&now.states[0], &gradient, &now.z], |p, g, _| beta * p + g);
    Carried { z: each_entry([&now.z, &p, &p], |z, p, _| z - eta * p), states: vec![p] }
}

fn nag_by_hand(now: &Carried, (beta, eta): (f64, f64), force: Force) -> Carried {
    let ahead = each_entry([&now.z, &now.states[0], &now.z], |z, p, _| z - beta * p);
    let gradient = force(&ahead);
    let p = each_entry([&now.states[0], &gradient, &now.z], |p, g, _| beta * p + g);
    Carried { z: each_entry([&now.z, &p, &p], |z, p, _| z - eta * p), states: vec![p] }
}

/// Σ p v with p = softmax(q·k/T).
fn softmax_head(head: &View) -> Vec<f64> {
    mean(&head.by_product(), &head.v)
}

/// Σ p c (v − q), p = softmax(−E/T), E and c by whether ‖q − k‖ ≤ δ.
fn huber_head(head: &View) -> Vec<f64> {
    let (delta, t) = (head.param("delta"), head.param("T"));
    let far: Vec<f64> = head.k.iter().map(|k| norm(&minus(head.q, k))).collect();
    let energy = |r: &f64| if *r <= delta { r * r / 2.0 } else { delta * (r - delta / 2.0) };
    let p = softmax(&far.iter().map(|r| -energy(r) / t).collect::<Vec<_>>());
    let weights: Vec<f64> = p.iter().zip(&far).map(|(p, r)| if *r <= delta { *p } else { p * delta / r }).collect();
    combined(&[(1.0, &mean(&weights, &head.v)), (-weights.iter().sum::<f64>(), head.q)])
}

/// Attention and feed-forward layers in turn, as a model has them, all moving one token with one momentum.
fn check_layers(name: &str, by_hand: fn(&Carried, (f64, f64), Force) -> Carried, head_by_hand: fn(&View) -> Vec<f64>) {
    const MODEL: usize = 5;
    let (beta, eta) = (0.7, 0.4);
    let params = [("beta", beta), ("eta", eta), ("T", 1.3), ("delta", 1.1)];
    let recipe = stored(name);
    let derived = direction(&recipe);
    let program = Interpreted::new(recipe, &params, 3, MODEL);
    let random = &mut Random::new(5);
    let start = random_rows(3, MODEL, random);
    let mut got = program.start(&start);
    let mut expected = Carried { z: start.clone(), states: vec![grid(3, MODEL, |_, _| 0.0)] };
    for layer in 0..6 {
        let attention = Layer::random(MODEL, 3, random);
        let feed = random_rows(MODEL, MODEL, random);
        let feed_forward =
            |z: &Rows| -> Rows { z.iter().map(|z| times(&feed, z).iter().map(|x| -x.tanh()).collect()).collect() };
        let interpreted = |z: &Rows| attention.force(z, |case| along(&derived, &HEAD, &case.env(&params)));
        let written = |z: &Rows| attention.force(z, |case| case.each(&params, head_by_hand));
        let forces: [(Force, Force); 2] = [(&interpreted, &written), (&feed_forward, &feed_forward)];
        for (place, (force, force_by_hand)) in forces.into_iter().enumerate() {
            got = program.step(&got, force);
            expected = by_hand(&expected, (beta, eta), force_by_hand);
            let what = format!("{name}, layer {layer}, sublayer {place}");
            assert_rows_close(&got.z, &expected.z, 1e-9, &what);
            assert_rows_close(&got.states[0], &expected.states[0], 1e-9, &what);
        }
    }
}

#[test]
fn momentum_runs_as_written_by_hand() {
    check_layers("momentum", momentum_by_hand, softmax_head);
}

#[test]
fn nag_runs_as_written_by_hand() {
    check_layers("nag", nag_by_hand, softmax_head);
}

#[test]
fn huber_nag_runs_as_written_by_hand() {
    check_layers("huber_lse_nag", nag_by_hand, huber_head);
}

/// A force that has nothing to do with energies: −tanh of a fixed map.
fn some_force(z: &Rows) -> Rows {
    let model = z[0].len();
    let matrix = grid(model, model, |i, j| (1.0 + 2.0 * i + 3.0 * j).sin());
    z.iter().map(|z| times(&matrix, z).iter().map(|x| 1.5 * x.tanh()).collect()).collect()
}

/// z^(L) = z^(0) + Σ_k η (1 + β + … + β^(L−1−k)) f^(k), f^(k) = −∇F at the point of layer k; for NAG that point is
/// z^(0) + Σ_k (the same + β^(L−k)) f^(k).
#[test]
fn layers_add_up_to_the_papers_skip_connections() {
    let (beta, eta) = (0.8_f64, 0.5);
    let start = grid(2, 4, |i, j| (1.0 + i - 2.0 * j).cos());
    let series = |apart: usize| (0..apart as i32).map(|n| eta * beta.powi(n)).sum::<f64>();
    for (name, looks_ahead) in [("momentum", 0.0), ("nag", 1.0)] {
        let program = Interpreted::new(stored(name), &[("beta", beta), ("eta", eta)], 2, 4);
        let mut now = program.start(&start);
        let mut gradients: Vec<Rows> = vec![];
        for layer in 0..6 {
            let weighted = |gradients: &[Rows], weight: &dyn Fn(usize) -> f64| {
                gradients.iter().enumerate().fold(start.clone(), |z, (k, gradient)| {
                    each_entry([&z, gradient, gradient], |z, g, _| z - weight(k) * g)
                })
            };
            let point = weighted(&gradients, &|k| series(layer - k) + looks_ahead * beta.powi((layer - k) as i32));
            now = program.step(&now, &|z| {
                assert_rows_close(z, &point, 1e-12, &format!("{name}: the point of layer {layer}"));
                some_force(z)
            });
            gradients.push(some_force(&point));
            let expected = weighted(&gradients, &|k| series(layer + 1 - k));
            assert_rows_close(&now.z, &expected, 1e-12, &format!("{name}: z after layer {layer}"));
        }
    }
}

// ---- optimizers nobody has written before ----

const TWO_LOOKS: &str = "optimizer two_looks(beta = learn(0.9), gamma = learn(0.5), eta = learn(0.3)) {
    state p = 0;
    state s = 0;
    let y = z - beta * p;
    let g = grad(y);
    s = gamma * s + grad(y - gamma * (g + s));
    p = beta * p + g + s;
    z = z - eta * p;
}";
const RUNNING_SQUARE: &str = "optimizer running_square(beta = 0.9, eta = learn(0.1), eps = 0.01) where eps > 0 {
    state w = 0;
    let g = grad(z);
    w = beta * w + (1 - beta) * g^2;
    z = z - eta * g / (sqrt(w) + eps);
}";
const WARM_START: &str = "optimizer warm_start(beta = learn(0.5), start = 0.25, eta = 1) {
    state p = start;
    state count = 1;
    count = count + 1;
    p = beta * p + (1 - beta) * grad(z);
    z = z - eta * p / sqrt(count);
}";
const CLIPPED: &str = "optimizer clipped(most = learn(0.5), eta = learn(1)) where most > 0 {
    let g = grad(z);
    z = z - eta * (if norm(g) <= most { g } else { most * g / norm(g) });
}";
const SOLVED_MOMENTUM: &str = "optimizer solved_momentum(beta = learn(0.9), eta = learn(1), eps = 0.5) {
    state p = 0;
    p = beta * p + solve(hess(z) + eps, grad(z));
    z = z - eta * p;
}";
const SOLVED_AHEAD: &str = "optimizer solved_ahead(beta = learn(0.9), eta = learn(1), eps = 0.5) {
    state p = 0;
    let y = z - beta * p;
    p = beta * p + solve(hess(y) + eps, grad(y));
    z = z - eta * p;
}";

/// An optimizer, what its parameters are in the simulation, what its states start at, and one step by hand.
struct Written {
    text: &'static str,
    params: &'static [(&'static str, f64)],
    start: &'static [f64],
    step: fn(&Carried, Force) -> Carried,
}

const WRITTEN: [Written; 4] = [
    Written {
        text: TWO_LOOKS,
        params: &[("beta", 0.7), ("gamma", 0.4), ("eta", 0.3)],
        start: &[0.0, 0.0],
        step: |now, force| {
            let ahead = each_entry([&now.z, &now.states[0], &now.z], |z, p, _| z - 0.7 * p);
            let g = force(&ahead);
            let second = force(&each_entry([&ahead, &g, &now.states[1]], |y, g, s| y - 0.4 * (g + s)));
            let s = each_entry([&now.states[1], &second, &g], |s, f, _| 0.4 * s + f);
            let p = each_entry([&now.states[0], &g, &s], |p, g, s| 0.7 * p + g + s);
            Carried { z: each_entry([&now.z, &p, &p], |z, p, _| z - 0.3 * p), states: vec![p, s] }
        },
    },
    Written {
        text: RUNNING_SQUARE,
        params: &[("beta", 0.8), ("eta", 0.2), ("eps", 0.05)],
        start: &[0.0],
        step: |now, force| {
            let g = force(&now.z);
            let w = each_entry([&now.states[0], &g, &g], |w, g, _| 0.8 * w + 0.2 * g * g);
            Carried { z: each_entry([&now.z, &g, &w], |z, g, w| z - 0.2 * g / (w.sqrt() + 0.05)), states: vec![w] }
        },
    },
    Written {
        text: WARM_START,
        params: &[("beta", 0.6), ("start", 0.25), ("eta", 0.8)],
        start: &[0.25, 1.0],
        step: |now, force| {
            let g = force(&now.z);
            let count = each_entry([&now.states[1], &g, &g], |count, _, _| count + 1.0);
            let p = each_entry([&now.states[0], &g, &g], |p, g, _| 0.6 * p + 0.4 * g);
            let z = each_entry([&now.z, &p, &count], |z, p, count| z - 0.8 * p / count.sqrt());
            Carried { z, states: vec![p, count] }
        },
    },
    Written {
        text: SOLVED_AHEAD,
        params: &[("beta", 0.7), ("eta", 0.4), ("eps", 0.5)],
        start: &[0.0],
        step: |now, force| nag_by_hand(now, (0.7, 0.4), force),
    },
];

const WRITTEN_CLIPPED: Written = Written {
    text: CLIPPED,
    params: &[("most", 0.9), ("eta", 0.7)],
    start: &[],
    step: |now, force| {
        let clip = |(z, g): (&Vec<f64>, Vec<f64>)| {
            let longest = if norm(&g) <= 0.9 { 1.0 } else { 0.9 / norm(&g) };
            minus(z, &scaled(&g, 0.7 * longest))
        };
        Carried { z: now.z.iter().zip(force(&now.z)).map(clip).collect(), states: vec![] }
    },
};

fn with_optimizer(optimizer: &str) -> String {
    format!("recipe own {{ local euclidean; global lse(T = learn(1.5)); {optimizer} values tied; }}")
}

/// Whatever the force is, a program does with it what its statements say.
fn check_program(written: &Written) {
    let program = Interpreted::new(recipe(&with_optimizer(written.text)), written.params, 3, 4);
    let z = grid(3, 4, |i, j| 0.9 * (1.0 + i - 2.0 * j).cos());
    let mut got = program.start(&z);
    let states = written.start.iter().map(|x| grid(3, 4, |_, _| *x)).collect();
    let mut expected = Carried { z, states };
    for layer in 0..5 {
        got = program.step(&got, &some_force);
        expected = (written.step)(&expected, &some_force);
        let what = format!("{} at layer {layer}", written.text);
        assert_rows_close(&got.z, &expected.z, 1e-11, &what);
        assert_eq!(got.states.len(), expected.states.len(), "{what}");
        for (got, expected) in got.states.iter().zip(&expected.states) {
            assert_rows_close(got, expected, 1e-11, &what);
        }
    }
}

#[test]
fn programs_run_as_written_by_hand() {
    WRITTEN.iter().for_each(check_program);
}

#[test]
fn clipping_runs_as_written_by_hand() {
    check_program(&WRITTEN_CLIPPED);
}

#[test]
fn two_look_aheads_with_two_states_verify() {
    is_right(&with_optimizer(TWO_LOOKS));
}

#[test]
fn a_running_average_of_squares_verifies() {
    is_right(&with_optimizer(RUNNING_SQUARE));
}

#[test]
fn a_warm_start_verifies() {
    is_right(&with_optimizer(WARM_START));
}

#[test]
fn clipping_verifies() {
    is_right(&with_optimizer(CLIPPED));
}

#[test]
fn momentum_on_a_solved_step_verifies() {
    is_right(&with_optimizer(SOLVED_MOMENTUM));
}

#[test]
fn a_solved_step_at_a_look_ahead_verifies() {
    is_right(&with_optimizer(SOLVED_AHEAD));
}

#[test]
fn learned_coefficients_of_a_system_verify() {
    let optimizer = "optimizer own(a = learn(0.7), b = learn(2, per head), eta = learn(1)) {
        z = z - eta * solve(a * hess(z) + b, grad(z));
    }";
    is_right(&with_optimizer(optimizer));
}

#[test]
fn a_system_under_a_name_verifies() {
    let optimizer = "optimizer own(eps = learn(1)) {
        state p = 0;
        let g = grad(z);
        let A = hess(z) + eps;
        p = p / 2 + solve(A, 3 * g);
        z = z - p;
    }";
    is_right(&with_optimizer(optimizer));
}

#[test]
fn a_series_as_an_argument_of_solve_verifies() {
    for way in ["taylor(2)", "taylor(1, scale = learn(0.1))", "exact", "exact(scale = 0.2)"] {
        let optimizer = format!("optimizer own(eps = 1) {{ z = z - solve(hess(z) + eps, grad(z), {way}); }}");
        is_right(&with_optimizer(&optimizer));
    }
}

/// Two solved steps in one layer, the second from where the first leads.
#[test]
fn two_solved_steps_verify() {
    let optimizer = "optimizer own(eps = 1, eta = learn(0.5)) {
        let y = z - eta * solve(hess(z) + eps, grad(z));
        z = y - eta * solve(hess(y) + eps, grad(y));
    }";
    is_right(&with_optimizer(optimizer));
}

// ---- second-order steps on other energies ----

fn check_energy(local: &str, global: &str, ways: &[(&str, &str)]) {
    for (way, values) in ways {
        is_right(&format!("recipe r {{ local {local}; global {global}; optimizer {way}; values {values}; }}"));
    }
}

const LSE: &str = "lse(T = learn(1))";

#[test]
fn newton_on_huber_verifies() {
    let ways = [("newton(eps = 1)", "tied"), ("newton(solve = taylor(0, alpha = 1))", "free")];
    check_energy("huber(delta = learn(1))", LSE, &ways);
}

#[test]
fn series_on_huber_verify() {
    let ways = [
        ("newton(solve = taylor(1, alpha = 1))", "free"),
        ("newton(solve = taylor(2, alpha = learn(2)), eps = 1)", "tied"),
    ];
    check_energy("huber(delta = learn(1))", LSE, &ways);
}

#[test]
fn series_on_squares_verify() {
    let ways = [
        ("newton(solve = taylor(0))", "tied"),
        ("newton(solve = taylor(2))", "free"),
        ("newton(solve = taylor(3), eps = 1)", "tied"),
    ];
    check_energy("lp(p = 2)", LSE, &ways);
}

#[test]
fn series_on_higher_powers_verify() {
    let ways =
        [("newton(solve = taylor(1, alpha = 9))", "tied"), ("newton(solve = taylor(2, alpha = 20), eps = 1)", "free")];
    check_energy("lp(p = 3)", LSE, &ways);
    check_energy("lp(p = 4)", LSE, &ways);
}

/// The terms of the series are large and cancel in ∂T where a query sees one token.
#[test]
fn a_series_of_large_terms_verifies() {
    check_energy("lp(p = 4)", LSE, &[("newton(solve = taylor(2), eps = learn(5))", "tied")]);
}

/// ∇F has a number in front: 2(q − k̄), 3 Σ p …, 4 Σ p ….
#[test]
fn newton_on_powers_verifies() {
    check_energy("lp(p = 2)", LSE, &[("newton", "tied"), ("newton(eps = 1)", "free")]);
    check_energy("lp(p = 3)", LSE, &[("newton(eps = 1)", "tied")]);
    check_energy("lp(p = 4)", LSE, &[("newton(eps = 1)", "tied")]);
}

#[test]
fn newton_on_entmax_verifies() {
    let ways = [
        ("newton(eps = 1)", "tied"),
        ("newton(solve = taylor(0))", "tied"),
        ("newton(solve = taylor(1))", "free"),
        ("newton(solve = taylor(2))", "tied"),
    ];
    check_energy("euclidean", "tsallis(alpha = 1.5, T = learn(2))", &ways);
}

#[test]
fn newton_on_sparsemax_verifies() {
    let ways = [
        ("newton(eps = 1)", "free"),
        ("newton(solve = taylor(1))", "tied"),
        ("newton(solve = taylor(2, scale = learn(0.1)))", "tied"),
    ];
    check_energy("euclidean", "tsallis(alpha = 2, T = learn(2))", &ways);
}

#[test]
fn newton_on_normmax_verifies() {
    let ways =
        [("newton(eps = 1)", "tied"), ("newton(solve = taylor(1))", "free"), ("newton(solve = taylor(2))", "tied")];
    check_energy("euclidean", "norm_entropy(gamma = 2, T = learn(2))", &ways);
}

#[test]
fn newton_on_products_with_damping_verifies() {
    let ways = [
        ("newton(eps = learn(3))", "tied"),
        ("concave_newton(eps = learn(1))", "free"),
        ("newton(solve = taylor(0), eps = 2)", "free"),
        ("newton(solve = taylor(1), eps = learn(2))", "tied"),
        ("concave_newton(solve = taylor(2), eps = 2)", "tied"),
        ("newton(solve = taylor(3), eps = 2)", "free"),
    ];
    check_energy("dot", LSE, &ways);
}

// ---- series ----

fn series(local: &str, global: &str, optimizer: &str, values: &str) -> Expr {
    let text = format!("recipe r {{ local {local}; global {global}; optimizer {optimizer}; values {values}; }}");
    direction(&recipe(&text))
}

/// With ρ the trace of Cov/T, which bounds its eigenvalues, the series of order k is at most ρ^(k+1)/(1 − ρ) ‖r‖ away.
#[test]
fn a_series_approaches_the_solution_as_fast_as_its_radius_says() {
    let params = [("T", 4.0)];
    let mut case = Case::random(3, 6, 4, 2).masked(false);
    case.k.iter_mut().for_each(|k| k.iter_mut().for_each(|x| *x *= 0.6));
    let env = case.env(&params);
    let radius = case.each(&params, |head| {
        let covariance = covariance(&head.by_distance(), &head.k);
        vec![(0..4).map(|i| covariance[i][i] / 4.0).sum()]
    });
    let right = case.each(&params, |head| minus(head.q, &mean(&head.by_distance(), &head.k)));
    let expected = case.each(&params, newton);
    let exact = along(&series("euclidean", "lse(T = learn(1))", "newton", "tied"), &HEAD, &env);
    assert_rows_close(&exact, &expected, 1e-10, "exact");
    let mut before = vec![f64::INFINITY; 3];
    for order in 0..=8 {
        let optimizer = format!("newton(solve = taylor({order}))");
        let got = along(&series("euclidean", "lse(T = learn(1))", &optimizer, "tied"), &HEAD, &env);
        for t in 0..3 {
            let (error, rho) = (norm(&minus(&got[t], &exact[t])), radius[t][0]);
            let bound = rho.powi(order + 1) / (1.0 - rho) * norm(&right[t]);
            assert!(rho < 0.7 && error <= bound + 1e-12, "order {order}: {error:.1e} > {bound:.1e} at ρ = {rho:.2}");
            assert!(error < before[t], "order {order}: {error:.1e} after {:.1e}", before[t]);
            before[t] = error;
        }
    }
    assert!(before.iter().all(|error| *error < 1e-4), "{before:?}");
}

/// εI ± Cov/T with ε above the largest eigenvalue; Huber and the fourth power with an α above theirs.
#[test]
fn damped_and_given_series_approach_the_solution() {
    let params = [("T", 4.0), ("eps", 2.0), ("delta", 0.8), ("alpha", 9.0)];
    let mut case = Case::random(3, 5, 3, 7).masked(false);
    for rows in [&mut case.q, &mut case.k, &mut case.v] {
        rows.iter_mut().for_each(|row| row.iter_mut().for_each(|x| *x *= 0.4));
    }
    let env = case.env(&params);
    for (local, optimizer, alpha, orders) in [
        ("dot", "newton", "", [1, 3, 5, 9]),
        ("dot", "concave_newton", "", [1, 3, 5, 9]),
        ("huber(delta = learn(1))", "newton", ", alpha = 3", [2, 6, 12, 24]),
        ("lp(p = 4)", "newton", ", alpha = learn(9)", [2, 6, 12, 24]),
    ] {
        let solved = |way: &str| {
            let optimizer = format!("{optimizer}(solve = {way}, eps = learn(2))");
            along(&series(local, LSE, &optimizer, "free"), &HEAD, &env)
        };
        let exact = solved("exact");
        let mut before = f64::INFINITY;
        for order in orders {
            let got = solved(&format!("taylor({order}{alpha})"));
            let error = (0..3).map(|t| norm(&minus(&got[t], &exact[t]))).fold(0.0, f64::max);
            assert!(error < 0.5 * before, "{local}, {optimizer}, {order}: {error:.1e} after {before:.1e}");
            before = error;
        }
        assert!(before < 1e-3, "{local}, {optimizer}: {before:.1e}");
    }
}

#[test]
fn a_series_that_ends_at_once_is_the_gradient() {
    let params = [("T", 1.2), ("eps", 3.0)];
    let plain = series("euclidean", LSE, "gd", "tied");
    for (optimizer, divisor) in [
        ("newton(solve = taylor(0, alpha = 1))", 1.0),
        ("newton(solve = taylor(0))", 1.0),
        ("newton(solve = taylor(0), eps = learn(1))", 4.0),
        ("newton(solve = taylor(0, alpha = 5), eps = learn(1))", 5.0),
    ] {
        let cut = series("euclidean", LSE, optimizer, "tied");
        for seed in 0..3 {
            let case = Case::random(3, 5, 4, seed).masked(true);
            let got = along(&cut, &HEAD, &case.env(&params));
            let expected =
                case.each(&params, |head| scaled(&minus(&mean(&head.by_distance(), &head.k), head.q), 1.0 / divisor));
            assert_rows_close(&got, &expected, 1e-12, optimizer);
            let undivided = along(&plain, &HEAD, &case.env(&params));
            let undivided = undivided.iter().map(|row| scaled(row, 1.0 / divisor)).collect();
            assert_rows_close(&got, &undivided, 1e-12, optimizer);
        }
    }
}

// ---- systems in the algebra ----

/// Axes of components.
const fn component(index: u8) -> Axis {
    Axis::new(Space::Head, index)
}

const ROW: Axis = component(4);
const COLUMN: Axis = component(5);

fn input(name: &str, axes: &[Axis]) -> Expr {
    let ordinal = name.bytes().fold(0u16, |sum, byte| sum * 31 % 997 + u16::from(byte));
    Expr::leaf(Leaf::new(Role::Named, ordinal, name, axes, Sign::Unknown))
}

fn query(axis: Axis) -> Expr {
    Expr::leaf(Leaf { axes: vec![Axis::T, axis], ..inputs::q() })
}

fn identity(row: Axis, column: Axis) -> Expr {
    Expr::leaf(Leaf::identity(row, column))
}

/// Values for q, k and the inputs of this section; the matrix is far from singular and not symmetric.
fn system_env(queries: usize, head: usize, seed: u64) -> Env {
    let case = Case::random(queries, 4, head, seed);
    let mut env = case.env(&[]);
    let random = &mut Random::new(seed + 100);
    let length = |axis: Axis| Sizes { queries, tokens: 4, head, model: head, heads: 1 }.length(axis);
    let mut matrix = |name: &str, own: f64| {
        let near = |at: &[usize]| if at[0] == at[1] { own } else { 0.0 };
        let value = Tensor::build(&[ROW, COLUMN], length, |at| near(at) + 0.4 * random.normal());
        env.values.insert(name.to_string(), value);
    };
    matrix("M", 3.0);
    matrix("L", -2.0);
    for name in ["b", "y"] {
        let rows = random_rows(queries, head, random);
        env.values.insert(name.to_string(), tensor(&rows, &HEAD));
    }
    env
}

/// Rows of a stored input.
fn stored_rows(env: &Env, name: &str) -> Rows {
    let value = &env.values[name];
    value.data.chunks(*value.shape.last().expect("an axis")).map(<[f64]>::to_vec).collect()
}

fn matrix(name: &str, row: Axis, column: Axis) -> Expr {
    input(name, &[row, column])
}

fn vector(name: &str, axis: Axis) -> Expr {
    input(name, &[Axis::T, axis])
}

/// x with M x = b, or with Mᵀ x = b.
#[test]
fn systems_are_solved_along_their_column() {
    for (head, seed) in [(1, 0), (2, 1), (3, 2), (6, 3)] {
        let env = system_env(2, head, seed);
        let (m, b) = (stored_rows(&env, "M"), stored_rows(&env, "b"));
        let x = Expr::solve(ROW, Axis::E, &matrix("M", ROW, Axis::E), &vector("b", ROW));
        let expected = b.iter().map(|b| eliminated(&m, b)).collect();
        assert_rows_close(&along(&x, &HEAD, &env), &expected, 1e-12, "M x = b");
        let x = Expr::solve(ROW, Axis::E, &matrix("M", Axis::E, ROW), &vector("b", ROW));
        let expected = b.iter().map(|b| eliminated(&transposed(&m), b)).collect();
        assert_rows_close(&along(&x, &HEAD, &env), &expected, 1e-12, "Mᵀ x = b");
    }
}

#[test]
fn known_systems_have_their_known_solutions() {
    let x = Expr::solve(ROW, Axis::E, &matrix("M", ROW, Axis::E), &vector("b", ROW).scale(&rational::int(2)));
    for (m, b, expected) in [
        // A pivot of 0 that an exchange of rows gets around.
        ([[0.0, 1.0], [1.0, 0.0]], [3.0, 5.0], [10.0, 6.0]),
        ([[2.0, 1.0], [0.0, 4.0]], [1.0, 2.0], [0.5, 1.0]),
        // Indefinite.
        ([[1.0, 2.0], [2.0, 1.0]], [3.0, 3.0], [2.0, 2.0]),
        // Singular: of rank one, and 0.
        ([[1.0, 2.0], [2.0, 4.0]], [1.0, 2.0], [0.0, 0.0]),
        ([[0.0, 0.0], [0.0, 0.0]], [1.0, 1.0], [0.0, 0.0]),
    ] {
        let mut env = system_env(1, 2, 0);
        env.values.insert("M".to_string(), tensor(&m.map(|row| row.to_vec()).to_vec(), &[ROW, COLUMN]));
        env.values.insert("b".to_string(), tensor(&vec![b.to_vec()], &HEAD));
        assert_close(&along(&x, &HEAD, &env)[0], &expected, 1e-14, &format!("{m:?}"));
    }
}

/// q qᵀ alone is singular; with sI it is not.
#[test]
fn a_singular_query_does_not_disturb_the_others() {
    let outer = query(ROW).times(&query(Axis::E));
    let x = Expr::solve(ROW, Axis::E, &vector("s", ROW).times(&identity(ROW, Axis::E)).plus(&outer), &vector("b", ROW));
    let mut env = system_env(3, 2, 4);
    env.values.insert("s".to_string(), tensor(&vec![vec![1.0; 2], vec![0.0; 2], vec![2.0; 2]], &HEAD));
    let (q, b) = (stored_rows(&env, "q"), stored_rows(&env, "b"));
    let expected = |t: usize, s: f64| {
        let outer: Rows = q[t].iter().map(|a| scaled(&q[t], *a)).collect();
        eliminated(&shifted(s, 1.0, &outer), &b[t])
    };
    let expected = vec![expected(0, 1.0), vec![0.0; 2], expected(2, 2.0)];
    assert_rows_close(&along(&x, &HEAD, &env), &expected, 1e-12, "one of three is singular");
}

/// A matrix and a right side that move with q.
fn moving_matrix(row: Axis, column: Axis) -> Expr {
    let skewed = query(row).times(&vector("y", column)).scale(&rational::ratio(1, 5));
    Expr::add([matrix("M", row, column), query(row).times(&query(column)).square(), skewed])
}

fn moving_right(axis: Axis) -> Expr {
    vector("b", axis).plus(&query(axis).square())
}

/// The solution of the two.
fn moving_solution(column: Axis) -> Expr {
    let row = component(6);
    Expr::solve(row, column, &moving_matrix(row, column), &moving_right(row))
}

fn key(axis: Axis) -> Expr {
    Expr::leaf(Leaf { axes: vec![Axis::N, axis], ..inputs::k() })
}

/// Terms x(q) along e made of one solution or of several.
fn moving_systems() -> Vec<(&'static str, Expr)> {
    let transposed = Expr::solve(ROW, Axis::E, &moving_matrix(Axis::E, ROW), &moving_right(ROW));
    let on_the_right = Expr::solve(ROW, Axis::E, &matrix("L", ROW, Axis::E), &moving_solution(ROW));
    let gram = Expr::sum(Axis::N, &Expr::mul([key(ROW), key(Axis::E), query(ROW).exp()]));
    let of_tokens = Expr::solve(ROW, Axis::E, &identity(ROW, Axis::E).plus(&gram), &moving_right(ROW));
    let square = Expr::sum(COLUMN, &moving_solution(COLUMN).square());
    vec![
        ("one system", moving_solution(Axis::E)),
        ("a transposed matrix", transposed),
        ("a solution on the right side", on_the_right),
        ("a matrix from the tokens", of_tokens),
        ("a solution under a function", square.plus(&Expr::one()).log().times(&moving_solution(Axis::E))),
    ]
}

/// The same, where the slope of a solution ends up inside a sum that is a factor, or inside another sum than that over
/// its own column.
fn entangled_systems() -> Vec<(&'static str, Expr)> {
    let x = moving_solution(Axis::E);
    let product = x.square().times(&x.plus(&query(Axis::E)));
    let outer = identity(ROW, Axis::E).scale(&rational::int(5)).plus(&moving_solution(ROW).times(&query(Axis::E)));
    let in_the_matrix = Expr::solve(ROW, Axis::E, &outer, &moving_right(ROW));
    let of_token = Expr::solve(ROW, Axis::E, &moving_matrix(ROW, Axis::E), &key(ROW).times(&query(ROW)));
    vec![
        ("a product of solutions", product),
        ("a solution in the matrix", in_the_matrix),
        ("a right side for every token", Expr::sum(Axis::N, &of_token.square().times(&key(Axis::E)))),
    ]
}

fn all_systems() -> Vec<(&'static str, Expr)> {
    [moving_systems(), entangled_systems()].concat()
}

/// Central differences of f, with one entry of an input moved.
fn differences(env: &Env, name: &str, f: impl Fn(&Env) -> f64) -> Vec<f64> {
    let moved = |j: usize, by: f64| {
        let mut env = env.clone();
        env.values.get_mut(name).expect("an input").data[j] += by;
        f(&env)
    };
    const STEP: f64 = 1e-5;
    (0..env.values[name].data.len()).map(|j| (moved(j, STEP) - moved(j, -STEP)) / (2.0 * STEP)).collect()
}

/// Masked or not; the last query sees something always.
fn both_masks(env: &Env) -> [Env; 2] {
    let Sizes { queries, tokens, .. } = env.sizes;
    let visible = (0..queries * tokens).map(|at| at % 3 != 1).collect();
    [env.clone(), Env { visible: Some(visible), ..env.clone() }]
}

/// The slope of a term along u, by central differences in q.
fn slope_along_u(term: &Expr, env: &Env) -> Vec<f64> {
    const STEP: f64 = 1e-5;
    let moved = |by: f64| {
        let mut env = env.clone();
        let u = env.values["u"].data.clone();
        env.values.get_mut("q").expect("q").data.iter_mut().zip(u).for_each(|(q, u)| *q += by * u);
        along(term, &HEAD, &env).concat()
    };
    scaled(&minus(&moved(STEP), &moved(-STEP)), 0.5 / STEP)
}

/// The inputs of a system, and a u to move along.
fn moving_env(seed: u64) -> (Leaf, Env) {
    let mut env = system_env(2, 3, seed);
    env.values.insert("u".to_string(), tensor(&random_rows(2, 3, &mut Random::new(seed + 1)), &HEAD));
    (Leaf::new(Role::Probe, 0, "u", &HEAD, Sign::Unknown), env)
}

#[test]
fn the_tangent_of_a_solution_is_its_slope() {
    let (u, env) = moving_env(21);
    for (name, x) in all_systems() {
        let tangent = calculus::tangent(&x, &inputs::q(), &u, &[]);
        for env in both_masks(&env) {
            assert_close(&along(&tangent, &HEAD, &env).concat(), &slope_along_u(&x, &env), 1e-7, name);
        }
    }
}

/// ⟨y, x⟩ by each of q, k and y, on which the matrix depends as well.
fn check_gradients(systems: Vec<(&str, Expr)>) {
    let y = vector("y", Axis::E);
    for (name, x) in systems {
        let paired = Expr::sum(Axis::T, &Expr::sum(Axis::E, &y.times(&x)));
        for leaf in [inputs::q(), inputs::k(), y.as_leaf().expect("a leaf").clone()] {
            let gradient = calculus::gradient(&paired, &leaf);
            assert_eq!(gradient, calculus::vjp(&x, &y, &leaf), "{name}");
            for env in both_masks(&system_env(2, 3, 31)) {
                let loss = |env: &Env| dot(&along(&x, &HEAD, env).concat(), &env.values["y"].data);
                let expected = differences(&env, &leaf.name, loss);
                let what = format!("{name}, {}", leaf.name);
                assert_close(&along(&gradient, &leaf.axes, &env).concat(), &expected, 1e-7, &what);
            }
        }
    }
}

/// Differentiated twice: the change of the gradient along u.
fn check_second_derivatives(systems: Vec<(&str, Expr)>) {
    let (u, env) = moving_env(41);
    for (name, x) in systems {
        let energy = Expr::sum(Axis::E, &vector("y", Axis::E).times(&x));
        let gradient = calculus::gradient(&energy, &inputs::q());
        let product = calculus::hessian_vector(&gradient, &inputs::q(), &u, &[]);
        assert_close(&along(&product, &HEAD, &env).concat(), &slope_along_u(&gradient, &env), 1e-6, name);
    }
}

#[test]
fn the_gradient_of_a_solution_is_its_slope() {
    check_gradients(moving_systems());
}

#[test]
fn the_second_derivative_of_a_solution_is_the_slope_of_the_first() {
    check_second_derivatives(moving_systems());
}

#[test]
fn the_gradient_of_entangled_solutions_is_its_slope() {
    check_gradients(entangled_systems());
}

#[test]
fn the_second_derivative_of_entangled_solutions_is_the_slope_of_the_first() {
    check_second_derivatives(entangled_systems());
}

/// Whatever the free axis is called, a bound row steps aside; and calling it back gives the same term.
#[test]
fn names_of_axes_do_not_capture_rows() {
    let env = system_env(2, 3, 51);
    for (name, x) in all_systems() {
        let expected = along(&x, &HEAD, &env);
        for index in 1..=12 {
            let to = component(index);
            let renamed = traverse::rename(&x, Axis::E, to);
            assert!(renamed.has_axis(to) && !renamed.has_axis(Axis::E), "{name}: {renamed}");
            assert_eq!(along(&renamed, &[Axis::T, to], &env), expected, "{name} along {to}");
            assert_eq!(traverse::rename(&renamed, to, Axis::E), x, "{name} along {to} and back");
        }
    }
}

/// The name of the row is nobody's business, and a system beside or around another keeps its own.
#[test]
fn rows_are_bound() {
    let with_row = |row: Axis| Expr::solve(row, Axis::E, &matrix("M", row, Axis::E), &vector("b", row));
    for index in 1..=9 {
        assert_eq!(with_row(component(index)), with_row(ROW));
        assert!(!with_row(component(index)).has_axis(component(index)));
    }
    let env = system_env(2, 3, 61);
    let (m, l, b) = (stored_rows(&env, "M"), stored_rows(&env, "L"), stored_rows(&env, "b"));
    // The row of the outer system is called what the inner one calls its own.
    for (outer, inner) in [(1, 1), (1, 2), (2, 1), (3, 1)] {
        let (outer, inner) = (component(outer), component(inner));
        let first = Expr::solve(inner, Axis::E, &matrix("M", inner, Axis::E), &vector("b", inner));
        let right = traverse::rename(&first, Axis::E, outer);
        let x = Expr::solve(outer, Axis::E, &matrix("L", outer, Axis::E), &right);
        let expected = b.iter().map(|b| eliminated(&l, &eliminated(&m, b))).collect();
        assert_rows_close(&along(&x, &HEAD, &env), &expected, 1e-12, &format!("{outer} around {inner}"));
    }
    // x[e]·x[e1] with both copies of one system free.
    let x = with_row(ROW);
    let both = x.times(&traverse::rename(&x, Axis::E, component(1)));
    let expected: Rows = b
        .iter()
        .flat_map(|b| {
            let x = eliminated(&m, b);
            x.iter().map(|a| scaled(&x, *a)).collect::<Rows>()
        })
        .collect();
    assert_rows_close(&along(&both, &[Axis::T, Axis::E, component(1)], &env), &expected, 1e-12, "x xᵀ");
}

/// What is put in the place of a leaf under a row extends along that row.
#[test]
fn substitution_reaches_under_rows() {
    let env = system_env(2, 3, 71);
    let x = Expr::solve(ROW, Axis::E, &matrix("M", ROW, Axis::E), &vector("b", ROW));
    let own = |axis: Axis| Expr::solve(COLUMN, axis, &matrix("L", COLUMN, axis), &query(COLUMN));
    let leaf = vector("b", Axis::E).as_leaf().expect("a leaf").clone();
    let put = traverse::substitute_leaves(&x, &mut |found| {
        found.same_input(&leaf).then(|| derive::at_axes(&own(Axis::E), &leaf.axes, &found.axes))
    });
    let (m, l, q) = (stored_rows(&env, "M"), stored_rows(&env, "L"), stored_rows(&env, "q"));
    let expected = q.iter().map(|q| eliminated(&m, &eliminated(&l, q))).collect();
    assert_rows_close(&along(&put, &HEAD, &env), &expected, 1e-12, "M x = L⁻¹ q");
}

// ---- loops ----

#[track_caller]
fn step_passes(name: &str, steps: &str) {
    let report = passes(&stored(name));
    let line = report.line("step").expect("a line");
    assert!(matches!(line.outcome, Outcome::Pass { .. }) && line.detail.contains(steps), "{line}");
}

#[test]
fn hopfield_verifies_through_its_steps() {
    step_passes("hopfield", "3 steps");
}

#[test]
fn loop_softmax_verifies_through_its_steps() {
    step_passes("loop_softmax", "4 steps");
}

/// One head over fixed tokens with tied values: z ← z + η W1ᵀ Σ p W2 h. F = −T log Σ exp(q·k/T) falls at every step,
/// and the recipe's own energy, direction and program say the same.
#[test]
fn hopfield_lowers_its_energy_step_by_step() {
    let recipe = stored("hopfield");
    assert_eq!(recipe.steps, 3);
    let derived = direction(&recipe);
    let (t, eta) = (1.4, 0.05);
    let params = [("T", t), ("eta", eta)];
    for seed in 0..5 {
        let random = &mut Random::new(seed);
        let (w1, w2) = (random_rows(3, 5, random), random_rows(3, 5, random));
        let stored: Rows = random_rows(6, 5, random).iter().map(|h| times(&w2, h)).collect();
        let mut z = random_rows(2, 5, random);
        let program = Interpreted::new(recipe.clone(), &params, 2, 5);
        let mut carried = program.start(&z);
        let case = |z: &Rows| Case {
            q: z.iter().map(|z| times(&w1, z)).collect(),
            k: stored.clone(),
            v: stored.clone(),
            sees: vec![vec![true; 6]; 2],
        };
        let energy = |z: &Rows| -> Vec<f64> {
            let of = |q: &Vec<f64>| -t * stored.iter().map(|k| (dot(q, k) / t).exp()).sum::<f64>().ln();
            case(z).q.iter().map(of).collect()
        };
        let force = |z: &Rows| -> Rows {
            let o = along(&derived, &HEAD, &case(z).env(&params));
            o.iter().map(|o| scaled(&times(&transposed(&w1), o), -1.0)).collect()
        };
        for step in 0..12 {
            let before = energy(&z);
            let pull = case(&z).each(&params, |head| mean(&head.by_product(), &head.k));
            for (z, pull) in z.iter_mut().zip(&pull) {
                *z = combined(&[(1.0, z), (eta, &times(&transposed(&w1), pull))]);
            }
            let after = energy(&z);
            assert!(before.iter().zip(&after).all(|(a, b)| b < a), "seed {seed}, step {step}: {before:?}, {after:?}");
            carried = program.step(&carried, &force);
            assert_rows_close(&carried.z, &z, 1e-11, &format!("seed {seed}, step {step}"));
            let own = along(&recipe.energy, &[Axis::T], &case(&z).env(&params)).concat();
            assert_close(&own, &after, 1e-11, "F");
        }
    }
}

/// Four steps of one layer with the tokens moving along: z ← z + Σ_h W_O Σ p v, h ← z.
#[test]
fn loop_softmax_runs_as_written_by_hand() {
    let recipe = stored("loop_softmax");
    assert_eq!(recipe.steps, 4);
    let derived = direction(&recipe);
    let params = [("T", 1.6), ("eta", 1.0)];
    let random = &mut Random::new(9);
    let layer = Layer::random(4, 2, random);
    let mut z: Rows = random_rows(3, 4, random).iter().map(|row| scaled(row, 0.3)).collect();
    let program = Interpreted::new(recipe, &params, 3, 4);
    let mut carried = program.start(&z);
    for step in 0..4 {
        let force = layer.force(&z, |case| case.each(&params, softmax_head));
        z = each_entry([&z, &force, &force], |z, g, _| z - g);
        carried = program.step(&carried, &|z| layer.force(z, |case| along(&derived, &HEAD, &case.env(&params))));
        assert_rows_close(&carried.z, &z, 1e-10, &format!("step {step}"));
    }
}

// Programs nobody thought of.

/// A random program over z, states and gradients, with vectors where vectors belong.
struct Programs(Random);

impl Programs {
    fn pick<'a>(&mut self, options: &[&'a str]) -> &'a str {
        options[self.0.below(options.len())]
    }

    fn vector(&mut self, depth: usize, names: &[String]) -> String {
        if depth == 0 || self.0.uniform() < 0.2 {
            return names[self.0.below(names.len())].clone();
        }
        let (a, b) = (self.vector(depth - 1, names), self.vector(depth - 1, names));
        match self.0.below(9) {
            0 => format!("({a} + {b})"),
            1 => format!("({a} - {b})"),
            2 => format!("{} * {a}", self.number(depth - 1, names)),
            3 | 4 => format!("grad({a})"),
            5 => format!("tanh({a})"),
            6 => format!("sqrt(1 + ({a})^2)"),
            7 => format!("(if norm({a}) <= 1 {{ {b} }} else {{ 0.5 * {b} }})"),
            _ => format!("({a} / (1 + ({b})^2))"),
        }
    }

    fn number(&mut self, depth: usize, names: &[String]) -> String {
        if depth == 0 || self.0.uniform() < 0.5 {
            return self.pick(&["eta", "0.5", "1/H"]).to_string();
        }
        let (a, b) = (self.vector(depth - 1, names), self.vector(depth - 1, names));
        match self.0.below(3) {
            0 => format!("(1 / (1 + norm({a})))"),
            1 => format!("tanh(dot({a}, {b}))"),
            _ => format!("exp(-norm({a}))"),
        }
    }

    fn recipe(&mut self) -> String {
        let mut names = vec!["z".to_string()];
        let mut body = String::new();
        for state in ["s", "r"].into_iter().take(self.0.below(3)) {
            body += &format!("state {state} = {}; ", self.pick(&["0", "1", "eta"]));
            names.push(state.to_string());
        }
        let states = names[1..].to_vec();
        body += &format!("let y = {}; ", self.vector(2, &names));
        names.push("y".to_string());
        for state in states {
            body += &format!("{state} = {}; ", self.vector(2, &names));
        }
        let force = self.pick(&["grad(z)", "solve(hess(z) + 1, grad(z))", "solve(hess(z) + 1, grad(z), taylor(1))"]);
        // Every gradient of a program goes through the same system, or none does.
        let rest = if force == "grad(z)" { self.vector(2, &names) } else { "tanh(z)".to_string() };
        if force != "grad(z)" {
            body = body.replace("grad(", "tanh(");
        }
        let local = self.pick(&["dot", "euclidean", "huber", "lp(p = 3)"]);
        let global = self.pick(&["lse", "tsallis(alpha = 1.5)"]);
        let more = self.pick(&["", "values tied;", "steps 2;", "steps 2; tokens fixed;", "write_back pinv;"]);
        format!(
            "recipe r {{ local {local}; global {global}; \
             optimizer o(eta = learn(0.5)) {{ {body}z = z - eta * ({rest} + {force}); }} {more} }}"
        )
    }
}

/// Checked, derived, printed, unrolled and verified, whatever they are.
#[test]
fn random_programs_go_through_everything() {
    let mut programs = Programs(Random::new(2026));
    let mut right = 0;
    for _ in 0..16 {
        let text = programs.recipe();
        // A few are wrong: z − z is no point.
        let (Some(recipe), _) = pipeline::front(&text) else { continue };
        right += 1;
        let derived = pipeline::derived(&recipe, &Stage::ALL, &Options::default());
        let document = pipeline::documented(&derived, &Stage::ALL);
        assert!(!energyc::emit::text::print(&document).is_empty());
        assert!(!energyc::emit::latex::body(&document).is_empty());
        let _ = energyc::skips::unroll(&recipe, 2, &Default::default());
        let report = verify(&recipe, &Options::default());
        assert!(report.passed(), "{text}\n{report}");
    }
    assert!(right >= 12, "{right} programs compile");
}
