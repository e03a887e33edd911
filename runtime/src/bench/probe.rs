//! Is the machine to ourselves? A short burst of multiplications on every thread, compared with the fastest seen.

use std::time::Instant;

/// Slower than this, relative to the fastest burst, and somebody else is working.
const DISTURBED: f64 = 1.2;

/// What the machine can do when nobody disturbs it.
#[derive(Clone, Copy, Debug)]
pub struct Probe {
    threads: usize,
    fastest: f64,
}

impl Probe {
    /// The best of many bursts.
    pub fn new(threads: usize) -> Probe {
        let fastest = (0..30).map(|_| burst(threads)).fold(f64::INFINITY, f64::min);
        Probe { threads, fastest }
    }

    /// Whether the machine is undisturbed now.
    pub fn is_quiet(&mut self) -> bool {
        let now = burst(self.threads);
        self.fastest = self.fastest.min(now);
        now <= DISTURBED * self.fastest
    }
}

/// Seconds that the slowest thread needs for a fixed amount of arithmetic, all threads at once.
fn burst(threads: usize) -> f64 {
    let work = || {
        let start = Instant::now();
        let mut x = [1.0f32; 64];
        for i in 0..400_000u32 {
            let a = 1.0 + (i & 7) as f32 * 1e-9;
            x.iter_mut().for_each(|x| *x = *x * a + 1e-9);
        }
        std::hint::black_box(x);
        start.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().filter_map(|worker| worker.join().ok()).fold(0.0, f64::max)
    })
}
