//! Experiments as data: a file names recipes, sizes, windows and seeds; every cell of that grid is a run of the trainer,
//! and what they come to is a table and a figure.
//!
//! ```text
//! file ──assign──▶ file ──grid──▶ cells ──check──▶ run (data, train, result) ──▶ summary (significance), figure
//!                                   │                └──glue──▶ table
//!                                   └──cost (calibrate)──▶ what it would take
//! ```
//! An output folder holds `experiment.toml`, `data/`, `runs/CELL/` and the results. A cell that is done is not run again,
//! one that was interrupted goes on from its last checkpoint.

pub mod assign;
pub mod calibrate;
pub mod check;
pub mod cost;
pub mod data;
pub mod figure;
pub mod file;
pub mod glue;
mod glue_cost;
pub mod grid;
pub mod result;
pub mod run;
pub mod shipped;
pub mod significance;
pub mod summary;

use crate::train::start::Chosen;
use file::File;
use grid::Cell;
use std::path::{Path, PathBuf};

/// Where things are.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub data: Option<PathBuf>,
    /// `experiments/` and the name unless it is said.
    pub output: Option<PathBuf>,
    pub reuse: Option<PathBuf>,
}

/// A file with everything it names found.
#[derive(Clone, Debug)]
pub struct Experiment {
    pub file: File,
    /// In the order of the file.
    pub recipes: Vec<Chosen>,
    pub cells: Vec<Cell>,
    /// Where raw or prepared data is looked for.
    pub data: Option<PathBuf>,
    pub output: PathBuf,
    /// The output folder of another experiment, whose finished runs count as this one's.
    pub reuse: Option<PathBuf>,
}

impl Experiment {
    /// The grid of a file with its recipes.
    pub fn new(file: File, recipes: Vec<Chosen>, places: Places) -> Result<Experiment, String> {
        let names: Vec<String> = recipes.iter().map(|chosen| chosen.name("+")).collect();
        let cells = grid::cells(&file, &names)?;
        let output = places.output.unwrap_or_else(|| Path::new("experiments").join(&file.name));
        Ok(Experiment { file, recipes, cells, data: places.data, output, reuse: places.reuse })
    }

    /// The folder of a cell's run: its own, or that of a finished run that is used again.
    pub fn run_of(&self, cell: &Cell) -> PathBuf {
        let own = self.output.join("runs").join(cell.folder());
        let other = self.reuse.as_ref().map(|reuse| reuse.join("runs").join(cell.folder()));
        other.filter(|other| !own.exists() && other.join(result::FILE).is_file()).unwrap_or(own)
    }

    /// Whether nothing is left to train.
    pub fn is_trained(&self) -> bool {
        self.cells.iter().all(|cell| self.run_of(cell).join(result::FILE).is_file())
    }

    /// What the baseline calls itself.
    pub fn baseline(&self) -> &str {
        let place = self.file.recipes.iter().position(|recipe| recipe == self.file.baseline());
        self.cells.iter().find(|cell| Some(cell.recipe) == place).map_or("", |cell| &cell.name)
    }

    pub fn data(&self) -> Option<&Path> {
        self.data.as_deref()
    }
}
