//! The shipped recipes as formulas, written by hand in f64: one query, the tokens it sees, a direction and an energy.
//! Nothing here comes from the compiler; what it derives is measured against this.

/// What one query of one head is computed from; only the tokens it sees.
pub struct Row<'a> {
    pub q: &'a [f64],
    pub keys: Vec<&'a [f64]>,
    /// The keys again where values are tied.
    pub values: Vec<&'a [f64]>,
    /// The gates or the products of decays.
    pub gamma: Vec<f64>,
    pub param: &'a dyn Fn(&str) -> f64,
}

/// The parameters of a recipe that are numbers.
pub fn params(recipe: &str) -> &'static [&'static str] {
    match recipe {
        "dense_memory" => &[],
        "huber" => &["T", "delta", "eta"],
        "huber_lse_nag" => &["T", "delta", "beta", "eta"],
        "momentum" | "nag" => &["T", "beta", "eta"],
        "newton_taylor" => &["T", "tau", "eta"],
        "newton_light" => &["T", "tau"],
        "newton_light_exact" => &["T", "eps"],
        "qknorm" => &["T", "rho"],
        "sigmoid_attention" => &["T", "b"],
        "cauchy" | "sink" | "softcap" => &["T", "c"],
        _ => &["T"],
    }
}

/// The value a parameter starts with.
pub fn initial(recipe: &str, param: &str, head: usize) -> f64 {
    match (param, recipe) {
        ("b", "sigmoid_attention") => -6.0,
        ("c", "sink") => 0.0,
        ("c", "softcap") => 50.0,
        ("c", "cauchy") => 2.0 * head as f64,
        ("T", "cauchy") => 1.0,
        ("tau", _) => 0.01,
        ("beta", _) => 0.9,
        ("T", "linear" | "gated_linear" | "retention") => 1.0,
        ("T", "euclidean" | "huber" | "huber_lse_nag" | "l1" | "logcosh" | "lp" | "qknorm") => {
            (2.0 * head as f64).sqrt()
        }
        ("T", "newton" | "newton_taylor" | "newton_taylor2") => (2.0 * head as f64).sqrt(),
        ("T", _) => (head as f64).sqrt(),
        _ => 1.0,
    }
}

pub fn has_free_values(recipe: &str) -> bool {
    !matches!(recipe, "hopfield" | "newton" | "newton_taylor" | "newton_taylor2")
}

/// The direction and the energy.
pub fn row(recipe: &str, row: &Row) -> (Vec<f64>, f64) {
    let t = if params(recipe).contains(&"T") { (row.param)("T") } else { 1.0 };
    let products: Vec<f64> = row.keys.iter().map(|k| dot(row.q, k)).collect();
    let gaps: Vec<Vec<f64>> = row.keys.iter().map(|k| minus(row.q, k)).collect();
    match recipe {
        "softmax" | "momentum" | "nag" | "loop_softmax" | "hopfield" => {
            let (p, energy) = softmax(&products.iter().map(|x| -x).collect::<Vec<_>>(), t);
            (mean(&p, &row.values), energy)
        }
        "sparsemax" | "entmax15" | "normmax" => {
            let scores: Vec<f64> = products.iter().map(|x| x / t).collect();
            let (p, entropy) = sparse(recipe, &scores);
            (mean(&p, &row.values), -dot(&p, &products) - t * entropy)
        }
        "linear" => linear(row, &products, &vec![1.0; products.len()], t),
        "gated_linear" | "retention" => linear(row, &products, &row.gamma, t),
        "euclidean" => {
            let (p, energy) = softmax(&gaps.iter().map(|r| dot(r, r) / 2.0).collect::<Vec<_>>(), t);
            (minus(&mean(&p, &row.values), row.q), energy)
        }
        "qknorm" => {
            let rho = (row.param)("rho");
            let at_length = |x: &[f64]| scale(rho / dot(x, x).sqrt(), x);
            let q = at_length(row.q);
            let energies: Vec<f64> = row.keys.iter().map(|k| rho * rho - dot(&q, &at_length(k))).collect();
            let (p, energy) = softmax(&energies, t);
            (mean(&p, &row.values), energy)
        }
        "huber" | "huber_lse_nag" => {
            let delta = (row.param)("delta");
            let lengths: Vec<f64> = gaps.iter().map(|r| dot(r, r).sqrt()).collect();
            let energies: Vec<f64> =
                (lengths.iter()).map(|&x| if x <= delta { x * x / 2.0 } else { delta * (x - delta / 2.0) }).collect();
            let (p, energy) = softmax(&energies, t);
            let case = |x: f64| if x <= delta { 1.0 } else { delta / x };
            let pulls = row.values.iter().zip(&lengths).map(|(v, &x)| scale(case(x), &minus(v, row.q)));
            (mean(&p, &pulls.collect::<Vec<_>>()), energy)
        }
        "softcap" => {
            let c = (row.param)("c");
            let (p, energy) = softmax(&products.iter().map(|x| -c * (x / c).tanh()).collect::<Vec<_>>(), t);
            let pulls = row.values.iter().zip(&products).map(|(v, x)| scale(1.0 / (x / c).cosh().powi(2), v));
            (mean(&p, &pulls.collect::<Vec<_>>()), energy)
        }
        // Softmax with one more token, which has the logit c and nothing to add.
        "sink" => {
            let energies = products.iter().map(|x| -x).chain([-t * (row.param)("c")]);
            let (p, energy) = softmax(&energies.collect::<Vec<_>>(), t);
            (mean(&p[..row.values.len()], &row.values), energy)
        }
        "sigmoid_attention" => {
            let logits = products.iter().map(|x| (row.param)("b") + x / t);
            let weights: Vec<f64> = logits.clone().map(|x| 1.0 / (1.0 + (-x).exp())).collect();
            (mean(&weights, &row.values), -t * logits.map(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()).sum::<f64>())
        }
        "dense_memory" => {
            let weights: Vec<f64> = products.iter().map(|x| x.max(0.0).powi(2)).collect();
            (mean(&weights, &row.values), -products.iter().map(|x| x.max(0.0).powi(3)).sum::<f64>() / 3.0)
        }
        "cauchy" => {
            let c = (row.param)("c");
            let squares: Vec<f64> = gaps.iter().map(|r| dot(r, r)).collect();
            let (p, energy) = softmax(&squares.iter().map(|x| (x / c).ln_1p()).collect::<Vec<_>>(), t);
            let pulls = row.values.iter().zip(&squares).map(|(v, x)| scale(2.0 / (c + x), &minus(v, row.q)));
            (mean(&p, &pulls.collect::<Vec<_>>()), energy)
        }
        "logcosh" => {
            let log_cosh = |x: &f64| x.abs() + (-2.0 * x.abs()).exp().ln_1p() - std::f64::consts::LN_2;
            let energies: Vec<f64> = gaps.iter().map(|r| r.iter().map(log_cosh).sum()).collect();
            let (p, energy) = softmax(&energies, t);
            let pulls = row.values.iter().map(|v| minus(v, row.q).iter().map(|x| x.tanh()).collect::<Vec<f64>>());
            (mean(&p, &pulls.collect::<Vec<_>>()), energy)
        }
        "l1" => powers(row, &gaps, t, 1.0),
        "lp" => powers(row, &gaps, t, 3.0),
        "newton" | "newton_taylor" | "newton_taylor2" => {
            let (p, energy) = softmax(&gaps.iter().map(|r| dot(r, r) / 2.0).collect::<Vec<_>>(), t);
            let r = minus(row.q, &mean(&p, &row.keys));
            let covariance = covariance(&p, &row.keys);
            let b = times(&covariance, &r);
            let direction = match recipe {
                "newton" => solve(&shifted(1.0, -1.0 / t, &covariance), &r),
                "newton_taylor" => plus(&r, &scale((row.param)("tau"), &b)),
                _ => plus(&plus(&r, &scale(1.0 / t, &b)), &scale(1.0 / (t * t), &times(&covariance, &b))),
            };
            (scale(-1.0, &direction), energy)
        }
        "newton_light" | "newton_light_exact" => {
            let (p, energy) = softmax(&products.iter().map(|x| -x).collect::<Vec<_>>(), t);
            let mean = mean(&p, &row.values);
            let covariance = covariance(&p, &row.values);
            let direction = match recipe {
                "newton_light" => plus(&mean, &scale((row.param)("tau"), &times(&covariance, &mean))),
                _ => solve(&shifted((row.param)("eps"), 1.0, &covariance), &mean),
            };
            (direction, energy)
        }
        _ => panic!("no formula for {recipe}"),
    }
}

/// T Σ γ (q·k) v and −T/2 Σ γ (q·k)².
fn linear(row: &Row, products: &[f64], gamma: &[f64], t: f64) -> (Vec<f64>, f64) {
    let weights: Vec<f64> = products.iter().zip(gamma).map(|(x, g)| t * g * x).collect();
    (mean(&weights, &row.values), -dot(&weights, products) / 2.0)
}

/// The energy Σ|q − k|^p.
fn powers(row: &Row, gaps: &[Vec<f64>], t: f64, power: f64) -> (Vec<f64>, f64) {
    let energies: Vec<f64> = gaps.iter().map(|r| r.iter().map(|x| x.abs().powf(power)).sum()).collect();
    let (p, energy) = softmax(&energies, t);
    let pull = |x: &f64| power * x.signum() * x.abs().powf(power - 1.0);
    let pulls: Vec<Vec<f64>> = row.values.iter().map(|v| minus(v, row.q).iter().map(pull).collect()).collect();
    (mean(&p, &pulls), energy)
}

/// Weights exp(−E/T)/Z and the free energy −T log Z.
fn softmax(energies: &[f64], t: f64) -> (Vec<f64>, f64) {
    let least = energies.iter().copied().fold(f64::INFINITY, f64::min);
    let raw: Vec<f64> = energies.iter().map(|e| (-(e - least) / t).exp()).collect();
    let total: f64 = raw.iter().sum();
    (raw.iter().map(|x| x / total).collect(), least - t * total.ln())
}

/// Weights that may be 0, and their entropy; the threshold by halving.
fn sparse(recipe: &str, scores: &[f64]) -> (Vec<f64>, f64) {
    let weight = |x: f64| match recipe {
        "sparsemax" => x.max(0.0),
        "entmax15" => (x / 2.0).max(0.0).powi(2),
        _ => x.max(0.0),
    };
    let sum = |threshold: f64| -> f64 {
        let weights = scores.iter().map(|s| weight(s - threshold));
        if recipe == "normmax" { weights.map(|w| w * w).sum() } else { weights.sum() }
    };
    let top = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let (mut low, mut high) = (top - 2.0, top);
    for _ in 0..80 {
        let middle = 0.5 * (low + high);
        if sum(middle) >= 1.0 { low = middle } else { high = middle }
    }
    let raw: Vec<f64> = scores.iter().map(|s| weight(s - low)).collect();
    let total: f64 = raw.iter().sum();
    let p: Vec<f64> = raw.iter().map(|x| x / total).collect();
    let tsallis = |alpha: f64| p.iter().map(|p| p - p.powf(alpha)).sum::<f64>() / (alpha * (alpha - 1.0));
    let entropy = match recipe {
        "sparsemax" => tsallis(2.0),
        "entmax15" => tsallis(1.5),
        _ => 1.0 - dot(&p, &p).sqrt(),
    };
    (p, entropy)
}

fn dot(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn plus(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x + y).collect()
}

fn minus(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x - y).collect()
}

fn scale(c: f64, x: &[f64]) -> Vec<f64> {
    x.iter().map(|x| c * x).collect()
}

/// Σ p x.
fn mean<X: AsRef<[f64]>>(p: &[f64], xs: &[X]) -> Vec<f64> {
    let zero = vec![0.0; xs[0].as_ref().len()];
    p.iter().zip(xs).fold(zero, |sum, (p, x)| plus(&sum, &scale(*p, x.as_ref())))
}

fn covariance(p: &[f64], xs: &[&[f64]]) -> Vec<Vec<f64>> {
    let centre = mean(p, xs);
    let entry = |i: usize, j: usize| -> f64 {
        p.iter().zip(xs).map(|(p, x)| p * (x[i] - centre[i]) * (x[j] - centre[j])).sum()
    };
    (0..centre.len()).map(|i| (0..centre.len()).map(|j| entry(i, j)).collect()).collect()
}

fn times(matrix: &[Vec<f64>], x: &[f64]) -> Vec<f64> {
    matrix.iter().map(|row| dot(row, x)).collect()
}

/// a I + b M.
fn shifted(a: f64, b: f64, matrix: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let entry = |i: usize, j: usize, x: f64| b * x + if i == j { a } else { 0.0 };
    let row = |(i, row): (usize, &Vec<f64>)| row.iter().enumerate().map(|(j, x)| entry(i, j, *x)).collect();
    matrix.iter().enumerate().map(row).collect()
}

/// Gaussian elimination with the largest pivot.
fn solve(matrix: &[Vec<f64>], right: &[f64]) -> Vec<f64> {
    let n = right.len();
    let mut rows: Vec<Vec<f64>> = matrix.iter().zip(right).map(|(row, b)| [&row[..], &[*b]].concat()).collect();
    for i in 0..n {
        let pivot = (i..n).max_by(|a, b| rows[*a][i].abs().total_cmp(&rows[*b][i].abs())).expect("a row");
        rows.swap(i, pivot);
        let lead = scale(1.0 / rows[i][i], &rows[i]);
        for (j, row) in rows.iter_mut().enumerate() {
            *row = if i == j { lead.clone() } else { minus(row, &scale(row[i], &lead)) };
        }
    }
    rows.iter().map(|row| row[n]).collect()
}
