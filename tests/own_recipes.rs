//! Energies the prelude does not have: emitted kernels against the plan and the formulas.

mod chain;

use chain::{Case, DIRECTION, ENERGY, Values, agree, masks};
use energyc::interpret::HeadSize;
use energyc::ir::eval::Env;
use energyc::primitives::visible::Visible;

/// One head through an emitted kernel.
macro_rules! kernel {
    ($module:ident, $env:expr, $visible:expr, [$($input:ident),*]) => {{
        use own_recipes::$module as kernel;
        let (env, visible): (&Env, &Visible) = ($env, $visible);
        let size = kernel::Size {
            batch: 1, heads: 1, queries: env.sizes.queries, tokens: env.sizes.tokens, head: env.sizes.head,
        };
        let of = |name: &str| env.values[name].data.iter().map(|x| *x as f32).collect::<Vec<f32>>();
        $(let $input = of(stringify!($input));)*
        let inputs = kernel::Inputs { $($input: &$input,)* dropout: None };
        let visible = [kernel::Visible::new(visible.intervals().to_vec(), visible.tokens())];
        let wide = |x: &[f32]| x.iter().map(|x| f64::from(*x)).collect::<Vec<f64>>();
        let mut out = vec![0.0; size.queries * size.head];
        let mut energy = vec![0.0; size.queries];
        let mut saved = kernel::Saved::default();
        let mut gradients = kernel::Gradients::new(&size);
        kernel::forward(&size, &visible, &inputs, &mut saved, &mut out);
        kernel::energy(&size, &visible, &inputs, &mut energy);
        kernel::backward(&size, &visible, &inputs, &of("g"), &saved, &mut gradients);
        Values::from([
            (DIRECTION.to_string(), wide(&out)),
            (ENERGY.to_string(), wide(&energy)),
            ("q".to_string(), wide(&gradients.q)),
            ("k".to_string(), wide(&gradients.k)),
            ("v".to_string(), wide(&gradients.v)),
        ])
    }};
}

fn holds(text: &str, run: impl Fn(&Env, &Visible) -> Values) {
    let case = Case::read(text);
    for (queries, tokens, head) in [(5, 5, 8), (1, 1, 16), (3, 9, 5), (40, 40, 24)] {
        let size = HeadSize { queries, tokens, head };
        for (mask, visible) in masks(queries, tokens, false) {
            let env = case.sample(size, &visible, 3);
            let mut expected = case.reference(&env);
            expected.retain(|name, _| [DIRECTION, ENERGY, "q", "k", "v"].contains(&name.as_str()));
            let what = format!("{} {size:?} {mask}", case.recipe().name);
            let mut planned = case.planned::<f32>(&env, &visible);
            planned.retain(|name, _| expected.contains_key(name));
            agree(&format!("plan, {what}"), &expected, &planned, 1e-4);
            agree(&format!("kernel, {what}"), &expected, &run(&env, &visible), 1e-4);
        }
    }
}

#[test]
#[allow(non_snake_case)]
fn a_robust_distance() {
    holds(include_str!("../examples/own_recipes/cauchy.recipe"), |env, visible| {
        kernel!(cauchy, env, visible, [q, k, v, s, T])
    });
}

#[test]
#[allow(non_snake_case)]
fn an_angle() {
    holds(include_str!("../examples/own_recipes/cosine.recipe"), |env, visible| {
        kernel!(cosine, env, visible, [q, k, v, T])
    });
}

#[test]
#[allow(non_snake_case)]
fn a_sum_of_two() {
    let text = include_str!("../examples/own_recipes/mixture.recipe");
    holds(text, |env, visible| kernel!(mixture, env, visible, [q, k, v, a, T]));
}

/// A system for every query, whose matrix has a weight of the query alone.
#[test]
fn a_step_of_newtons_method() {
    let text = include_str!("../examples/own_recipes/curved.recipe");
    holds(text, |env, visible| kernel!(curved, env, visible, [q, k, v, c]));
}
