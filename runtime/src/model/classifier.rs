//! One attention layer with a classification token that persists: the paper's Algorithm 1.
//!
//! Every sample has tokens H_i, a label and a token z_i of its own. An epoch is three steps of descent, each on its own
//! quantity with the others held: z_i ← z_i − η∇_z F(z_i, H_i; W), W ← W − (η/M) Σ ∇_W F, E ← E − (η/M) Σ ∇_E CE(E z_i, y_i).
//! Nothing is backpropagated through the layer.

use super::attention::{Attention, Scratch, Sight, Tape, Tokens};
use super::loss::{self, Loss, Wanted};
use super::weights::{Layout, Place, Start};
use crate::engine::Passes;
use energyc::check::recipe::{Recipe, Values, WriteBack};
use energyc::ir::eval::Sizes;
use energyc::primitives::visible::Visible;

/// The sizes of a classifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pub heads: usize,
    /// Components of a head; a token has `heads · head`.
    pub head: usize,
    /// Tokens of a sample.
    pub tokens: usize,
    pub classes: usize,
}

/// Samples with the tokens that stand for them, and what was learned.
pub struct Classifier {
    shape: Shape,
    attention: Attention,
    output: Place,
    weights: Vec<f32>,
    samples: Vec<f32>,
    labels: Vec<i32>,
    /// z_i, one after another.
    pub classes: Vec<f32>,
    scratch: Scratch,
}

/// What the three steps of an epoch did: the quantity each of them lowers, before and after it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Epoch {
    /// The mean of F over samples, around the step of z.
    pub energy_by_z: [f64; 2],
    /// The same around the step of W.
    pub energy_by_w: [f64; 2],
    /// The mean cross-entropy around the step of E.
    pub loss_by_e: [f64; 2],
    /// The part of the samples that is classified rightly, at the end.
    pub accuracy: f64,
}

impl Classifier {
    /// A classifier of samples `[M, tokens, d]`; every z starts at the mean of its sample's tokens.
    pub fn new(
        recipe: &Recipe,
        shape: Shape,
        samples: Vec<f32>,
        labels: Vec<usize>,
        seed: u64,
    ) -> Result<Classifier, String> {
        let d = shape.heads * shape.head;
        let of_sample = shape.tokens * d;
        if of_sample == 0 || labels.is_empty() || samples.len() != labels.len() * of_sample {
            let wanted = format!("{} samples of {} tokens with {d} components", labels.len(), shape.tokens);
            return Err(format!("{} numbers are not {wanted}", samples.len()));
        }
        if let Some(label) = labels.iter().find(|label| **label >= shape.classes) {
            return Err(format!("there is a label {label}, and only {} classes", shape.classes));
        }
        if recipe.values != Values::Tied || recipe.write_back != WriteBack::Transpose || recipe.constraints.len() != 2 {
            let needed = "`values tied` and `constrain norm(q) = rho, norm(k) = rho`";
            return Err(format!("`{}` does not descend on a bounded energy; it needs {needed}", recipe.name));
        }
        let sizes = Sizes { queries: 1, tokens: shape.tokens, head: shape.head, model: d, heads: shape.heads };
        let mut layout = Layout::default();
        let deviation = (1.0 / d as f32).sqrt();
        let attention =
            Attention::new(&mut layout, "attention", recipe, Passes::new(recipe)?, sizes, [deviation, deviation])?;
        let output = layout.add("output".to_string(), &[shape.classes, d], Start::Normal(0.02));
        let mean = |sample: &[f32]| -> Vec<f32> {
            let sum = |c: usize| sample.iter().skip(c).step_by(d).sum::<f32>();
            (0..d).map(|c| sum(c) / shape.tokens as f32).collect()
        };
        Ok(Classifier {
            classes: samples.chunks_exact(of_sample).flat_map(mean).collect(),
            weights: layout.start(seed),
            labels: labels.into_iter().map(|label| label as i32).collect(),
            scratch: Scratch::default(),
            shape,
            attention,
            output,
            samples,
        })
    }

    fn sight(&self, queries: usize) -> Sight {
        let seen = Visible::full(queries, self.shape.tokens);
        Sight { batch: self.labels.len(), queries, visible: vec![seen; self.labels.len()], dropout: None }
    }

    /// The force on every z, and what it was computed from: the tapes of the tokens and of the z.
    fn force(&mut self) -> (Tape, Tape, Vec<f32>) {
        let (mut tokens, mut own) = (self.attention.tape(), self.attention.tape());
        let mut unused = vec![0.0; self.samples.len()];
        let sight = self.sight(self.shape.tokens);
        let buffers = (&mut tokens, &mut self.scratch);
        self.attention.forward(&self.weights, &self.samples, &sight, Tokens::Own, None, buffers, &mut unused);
        let mut force = vec![0.0; self.classes.len()];
        let sight = self.sight(1);
        let buffers = (&mut own, &mut self.scratch);
        self.attention.forward(&self.weights, &self.classes, &sight, Tokens::Kept(&tokens), None, buffers, &mut force);
        (tokens, own, force)
    }

    /// The mean of F over samples.
    pub fn energy(&mut self) -> f64 {
        let (_, own, _) = self.force();
        self.energy_of(&own)
    }

    fn energy_of(&self, own: &Tape) -> f64 {
        let energies = self.attention.energy(&self.sight(1), own);
        energies.iter().map(|x| f64::from(*x)).sum::<f64>() / energies.len() as f64
    }

    fn loss(&self, wanted: Option<Wanted>) -> Loss {
        let d = self.shape.heads * self.shape.head;
        let output = &self.weights[self.output.clone()];
        loss::loss(&self.classes, d, output, &self.labels, &mut loss::Scratch::default(), wanted)
    }

    /// One epoch with one learning rate for z, W and E.
    pub fn epoch(&mut self, learning_rate: f32) -> Epoch {
        let (_, own, force) = self.force();
        let before_z = self.energy_of(&own);
        self.classes.iter_mut().zip(&force).for_each(|(z, f)| *z += learning_rate * f);

        let (tokens, own, _) = self.force();
        let before_w = self.energy_of(&own);
        let mut gradient = vec![0.0; self.weights.len()];
        let given = vec![1.0 / (self.labels.len() * self.shape.heads) as f32; self.labels.len() * self.shape.heads];
        let (one, all) = (self.sight(1), self.sight(self.shape.tokens));
        let mut unused = vec![0.0; self.classes.len()];
        let buffers = (&own, &mut self.scratch);
        self.attention.energy_backward(
            &self.weights,
            &mut gradient,
            &self.classes,
            &one,
            true,
            buffers,
            &given,
            &mut unused,
        );
        let buffers = (&tokens, &mut self.scratch);
        self.attention.kept_backward(&self.weights, &mut gradient, &self.samples, &all, buffers);
        let matrices = self.attention.matrices();
        let pairs = self.weights[matrices.clone()].iter_mut().zip(&gradient[matrices]);
        pairs.for_each(|(w, g)| *w -= learning_rate * g);
        let after_w = self.energy();

        let mut of_output = vec![0.0; self.output.len()];
        let mut unused = vec![0.0; self.classes.len()];
        let scale = 1.0 / self.labels.len() as f32;
        let wanted = Wanted { scale, of_weight: &mut of_output, of_x: &mut unused };
        let before_e = self.loss(Some(wanted)).mean();
        let pairs = self.weights[self.output.clone()].iter_mut().zip(&of_output);
        pairs.for_each(|(w, g)| *w -= learning_rate * g);
        let after_e = self.loss(None);
        Epoch {
            energy_by_z: [before_z, before_w],
            energy_by_w: [before_w, after_w],
            loss_by_e: [before_e, after_e.mean()],
            accuracy: after_e.accuracy(),
        }
    }
}
