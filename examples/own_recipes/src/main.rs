//! Runs a kernel of one's own recipe: `cargo run -p own-recipes`.

use own_recipes::cauchy::{Gradients, Inputs, Saved, Size, Visible, backward, forward};

fn main() {
    let size = Size { batch: 1, heads: 2, queries: 8, tokens: 8, head: 16 };
    let wave = |phase: f32| -> Vec<f32> { (0..2 * 8 * 16).map(|i| (0.37 * i as f32 + phase).sin()).collect() };
    let (q, k, v, grad_out) = (wave(0.0), wave(1.0), wave(2.0), wave(3.0));
    let inputs = Inputs { q: &q, k: &k, v: &v, s: &[1.0, 1.0], T: &[1.0, 0.5], dropout: None };
    let visible = [Visible::causal(8, 8)];

    let mut out = vec![0.0; q.len()];
    let mut saved = Saved::default();
    forward(&size, &visible, &inputs, &mut saved, &mut out);
    let mut gradients = Gradients::new(&size);
    backward(&size, &visible, &inputs, &grad_out, &saved, &mut gradients);

    println!("what the last token of the first head adds: {:.3?}", &out[7 * 16..7 * 16 + 4]);
    println!("the gradient of its query:                  {:.3?}", &gradients.q[7 * 16..7 * 16 + 4]);
    println!("the gradients of T, head by head:           {:.3?}", gradients.T);
}
