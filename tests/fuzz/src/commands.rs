//! The commands of `energyc` on a recipe: none panics, none hangs, and each keeps its promise. Deriving ends well and
//! replays its proofs, JSON is JSON, an analysis agrees with its own numbers, a recipe is equivalent to itself, and formatting
//! twice is formatting once and changes nothing that matters.
//!
//! Every command is a process of its own: this program under the hidden command `energyc`.

use crate::catching::catching;
use crate::failure::Failure;
use energyc::kernel::recipe_hash;
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// No command takes longer on a recipe of this size.
const TIME: Duration = Duration::from_secs(120);
/// What a bug ends with.
const EXIT_BUG: i32 = 3;

/// The command lines; `FILE` is the recipe's, in the folder `FOLDER`.
const LINES: [&str; 12] = [
    "check FILE",
    "verify FILE --format json",
    "compile FILE --output FOLDER",
    "derive FILE --stage energy,gradient,hessian,update,backward --proof",
    "derive FILE --stage energy,gradient,hessian,update,backward --format latex",
    "derive FILE --stage energy,gradient,hessian,update,backward --format json",
    "analyze FILE",
    "analyze FILE --format json",
    "cost FILE",
    "equiv FILE FILE",
    "skips FILE --layers 3",
    "skips FILE --layers 2 --format json",
];

/// What a command said.
struct Said {
    code: Option<i32>,
    results: String,
    messages: String,
}

/// Every command on the text of a valid recipe.
pub fn check(text: &str, folder: &Path) -> Result<(), Failure> {
    formatted(text)?;
    let file = folder.join("recipe.recipe");
    std::fs::write(&file, text).expect("a file to write");
    for line in LINES {
        let said = run(line, &file)?;
        let detail = |what: &str| {
            let words = if said.messages.is_empty() { &said.results } else { &said.messages };
            format!("{what}\n{}", words.lines().take(12).collect::<Vec<_>>().join("\n"))
        };
        let broken = |what: &str| Err(Failure::Broken { command: line.to_string(), detail: detail(what) });
        match said.code {
            None | Some(EXIT_BUG) => return Err(panicked(line, &said)),
            Some(0) => {}
            // Weights may depend on the data, and that is all there is to say about them.
            Some(1) if line.starts_with("skips") && said.messages.contains("depend on the data") => {}
            // A random program may well climb, and that is all that may be wrong.
            Some(1)
                if line.starts_with("verify") && failed(&said.results).is_some_and(|lines| lines == ["descent"]) => {}
            // Some formulas have no kernel.
            Some(1) if line.starts_with("compile") && said.messages.contains("has no kernel") => {}
            Some(2) if line.starts_with("skips") => {}
            Some(code) => return broken(&format!("ends with {code}")),
        }
        if line.ends_with("json") && said.code == Some(0) && !is_json(&said.results) {
            return broken("prints no JSON");
        }
    }
    Ok(())
}

/// The formatter on a valid file, in this process.
fn formatted(text: &str) -> Result<(), Failure> {
    let broken = |detail: String| Failure::Broken { command: "fmt".to_string(), detail };
    let format = |text: &str| -> Result<String, Failure> {
        let formatted = catching("fmt", || energyc::syntax::format(text))?;
        formatted.map_err(|diagnostics| broken(format!("refuses a valid file: {:?}", diagnostics.first())))
    };
    let once = format(text)?;
    let twice = format(&once)?;
    if once != twice {
        return Err(broken(format!("is not idempotent:\n{once}\n{twice}")));
    }
    let hash = |text: &str| -> Result<Option<String>, Failure> {
        Ok(catching("check", || energyc::pipeline::front(text))?.0.map(|recipe| recipe_hash(&recipe)))
    };
    if hash(text)? != hash(&once)? {
        return Err(broken(format!("changes the recipe:\n{once}")));
    }
    Ok(())
}

fn run(line: &str, file: &Path) -> Result<Said, Failure> {
    let words = line.split(' ').map(|word| match word {
        "FILE" => file.as_os_str(),
        "FOLDER" => file.parent().map_or(word.as_ref(), Path::as_os_str),
        _ => word.as_ref(),
    });
    let mut command = Command::new(std::env::current_exe().expect("a program"));
    command.arg("energyc").args(words).stdout(Stdio::piped()).stderr(Stdio::piped()).stdin(Stdio::null());
    command.env("RUST_BACKTRACE", "0");
    let mut child = command.spawn().expect("a command starts");
    let read = |pipe: Option<Box<dyn Read + Send>>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_end(&mut bytes).ok();
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })
    };
    let results = read(child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let messages = read(child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn Read + Send>));
    let start = Instant::now();
    let status = loop {
        match child.try_wait().expect("a command") {
            Some(status) => break status,
            None if start.elapsed() > TIME => {
                child.kill().ok();
                child.wait().ok();
                let detail = format!("takes longer than {} s", TIME.as_secs());
                return Err(Failure::Broken { command: line.to_string(), detail });
            }
            None => std::thread::sleep(Duration::from_millis(2)),
        }
    };
    let (results, messages) = (results.join().unwrap_or_default(), messages.join().unwrap_or_default());
    Ok(Said { code: status.code(), results, messages })
}

/// A panic, by what it left on the terminal.
fn panicked(line: &str, said: &Said) -> Failure {
    let mut lines = said.messages.lines().skip_while(|line| !line.contains("panicked at"));
    let place = lines.next().and_then(|line| line.split("panicked at ").nth(1)).unwrap_or("nowhere");
    let message = lines.next().unwrap_or(&said.messages).to_string();
    // Without the column.
    let place = place.trim_end_matches(':').rsplit_once(':').map_or(place, |(place, _)| place);
    let at = place.find("compiler/src").or_else(|| place.find("index.crates.io")).unwrap_or(0);
    Failure::Panic { stage: line.to_string(), message, location: place[at..].to_string() }
}

/// The lines of a report that fail.
fn failed(report: &str) -> Option<Vec<String>> {
    let report: serde_json::Value = serde_json::from_str(report).ok()?;
    let failed = report["lines"].as_array()?.iter().filter(|line| line["outcome"] == "fail");
    failed.map(|line| line["line"].as_str().map(str::to_string)).collect()
}

fn is_json(text: &str) -> bool {
    serde_json::from_str::<serde_json::Value>(text).is_ok()
}
