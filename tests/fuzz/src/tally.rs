//! What was done and what was not.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

#[derive(Clone, Default, Debug)]
pub struct Tally {
    pub recipes: usize,
    /// Points at which everything was compared.
    pub compared: usize,
    /// Points that were no place to compare at.
    pub skipped: BTreeMap<String, usize>,
    /// Drawn recipes that the compiler refuses, by the first code.
    pub refused: BTreeMap<String, usize>,
    /// Valid recipes that have no kernel, by the reason.
    pub unsupported: BTreeMap<String, usize>,
    pub failures: BTreeMap<String, usize>,
    /// Recipes that are computed in double precision.
    pub in_double: usize,
    /// The recipe that took longest, by its seed.
    pub slowest: Option<(Duration, u64)>,
}

impl Tally {
    pub fn skip(&mut self, why: &str) {
        *self.skipped.entry(why.to_string()).or_default() += 1;
    }

    pub fn refuse(&mut self, code: &str) {
        *self.refused.entry(code.to_string()).or_default() += 1;
    }

    pub fn unsupport(&mut self, why: &str) {
        *self.unsupported.entry(why.to_string()).or_default() += 1;
    }

    pub fn fail(&mut self, kind: &str) {
        *self.failures.entry(kind.to_string()).or_default() += 1;
    }

    pub fn took(&mut self, time: Duration, seed: u64) {
        if self.slowest.is_none_or(|(slowest, _)| time > slowest) {
            self.slowest = Some((time, seed));
        }
    }
}

/// Between fields and between entries of an encoded tally.
const FIELD: char = '\u{2}';
const ENTRY: char = '\u{3}';

impl Tally {
    /// On one line, for another process.
    pub fn encode(&self) -> String {
        let maps = [&self.skipped, &self.refused, &self.unsupported, &self.failures];
        let map = |counts: &&BTreeMap<String, usize>| {
            let each = counts.iter().map(|(what, count)| format!("{count} {}", what.replace('\n', " ")));
            each.collect::<Vec<_>>().join(&ENTRY.to_string())
        };
        let (time, seed) = self.slowest.unwrap_or_default();
        let numbers =
            [self.recipes as u128, self.compared as u128, time.as_micros(), u128::from(seed), self.in_double as u128];
        let fields = numbers.iter().map(u128::to_string).chain(maps.iter().map(map));
        fields.collect::<Vec<_>>().join(&FIELD.to_string())
    }

    pub fn decode(text: &str) -> Tally {
        let fields: Vec<&str> = text.split(FIELD).collect();
        let number = |i: usize| fields.get(i).and_then(|x| x.parse::<u64>().ok()).unwrap_or_default();
        let map = |i: usize| {
            let entries = fields.get(i).copied().unwrap_or_default().split(ENTRY);
            let entries = entries.filter_map(|entry| entry.split_once(' '));
            entries.map(|(count, what)| (what.to_string(), count.parse().unwrap_or(0))).collect()
        };
        Tally {
            recipes: number(0) as usize,
            compared: number(1) as usize,
            slowest: Some((Duration::from_micros(number(2)), number(3))),
            in_double: number(4) as usize,
            skipped: map(5),
            refused: map(6),
            unsupported: map(7),
            failures: map(8),
        }
    }

    /// Adds another's counts.
    pub fn merge(&mut self, other: &Tally) {
        self.recipes += other.recipes;
        self.compared += other.compared;
        self.in_double += other.in_double;
        let pairs = [
            (&mut self.skipped, &other.skipped),
            (&mut self.refused, &other.refused),
            (&mut self.unsupported, &other.unsupported),
            (&mut self.failures, &other.failures),
        ];
        for (own, others) in pairs {
            for (what, count) in others {
                *own.entry(what.clone()).or_default() += count;
            }
        }
        if let Some((time, seed)) = other.slowest {
            self.took(time, seed);
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let total = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        let refused = total(&self.refused);
        let share = 100.0 * refused as f64 / (refused + self.recipes).max(1) as f64;
        writeln!(f, "{} recipes, {refused} drawn in vain ({share:.0} %)", self.recipes)?;
        writeln!(f, "{} points compared, {} skipped", self.compared, total(&self.skipped))?;
        if self.in_double > 0 {
            writeln!(f, "{} recipes computed in double precision", self.in_double)?;
        }
        let lists = [
            ("skipped", &self.skipped),
            ("refused", &self.refused),
            ("without a kernel", &self.unsupported),
            ("failed", &self.failures),
        ];
        for (title, counts) in lists {
            for (what, count) in counts {
                writeln!(f, "  {title:16} {count:5}  {what}")?;
            }
        }
        if let Some((time, seed)) = self.slowest {
            writeln!(f, "slowest recipe: {:.2} s, seed {seed}", time.as_secs_f64())?;
        }
        write!(f, "{} failures", total(&self.failures))
    }
}
