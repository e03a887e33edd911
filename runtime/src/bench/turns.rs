//! Contenders in processes of their own, taking turns.
//!
//! A repetition counts only if the machine was quiet before and after it, so that a busy neighbour delays the answer and
//! does not change it. Every contender gets a heap that keeps its pages: otherwise first-touch page faults decide.
//!
//! A contender prints `ready`, then answers every line it reads with milliseconds and KiB.

use super::probe::Probe;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// glibc's allocator, told to keep what it has.
const KEEP_HEAP: [(&str, &str); 3] =
    [("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "100000000000"), ("MALLOC_TOP_PAD_", "268435456")];

/// How to measure.
#[derive(Clone, Debug)]
pub struct Setting {
    pub repetitions: usize,
    pub threads: usize,
    /// A Python that has torch.
    pub python: Option<PathBuf>,
}

/// What one contender needed.
#[derive(Clone, Debug)]
pub struct Measured<C> {
    pub contender: C,
    /// Milliseconds, sorted.
    pub times: Vec<f64>,
    pub peak_kib: u64,
}

impl<C> Measured<C> {
    pub fn median(&self) -> f64 {
        self.times.get(self.times.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A contender that is waiting for its turn.
pub struct Running<C> {
    contender: C,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    times: Vec<f64>,
    peak_kib: u64,
}

/// Lets contenders take turns; those that never had a quiet one are left out.
pub fn measure<C>(mut running: Vec<Running<C>>, repetitions: usize, probe: &mut Probe) -> Vec<Measured<C>> {
    // More turns than needed: a disturbed one is taken again.
    for _ in 0..4 * repetitions {
        for one in running.iter_mut().filter(|one| one.times.len() < repetitions) {
            let was_quiet = probe.is_quiet();
            let Some((ms, kib)) = one.turn() else { continue };
            one.peak_kib = one.peak_kib.max(kib);
            if was_quiet && probe.is_quiet() {
                one.times.push(ms);
            }
        }
    }
    running.into_iter().map(Running::finish).filter(|m| !m.times.is_empty()).collect()
}

/// Starts a contender and waits until it is ready.
pub fn start<C>(contender: C, mut command: Command, threads: usize) -> Option<Running<C>> {
    let threads = threads.to_string();
    command.envs(KEEP_HEAP).env("RAYON_NUM_THREADS", &threads).env("OMP_NUM_THREADS", &threads);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let (requests, answers) = (child.stdin.take()?, BufReader::new(child.stdout.take()?));
    let mut running = Running { contender, child, requests, answers, times: vec![], peak_kib: 0 };
    match running.line() {
        Some(line) if line == "ready" => Some(running),
        _ => {
            running.finish();
            None
        }
    }
}

impl<C> Running<C> {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim().to_string())
    }

    /// One turn: milliseconds and KiB.
    pub fn turn(&mut self) -> Option<(f64, u64)> {
        self.requests.write_all(b"go\n").and_then(|()| self.requests.flush()).ok()?;
        let line = self.line()?;
        let (ms, kib) = line.split_once(' ')?;
        Some((ms.parse().ok()?, kib.parse().ok()?))
    }

    pub fn finish(self) -> Measured<C> {
        let Running { contender, mut child, requests, mut times, peak_kib, .. } = self;
        drop(requests);
        let _ = child.wait();
        times.sort_by(f64::total_cmp);
        Measured { contender, times, peak_kib }
    }
}
