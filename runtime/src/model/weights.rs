//! All learned numbers of a model as one array, and which part of it is which weight.
//!
//! One array makes the gradient, the optimizer's moments, clipping and checkpoints one array each. Every weight is added
//! here, so here is known which names are ours: a weight that a recipe names keeps out of their way by the rule of
//! [`energyc::kernel::users`], whichever comes first.

use super::random::Stream;
use energyc::kernel::users;
use rayon::prelude::*;
use std::collections::HashSet;
use std::ops::Range;

/// How a weight starts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Start {
    /// Normal numbers with this standard deviation.
    Normal(f32),
    Constant(f32),
}

/// A weight: its name, its shape, its part of the array.
#[derive(Clone, Debug, PartialEq)]
pub struct Weight {
    pub name: String,
    pub shape: Vec<usize>,
    pub range: Range<usize>,
    pub start: Start,
    /// Whether weight decay applies: to matrices, as usual, not to biases, norms and numbers.
    pub decays: bool,
    /// Who named it, where a recipe did.
    named: Option<Named>,
}

/// A name of a recipe among the weights: `prefix.name` and what comes behind.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    pub prefix: String,
    pub name: String,
    pub suffix: &'static str,
}

impl Named {
    pub fn new(prefix: &str, name: &str) -> Named {
        Named { prefix: prefix.to_string(), name: name.to_string(), suffix: "" }
    }

    fn with(&self, name: &str) -> String {
        format!("{}.{name}{}", self.prefix, self.suffix)
    }
}

/// The part of the array a weight has.
pub type Place = Range<usize>;

/// The weights in the order of their places.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Layout {
    weights: Vec<Weight>,
    length: usize,
}

impl Layout {
    /// Adds a weight of ours behind the others.
    pub fn add(&mut self, name: String, shape: &[usize], start: Start) -> Place {
        let place = self.push(name, None, shape, start);
        self.keep_apart();
        place
    }

    /// Adds a weight that a recipe names. A parameter that an energy and the optimizer share is one weight.
    pub fn add_named(&mut self, named: Named, shape: &[usize], start: Start) -> Place {
        if let Some(shared) = self.weights.iter().find(|weight| weight.named.as_ref() == Some(&named)) {
            return shared.range.clone();
        }
        let place = self.push(String::new(), Some(named), shape, start);
        self.keep_apart();
        place
    }

    fn push(&mut self, name: String, named: Option<Named>, shape: &[usize], start: Start) -> Place {
        let range = self.length..self.length + shape.iter().product::<usize>();
        self.length = range.end;
        // A recipe's own numbers start at one of them; the matrix of a gate is drawn.
        let is_number = named.is_some() && matches!(start, Start::Constant(_));
        let decays = shape.len() > 1 && !is_number;
        self.weights.push(Weight { name, shape: shape.to_vec(), range: range.clone(), start, decays, named });
        range
    }

    /// Gives the weights that recipes name what they are called beside ours.
    fn keep_apart(&mut self) {
        let ours: HashSet<String> =
            self.weights.iter().filter(|weight| weight.named.is_none()).map(|weight| weight.name.clone()).collect();
        for weight in &mut self.weights {
            if let Some(named) = &weight.named {
                weight.name = named.with(&users::apart(&named.name, |name| ours.contains(&named.with(name))));
            }
        }
    }

    pub fn weights(&self) -> &[Weight] {
        &self.weights
    }

    /// Numbers in all.
    pub fn len(&self) -> usize {
        self.length
    }

    pub fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// All weights as they start: every weight has its own stream of the seed.
    pub fn start(&self, seed: u64) -> Vec<f32> {
        let mut values = vec![0.0; self.length];
        for (i, weight) in self.weights.iter().enumerate() {
            let own = &mut values[weight.range.clone()];
            match weight.start {
                Start::Constant(value) => own.fill(value),
                Start::Normal(deviation) => {
                    let stream = Stream::new(seed).stream(i as u64);
                    let number = |j: usize| (f64::from(deviation) * stream.normal(j as u64)) as f32;
                    own.par_iter_mut().with_min_len(1 << 12).enumerate().for_each(|(j, x)| *x = number(j));
                }
            }
        }
        values
    }

    /// The name of the weight this place of the array belongs to.
    pub fn owner(&self, place: usize) -> &str {
        self.weights.iter().find(|weight| weight.range.contains(&place)).map_or("", |weight| &weight.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_recipes_keep_out_of_our_way_whichever_comes_first() {
        let mut layout = Layout::default();
        let zero = Start::Constant(0.0);
        let own = |layout: &mut Layout, name: &str| layout.add_named(Named::new("a", name), &[1], zero);
        let first = own(&mut layout, "w1");
        layout.add("a.w1".to_string(), &[2, 2], zero);
        layout.add("a.w2".to_string(), &[2, 2], zero);
        layout.add("a.norm.bias".to_string(), &[2], zero);
        for name in ["w2", "w2_", "T", "T_"] {
            own(&mut layout, name);
        }
        layout.add_named(Named { suffix: ".bias", ..Named::new("a", "norm") }, &[1], zero);
        assert_eq!(own(&mut layout, "w1"), first, "one parameter is one weight");
        let names: Vec<&str> = layout.weights().iter().map(|weight| weight.name.as_str()).collect();
        let expect = ["a.w1_", "a.w1", "a.w2", "a.norm.bias", "a.w2_", "a.w2__", "a.T", "a.T__", "a.norm_.bias"];
        assert_eq!(names, expect);
    }
}
