//! What a run leaves of its measurements: records that survive a kill and a resumption, event files as TensorBoard reads
//! them, and figures through `energyrun plot`.

mod binary;

use std::fs;
use std::path::{Path, PathBuf};

use binary::{Run, run_in};
use energy_runtime::metrics::plot::axis::Scale;
use energy_runtime::metrics::plot::{Curve, Figure, Look, Panel, Style, svg};
use energy_runtime::metrics::record::{FILE, Kind, Record, Writer, read};
use energy_runtime::metrics::tensorboard::Events;
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A training run that validates at every hundredth step.
fn records(steps: u64, offset: f64) -> Vec<Record> {
    let mut records = Vec::new();
    for step in (0..=steps).step_by(10) {
        let loss = offset + 4.0 * (-(step as f64) / 300.0).exp();
        let noise = 0.2 * ((step * 7919 % 101) as f64 / 101.0 - 0.5);
        records.push(Record {
            learning_rate: Some(1e-3),
            seconds: Some(step as f64),
            ..Record::measured(Kind::Train, step, step * 1024, loss + noise)
        });
        if step % 100 == 0 {
            records.push(Record::measured(Kind::Valid, step, step * 1024, loss));
        }
    }
    records
}

fn write(path: &Path, records: &[Record]) {
    let mut writer = Writer::create(path).expect("a file");
    records.iter().for_each(|record| writer.append(record).expect("written"));
}

/// A run folder with this name.
fn run_folder(folder: &TempDir, name: &str, records: &[Record]) -> PathBuf {
    let run = folder.path().join(name);
    fs::create_dir(&run).expect("a folder");
    write(&run.join(FILE), records);
    run
}

// ---- records ----

#[test]
fn records_come_back_as_they_were_written() {
    let folder = folder();
    let path = folder.path().join(FILE);
    let mut records = records(200, 2.0);
    records.push(Record::note(200, 204_800, "ended: ∂F/∂q < 1e-3 \"enough\"\nbye"));
    write(&path, &records);
    assert_eq!(read(&path), Ok(records));
    let refused = Writer::create(&path).expect_err("it exists");
    assert!(refused.contains("metrics.jsonl"), "{refused}");
}

#[test]
fn a_resumed_run_leaves_the_curve_of_one_that_never_stopped() {
    let folder = folder();
    let (whole, resumed) = (folder.path().join("whole"), folder.path().join("resumed"));
    let records = records(500, 2.0);
    write(&whole, &records);
    // Killed in the middle of a line after step 330; the checkpoint is of step 200.
    let written: Vec<Record> = records.iter().filter(|record| record.step <= 330).cloned().collect();
    write(&resumed, &written);
    let text = fs::read(&resumed).expect("bytes");
    fs::write(&resumed, &text[..text.len() - 17]).expect("cut");
    let mut writer = Writer::resume(&resumed, 200).expect("a file");
    assert_eq!(read(&resumed).expect("records").last().map(|record| record.step), Some(200));
    for record in records.iter().filter(|record| record.step > 200) {
        writer.append(record).expect("written");
    }
    assert_eq!(fs::read(&whole).expect("bytes"), fs::read(&resumed).expect("bytes"));
    assert_eq!(fs::read_dir(folder.path()).expect("entries").count(), 2);
}

#[test]
fn a_resumption_keeps_lines_as_they_are_and_refuses_nonsense() {
    let folder = folder();
    let path = folder.path().join(FILE);
    let line = r#"{"kind":"train","step":1,"tokens":2,"loss":3.50,"of a later version":true}"#;
    fs::write(&path, line).expect("written");
    let mut writer = Writer::resume(&path, 1).expect("a file");
    writer.append(&Record::note(1, 2, "x")).expect("written");
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!(text, format!("{line}\n{{\"kind\":\"note\",\"step\":1,\"tokens\":2,\"text\":\"x\"}}\n"));
    fs::write(&path, "{}\n").expect("written");
    let error = Writer::resume(&path, 1).expect_err("no record");
    assert!(error.contains("metrics.jsonl:1: "), "{error}");
    assert_eq!(fs::read_to_string(&path).expect("text"), "{}\n");
    Writer::resume(&folder.path().join("new"), 0).expect("a new file");
}

// ---- event files ----

/// The bytes that the `RecordWriter` of the Python package `tensorboard` makes of the same events.
const EVENTS: &str = "\
1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32eced8f9d\
100000000000000095fbfe180900000040fc54d94110ad023a020801b5733346\
3700000000000000e7e8ca590900002043fc54d94110ac022a290a110a0a6c6f73732f747261696e15000050400a140a0d6c6561726e696e675f\
72617465156f12833a97556e48\
200000000000000029eda9500900004043fc54d9412a150a130a0c656e657267792f76616c696415000000007c19a300";

#[test]
fn an_event_file_is_as_tensorboard_writes_it() {
    let folder = folder();
    let mut events = Events::resume(folder.path(), 1_700_000_000, 300).expect("a file");
    let train = Record { learning_rate: Some(1e-3), ..Record::measured(Kind::Train, 300, 1, 3.25) };
    events.append_record(1_700_000_012.5, &train).expect("written");
    events.append_record(1_700_000_012.5, &Record::note(300, 1, "no scalar")).expect("nothing to write");
    let valid = Record { kind: Kind::Valid, energy: Some(0.0), ..Record::default() };
    events.append_record(1_700_000_013.0, &valid).expect("written");
    let bytes = fs::read(folder.path().join("events.out.tfevents.1700000000.energyrun")).expect("bytes");
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, EVENTS);
    Events::create(folder.path(), 1_700_000_000).expect_err("another session's file");
}

// ---- figures ----

/// How often a text occurs.
fn count(text: &str, part: &str) -> usize {
    text.matches(part).count()
}

#[track_caller]
fn plotted(folder: &TempDir, args: &[&str]) -> String {
    run_in(folder.path(), &[&["plot", "--output", "out.svg"], args].concat()).exits(0).prints("out.svg: ");
    let text = fs::read_to_string(folder.path().join("out.svg")).expect("a figure");
    assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"), "{text}");
    assert!(!text.contains("NaN") && !text.contains("inf "), "{text}");
    text
}

#[track_caller]
fn refused(folder: &TempDir, args: &[&str], message: &str) -> Run {
    let run = run_in(folder.path(), &[&["plot", "--output", "none.svg"], args].concat()).exits(1).says(message);
    assert!(!folder.path().join("none.svg").exists());
    run
}

#[test]
fn runs_are_drawn_over_each_other() {
    let folder = folder();
    run_folder(&folder, "softmax", &records(1000, 2.0));
    run_folder(&folder, "huber", &records(1000, 1.5));
    let text = plotted(&folder, &["softmax", "H & L=huber/metrics.jsonl", "--title", "a < b"]);
    assert_eq!(count(&text, r#"class="curve""#), 4);
    assert_eq!(count(&text, r#"class="sample""#), 2);
    // Two curves of eleven validations, and a mark in each line of the legend.
    assert_eq!(count(&text, "<circle "), 2 * 11 + 2);
    for words in [">softmax<", ">H &amp; L<", ">a &lt; b<", ">step<", ">loss<", ">1000<"] {
        assert!(text.contains(words), "{words} in {text}");
    }
    let text = plotted(&folder, &["softmax", "--kind", "train", "--x", "seconds", "--smooth", "5", "--log"]);
    assert_eq!((count(&text, r#"class="curve""#), count(&text, "<circle ")), (1, 0));
    assert!(text.contains(">time (minutes)<"), "{text}");
    let text = plotted(&folder, &["softmax", "huber", "--metric", "learning_rate", "--x", "tokens"]);
    assert_eq!(count(&text, r#"class="curve""#), 2);
    assert!(text.contains(">learning rate<") && text.contains(">1.0M<"), "{text}");
}

#[test]
fn a_path_may_hold_the_sign_of_a_label() {
    let folder = folder();
    run_folder(&folder, "lr=3", &records(100, 2.0));
    assert!(plotted(&folder, &["lr=3"]).contains(">lr=3<"));
    assert!(plotted(&folder, &["three=lr=3"]).contains(">three<"));
}

#[test]
fn what_cannot_be_drawn_is_said() {
    let folder = folder();
    run_folder(&folder, "empty", &[]);
    run_folder(&folder, "noted", &[Record::note(1, 1, "begun")]);
    run_folder(&folder, "good", &records(100, 2.0));
    fs::create_dir(folder.path().join("bare")).expect("a folder");
    fs::write(folder.path().join("wrong.jsonl"), "loss 3\n").expect("written");
    refused(&folder, &["good", "absent"], "cannot read `absent`: No such file");
    refused(&folder, &["good", "bare"], "cannot read `bare/metrics.jsonl`: No such file");
    refused(&folder, &["empty"], "`empty/metrics.jsonl` holds no records");
    refused(&folder, &["noted"], "run `noted` has no records");
    refused(&folder, &["wrong.jsonl"], "wrong.jsonl:1: this is no record: ");
    let there = "run `good` has no `accuracy` in its records; there is loss, learning_rate";
    refused(&folder, &["good", "--metric", "accuracy"], there);
    refused(&folder, &["good", "--metric", "learning_rate", "--kind", "valid"], "has no `learning_rate` in its valid");
    refused(&folder, &["good", "--kind", "valid", "--x", "seconds"], "run `good` does not say its `seconds`");
    let run = run_in(folder.path(), &["plot", "good", "--output", "no/such/folder.svg"]);
    run.exits(1).says("cannot write `no/such/folder.svg`");
    run_in(folder.path(), &["plot", "good"]).exits(2);
}

#[test]
fn panels_stand_in_a_grid_under_one_legend() {
    let curve = |place: usize| Curve {
        label: format!("recipe {place}"),
        points: (0..10).map(|x| (f64::from(x), (place + 1) as f64 / f64::from(x + 1))).collect(),
        style: Style { place, look: Look::Marked },
    };
    let panel = |size: &str| Panel {
        title: size.to_string(),
        x_label: "step".to_string(),
        y_label: "validation loss".to_string(),
        y_scale: Scale::Log,
        curves: (0..9).map(curve).collect(),
    };
    let panels = ["3M", "10M", "30M", "85M"].map(panel).to_vec();
    let text = svg(&Figure { width: 1200.0, height: 800.0, columns: 2, panels, ..Figure::default() });
    assert_eq!((count(&text, r#"class="sample""#), count(&text, r#"class="curve""#)), (9, 36));
    assert_eq!((count(&text, r#"class="axis""#), count(&text, ">validation loss<")), (4, 4));
}
