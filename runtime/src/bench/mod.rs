//! `energyrun bench`: attention kernels and whole training steps against other programs.

pub mod probe;
pub mod train;
pub mod turns;
pub mod worker;

use crate::problem::Size;
use probe::Probe;
use std::process::Command;
use turns::{Measured, Running, Setting};

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

/// Measures a task; contenders that cannot take part are left out.
pub fn measure(task: &Task, setting: &Setting, probe: &mut Probe) -> Vec<Measured<Contender>> {
    let running = task.contenders.iter().filter_map(|contender| start(*contender, task, setting)).collect();
    turns::measure(running, setting.repetitions, probe)
}

/// One turn of a task's first contender, undisturbed or not: milliseconds and KiB.
pub fn once(task: &Task, setting: &Setting) -> Option<(f64, u64)> {
    let mut running = start(*task.contenders.first()?, task, setting)?;
    let turn = running.turn();
    running.finish();
    turn
}

fn start(contender: Contender, task: &Task, setting: &Setting) -> Option<Running<Contender>> {
    let Size { batch, heads, queries, head, .. } = task.size;
    let numbers = [batch, heads, queries, head].map(|n| n.to_string());
    let command = match contender.torch_mode() {
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
    turns::start(contender, command, setting.threads)
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
