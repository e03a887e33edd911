//! What is said of predictions: accuracy, the rate of the commonest class beside it, Matthews' correlation, F1; and of
//! several runs mean and deviation.

/// The share of predictions that are right.
pub fn accuracy(truth: &[usize], guess: &[usize]) -> f64 {
    let right = truth.iter().zip(guess).filter(|(truth, guess)| truth == guess).count();
    right as f64 / truth.len().max(1) as f64
}

/// The accuracy of always saying the commonest class.
pub fn majority(truth: &[usize]) -> f64 {
    let classes = truth.iter().max().map_or(0, |largest| largest + 1);
    let count = |class: usize| truth.iter().filter(|own| **own == class).count();
    (0..classes).map(count).max().unwrap_or(0) as f64 / truth.len().max(1) as f64
}

/// True and false positives and negatives, where class 1 is positive.
struct Counts {
    tp: f64,
    fp: f64,
    tn: f64,
    r#fn: f64,
}

fn counts(truth: &[usize], guess: &[usize]) -> Counts {
    let of = |wanted: (bool, bool)| {
        truth.iter().zip(guess).filter(|(truth, guess)| (**truth == 1, **guess == 1) == wanted).count() as f64
    };
    Counts { tp: of((true, true)), fp: of((false, true)), tn: of((false, false)), r#fn: of((true, false)) }
}

/// (TP·TN − FP·FN)/√((TP + FP)(TP + FN)(TN + FP)(TN + FN)), and 0 where a factor is 0.
pub fn matthews(truth: &[usize], guess: &[usize]) -> f64 {
    let Counts { tp, fp, tn, r#fn } = counts(truth, guess);
    let square = (tp + fp) * (tp + r#fn) * (tn + fp) * (tn + r#fn);
    if square > 0.0 { (tp * tn - fp * r#fn) / square.sqrt() } else { 0.0 }
}

/// 2TP/(2TP + FP + FN), and 0 where nothing is positive.
pub fn f1(truth: &[usize], guess: &[usize]) -> f64 {
    let Counts { tp, fp, r#fn, .. } = counts(truth, guess);
    let all = 2.0 * tp + fp + r#fn;
    if all > 0.0 { 2.0 * tp / all } else { 0.0 }
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// √(Σ (x − mean)²/(n − 1)); one value has none.
pub fn deviation(values: &[f64]) -> Option<f64> {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|x| (x - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (values.len() - 1) as f64).sqrt())
}
