//! Named settings: the paper's runs, and runs for a machine with two cores.

use super::settings::{Data, Mode, Model, Report, Settings, Train};
use crate::model::config::SIZES;

/// The paper's windows.
const WINDOWS: [usize; 2] = [256, 512];

/// The names of all presets, with a line about each.
pub fn all() -> Vec<(String, String)> {
    let papers = SIZES[1..].iter().flat_map(|size| {
        WINDOWS.map(|window| {
            let name = format!("paper-{}-{window}", size.name);
            (name, format!("the paper's {} model, windows of {window} tokens, MiniPile, 3 epochs", size.name))
        })
    });
    let small = [
        ("recall", "a tiny model on multi-query associative recall, made up on the spot; half a minute"),
        ("small", "a small model on any prepared text, windows of 256 tokens; an hour on two cores"),
    ];
    papers.chain(small.map(|(name, about)| (name.to_string(), about.to_string()))).collect()
}

/// The settings of a preset.
pub fn preset(name: &str) -> Result<Settings, String> {
    let known = all();
    let unknown = || {
        let names: Vec<&str> = known.iter().map(|(name, _)| name.as_str()).collect();
        format!("there is no preset `{name}`; there are {}", names.join(", "))
    };
    if !known.iter().any(|(other, _)| other == name) {
        return Err(unknown());
    }
    match name {
        "recall" => Ok(recall()),
        "small" => Ok(small()),
        _ => {
            let mut parts = name.split('-').skip(1);
            let (size, window) = (parts.next().unwrap_or(""), parts.next().and_then(|w| w.parse().ok()));
            window.map(|window| paper(size, window)).ok_or_else(unknown)
        }
    }
}

/// AdamW(0.9, 0.999), learning rate 1e-4 with warmup, batch 32 (16 for the largest), dropout 0.1, 3 epochs.
fn paper(size: &str, window: usize) -> Settings {
    let largest = SIZES.last().is_some_and(|last| last.name == size);
    Settings {
        model: Model { size: size.to_string(), window, ..Model::default() },
        data: Data { mode: Mode::Truncate, ..Data::default() },
        train: Train { batch: if largest { 16 } else { 32 }, ..Train::default() },
        report: Report { valid_every: 1000, checkpoint_every: 1000, ..Report::default() },
        ..Settings::default()
    }
}

fn recall() -> Settings {
    Settings {
        // A narrow model starts with larger weights, or attention stays flat for long.
        model: Model { size: "tiny".to_string(), window: 16, dropout: 0.0, deviation: 0.1, ..Model::default() },
        data: Data { train: "recall".to_string(), valid: "recall".to_string(), ..Data::default() },
        train: Train { batch: 64, steps: 800, learning_rate: 3e-3, warmup: 0.1, ..Train::default() },
        report: Report { valid_every: 50, checkpoint_every: 400, ..Report::default() },
        ..Settings::default()
    }
}

fn small() -> Settings {
    Settings {
        model: Model { size: "tiny".to_string(), layers: 4, heads: 4, head: 32, ..Model::default() },
        data: Data {
            train: "data/train".to_string(),
            valid: "data/valid".to_string(),
            mode: Mode::Pack,
            ..Data::default()
        },
        train: Train { batch: 16, steps: 2000, learning_rate: 1e-3, warmup: 0.05, ..Train::default() },
        report: Report { valid_every: 200, valid_examples: 128, checkpoint_every: 200, ..Report::default() },
        ..Settings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_one_and_names_are_checked() {
        for (name, _) in all() {
            let settings = preset(&name).expect("a preset");
            assert_eq!(settings.check(), Ok(()), "{name}");
            assert!(settings.model(50257).is_ok(), "{name}");
        }
        assert_eq!(preset("paper-160m-512").expect("a preset").train.batch, 16);
        assert!(preset("paper-31m-256").expect_err("no such size").contains("paper-30m-256"));
    }
}
