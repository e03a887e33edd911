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

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let total = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        let refused = total(&self.refused);
        let share = 100.0 * refused as f64 / (refused + self.recipes).max(1) as f64;
        writeln!(f, "{} recipes, {refused} drawn in vain ({share:.0} %)", self.recipes)?;
        writeln!(f, "{} points compared, {} skipped", self.compared, total(&self.skipped))?;
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
