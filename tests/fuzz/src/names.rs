//! Names for parameters, `let`s, states, ingredients and recipes. Many of them are words of Rust, of the kernels' and the
//! layers' own source, or of the derivation: a recipe's names must not get into the way of any.

use crate::random::Random;
use std::collections::BTreeSet;

/// Names that nobody else uses, as far as one can tell.
const PLAIN: [&str; 14] =
    ["a", "b", "rho", "mu", "nu", "kappa", "omega", "theta", "xi", "phi", "tau_0", "w_", "sharpness", "weight_2"];

/// Names that something in an implementation may well be called.
const CROWDED: [&str; 92] = [
    "w1",
    "w2",
    "wv",
    "wo",
    "dropout",
    "gen",
    "match",
    "match_",
    "size",
    "saved",
    "out",
    "x0",
    "p",
    "c",
    "out_q",
    "inputs",
    "self_",
    "type",
    "mod",
    "move",
    "ref",
    "fn",
    "loop",
    "use",
    "pub",
    "impl",
    "kernel",
    "energy",
    "backward",
    "forward",
    "grad_out",
    "grad",
    "visible",
    "batch",
    "heads",
    "head",
    "queries",
    "tokens",
    "d_model",
    "x",
    "y",
    "r",
    "u",
    "g",
    "o",
    "s",
    "n",
    "e",
    "f",
    "l",
    "m",
    "lambda",
    "top",
    "total",
    "rows",
    "row",
    "block",
    "keys",
    "key",
    "buffers",
    "gradients",
    "Inputs",
    "Saved",
    "Size",
    "Layer",
    "Config",
    "State",
    "Context",
    "T",
    "P",
    "usize",
    "f32",
    "f64",
    "vec",
    "Vec",
    "std",
    "len",
    "index",
    "p2",
    "c2",
    "x1",
    "b2",
    "v0",
    "k0",
    "q0",
    "dq",
    "dk",
    "state_",
    "config",
    "layer",
    "try",
    "yield",
];

/// Functions of the language, which are not reserved.
const FUNCTIONS: [&str; 6] = ["exp", "sum", "norm", "max", "solve", "sign"];

/// Hands out names, each once.
#[derive(Clone, Debug, Default)]
pub struct Names {
    taken: BTreeSet<String>,
}

impl Names {
    /// Names that are given away already.
    pub fn reserve(&mut self, names: &[&str]) {
        self.taken.extend(names.iter().map(|name| name.to_string()));
    }

    pub fn is_free(&self, name: &str) -> bool {
        !self.taken.contains(name)
    }

    pub fn fresh(&mut self, random: &mut Random) -> String {
        for _ in 0..20 {
            let name = match random.below(20) {
                0..=9 => random.pick(&PLAIN),
                10..=18 => random.pick(&CROWDED),
                _ => random.pick(&FUNCTIONS),
            };
            if self.taken.insert(name.to_string()) {
                return name.to_string();
            }
        }
        let name = format!("a{}", self.taken.len());
        self.taken.insert(name.clone());
        name
    }

    /// A name for a recipe or an ingredient, which share nothing with parameters.
    pub fn title(random: &mut Random) -> String {
        let name = if random.one_in(2) { "r" } else { random.pick(&CROWDED) };
        name.to_string()
    }
}
