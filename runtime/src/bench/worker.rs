//! A contender in a process of its own: it prints `ready`, then for every line it reads the milliseconds of one forward
//! and backward pass and its peak memory in KiB beyond the inputs.

use crate::engine::{Engine, Interpreted};
use crate::metrics::memory::peak_kib;
use crate::problem::{GRAD_OUT, Problem, Size, symbols};
#[cfg(feature = "candle")]
use candle_core::{D, DType, Device, Tensor, Var};
use energyc::check::Recipe;
use energyc::ir::eval::{Env, evaluate};
use energyc::ir::sample::Random;
use energyc::ir::{Axis, Role};
use energyc::plan::Valid;
use energyc::primitives::visible::Visible;
use std::collections::BTreeMap;
use std::io::{BufRead, Write};
use std::time::Instant;

/// A pass shorter than this is timed right after another one; PyTorch's contenders do the same.
const SHORT_MS: f64 = 500.0;

/// Serves requests until the input ends; memory is what is needed beyond that of now.
pub fn serve(once: impl FnMut()) {
    let base = peak_kib().unwrap_or(0);
    answer(once, || peak_kib().unwrap_or(0).saturating_sub(base));
}

/// Serves requests until the input ends.
pub fn answer(mut once: impl FnMut(), memory: impl Fn() -> u64) {
    // The first pass finds its memory; the second shows whether it was a short one.
    let start = Instant::now();
    once();
    if start.elapsed().as_secs_f64() < 5.0 {
        once();
    }
    println!("ready");
    let mut ms = start.elapsed().as_secs_f64() * 1e3 / 2.0;
    for _ in std::io::stdin().lock().lines() {
        // What others left in the caches would count for a short pass.
        if ms < SHORT_MS {
            once();
        }
        let start = Instant::now();
        once();
        ms = start.elapsed().as_secs_f64() * 1e3;
        println!("{ms} {}", memory());
        let _ = std::io::stdout().flush();
    }
}

/// Random tokens under a causal mask, the parameters where the recipe starts them.
pub fn problem(recipe: &Recipe, size: Size) -> Problem {
    let mut random = Random::new(1);
    let mut normal = |count: usize| (0..count).map(|_| random.normal() as f32).collect::<Vec<f32>>();
    let heads = size.all_heads();
    let mut tensors = BTreeMap::new();
    for (name, tokens) in [("q", size.queries), ("k", size.tokens), ("v", size.tokens), (GRAD_OUT, size.queries)] {
        tensors.insert(name.to_string(), normal(heads * tokens * size.head));
    }
    let env = Env::new(symbols(size));
    for param in &recipe.params {
        let value = match param.value.start() {
            Some(e) => {
                let start = evaluate(e, &env).map_or(1.0, |x| x.data[0]);
                let width = if param.leaf.axes.contains(&Axis::E) { size.head } else { 1 };
                vec![start as f32; size.heads * width]
            }
            None if param.value.is_of_query() => vec![0.5; heads * size.queries],
            None => vec![if param.leaf.role == Role::Decay { 0.97 } else { 0.5 }; heads * size.tokens],
        };
        tensors.insert(param.name.clone(), value);
    }
    let visible = vec![Visible::causal(size.queries, size.tokens); size.batch];
    Problem { size, visible, tensors, dropout: None }
}

/// The compiled kernel, with buffers that live from pass to pass as a trainer's do.
pub fn compiled(recipe: &Recipe, problem: &Problem) -> Option<()> {
    let mut session = crate::engine::session(recipe)?;
    serve(|| session.step(problem));
    Some(())
}

/// The plan, interpreted.
pub fn interpreted(plan: Valid, problem: &Problem) {
    let engine = Interpreted::new(plan);
    serve(|| {
        let forward = engine.forward(problem);
        std::hint::black_box(engine.backward(problem, &forward));
    });
}

/// Softmax attention as one writes it with candle's operations.
#[cfg(not(feature = "candle"))]
pub fn candle(_: &Problem) -> Result<(), String> {
    Err("this program was built without the feature `candle`".to_string())
}

/// Softmax attention as one writes it with candle's operations.
#[cfg(feature = "candle")]
pub fn candle(problem: &Problem) -> candle_core::Result<()> {
    let Size { batch, heads, queries, head, .. } = problem.size;
    let shape = (batch, heads, queries, head);
    let of = |name: &str| Tensor::from_slice(problem.tensor(name), shape, &Device::Cpu);
    let [q, k, v] = ["q", "k", "v"].map(|name| of(name).and_then(|t| Var::from_tensor(&t)));
    let (q, k, v, g) = (q?, k?, v?, of(GRAD_OUT)?);
    let hidden: Vec<f32> =
        (0..queries * queries).map(|i| if i % queries > i / queries { f32::NEG_INFINITY } else { 0.0 }).collect();
    let mask = Tensor::from_vec(hidden, (queries, queries), &Device::Cpu)?.to_dtype(DType::F32)?;
    let once = || -> candle_core::Result<()> {
        let scores = (q.matmul(&k.t()?)? / (head as f64).sqrt())?.broadcast_add(&mask)?;
        let weights = scores.broadcast_sub(&scores.max_keepdim(D::Minus1)?.detach())?.exp()?;
        let weights = weights.broadcast_div(&weights.sum_keepdim(D::Minus1)?)?;
        let loss = (weights.matmul(&v)? * &g)?.sum_all()?;
        std::hint::black_box(loss.backward()?);
        Ok(())
    };
    once()?;
    serve(|| {
        if let Err(error) = once() {
            eprintln!("{error}");
        }
    });
    Ok(())
}
