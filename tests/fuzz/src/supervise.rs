//! Work in processes of its own, since a compiler may do worse than panic: overflow its stack, or never come back.
//!
//! A worker takes the recipes of a run one after the other and says so on its output: a line that begins with a mark
//! before and after each, everything else is to be shown. When it dies or is silent for too long, the recipe it was at is a
//! find, and another worker goes on after it.

use crate::failure::Failure;
use crate::fuzz::{self, Found, Look};
use crate::generate;
use crate::shrink;
use crate::tally::Tally;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What begins a line that is not to be shown.
const MARK: char = '\u{1}';
/// A worker may be silent for so long.
const PATIENCE: Duration = Duration::from_secs(600);
/// A single recipe tried in a process of its own may take so long, and all tries for a smaller one together.
const TRY: Duration = Duration::from_secs(60);
const TRIES: Duration = Duration::from_secs(240);

/// What to do.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub look: Look,
    pub recipes: u64,
    pub seed: u64,
    pub keep_going: bool,
    pub shrinks: bool,
    /// How many recipes go together.
    pub together: u64,
}

/// Runs recipes in workers; shows what they find.
pub fn supervise(run: Run, tally: &mut Tally) {
    supervise_from(run, &mut 0, tally);
}

fn supervise_from(run: Run, next: &mut u64, tally: &mut Tally) {
    while *next < run.recipes {
        match worker(run, next, tally) {
            None => return,
            // Somebody of them; each by itself, then.
            Some(_) if run.together > 1 => {
                let end = run.recipes.min(*next + run.together);
                let each = Run { recipes: end, together: 1, ..run };
                supervise_from(each, next, tally);
                if *next < end {
                    return;
                }
            }
            Some(how) => {
                let seed = fuzz::seed_of(run.seed, *next);
                let failure = Failure::Crash { how };
                tally.recipes += 1;
                tally.fail(&failure.kind());
                crashed(run, seed, failure);
                *next += 1;
                if !run.keep_going {
                    return;
                }
            }
        }
    }
}

/// A worker from the next recipe on: how it died, if it did.
fn worker(run: Run, next: &mut u64, tally: &mut Tally) -> Option<String> {
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["work", run.look.name(), &run.seed.to_string(), &next.to_string(), &run.recipes.to_string()]);
    command.args(["--together", &run.together.to_string()]);
    if run.keep_going {
        command.arg("--keep-going");
    }
    if !run.shrinks {
        command.arg("--no-shrinking");
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("a worker starts");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let (send, receive) = mpsc::channel();
    std::thread::spawn(move || {
        for line in output.lines().map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    loop {
        match receive.recv_timeout(PATIENCE) {
            Ok(line) => match line.strip_prefix(MARK) {
                Some(done) => {
                    let (number, counts) = done.split_once(' ').unwrap_or((done, ""));
                    *next = number.parse::<u64>().map_or(*next, |n| n + 1);
                    tally.merge(&Tally::decode(counts));
                }
                None => println!("{line}"),
            },
            Err(mpsc::RecvTimeoutError::Timeout) => {
                child.kill().ok();
                child.wait().ok();
                return Some(format!("nothing after {} s", PATIENCE.as_secs()));
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                let status = child.wait().expect("a worker ends");
                return (!status.success()).then(|| status.to_string());
            }
        }
    }
}

/// Does something on a stack as large as the compiler's command line gives itself.
pub fn with_a_large_stack<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    let thread = std::thread::Builder::new().stack_size(256 << 20).spawn(work).expect("a thread");
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// What a worker does.
pub fn work(run: Run, from: u64) {
    let mut n = from;
    while n < run.recipes {
        let last = run.recipes.min(n + run.together);
        let seeds: Vec<u64> = (n..last).map(|n| fuzz::seed_of(run.seed, n)).collect();
        let mut tally = Tally::default();
        let found = match run.look.together() {
            1 => fuzz::one(seeds[0], run.look, &mut tally).into_iter().collect(),
            _ => fuzz::several(&seeds, run.look, &mut tally),
        };
        for found in &found {
            println!("{}", fuzz::report(found));
            if run.shrinks {
                println!("  smallest: {}", fuzz::report(&fuzz::smallest(found, run.look)));
            }
        }
        println!("{MARK}{} {}", last - 1, tally.encode());
        if !found.is_empty() && !run.keep_going {
            return;
        }
        n = last;
    }
}

/// Reports a recipe that ended its process, and looks for a smaller one that does.
fn crashed(run: Run, seed: u64, failure: Failure) {
    let recipe = generate::recipe(seed);
    println!("{}", fuzz::report(&Found { seed, recipe: recipe.clone(), failure: failure.clone() }));
    if !run.shrinks {
        return;
    }
    let (start, mut path) = (Instant::now(), vec![]);
    'again: while let Some(recipe) = shrink::along(&recipe, &path) {
        for step in 0..shrink::neighbours(&recipe).len() {
            if start.elapsed() > TRIES {
                break 'again;
            }
            path.push(step);
            if dies(run.look, seed, &path) {
                continue 'again;
            }
            path.pop();
        }
        break;
    }
    if let Some(recipe) = shrink::along(&recipe, &path) {
        println!("  smallest: {}", fuzz::report(&Found { seed, recipe, failure }));
    }
}

/// Whether a recipe ends the process that tries it.
fn dies(look: Look, seed: u64, path: &[usize]) -> bool {
    let path: Vec<String> = path.iter().map(usize::to_string).collect();
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.args(["try", &seed.to_string(), "--look", look.name(), "--path", &path.join(",")]);
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("a worker starts");
    let start = Instant::now();
    while start.elapsed() < TRY {
        if let Some(status) = child.try_wait().expect("a worker") {
            return status.code().is_none();
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.kill().ok();
    child.wait().ok();
    false
}
