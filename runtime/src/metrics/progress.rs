//! How far training is, on stderr: one line that is redrawn on a terminal, a plain line now and then elsewhere.
//!
//! ```text
//! step 120/1000 ━━━╾───────── loss 3.412 · 845 tok/s · 61 GFLOP/s · 1.2 GB · ETA 3m12s
//! ```

use std::io::{IsTerminal, Write, stderr};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// What is shown of a step.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Numbers {
    pub step: u64,
    pub loss: f64,
    pub tokens_per_second: f64,
    pub gflops: Option<f64>,
    pub memory_mib: Option<f64>,
}

/// How often a plain line is printed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Every {
    Steps(u64),
    Seconds(f64),
}

/// The line of a run.
pub struct Progress {
    shown: Shown,
    first: u64,
    steps: u64,
    start: Instant,
}

enum Shown {
    Bar(ProgressBar),
    Plain(Plain),
}

impl Progress {
    /// For steps `first` to `steps`, on stderr; `every` is for when that is no terminal.
    pub fn new(first: u64, steps: u64, every: Every) -> Progress {
        match stderr().is_terminal() {
            true => Progress::bar(first, steps, ProgressDrawTarget::stderr()),
            false => Progress::plain(first, steps, every, Box::new(stderr())),
        }
    }

    fn bar(first: u64, steps: u64, target: ProgressDrawTarget) -> Progress {
        let bar = ProgressBar::with_draw_target(Some(steps), target).with_position(first);
        bar.set_style(style());
        Progress { shown: Shown::Bar(bar), first, steps, start: Instant::now() }
    }

    fn plain(first: u64, steps: u64, every: Every, out: Box<dyn Write + Send>) -> Progress {
        let plain = Plain { out, every, last: None };
        Progress { shown: Shown::Plain(plain), first, steps, start: Instant::now() }
    }

    /// Shows where training is now.
    pub fn update(&mut self, numbers: &Numbers) {
        let left = time_left(self.first, numbers.step, self.steps, self.start.elapsed());
        let summary = summary(numbers, left);
        match &mut self.shown {
            Shown::Bar(bar) => {
                bar.set_message(summary);
                bar.set_position(numbers.step);
            }
            Shown::Plain(plain) => plain.update(numbers.step, self.steps, &summary),
        }
    }

    /// Prints a message; the line stays below it.
    pub fn say(&mut self, text: &str) {
        match &mut self.shown {
            Shown::Bar(bar) => bar.println(text),
            Shown::Plain(plain) => plain.print(text),
        }
    }
}

/// The last state stays on the screen, whether all steps were made or not.
impl Drop for Progress {
    fn drop(&mut self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.abandon();
        }
    }
}

fn style() -> ProgressStyle {
    let style = ProgressStyle::with_template("step {pos}/{len} {wide_bar:.cyan/dim} {msg}");
    style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("━╾─")
}

/// Lines for a file or a pipe.
struct Plain {
    out: Box<dyn Write + Send>,
    every: Every,
    last: Option<(u64, Instant)>,
}

impl Plain {
    fn update(&mut self, step: u64, steps: u64, summary: &str) {
        if step >= steps || self.is_due(step) {
            self.last = Some((step, Instant::now()));
            self.print(&format!("step {step}/{steps} · {summary}"));
        }
    }

    fn is_due(&self, step: u64) -> bool {
        let Some((last_step, last_time)) = self.last else { return true };
        match self.every {
            Every::Steps(steps) => step >= last_step + steps,
            Every::Seconds(seconds) => last_time.elapsed().as_secs_f64() >= seconds,
        }
    }

    /// A broken pipe must not end training.
    fn print(&mut self, text: &str) {
        let _ = writeln!(self.out, "{text}").and_then(|()| self.out.flush());
    }
}

/// The steps left at the speed of the steps made, or nothing to go by.
fn time_left(first: u64, step: u64, steps: u64, elapsed: Duration) -> Option<Duration> {
    let made = step.checked_sub(first).filter(|made| *made > 0)?;
    let left = steps.saturating_sub(step) as f64;
    Duration::try_from_secs_f64(elapsed.as_secs_f64() / made as f64 * left).ok()
}

fn summary(numbers: &Numbers, left: Option<Duration>) -> String {
    let parts = [
        Some(format!("loss {:.3}", numbers.loss)),
        Some(format!("{} tok/s", short(numbers.tokens_per_second))),
        numbers.gflops.map(|gflops| format!("{} GFLOP/s", short(gflops))),
        numbers.memory_mib.map(memory),
        left.map(|left| format!("ETA {}", duration(left))),
    ];
    parts.into_iter().flatten().collect::<Vec<String>>().join(" · ")
}

/// `4.2`, `845`, `12.3k`.
fn short(value: f64) -> String {
    match value.abs() {
        x if x < 9.95 => format!("{value:.1}"),
        x if x < 9999.5 => format!("{value:.0}"),
        _ => format!("{:.1}k", value / 1e3),
    }
}

/// MiB as people write memory.
fn memory(mib: f64) -> String {
    let mb = mib * 1.048_576;
    if mb < 999.5 { format!("{mb:.0} MB") } else { format!("{:.1} GB", mb / 1e3) }
}

/// `12s`, `3m12s`, `2h05m`, `3d04h`.
pub fn duration(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86400);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{minutes}m{:02}s", seconds % 60),
        3600..86400 => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use indicatif::InMemoryTerm;
    use std::sync::{Arc, Mutex};

    const NUMBERS: Numbers =
        Numbers { step: 120, loss: 3.4118, tokens_per_second: 845.3, gflops: Some(61.2), memory_mib: Some(1150.0) };

    #[test]
    fn a_summary_says_what_is_known() {
        let left = Some(Duration::from_secs(192));
        assert_eq!(summary(&NUMBERS, left), "loss 3.412 · 845 tok/s · 61 GFLOP/s · 1.2 GB · ETA 3m12s");
        let less = Numbers { gflops: None, memory_mib: None, tokens_per_second: 12345.0, ..NUMBERS };
        assert_eq!(summary(&less, None), "loss 3.412 · 12.3k tok/s");
    }

    #[test]
    fn durations_have_two_units() {
        let of = |seconds| duration(Duration::from_secs(seconds));
        assert_eq!([of(0), of(59), of(192), of(7500), of(273_600)], ["0s", "59s", "3m12s", "2h05m", "3d04h"]);
    }

    #[test]
    fn time_left_counts_from_where_this_session_began() {
        let hour = Duration::from_secs(3600);
        assert_eq!(time_left(900, 950, 1000, hour), Some(hour));
        assert_eq!(time_left(900, 900, 1000, hour), None);
        assert_eq!(time_left(0, 1000, 1000, hour), Some(Duration::ZERO));
    }

    /// The lines a terminal of that width shows after each update, and the last ones again when all is over.
    fn screens(columns: u16, steps: &[u64], message: &str) -> Vec<Vec<String>> {
        let term = InMemoryTerm::new(9, columns);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(term.clone()), 255);
        let mut progress = Progress::bar(0, 480, target);
        let lines = || term.contents().lines().map(str::to_string).collect();
        let mut screens = Vec::new();
        for step in steps {
            progress.say(message);
            // Faster than this, it does not draw.
            std::thread::sleep(Duration::from_millis(20));
            progress.update(&Numbers { step: *step, ..NUMBERS });
            screens.push(lines());
        }
        drop(progress);
        screens.push(lines());
        screens
    }

    #[test]
    fn messages_stand_above_the_bar_and_the_bar_stays_one_line() {
        let screens = screens(90, &[120, 240], "validation loss 3.5\nsaved");
        assert_eq!(screens[0][..2], ["validation loss 3.5", "saved"]);
        assert!(screens[0][2].starts_with("step 120/480 ━━"), "{screens:?}");
        assert_eq!(screens[1][..4], ["validation loss 3.5", "saved", "validation loss 3.5", "saved"]);
        let bar = &screens[1][4];
        assert!(bar.starts_with("step 240/480 ━━━━━━━━"), "{bar}");
        assert!(bar.contains("╾─") && bar.contains("─ loss 3.412 · 845 tok/s · 61 GFLOP/s · 1.2 GB · ETA "), "{bar}");
        assert_eq!((screens[1].len(), &screens[1]), (5, &screens[2]));
    }

    #[test]
    fn a_narrow_terminal_takes_two_lines_and_redraws_both() {
        let screens = screens(50, &[120, 240, 480], "saved");
        assert_eq!(screens[2][..3], ["saved"; 3]);
        assert_eq!(screens[2][3], "step 480/480  loss 3.412 · 845 tok/s · 61 GFLOP/s");
        assert_eq!((screens[2].len(), &screens[2]), (5, &screens[3]));
    }

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().expect("no panic").write(bytes)
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn elsewhere_there_is_a_line_now_and_then_and_at_the_end() {
        let out = Shared::default();
        let mut progress = Progress::plain(0, 25, Every::Steps(10), Box::new(out.clone()));
        for step in 1..=25 {
            if step == 12 {
                progress.say("saved");
            }
            progress.update(&Numbers { step, ..NUMBERS });
        }
        let bytes = out.0.lock().expect("no panic").clone();
        let text = String::from_utf8(bytes).expect("text");
        let starts: Vec<&str> = text.lines().map(|line| line.split(" · ").next().unwrap_or(line)).collect();
        assert_eq!(starts, ["step 1/25", "step 11/25", "saved", "step 21/25", "step 25/25"]);
        assert!(!text.contains('\u{1b}'), "{text}");
    }
}
