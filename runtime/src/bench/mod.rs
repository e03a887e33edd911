//! `energyrun bench attention`: contenders in processes of their own, taking turns.
//!
//! A repetition counts only if the machine was quiet before and after it, so that a busy neighbour delays the answer and
//! does not change it. Every contender gets a heap that keeps its pages: otherwise first-touch page faults decide.

pub mod probe;
pub mod worker;

use crate::problem::Size;
use probe::Probe;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// glibc's allocator, told to keep what it has.
const KEEP_HEAP: [(&str, &str); 3] =
    [("MALLOC_MMAP_MAX_", "0"), ("MALLOC_TRIM_THRESHOLD_", "100000000000"), ("MALLOC_TOP_PAD_", "268435456")];

/// PyTorch's side.
const TORCH: &str = include_str!("torch_contender.py");

/// Who computes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Contender {
    Compiled,
    Interpreted,
    Candle,
    TorchEager,
    TorchSdpa,
    TorchCompile,
}

impl Contender {
    pub const ALL: [Contender; 6] = [
        Contender::Compiled,
        Contender::Interpreted,
        Contender::Candle,
        Contender::TorchEager,
        Contender::TorchSdpa,
        Contender::TorchCompile,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Contender::Compiled => "compiled",
            Contender::Interpreted => "interpreted",
            Contender::Candle => "candle",
            Contender::TorchEager => "torch eager",
            Contender::TorchSdpa => "torch sdpa",
            Contender::TorchCompile => "torch.compile",
        }
    }

    pub fn needs_python(self) -> bool {
        self.torch_mode().is_some()
    }

    fn torch_mode(self) -> Option<&'static str> {
        match self {
            Contender::TorchEager => Some("eager"),
            Contender::TorchSdpa => Some("sdpa"),
            Contender::TorchCompile => Some("compile"),
            _ => None,
        }
    }
}

/// What to measure.
#[derive(Clone, Debug)]
pub struct Task {
    pub recipe: String,
    pub size: Size,
    pub contenders: Vec<Contender>,
}

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
pub struct Measured {
    pub contender: Contender,
    /// Milliseconds, sorted.
    pub times: Vec<f64>,
    pub peak_kib: u64,
}

impl Measured {
    pub fn median(&self) -> f64 {
        self.times.get(self.times.len() / 2).copied().unwrap_or(f64::NAN)
    }
}

/// A contender that is waiting for its turn.
struct Running {
    contender: Contender,
    child: Child,
    requests: ChildStdin,
    answers: BufReader<ChildStdout>,
    times: Vec<f64>,
    peak_kib: u64,
}

/// Measures a task; contenders that cannot take part are left out.
pub fn measure(task: &Task, setting: &Setting, probe: &mut Probe) -> Vec<Measured> {
    let start = |contender: &Contender| start(*contender, task, setting);
    let mut running: Vec<Running> = task.contenders.iter().filter_map(start).collect();
    // More turns than needed: a disturbed one is taken again.
    for _ in 0..4 * setting.repetitions {
        for one in running.iter_mut().filter(|one| one.times.len() < setting.repetitions) {
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

/// One turn of a task's first contender, undisturbed or not: milliseconds and KiB.
pub fn once(task: &Task, setting: &Setting) -> Option<(f64, u64)> {
    let mut running = start(*task.contenders.first()?, task, setting)?;
    let turn = running.turn();
    running.finish();
    turn
}

fn start(contender: Contender, task: &Task, setting: &Setting) -> Option<Running> {
    let Size { batch, heads, queries, head, .. } = task.size;
    let numbers = [batch, heads, queries, head].map(|n| n.to_string());
    let mut command = match contender.torch_mode() {
        Some(mode) => {
            let mut command = Command::new(setting.python.as_ref()?);
            command.args(["-c", TORCH, mode, &task.recipe]).args(&numbers).arg(setting.threads.to_string());
            command
        }
        None => {
            let mut command = Command::new(std::env::current_exe().ok()?);
            command.args(["bench", "worker", contender.name(), &task.recipe, &numbers.join(",")]);
            command
        }
    };
    let threads = setting.threads.to_string();
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

impl Running {
    fn line(&mut self) -> Option<String> {
        let mut line = String::new();
        let read = self.answers.read_line(&mut line).ok()?;
        (read > 0).then(|| line.trim().to_string())
    }

    /// One forward and backward pass: milliseconds and KiB.
    fn turn(&mut self) -> Option<(f64, u64)> {
        self.requests.write_all(b"go\n").and_then(|()| self.requests.flush()).ok()?;
        let line = self.line()?;
        let (ms, kib) = line.split_once(' ')?;
        Some((ms.parse().ok()?, kib.parse().ok()?))
    }

    fn finish(self) -> Measured {
        let Running { contender, mut child, requests, mut times, peak_kib, .. } = self;
        drop(requests);
        let _ = child.wait();
        times.sort_by(f64::total_cmp);
        Measured { contender, times, peak_kib }
    }
}

/// The fastest the machine multiplies, in GFLOP/s: large matrices on all threads.
pub fn peak_gflops(threads: usize) -> f64 {
    let n = 1024;
    let (a, b) = (vec![0.5f32; n * n], vec![0.25f32; n * n]);
    let once = || {
        let start = std::time::Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    use energyc::primitives::product::{Strides, multiply};
                    let mut c = vec![0.0f32; n * n];
                    let rows = Strides::rows(n);
                    multiply([n, n, n], (&mut c, rows), false, (&a, rows), (&b, rows));
                    std::hint::black_box(c)
                });
            }
        });
        start.elapsed().as_secs_f64()
    };
    let best = (0..7).map(|_| once()).fold(f64::INFINITY, f64::min);
    threads as f64 * 2.0 * (n as f64).powi(3) / best / 1e9
}
