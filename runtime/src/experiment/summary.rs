//! The table of an experiment: losses over seeds, differences to the baseline and what they are worth, speed.

use super::grid::Cell;
use super::result::{Done, Outcome};
use super::significance::{Sample, Welch, welch};
use crate::metrics::progress::duration;
use crate::metrics::table::{markdown, table};
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Summary {
    pub experiment: String,
    pub baseline: String,
    pub groups: Vec<Group>,
}

/// Recipes that are compared: one size, one window.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Group {
    pub size: String,
    pub window: usize,
    pub rows: Vec<Row>,
}

/// A recipe over its seeds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    pub recipe: String,
    pub parameters: Option<usize>,
    /// Validation loss at the end.
    pub last: Option<Sample>,
    /// The smallest validation loss.
    pub best: Option<Sample>,
    pub against: Against,
    pub tokens_per_second: Option<f64>,
    /// Of all seeds together.
    pub seconds: f64,
    pub runs: Vec<Run>,
}

/// One seed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Run {
    pub seed: u64,
    #[serde(flatten)]
    pub outcome: Option<Outcome>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}

/// The final loss beside the baseline's.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case", tag = "is")]
pub enum Against {
    Baseline,
    /// Nothing to compare, or nothing to compare with.
    Missing,
    /// One of the two has a single seed.
    OneSeed {
        difference: f64,
    },
    /// No seed of either differs from another.
    NoNoise {
        difference: f64,
    },
    Tested {
        difference: f64,
        #[serde(flatten)]
        test: Welch,
    },
}

/// The summary of what is there so far.
pub fn of(experiment: &str, baseline: &str, done: &[Done]) -> Summary {
    let mut groups: Vec<Group> = Vec::new();
    for one in done {
        let Cell { size, window, name, .. } = &one.cell;
        let group = match groups.iter().position(|group| group.size == *size && group.window == *window) {
            Some(place) => &mut groups[place],
            None => {
                groups.push(Group { size: size.clone(), window: *window, rows: Vec::new() });
                let last = groups.len() - 1;
                &mut groups[last]
            }
        };
        let run = Run { seed: one.cell.seed, outcome: one.outcome.clone(), failed: one.failed.clone() };
        match group.rows.iter_mut().find(|row| row.recipe == *name) {
            Some(row) => row.runs.push(run),
            None => group.rows.push(Row::new(name, run)),
        }
    }
    for group in &mut groups {
        group.rows.iter_mut().for_each(Row::measure);
        let of_baseline = group.rows.iter().find(|row| row.recipe == baseline).and_then(|row| row.last);
        for row in &mut group.rows {
            row.against = match row.recipe == baseline {
                true => Against::Baseline,
                false => against(row.last, of_baseline),
            };
        }
    }
    Summary { experiment: experiment.to_string(), baseline: baseline.to_string(), groups }
}

fn against(own: Option<Sample>, baseline: Option<Sample>) -> Against {
    let (Some(own), Some(baseline)) = (own, baseline) else { return Against::Missing };
    let difference = own.mean - baseline.mean;
    if own.count < 2 || baseline.count < 2 {
        return Against::OneSeed { difference };
    }
    match welch(&own, &baseline) {
        Some(test) => Against::Tested { difference, test },
        None => Against::NoNoise { difference },
    }
}

impl Row {
    fn new(recipe: &str, run: Run) -> Row {
        Row {
            recipe: recipe.to_string(),
            parameters: None,
            last: None,
            best: None,
            against: Against::Missing,
            tokens_per_second: None,
            seconds: 0.0,
            runs: vec![run],
        }
    }

    fn measure(&mut self) {
        let all: Vec<&Outcome> = self.runs.iter().filter_map(|run| run.outcome.as_ref()).collect();
        let numbers = |of: fn(&Outcome) -> f64| all.iter().map(|outcome| of(outcome)).collect::<Vec<f64>>();
        self.parameters = all.first().map(|outcome| outcome.parameters);
        self.last = Sample::of(&numbers(|outcome| outcome.last));
        self.best = Sample::of(&numbers(|outcome| outcome.best));
        self.tokens_per_second = Sample::of(&numbers(|outcome| outcome.tokens_per_second)).map(|sample| sample.mean);
        self.seconds = numbers(|outcome| outcome.seconds).iter().sum();
    }

    fn cells(&self) -> Vec<String> {
        let none = || "–".to_string();
        let loss = |sample: Option<Sample>| sample.map_or_else(none, |sample| mean(&sample, 4));
        let is_done = |run: &&Run| run.outcome.is_some();
        let seeds = match (self.runs.iter().filter(is_done).count(), self.runs.len()) {
            (done, all) if done == all => all.to_string(),
            (done, all) => format!("{done} of {all}"),
        };
        let [difference, worth] = self.against.cells();
        vec![
            self.recipe.clone(),
            self.parameters.map_or_else(none, millions),
            seeds,
            loss(self.last),
            loss(self.best),
            difference,
            if self.runs.iter().any(|run| run.failed.is_some()) { "a run failed".to_string() } else { worth },
            self.tokens_per_second.map_or_else(none, |speed| format!("{speed:.0}")),
            duration(Duration::from_secs_f64(self.seconds.max(0.0))),
        ]
    }
}

impl Against {
    /// The difference, and what it is worth.
    fn cells(&self) -> [String; 2] {
        match self {
            Against::Baseline => ["–".to_string(), "baseline".to_string()],
            Against::Missing => ["–".to_string(), "–".to_string()],
            Against::OneSeed { difference } => [signed(*difference), "one seed: no significance".to_string()],
            Against::NoNoise { difference } => [signed(*difference), "seeds do not differ: no test".to_string()],
            Against::Tested { difference, test } => [signed(*difference), probability(test.p)],
        }
    }
}

const HEADER: [&str; 9] =
    ["recipe", "parameters", "seeds", "final loss", "best loss", "− baseline", "Welch's t-test", "tokens/s", "time"];

impl Summary {
    /// For the terminal.
    pub fn text(&self) -> String {
        self.parts(|title, rows| format!("{title}\n\n{}", table(&HEADER, rows)))
    }

    pub fn markdown(&self) -> String {
        self.parts(|title, rows| format!("### {title}\n\n{}", markdown(&HEADER, rows)))
    }

    fn parts(&self, print: impl Fn(&str, &[Vec<String>]) -> String) -> String {
        let part = |group: &Group| {
            let title = format!("{}: size {}, windows of {}", self.experiment, group.size, group.window);
            print(&title, &group.rows.iter().map(Row::cells).collect::<Vec<_>>())
        };
        self.groups.iter().map(part).collect::<Vec<_>>().join("\n")
    }

    pub fn json(&self) -> Result<String, String> {
        serde_json::to_string_pretty(self).map(|json| json + "\n").map_err(|error| error.to_string())
    }
}

/// `3.412 ± 0.003`, or the number alone.
fn mean(sample: &Sample, digits: usize) -> String {
    match sample.deviation {
        Some(deviation) => format!("{:.digits$} ± {deviation:.digits$}", sample.mean),
        None => format!("{:.digits$}", sample.mean),
    }
}

fn signed(difference: f64) -> String {
    format!("{difference:+.4}").replace('-', "−")
}

fn probability(p: f64) -> String {
    if p < 1e-4 { "p < 0.0001".to_string() } else { format!("p = {p:.4}") }
}

fn millions(parameters: usize) -> String {
    format!("{:.2} M", parameters as f64 / 1e6)
}
