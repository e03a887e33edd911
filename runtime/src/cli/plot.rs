//! `energyrun plot`: the curves of runs in one figure.

use std::path::{Path, PathBuf};

use energyc::cli::atomic;
use energyc::cli::outcome::{Outcome, count, message};

use crate::metrics::plot::axis::Scale;
use crate::metrics::plot::runs::{Along, Metric, Run, Wanted, Which, note, panel};
use crate::metrics::plot::{Figure, svg};
use crate::metrics::record::{FILE, read};

/// Draw curves of runs into one figure
#[derive(clap::Args, Debug)]
#[command(after_help = "\
A run is called as its folder is, or as its label says.

Examples:
  energyrun plot runs/softmax runs/huber --output loss.svg
  energyrun plot ours=runs/a theirs=runs/b --output lr.svg --metric learning_rate --x tokens
  energyrun plot runs/softmax --output train.svg --kind train --smooth 50 --log --title Softmax")]
pub struct Args {
    /// Run folders or their `metrics.jsonl`, with a label if wanted
    #[arg(required = true, value_name = "[LABEL=]RUN")]
    runs: Vec<String>,
    /// Where the figure goes
    #[arg(long, short, value_name = "FILE.svg")]
    output: PathBuf,
    /// What is drawn upwards
    #[arg(long, default_value = "loss")]
    metric: Metric,
    /// Which records are drawn
    #[arg(long, default_value = "both")]
    kind: Which,
    /// What is drawn along
    #[arg(long, default_value = "step")]
    x: Along,
    /// Training records to average for a point; a fiftieth of them unless said otherwise
    #[arg(long, value_name = "N")]
    smooth: Option<usize>,
    /// A line above the figure
    #[arg(long)]
    title: Option<String>,
    /// A logarithmic axis upwards
    #[arg(long)]
    log: bool,
}

pub fn run(args: &Args, color: bool) -> Outcome {
    match plot(args) {
        Ok(results) => Outcome::good(results),
        Err(wrong) => Outcome::wrong(message("error", &wrong, color)),
    }
}

/// A line about the figure, or what is wrong.
fn plot(args: &Args) -> Result<String, String> {
    let runs = args.runs.iter().map(|run| open(run)).collect::<Result<Vec<Run>, String>>()?;
    let scale = if args.log { Scale::Log } else { Scale::Linear };
    let wanted = Wanted { metric: args.metric, which: args.kind, along: args.x, smooth: args.smooth, scale };
    let panel = panel(&runs, &wanted)?;
    let (note, curves) = (note(&panel, &wanted).to_string(), panel.curves.len());
    let figure =
        Figure { title: args.title.clone().unwrap_or_default(), note, panels: vec![panel], ..Figure::default() };
    let output = args.output.display();
    atomic::write(&args.output, svg(&figure)).map_err(|error| format!("cannot write `{output}`: {error}"))?;
    Ok(format!("{output}: {} of {}\n", count(curves, "curve"), count(runs.len(), "run")))
}

/// The records of a run, with its label.
fn open(run: &str) -> Result<Run, String> {
    let (label, path) = match run.split_once('=') {
        Some((label, path)) if !Path::new(run).exists() => (Some(label), Path::new(path)),
        _ => (None, Path::new(run)),
    };
    let file = if path.is_dir() { path.join(FILE) } else { path.to_path_buf() };
    let records = read(&file)?;
    if records.is_empty() {
        return Err(format!("`{}` holds no records", file.display()));
    }
    Ok(Run { label: label.map_or_else(|| name(&file), str::to_string), records })
}

/// What a run is called if nothing is said: its folder, or its file if that has a name of its own.
fn name(file: &Path) -> String {
    let absolute = std::path::absolute(file).unwrap_or_else(|_| file.to_path_buf());
    let is_usual = absolute.file_name().is_some_and(|name| name == FILE);
    let named = if is_usual { absolute.parent().and_then(Path::file_name) } else { absolute.file_stem() };
    named.map_or_else(|| file.display().to_string(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_called_as_its_folder_or_its_own_file() {
        assert_eq!(name(Path::new("runs/softmax/metrics.jsonl")), "softmax");
        assert_eq!(name(Path::new("runs/./softmax/./metrics.jsonl")), "softmax");
        assert_eq!(name(Path::new("runs/huber.jsonl")), "huber");
    }
}
