//! Simplification keeps the value, whatever the term: axis scope, masks, proofs, limits, and the same bytes every time.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::Command;
use std::{env, fs};

use energyc::check::{Recipe, check as check_recipe, inputs};
use energyc::derive::{Derivation, backward, derive, hessian, reveal};
use energyc::ir::eval::{Env, Sizes, evaluate, evaluate_all};
use energyc::ir::sample::{Random, sample};
use energyc::ir::tensor::{Tensor, broadcast};
use energyc::ir::{Axis, Entropy, Expr, Leaf, Rational, Role, Sign, Space, rational, traverse};
use energyc::prelude;
use energyc::simplify::pattern::{Binding, Bindings};
use energyc::simplify::proof::{self, Lemma, Proof, Step};
use energyc::simplify::{Objective, Options, ReferenceSizes, RuleSet, Simplified, simplify};
use energyc::syntax::parse;

const N1: Axis = Axis::new(Space::Token, 1);
const E1: Axis = Axis::new(Space::Head, 1);
const SIZES: [(usize, usize, usize); 3] = [(2, 3, 2), (3, 4, 1), (1, 1, 3)];

fn q(e: Axis) -> Expr {
    Expr::leaf(Leaf { axes: vec![Axis::T, e], ..inputs::q() })
}
fn k(n: Axis, e: Axis) -> Expr {
    Expr::leaf(Leaf { axes: vec![n, e], ..inputs::k() })
}
fn v(n: Axis, e: Axis) -> Expr {
    Expr::leaf(Leaf { axes: vec![n, e], ..inputs::v() })
}
fn p(n: Axis) -> Expr {
    Expr::leaf(Leaf::new(Role::Weights, 400, "p", &[Axis::T, n], Sign::NonNegative))
}
fn gamma(n: Axis) -> Expr {
    Expr::leaf(Leaf::new(Role::Gate, 0, "gamma", &[n], Sign::Positive))
}
fn temperature() -> Expr {
    Expr::leaf(Leaf::new(Role::Param, 0, "T", &[], Sign::Positive))
}
fn number(name: &str, axes: &[Axis]) -> Expr {
    Expr::leaf(Leaf::new(Role::Named, u16::from(name.as_bytes()[0]), name, axes, Sign::Unknown))
}

/// Both objectives, the second at lengths where sums over tokens are dear and where they are cheap.
fn objectives() -> [Objective; 3] {
    let at = |tokens| Objective::Cheapest(ReferenceSizes { tokens, ..ReferenceSizes::default() });
    [Objective::Readable, at(4096.0), at(8.0)]
}

/// Values for the inputs of the terms, everything visible or a random part of it.
fn environment(terms: &[Expr], size: (usize, usize, usize), masked: bool, random: &mut Random) -> Env {
    let (queries, tokens, head) = size;
    let sizes = Sizes { queries, tokens, head, model: 2, heads: 2 };
    let mut env = sample(terms, sizes, &[], random);
    if !masked {
        return env;
    }
    let mut seen: Vec<bool> = (0..queries * tokens).map(|_| random.below(2) == 0).collect();
    seen.chunks_mut(tokens).for_each(|row| row[random.below(tokens)] = true);
    if let Some(weights) = env.values.get_mut("p") {
        for (weights, seen) in weights.data.chunks_mut(tokens).zip(seen.chunks(tokens)) {
            weights.iter_mut().zip(seen).filter(|(_, seen)| !**seen).for_each(|(p, _)| *p = 0.0);
            let total: f64 = weights.iter().sum();
            weights.iter_mut().for_each(|p| *p /= total);
        }
    }
    env.visible = Some(seen);
    env
}

/// The value along the axes of `like`, 0 where a pair is hidden.
fn value(e: &Expr, like: &Expr, env: &Env) -> Tensor {
    let result = evaluate(e, env).unwrap_or_else(|problem| panic!("{e}: {problem}"));
    let axes: Vec<Axis> = like.axes().iter().collect();
    let shown = Tensor::build(
        &axes,
        |a| env.sizes.length(a),
        |index| {
            let at = |space| axes.iter().zip(index).filter(move |(a, _)| a.space == space).map(|(_, &i)| i);
            let mut pairs = at(Space::Query).flat_map(|t| at(Space::Token).map(move |n| t * env.sizes.tokens + n));
            f64::from(pairs.all(|pair| env.visible.as_ref().is_none_or(|v| v[pair])))
        },
    );
    broadcast(&[&result, &shown], |a| env.sizes.length(a), |v| if v[1] > 0.0 { v[0] } else { 0.0 })
}

/// The largest difference of two terms relative to the largest number on the way; nothing where numbers are too large
/// for a comparison to mean much.
fn difference(a: &Expr, b: &Expr, env: &Env) -> Option<f64> {
    let parts = evaluate_all(&traverse::subterms(a), env).expect("values for every input");
    let scale =
        parts.iter().flat_map(|t| &t.data).fold(1.0, |m: f64, x| if x.is_nan() { f64::NAN } else { m.max(x.abs()) });
    if scale.is_nan() || scale > 1e3 {
        return None;
    }
    let (x, y) = (value(a, a, env), value(b, a, env));
    let worst = x.data.iter().zip(&y.data).map(|(x, y)| (x - y).abs());
    Some(worst.fold(0.0, |m, d| if d.is_nan() { f64::INFINITY } else { m.max(d) }) / scale)
}

/// What is wrong with a simplified form of `e`.
fn problem(e: &Expr, result: &Simplified, rules: &RuleSet, seed: u64) -> Option<String> {
    let term = &result.term;
    if !term.axes().is_subset(e.axes()) {
        return Some(format!("axes {} out of {}", term.axes(), e.axes()));
    }
    if let Err(wrong) = proof::check(&result.proof, rules) {
        return Some(wrong);
    }
    if (&result.proof.start, &result.proof.end) != (e, term) {
        return Some("the proof is about something else".into());
    }
    if traverse::rewrite_bottom_up(term, &mut |x| x) != *term {
        return Some("not in normal form".into());
    }
    let mut random = Random::new(seed);
    for size in SIZES {
        for masked in [false, true] {
            let env = environment(&[e.clone(), term.clone()], size, masked, &mut random);
            let error = difference(e, term, &env).unwrap_or(0.0);
            if error > 1e-9 {
                return Some(format!("differs by {error:.1e} (masked: {masked})"));
            }
        }
    }
    None
}

/// Simplifying `e` for every objective keeps its value and its axes.
fn check(e: &Expr, options: &Options, seed: u64) {
    for objective in objectives() {
        let options = Options { objective, ..options.clone() };
        let result = simplify(e, &options);
        if let Some(problem) = problem(e, &result, &options.rules, seed) {
            panic!("{objective:?}: {problem}\n  {e}\n  {}", result.term);
        }
        assert_eq!(result.rejected, Vec::<String>::new(), "{e}");
    }
}

// Axis scope.

/// Weights over tokens that extend along more than the query and the token.
fn wide(n: Axis, e: Axis) -> Expr {
    Expr::weights(&Entropy::Shannon, n, &q(e).times(&k(n, e)))
}

#[test]
fn a_value_that_does_not_depend_on_an_axis_may_be_written_with_it() {
    // Σ_n W[t,n,e] = 1 though it mentions t and e; so a product with it may leave Σ_e or Σ_t, but not as it stands.
    let one = |e| Expr::sum(Axis::N, &wide(Axis::N, e));
    let c = |e| Expr::sum(N1, &p(N1).times(&q(e)));
    let terms = [
        Expr::sum(Axis::E, &q(Axis::E).times(&one(Axis::E))),
        Expr::sum(Axis::E, &q(E1).times(&one(Axis::E))),
        Expr::sum(Axis::T, &q(Axis::E).times(&Expr::sum(Axis::N, &p(Axis::N)))),
        Expr::sum(Axis::N, &Expr::mul([p(Axis::N), c(Axis::E), k(Axis::N, Axis::E)])),
        Expr::sum(Axis::N, &p(Axis::N).times(&c(Axis::E))).plus(&c(Axis::E)),
        Expr::sum(Axis::E, &c(Axis::E).times(&Expr::sum(Axis::N, &p(Axis::N).times(&one(Axis::E))))),
        Expr::sum(Axis::E, &one(Axis::E).times(&k(Axis::N, Axis::E)).times(&one(E1))),
        Expr::sum(Axis::E, &one(Axis::E).plus(&q(Axis::E)).times(&one(E1).plus(&q(E1)))),
    ];
    terms.iter().for_each(|e| check(e, &Options::default(), 1));
}

#[test]
fn nothing_leaves_a_binder_of_its_own_axis() {
    let token_sum = |n: Axis, x: Expr| Expr::sum(n, &x);
    let dot = |a: Expr, b: Expr| Expr::sum(E1, &a.times(&b));
    let terms = [
        // Σ_n a_n (Σ_n b_n), the two binders called the same.
        token_sum(Axis::N, k(Axis::N, Axis::E).times(&token_sum(Axis::N, v(Axis::N, Axis::E)))),
        token_sum(N1, gamma(N1).times(&token_sum(N1, gamma(N1).times(&v(N1, Axis::E))))),
        // The inner sum depends on the outer token.
        token_sum(Axis::N, gamma(Axis::N).times(&token_sum(N1, gamma(N1).times(&dot(k(Axis::N, E1), k(N1, E1)))))),
        token_sum(Axis::N, p(Axis::N).times(&token_sum(N1, p(N1).times(&k(Axis::N, Axis::E).minus(&k(N1, Axis::E)))))),
        // Components inside components.
        Expr::sum(E1, &q(E1).times(&Expr::sum(E1, &q(E1).times(&k(Axis::N, E1))))),
        Expr::sum(E1, &q(E1).times(&Expr::sum(E1, &q(E1).times(&Expr::sum(E1, &k(Axis::N, E1)))))),
        Expr::sum(E1, &q(E1).plus(&Expr::sum(Axis::E, &q(Axis::E).times(&k(Axis::N, E1)))).square()),
        // A free axis with the name a binder would like.
        Expr::sum(Axis::E, &q(Axis::E).times(&k(N1, E1))).times(&Expr::sum(Axis::E, &k(N1, Axis::E))),
        token_sum(Axis::N, p(Axis::N).times(&dot(k(Axis::N, E1), k(N1, E1)))),
    ];
    terms.iter().for_each(|e| check(e, &Options::default(), 2));
}

#[test]
fn only_what_is_constant_along_the_axis_leaves_the_scores() {
    let score = |n| Expr::sum(Axis::E, &q(Axis::E).times(&k(n, Axis::E)));
    let by_query = Expr::sum(Axis::E, &q(Axis::E).square());
    let by_token = |n| Expr::sum(Axis::E, &k(n, Axis::E).square());
    for kind in [Entropy::Shannon, Entropy::Tsallis(rational::int(2)), Entropy::Norm(rational::int(2))] {
        let weights = |s: &Expr| Expr::weights(&kind, Axis::N, s);
        let all = score(Axis::N).plus(&by_query).plus(&by_token(Axis::N));
        let shifted = score(Axis::N).plus(&number("a", &[Axis::T])).plus(&gamma(Axis::N));
        assert_eq!(
            simplify(&weights(&shifted), &Options::default()).term,
            weights(&score(Axis::N).plus(&gamma(Axis::N)))
        );
        let terms = [
            weights(&all),
            Expr::smoothmax(&kind, Axis::N, &all),
            // The shift is at another token.
            weights(&score(Axis::N).plus(&by_token(N1))),
            Expr::sum(N1, &gamma(N1).times(&Expr::sum(Axis::N, &weights(&score(Axis::N).plus(&by_token(N1)))))),
            Expr::sum(N1, &gamma(N1).times(&Expr::smoothmax(&kind, Axis::N, &score(Axis::N).plus(&score(N1))))),
            // Along components: what depends on the query only is constant, what depends on the token too.
            Expr::weights(&kind, Axis::E, &q(Axis::E).plus(&gamma(Axis::N))),
            Expr::smoothmax(&kind, Axis::E, &q(Axis::E).times(&k(Axis::N, Axis::E)).plus(&gamma(Axis::N))),
        ];
        terms.iter().for_each(|e| check(e, &Options::default(), 3));
    }
}

#[test]
fn sums_over_queries_around_sums_over_tokens_stay_together() {
    let (a, b) = (number("a", &[Axis::T]), number("b", &[Axis::N]));
    let terms = [
        Expr::sum(Axis::T, &a.times(&Expr::sum(Axis::N, &b))),
        Expr::sum(Axis::T, &Expr::sum(Axis::N, &a.times(&b))),
        Expr::sum(Axis::T, &Expr::sum(Axis::N, &a.plus(&b))),
        Expr::sum(Axis::T, &Expr::sum(Axis::N, &Expr::mul([a.clone(), b.clone(), p(Axis::N)]))),
        Expr::sum(Axis::T, &a.times(&Expr::sum(Axis::N, &b)).times(&Expr::sum(N1, &p(N1).times(&k(N1, Axis::E))))),
        Expr::sum(Axis::T, &Expr::sum(Axis::N, &b)).times(&Expr::sum(Axis::T, &a)),
        Expr::sum(Axis::T, &q(Axis::E).times(&p(Axis::N))),
    ];
    terms.iter().for_each(|e| check(e, &Options::default(), 4));
}

/// Σ_t of something at token n runs over the queries that see n, also when only one factor is at n.
#[test]
fn a_sum_over_queries_keeps_the_token_it_is_at() {
    let (a, b) = (number("a", &[Axis::T]), number("b", &[Axis::N]));
    let terms = [
        Expr::sum(Axis::T, &a.times(&b)),
        Expr::sum(Axis::T, &a.plus(&b)),
        Expr::sum(Axis::T, &q(Axis::E).times(&Expr::sum(E1, &v(Axis::N, E1).times(&q(E1))))),
    ];
    terms.iter().for_each(|e| check(e, &Options::default(), 5));
}

// Recipes.

fn recipe(text: &str) -> Recipe {
    let (file, _) = parse(text);
    let (recipe, diagnostics) = check_recipe(&file, prelude::load());
    recipe.unwrap_or_else(|| panic!("{diagnostics:?}"))
}
/// Every recipe of the project.
fn recipes() -> Vec<Recipe> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let entries = fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("an entry").path());
    let mut paths: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "recipe")).collect();
    paths.sort();
    assert!(paths.len() >= 10, "{paths:?}");
    paths.iter().map(|path| recipe(&fs::read_to_string(path).expect("text"))).collect()
}

/// The value of `e` along the axes of an input.
fn along(e: &Expr, input: &Leaf, env: &Env) -> Tensor {
    let zero = Tensor::build(&input.axes, |a| env.sizes.length(a), |_| 0.0);
    broadcast(&[&evaluate(e, env).expect("a value"), &zero], |a| env.sizes.length(a), |v| v[0])
}

/// The largest error of the backward pass against central differences of ⟨g, direction⟩.
fn backward_error(derivation: &Derivation, options: &Options, masked: bool) -> f64 {
    let pass = backward(derivation, options);
    let direction = reveal(&derivation.direction.term, &derivation.names);
    let loss = Expr::sum(Axis::E, &Expr::leaf(pass.cotangent.clone()).times(&direction));
    let leaves = [inputs::q(), inputs::k(), inputs::v()].map(Expr::leaf);
    let terms: Vec<Expr> = leaves.into_iter().chain([loss.clone()]).collect();
    let start = environment(&terms, (3, 4, 2), masked, &mut Random::new(8));
    let total = |env: &Env| evaluate(&loss, env).expect("a value").data.iter().sum::<f64>();
    let mut env = start.clone();
    for named in &derivation.names {
        let value = along(&reveal(&named.value(), &derivation.names), &named.leaf, &env);
        env.values.insert(named.leaf.name.to_string(), value);
    }
    for definition in &pass.definitions {
        let value = along(&definition.value.term, &definition.leaf, &env);
        env.values.insert(definition.leaf.name.to_string(), value);
    }
    let mut worst: f64 = 0.0;
    for definition in &pass.gradients {
        let input = definition.leaf.name.trim_start_matches('∂').to_string();
        let got = along(&definition.value.term, &definition.leaf, &env);
        for (j, got) in got.data.iter().enumerate() {
            let at = |h: f64| {
                let mut env = start.clone();
                env.values.get_mut(&input).expect("the input").data[j] += h;
                total(&env)
            };
            worst = worst.max((got - (at(1e-5) - at(-1e-5)) / 2e-5).abs());
        }
    }
    worst
}

#[test]
fn the_readable_backward_pass_is_right_with_and_without_a_mask() {
    for recipe in recipes() {
        let derivation = derive(&recipe, &Options::default());
        for masked in [false, true] {
            let error = backward_error(&derivation, &Options::default(), masked);
            assert!(error < 1e-6, "{} (masked: {masked}): {error:.1e}", recipe.name);
        }
    }
}

fn cheapest_backward_passes(masked: bool) {
    for recipe in recipes() {
        let derivation = derive(&recipe, &Options::default());
        for objective in objectives() {
            let error = backward_error(&derivation, &Options { objective, ..Options::default() }, masked);
            assert!(error < 1e-6, "{} for {objective:?}: {error:.1e}", recipe.name);
        }
    }
}

#[test]
fn the_cheapest_backward_pass_is_right_without_a_mask() {
    cheapest_backward_passes(false);
}

#[test]
fn the_cheapest_backward_pass_is_right_with_a_mask() {
    cheapest_backward_passes(true);
}

// Random terms.

/// A random well-formed term over q, k, v, p, T and γ, with smooth maxima of these kinds.
fn random_term(depth: usize, kinds: &[Entropy], random: &mut Random) -> Expr {
    let n = [Axis::N, N1][random.below(2)];
    let e = [Axis::E, E1][random.below(2)];
    if depth == 0 || random.below(8) == 0 {
        return match random.below(8) {
            0 => q(e),
            1 | 2 => k(n, e),
            3 => v(n, e),
            4 => p(n),
            5 => temperature(),
            6 => gamma(n),
            _ => Expr::constant(rational::ratio(random.below(7) as i64 - 3, 2)),
        };
    }
    let mut part = || random_term(depth - 1, kinds, random);
    let (a, b) = (part(), part());
    let kind = &kinds[random.below(kinds.len())];
    let exponents: [Rational; 4] = [rational::int(2), rational::int(-1), rational::int(3), rational::int(-2)];
    match random.below(14) {
        0..=2 => a.plus(&b),
        3..=5 => a.times(&b),
        6 => a.pow(&exponents[random.below(4)]),
        7 => a.abs().sqrt(),
        8 => a.scale(&rational::ratio(1, 4)).exp(),
        9 => [a.abs(), a.signum()][random.below(2)].clone(),
        10 => Expr::select(&a, &b, &b, &temperature()),
        11 => Expr::sum([n, e][random.below(2)], &a.times(&b)),
        12 => {
            let weights = Expr::weights(kind, n, &a);
            Expr::sum(n, &weights.times(&b))
        }
        _ => Expr::smoothmax(kind, n, &a.plus(&b)),
    }
}

#[test]
fn simplifying_random_terms_keeps_their_value() {
    random_terms(&[Entropy::Shannon], 2024);
}

#[test]
fn simplifying_random_terms_of_every_entropy_keeps_their_value() {
    let kinds = [Entropy::Shannon, Entropy::Tsallis(rational::ratio(3, 2)), Entropy::Norm(rational::int(2))];
    random_terms(&kinds, 2025);
}

fn random_terms(kinds: &[Entropy], seed: u64) {
    let options = Options::default();
    let mut random = Random::new(seed);
    let (mut done, mut compared, mut changed) = (0, 0, 0);
    let (mut wrong, mut left_alone) = (Vec::new(), Vec::new());
    while done < 300 {
        let e = random_term(1 + done % 5, kinds, &mut random);
        // As large as what derivations hold; a term of hundreds of nodes tests patience.
        if e.as_const().is_some() || traverse::tree_size(&e) > 60 {
            continue;
        }
        let env = environment(std::slice::from_ref(&e), SIZES[0], true, &mut random);
        compared += usize::from(difference(&e, &e, &env).is_some());
        let objective = objectives()[done % 3];
        // A budget of work for every term.
        let options = Options { objective, ..options.clone().afresh() };
        let result = simplify(&e, &options);
        changed += usize::from(result.term != e);
        done += 1;
        if let Some(problem) = problem(&e, &result, &options.rules, done as u64) {
            wrong.push(format!("{objective:?}: {problem}\n  {e}\n  {}\n", result.term));
        }
        left_alone.extend(result.rejected.first().map(|why| format!("{why}\n  {e}\n")));
    }
    assert!(compared > 150, "only {compared} terms have comparable values");
    assert!(changed > 100, "only {changed} terms change");
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.concat());
    // To leave a term alone because its proof does not replay is safe, but should be rare.
    assert!(left_alone.len() <= 3, "{} left alone\n{}", left_alone.len(), left_alone.concat());
}

// Proofs.

/// Real proofs: with distribution, hoisting, chains inside contexts, and assumptions.
fn proofs() -> Vec<(Proof, RuleSet)> {
    let mut all = Vec::new();
    for recipe in
        recipes().iter().filter(|r| ["euclidean", "qknorm", "linear", "softmax", "lp"].contains(&r.name.as_str()))
    {
        let options = energyc::derive::options_for(recipe, &Options::default());
        let derivation = derive(recipe, &Options::default());
        let stages = derivation.stages().map(|(_, stage)| stage.proof.clone());
        let cotangents = backward(&derivation, &Options::default()).definitions;
        let more = cotangents.into_iter().map(|d| d.value.proof);
        let curvature = hessian(&derivation, &Options::default()).form.into_iter().map(|part| part.proof);
        let proofs = stages.into_iter().chain(more).chain(curvature).filter(|proof| !proof.is_empty());
        all.extend(proofs.map(|proof| (proof, options.rules.clone())));
    }
    all
}

/// The step with something about it wrong, and what.
fn corrupt_steps(step: &Step, rules: &RuleSet) -> Vec<(String, Step)> {
    let mut out = Vec::new();
    let mut push = |what: String, change: &dyn Fn(&mut Step)| {
        let mut wrong = step.clone();
        change(&mut wrong);
        out.push((what, wrong));
    };
    for other in rules.rules.iter().filter(|r| r.name != step.rule) {
        push(format!("the name {}", other.name), &|s| s.rule = other.name.clone());
    }
    push("an unknown name".into(), &|s| s.rule = "no-such-rule".into());
    push("the direction".into(), &|s| s.forward = !s.forward);
    push("from and to swapped".into(), &|s| std::mem::swap(&mut s.from, &mut s.to));
    push("another result".into(), &|s| s.to = s.to.plus(&Expr::one()));
    push("another start".into(), &|s| s.from = s.from.plus(&Expr::one()));
    match &step.context {
        None => push("a context".into(), &|s| {
            let axes: Vec<Axis> = s.from.axes().union(s.to.axes()).iter().collect();
            s.context = Some(proof::hole(&axes).plus(&Expr::one()));
        }),
        Some(context) => {
            push("no context".into(), &|s| s.context = None);
            push("another context".into(), &|s| s.context = Some(context.plus(&Expr::one())));
        }
    }
    for (name, bound) in &step.bindings {
        let other = match bound {
            Binding::Term(e) => Binding::Term(e.plus(&Expr::one())),
            Binding::Axis(Axis::T) => Binding::Axis(Axis::N),
            Binding::Axis(a) => Binding::Axis(Axis::new(a.space, a.index + 5)),
            Binding::Kind(_) => Binding::Kind(Entropy::Norm(rational::int(7))),
            Binding::Number(r) => Binding::Number(r + rational::int(1)),
        };
        push(format!("another {name}"), &|s| {
            s.bindings.insert(name.clone(), other.clone());
        });
        push(format!("no {name}"), &|s| {
            s.bindings.remove(name);
        });
    }
    out
}

/// Corruptions that the checker accepts, and those on which it panics.
fn verdicts() -> (Vec<String>, Vec<String>) {
    let proofs = proofs();
    assert!(proofs.len() >= 8);
    let (mut tried, mut kinds) = (0, BTreeSet::new());
    let (mut accepted, mut panics) = (Vec::new(), Vec::new());
    for (proof, rules) in &proofs {
        assert_eq!(proof::check(proof, rules), Ok(()));
        let mut wrong: Vec<(String, Proof)> = Vec::new();
        let mut push = |what: String, change: &dyn Fn(&mut Proof)| {
            let mut proof = proof.clone();
            change(&mut proof);
            wrong.push((what, proof));
        };
        push("another end".into(), &|proof| proof.end = proof.end.plus(&Expr::one()));
        push("another start".into(), &|proof| proof.start = proof.start.plus(&Expr::one()).square());
        push("start and end swapped".into(), &|proof| std::mem::swap(&mut proof.start, &mut proof.end));
        for (i, lemma) in proof.lemmas.iter().enumerate() {
            push("no lemma".into(), &|proof| {
                proof.lemmas.remove(i);
            });
            push("another end of a lemma".into(), &|proof| proof.lemmas[i].end = lemma.end.plus(&Expr::one()));
            push("another start of a lemma".into(), &|proof| proof.lemmas[i].start = lemma.start.plus(&Expr::one()));
            push("a lemma backwards".into(), &|proof| {
                let lemma = &mut proof.lemmas[i];
                std::mem::swap(&mut lemma.start, &mut lemma.end);
            });
            for (j, step) in lemma.steps.iter().enumerate() {
                push(format!("no step {j}"), &|proof| {
                    proof.lemmas[i].steps.remove(j);
                });
                push(format!("step {j} twice"), &|proof| proof.lemmas[i].steps.insert(j, step.clone()));
                for (what, step) in corrupt_steps(step, rules) {
                    push(format!("{what} in step {j} ({})", proof.lemmas[i].steps[j].rule), &|proof| {
                        proof.lemmas[i].steps[j] = step.clone();
                    });
                }
                kinds.insert(step.rule.clone());
            }
        }
        for (what, proof) in wrong {
            tried += 1;
            match catch_unwind(AssertUnwindSafe(|| proof::check(&proof, rules))) {
                Ok(Err(_)) => {}
                Ok(Ok(())) => accepted.push(format!("{what}: {}\n", proof.start)),
                Err(_) => panics.push(format!("{what}: {}\n", proof.start)),
            }
        }
    }
    assert!(tried > 1000 && kinds.len() >= 6, "{tried} {kinds:?}");
    (accepted, panics)
}

#[test]
fn no_corrupted_proof_is_accepted() {
    let (accepted, _) = verdicts();
    assert!(accepted.is_empty(), "{}", accepted.concat());
}

#[test]
fn a_corrupted_proof_is_rejected_without_a_panic() {
    let (_, panics) = verdicts();
    assert!(panics.is_empty(), "{}", panics.concat());
}

#[test]
fn a_proof_needs_the_rules_it_names() {
    for (proof, rules) in proofs() {
        for step in proof.lemmas.iter().flat_map(|lemma| &lemma.steps) {
            assert!(proof::check(&proof, &rules.without(&step.rule)).is_err(), "{}", step.rule);
        }
    }
}

fn bound(pairs: &[(&str, Binding)]) -> Bindings {
    pairs.iter().map(|(name, binding)| ((*name).to_string(), binding.clone())).collect()
}

/// A one-step proof by the rule with these bindings.
fn one_step(rules: &RuleSet, name: &str, bindings: Bindings) -> Proof {
    let rule = rules.get(name).unwrap_or_else(|| panic!("no rule {name}"));
    let side = |p: &energyc::simplify::pattern::Pattern| p.instantiate(&bindings).expect("a term");
    let (from, to) = (side(&rule.left), side(&rule.right));
    let step = Step {
        rule: name.into(),
        forward: true,
        bindings: bindings.clone(),
        context: None,
        from: from.clone(),
        to: to.clone(),
    };
    let lemma = Lemma { start: from.clone(), steps: vec![step], end: to.clone() };
    Proof { start: from, lemmas: vec![lemma], end: to }
}

#[test]
fn a_step_whose_condition_does_not_hold_is_rejected() {
    let rules = RuleSet::default();
    let (along_n, by_query) = (k(Axis::N, Axis::E), q(Axis::E));
    let (axis, kind) = (Binding::Axis(Axis::N), Binding::Kind(Entropy::Shannon));
    let (t, x) = (temperature(), number("x", &[Axis::N]));
    let term = |e: &Expr| Binding::Term(e.clone());
    let power = |n| Binding::Number(rational::int(n));
    // (rule, bindings that are right, the variable and the value that make them wrong)
    let cases: Vec<(&str, Bindings, &str, Binding)> = vec![
        (
            "sum-hoist",
            bound(&[("?i", axis.clone()), ("?a", term(&by_query)), ("?b", term(&along_n))]),
            "?a",
            term(&gamma(Axis::N)),
        ),
        (
            "sum-absorb",
            bound(&[("?i", axis.clone()), ("?a", term(&by_query)), ("?b", term(&along_n))]),
            "?a",
            term(&gamma(Axis::N)),
        ),
        ("sum-to-one", bound(&[("?i", axis.clone()), ("?p", term(&p(Axis::N)))]), "?p", term(&gamma(Axis::N))),
        ("sum-to-one", bound(&[("?i", axis.clone()), ("?p", term(&p(Axis::N)))]), "?i", Binding::Axis(N1)),
        (
            "weights-shift",
            bound(&[("?K", kind.clone()), ("?i", axis.clone()), ("?s", term(&along_n)), ("?c", term(&by_query))]),
            "?c",
            term(&x),
        ),
        (
            "smoothmax-shift",
            bound(&[("?K", kind), ("?i", axis.clone()), ("?s", term(&along_n)), ("?c", term(&by_query))]),
            "?c",
            term(&x),
        ),
        ("log-sum-scaled", bound(&[("?i", axis), ("?a", term(&t)), ("?s", term(&x))]), "?a", term(&by_query)),
        ("log-of-product", bound(&[("?a", term(&t)), ("?b", term(&x.exp()))]), "?a", term(&by_query)),
        ("log-of-product", bound(&[("?a", term(&t)), ("?b", term(&x.exp()))]), "?b", term(&x)),
        ("abs-even-power", bound(&[("?x", term(&x)), ("?r", power(2))]), "?r", power(3)),
        ("sign-even-power", bound(&[("?x", term(&x)), ("?r", power(2))]), "?r", power(3)),
    ];
    for (name, right, variable, value) in cases {
        let proof = one_step(&rules, name, right.clone());
        assert_ne!(proof.start, proof.end, "{name}");
        assert_eq!(proof::check(&proof, &rules), Ok(()), "{name}");
        let mut wrong = right;
        wrong.insert(variable.into(), value);
        let problem = proof::check(&one_step(&rules, name, wrong), &rules).expect_err(name);
        assert!(problem.contains("condition"), "{name}: {problem}");
    }
}

// The same bytes every time.

/// Everything a derivation says, proofs included.
fn all_derivations(options: &Options) -> String {
    recipes()
        .iter()
        .map(|recipe| {
            let derivation = derive(recipe, options);
            let (second, back) = (hessian(&derivation, options), backward(&derivation, options));
            format!("{derivation:?}\n{second:?}\n{back:?}\n")
        })
        .collect()
}

const CHILD_SEED: &str = "ENERGYC_TEST_SEED";
const CHILD_FILE: &str = "ENERGYC_TEST_FILE";

/// Makes egg's table of names look different: rule names and variables among many others, in random order.
fn intern_at_random(seed: u64) {
    let mut random = Random::new(seed);
    let mut names: Vec<String> = (0..500).map(|j| format!("name{j}")).collect();
    names.extend(RuleSet::default().rules.iter().map(|r| r.name.clone()));
    names.extend("abcijkpqrstuvwxyzK".chars().map(|c| format!("?{c}")));
    for j in (1..names.len()).rev() {
        names.swap(j, random.below(j + 1));
    }
    for name in &names {
        assert_eq!(egg::Symbol::from(name).as_str(), name);
        number(&format!("x{name}"), &[Axis::T]).times(&random_term(2, &[Entropy::Shannon], &mut random));
    }
}

#[test]
fn derivations_are_the_same_bytes_in_every_process() {
    if let (Ok(seed), Ok(file)) = (env::var(CHILD_SEED), env::var(CHILD_FILE)) {
        intern_at_random(seed.parse().expect("a seed"));
        return fs::write(file, all_derivations(&Options::default())).expect("written");
    }
    let here = all_derivations(&Options::default());
    assert!(here.len() > 100_000);
    assert!(here == all_derivations(&Options::default()), "the second time in one process differs");
    // Options that remember earlier regions say the same as fresh ones.
    let shared = Options::default();
    for time in ["first", "second"] {
        assert!(here == all_derivations(&shared), "the {time} time with shared options differs");
    }
    let folder = tempfile::tempdir().expect("a folder");
    for seed in ["1", "2"] {
        let file = folder.path().join(seed);
        let output = Command::new(env::current_exe().expect("this test"))
            .args(["--exact", "derivations_are_the_same_bytes_in_every_process"])
            .env(CHILD_SEED, seed)
            .env(CHILD_FILE, &file)
            .output()
            .expect("the child runs");
        assert!(output.status.success(), "{output:?}");
        assert!(fs::read_to_string(&file).expect("its text") == here, "another process differs, seed {seed}");
    }
}

#[test]
fn derivations_are_the_same_bytes_in_another_thread() {
    let here = all_derivations(&Options::default());
    let there = std::thread::Builder::new().spawn(|| {
        intern_at_random(3);
        all_derivations(&Options::default())
    });
    assert!(there.expect("a thread").join().expect("no panic") == here);
}

// Limits.

#[test]
fn a_term_too_large_for_the_e_graph_keeps_its_value_and_says_so() {
    let factor = |i: usize| {
        Expr::add((0..6).map(|j| {
            let name = format!("x{i}{j}");
            Expr::leaf(Leaf::new(Role::Named, (10 * i + j) as u16, &name, &[Axis::N], Sign::Unknown))
        }))
    };
    let e = Expr::sum(Axis::N, &Expr::mul((0..8).map(factor)));
    for objective in objectives() {
        let options = Options { objective, ..Options::default() };
        let result = simplify(&e, &options);
        assert!(result.hit_limit, "{objective:?}");
        assert_eq!(problem(&e, &result, &options.rules, 6), None);
    }
    let small = Expr::sum(Axis::N, &factor(0).minus(&factor(1)).times(&p(Axis::N)).times(&factor(2)));
    assert_eq!(problem(&small, &simplify(&small, &Options::default()), &RuleSet::default(), 7), None);
    let mean = Expr::sum(Axis::N, &p(Axis::N).times(&q(Axis::E).minus(&k(Axis::N, Axis::E))));
    assert!(!simplify(&mean, &Options::default()).hit_limit);
}
