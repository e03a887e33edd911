//! From the records of runs to the curves of a panel.

use clap::ValueEnum;

use super::axis::Scale;
use super::{Curve, Look, Panel, Style};
use crate::metrics::record::{Kind, Record};

/// What is drawn upwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub enum Metric {
    Loss,
    Accuracy,
    LearningRate,
    GradientNorm,
    TokensPerSecond,
    Gflops,
    MemoryMib,
    Energy,
}

impl Metric {
    const ALL: [Metric; 8] = [
        Metric::Loss,
        Metric::Accuracy,
        Metric::LearningRate,
        Metric::GradientNorm,
        Metric::TokensPerSecond,
        Metric::Gflops,
        Metric::MemoryMib,
        Metric::Energy,
    ];

    /// As records call it.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Loss => "loss",
            Metric::Accuracy => "accuracy",
            Metric::LearningRate => "learning_rate",
            Metric::GradientNorm => "gradient_norm",
            Metric::TokensPerSecond => "tokens_per_second",
            Metric::Gflops => "gflops",
            Metric::MemoryMib => "memory_mib",
            Metric::Energy => "energy",
        }
    }

    /// As an axis calls it.
    fn label(self) -> &'static str {
        match self {
            Metric::LearningRate => "learning rate",
            Metric::GradientNorm => "gradient norm",
            Metric::TokensPerSecond => "tokens per second",
            Metric::Gflops => "GFLOP/s",
            Metric::MemoryMib => "memory (MiB)",
            Metric::Loss | Metric::Accuracy | Metric::Energy => self.name(),
        }
    }

    pub fn of(self, record: &Record) -> Option<f64> {
        match self {
            Metric::Loss => record.loss,
            Metric::Accuracy => record.accuracy,
            Metric::LearningRate => record.learning_rate,
            Metric::GradientNorm => record.gradient_norm,
            Metric::TokensPerSecond => record.tokens_per_second,
            Metric::Gflops => record.gflops,
            Metric::MemoryMib => record.memory_mib,
            Metric::Energy => record.energy,
        }
    }
}

/// Which records are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Which {
    Valid,
    Train,
    Both,
}

impl Which {
    fn has(self, kind: Kind) -> bool {
        match kind {
            Kind::Train => self != Which::Valid,
            Kind::Valid => self != Which::Train,
            Kind::Note => false,
        }
    }

    fn adjective(self) -> &'static str {
        match self {
            Which::Valid => "validation ",
            Which::Train => "training ",
            Which::Both => "",
        }
    }
}

/// What is drawn along.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Along {
    Step,
    Tokens,
    Seconds,
}

impl Along {
    fn of(self, record: &Record) -> Option<f64> {
        match self {
            Along::Step => Some(record.step as f64),
            Along::Tokens => Some(record.tokens as f64),
            Along::Seconds => record.seconds,
        }
    }
}

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    pub metric: Metric,
    pub which: Which,
    pub along: Along,
    /// How many training records make a point; as many as look smooth if it is not said.
    pub smooth: Option<usize>,
    pub scale: Scale,
}

/// A run and what it is called.
#[derive(Clone, PartialEq, Debug)]
pub struct Run {
    pub label: String,
    pub records: Vec<Record>,
}

/// The curves of all runs, or what is not there.
pub fn panel(runs: &[Run], wanted: &Wanted) -> Result<Panel, String> {
    runs.iter().try_for_each(|run| check(run, wanted))?;
    let has_valid = runs.iter().any(|run| !points(run, Kind::Valid, wanted).is_empty());
    let background = if has_valid { Look::Light } else { Look::Plain };
    let mut curves = Vec::new();
    for (place, run) in runs.iter().enumerate() {
        let train = points(run, Kind::Train, wanted);
        let count = wanted.smooth.unwrap_or_else(|| smooth_enough(wanted.metric, train.len()));
        let looks = [(smoothed(&train, count), background), (points(run, Kind::Valid, wanted), Look::Marked)];
        for (points, look) in looks.into_iter().filter(|(points, _)| !points.is_empty()) {
            curves.push(Curve { label: run.label.clone(), points, style: Style { place, look } });
        }
    }
    let (unit, x_label) = unit(&curves, wanted.along);
    curves.iter_mut().flat_map(|curve| &mut curve.points).for_each(|point| point.0 /= unit);
    let y_label = wanted.metric.label().to_string();
    Ok(Panel { x_label: x_label.to_string(), y_label, y_scale: wanted.scale, curves, ..Panel::default() })
}

/// What tells training from validation in a panel that has both.
pub fn note(panel: &Panel, wanted: &Wanted) -> &'static str {
    let has = |look: Look| panel.curves.iter().any(|curve| curve.style.look == look);
    match (has(Look::Light) && has(Look::Marked), wanted.smooth) {
        (false, _) => "",
        (true, Some(0 | 1)) => "marked: validation · pale: training",
        (true, _) => "marked: validation · pale: training, smoothed",
    }
}

/// Whether a run has something to draw.
fn check(run: &Run, wanted: &Wanted) -> Result<(), String> {
    let (label, name, adjective) = (&run.label, wanted.metric.name(), wanted.which.adjective());
    let records: Vec<&Record> = run.records.iter().filter(|record| wanted.which.has(record.kind)).collect();
    if records.is_empty() {
        return Err(format!("run `{label}` has no {adjective}records"));
    }
    let has = |metric: Metric| records.iter().any(|record| metric.of(record).is_some());
    if !has(wanted.metric) {
        let there: Vec<&str> = Metric::ALL.into_iter().filter(|metric| has(*metric)).map(Metric::name).collect();
        let there = if there.is_empty() { "nothing".to_string() } else { there.join(", ") };
        return Err(format!("run `{label}` has no `{name}` in its {adjective}records; there is {there}"));
    }
    let place = |record: &&Record| Some((wanted.along.of(record)?, wanted.metric.of(record)?));
    let places: Vec<(f64, f64)> = records.iter().filter_map(place).collect();
    if places.is_empty() {
        return Err(format!("run `{label}` does not say its `seconds`; `--x step` draws it along its steps"));
    }
    if !places.iter().any(|(_, value)| wanted.scale.has(*value)) {
        return Err(format!("run `{label}` has no `{name}` above 0, which `--log` needs"));
    }
    Ok(())
}

fn points(run: &Run, kind: Kind, wanted: &Wanted) -> Vec<(f64, f64)> {
    let records = run.records.iter().filter(|record| record.kind == kind && wanted.which.has(kind));
    records.filter_map(|record| Some((wanted.along.of(record)?, wanted.metric.of(record)?))).collect()
}

/// A fiftieth of a curve that is noisy.
fn smooth_enough(metric: Metric, points: usize) -> usize {
    match metric {
        Metric::LearningRate | Metric::MemoryMib => 1,
        _ => (points / 50).max(1),
    }
}

/// Means of about `count` points around each. Where a curve begins it is steep: there are as many before as after.
fn smoothed(points: &[(f64, f64)], count: usize) -> Vec<(f64, f64)> {
    let mean = |(place, (x, _)): (usize, &(f64, f64))| {
        let side = (count / 2).min(place);
        let around = &points[place - side..(place + side + 1).min(points.len())];
        (*x, around.iter().map(|point| point.1).sum::<f64>() / around.len() as f64)
    };
    points.iter().enumerate().map(mean).collect()
}

/// What the x axis counts, and how many of the records' units that is.
fn unit(curves: &[Curve], along: Along) -> (f64, &'static str) {
    let last = curves.iter().flat_map(|curve| &curve.points).map(|point| point.0).fold(0.0, f64::max);
    match along {
        Along::Step => (1.0, "step"),
        Along::Tokens => (1.0, "tokens"),
        Along::Seconds if last >= 3.0 * 3600.0 => (3600.0, "time (hours)"),
        Along::Seconds if last >= 300.0 => (60.0, "time (minutes)"),
        Along::Seconds => (1.0, "time (seconds)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WANTED: Wanted =
        Wanted { metric: Metric::Loss, which: Which::Both, along: Along::Step, smooth: Some(1), scale: Scale::Linear };

    fn run(kinds: &[Kind]) -> Run {
        let of = |(step, kind): (usize, &Kind)| Record {
            seconds: Some(100.0 * step as f64),
            ..Record::measured(*kind, step as u64, 10 * step as u64, 5.0 - step as f64)
        };
        Run { label: "a".to_string(), records: kinds.iter().enumerate().map(of).collect() }
    }

    #[test]
    fn names_are_those_of_the_records_and_of_the_command_line() {
        for metric in Metric::ALL {
            let value = metric.to_possible_value().expect("a value");
            assert_eq!(value.get_name(), metric.name());
            let line = format!(r#"{{"kind":"train","step":1,"tokens":1,"{}":7.0}}"#, metric.name());
            assert_eq!(metric.of(&serde_json::from_str(&line).expect("a record")), Some(7.0));
        }
    }

    #[test]
    fn training_is_pale_only_behind_validation() {
        let looks = |run: Run| -> Vec<Look> {
            panel(&[run], &WANTED).expect("curves").curves.iter().map(|curve| curve.style.look).collect()
        };
        assert_eq!(looks(run(&[Kind::Train, Kind::Valid])), [Look::Light, Look::Marked]);
        assert_eq!(looks(run(&[Kind::Train, Kind::Note])), [Look::Plain]);
    }

    #[test]
    fn smoothing_is_a_mean_around_each_point() {
        let points = [(0.0, 0.0), (1.0, 3.0), (2.0, 6.0), (3.0, 0.0)];
        assert_eq!(smoothed(&points, 1), points);
        assert_eq!(smoothed(&points, 3), [(0.0, 0.0), (1.0, 3.0), (2.0, 3.0), (3.0, 3.0)]);
        assert_eq!(smoothed(&points, 0), points);
    }

    #[test]
    fn time_is_shown_in_a_unit_that_suits_it() {
        let wanted = Wanted { along: Along::Seconds, ..WANTED };
        let panel = panel(&[run(&[Kind::Valid; 5])], &wanted).expect("curves");
        assert_eq!(panel.x_label, "time (minutes)");
        assert_eq!(panel.curves[0].points[3].0, 5.0);
    }

    #[test]
    fn what_is_not_there_is_said() {
        #[track_caller]
        fn check(run: Run, wanted: Wanted, expected: &str) {
            assert_eq!(panel(&[run], &wanted).expect_err("an error"), expected);
        }
        check(run(&[]), WANTED, "run `a` has no records");
        let valid = Wanted { which: Which::Valid, ..WANTED };
        check(run(&[Kind::Train]), valid, "run `a` has no validation records");
        let accuracy = Wanted { metric: Metric::Accuracy, ..valid };
        check(run(&[Kind::Valid]), accuracy, "run `a` has no `accuracy` in its validation records; there is loss");
        let log = Wanted { scale: Scale::Log, ..WANTED };
        check(run(&[Kind::Note; 7]), log, "run `a` has no records");
        let mut negative = run(&[Kind::Valid]);
        negative.records[0].loss = Some(-1.0);
        check(negative, log, "run `a` has no `loss` above 0, which `--log` needs");
    }
}
