//! Recipe files with bytes changed: whatever comes out, reading and formatting it never panics and never takes long.

use crate::catching::catching;
use crate::crates::workspace;
use crate::failure::Failure;
use crate::random::Random;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Reading a file takes no longer, however busy the machine is.
pub const LONGEST: Duration = Duration::from_secs(5);

/// A file that failed.
#[derive(Clone, Debug)]
pub struct Mutant {
    pub text: String,
    pub failure: Failure,
}

/// What a run of mutations found.
#[derive(Clone, Debug, Default)]
pub struct Mutations {
    pub tried: usize,
    /// How many were still valid recipes.
    pub valid: usize,
    pub found: Vec<Mutant>,
    pub slowest: Option<(Duration, String)>,
}

/// All recipe files of the workspace, by path.
pub fn files() -> Vec<PathBuf> {
    let folders = ["recipes", "tests/ok", "tests/err", "compiler/src/prelude"];
    let mut all: Vec<PathBuf> = folders.iter().flat_map(|folder| within(&workspace().join(folder))).collect();
    all.sort();
    all
}

fn within(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else { return vec![] };
    let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
    paths
        .flat_map(|path| match path.is_dir() {
            true => within(&path),
            false => vec![path],
        })
        .filter(|path| path.extension().is_some_and(|extension| extension == "recipe"))
        .collect()
}

/// So many mutations of files at random; what fails is made shorter and handed on.
pub fn mutate(count: usize, seed: u64, mut found: impl FnMut(&Mutant)) -> Mutations {
    let texts: Vec<Vec<u8>> = files().iter().filter_map(|path| std::fs::read(path).ok()).collect();
    let mut random = Random::new(seed);
    let mut mutations = Mutations::default();
    for _ in 0..count {
        let mut bytes = random.pick(&texts);
        for _ in 0..1 + random.below(4) {
            change(&mut bytes, &texts, &mut random);
        }
        let start = computing();
        let result = read(&bytes);
        let time = computing().saturating_sub(start);
        mutations.tried += 1;
        mutations.valid += usize::from(result == Ok(true));
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if mutations.slowest.as_ref().is_none_or(|(slowest, _)| time > *slowest) {
            mutations.slowest = Some((time, text));
        }
        let failure = match result {
            Err(failure) => Some(failure),
            Ok(_) if time > LONGEST => {
                let detail = format!("takes {:.1} s", time.as_secs_f64());
                Some(Failure::Broken { command: "check".to_string(), detail })
            }
            Ok(_) => None,
        };
        if let Some(failure) = failure {
            let bytes = shorter(bytes, &failure);
            let mutant = Mutant { text: String::from_utf8_lossy(&bytes).into_owned(), failure };
            found(&mutant);
            mutations.found.push(mutant);
        }
    }
    mutations
}

/// How long this thread has been computing, where the system says so, and the time where it does not.
fn computing() -> Duration {
    static START: OnceLock<Instant> = OnceLock::new();
    let statistics = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = statistics.and_then(|text| text.split_whitespace().next()?.parse().ok());
    nanoseconds.map_or_else(|| START.get_or_init(Instant::now).elapsed(), Duration::from_nanos)
}

/// Reads, checks and formats; whether it was a valid recipe.
fn read(bytes: &[u8]) -> Result<bool, Failure> {
    let bytes = bytes.to_vec();
    let Ok(source) = catching("read", || energyc::syntax::read_source(bytes, "mutant.recipe"))? else {
        return Ok(false);
    };
    let text = source.text.clone();
    let (recipe, diagnostics) = catching("check", || energyc::pipeline::front(&text))?;
    catching("render", || energyc::diagnostic::render_all(&diagnostics, &source, false))?;
    let formatted = catching("fmt", || energyc::syntax::format(&text))?;
    if let Ok(once) = formatted {
        let twice = catching("fmt", || energyc::syntax::format(&once))?;
        if twice.as_ref() != Ok(&once) {
            return Err(Failure::Broken { command: "fmt".to_string(), detail: "is not idempotent".to_string() });
        }
    }
    if recipe.is_none() && !diagnostics.iter().any(|d| d.is_error()) {
        let detail = "neither a recipe nor an error".to_string();
        return Err(Failure::Broken { command: "check".to_string(), detail });
    }
    Ok(recipe.is_some())
}

/// Words that mean something, to be put anywhere.
const WORDS: [&str; 24] = [
    "recipe",
    "local",
    "global",
    "optimizer",
    "(",
    ")",
    "{",
    "}",
    ";",
    "^",
    "-",
    "q",
    "k",
    "E",
    "0",
    "1e300",
    "sum(",
    "log(",
    "learn(",
    "solve(hess(z), grad(z))",
    "if q <= k { 1 } else { 2 }",
    "per head",
    "\u{3b1}",
    "taylor(64)",
];

/// One change.
fn change(bytes: &mut Vec<u8>, others: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + 1 + random.below(12)).min(bytes.len());
    match random.below(8) {
        0 if at < bytes.len() => bytes[at] = random.below(256) as u8,
        1 if at < bytes.len() => bytes[at] ^= 1 << random.below(8),
        2 => drop(bytes.drain(at.min(end)..end)),
        3 => {
            let copy: Vec<u8> = bytes[at.min(end)..end].to_vec();
            let to = random.below(bytes.len() + 1);
            bytes.splice(to..to, copy);
        }
        4 | 5 => {
            let word = random.pick(&WORDS);
            bytes.splice(at..at, word.bytes());
        }
        6 => {
            // A digit becomes another.
            let digits: Vec<usize> = (0..bytes.len()).filter(|i| bytes[*i].is_ascii_digit()).collect();
            if !digits.is_empty() {
                let at = random.pick(&digits);
                bytes[at] = b'0' + random.below(10) as u8;
            }
        }
        _ => {
            let other = random.pick(others);
            let from = random.below(other.len() + 1);
            let part = other[from..(from + random.below(60)).min(other.len())].to_vec();
            bytes.splice(at..at, part);
        }
    }
}

/// The bytes without parts that do not matter to the failure.
fn shorter(mut bytes: Vec<u8>, failure: &Failure) -> Vec<u8> {
    let kind = failure.kind();
    let start = Instant::now();
    let mut length = bytes.len() / 2;
    while length > 0 {
        let mut at = 0;
        while at < bytes.len() {
            if start.elapsed() > Duration::from_secs(20) {
                return bytes;
            }
            let mut without = bytes.clone();
            without.drain(at..(at + length).min(without.len()));
            match read(&without) {
                Err(other) if other.kind() == kind => bytes = without,
                _ => at += length,
            }
        }
        length /= 2;
    }
    bytes
}
