//! The normal form (tier A), the reference interpreter and differentiation, each against a computation of its own.

use energyc::calculus::{gradient, hessian_vector, vjp};
use energyc::ir::eval::{Env, Sizes, evaluate, maximizer, smoothmax, total_power};
use energyc::ir::sample::{Random, sample};
use energyc::ir::tensor::{Tensor, broadcast};
use energyc::ir::{Axis, Entropy, Expr, Leaf, Op, Rational, Role, Sign, Space, rational, traverse};

const SIZES: Sizes = Sizes { queries: 2, tokens: 4, head: 3, model: 2, heads: 2 };
const N1: Axis = Axis::new(Space::Token, 1);
const N2: Axis = Axis::new(Space::Token, 2);
const N3: Axis = Axis::new(Space::Token, 3);
const E1: Axis = Axis::new(Space::Head, 1);

fn leaf(role: Role, name: &str, axes: &[Axis], sign: Sign) -> Leaf {
    Leaf::new(role, u16::from(name.as_bytes()[0]), name, axes, sign)
}
fn named(name: &str, axes: &[Axis]) -> Expr {
    Expr::leaf(leaf(Role::Named, name, axes, Sign::Unknown))
}
fn positive(name: &str) -> Expr {
    Expr::leaf(leaf(Role::Param, name, &[], Sign::Positive))
}
fn nonnegative(name: &str) -> Expr {
    Expr::leaf(leaf(Role::Param, name, &[], Sign::NonNegative))
}
fn query() -> Leaf {
    leaf(Role::Query, "q", &[Axis::T, Axis::E], Sign::Unknown)
}
fn key() -> Leaf {
    leaf(Role::Key, "k", &[Axis::N, Axis::E], Sign::Unknown)
}
fn q() -> Expr {
    Expr::leaf(query())
}
fn k() -> Expr {
    Expr::leaf(key())
}
fn ratio(n: i64, d: i64) -> Rational {
    rational::ratio(n, d)
}
fn scalar(e: &Expr, values: &[(&str, f64)]) -> f64 {
    let mut env = Env::new(SIZES);
    for (name, x) in values {
        env.values.insert((*name).to_string(), Tensor::scalar(*x));
    }
    evaluate(e, &env).expect("values for every input").data[0]
}

/// Both numbers agree to `tolerance`, relative to their size and to 1.
fn check(what: &str, got: f64, expected: f64, tolerance: f64) {
    let error = (got - expected).abs() / (1.0 + expected.abs());
    assert!(error <= tolerance, "{what}: got {got}, expected {expected}");
}

// The normal form.

#[test]
fn the_power_is_total() {
    for r in [ratio(-1, 1), ratio(-1, 2), ratio(1, 3), ratio(2, 1), ratio(-7, 2)] {
        assert!(Expr::zero().pow(&r).is_zero(), "0^{r}");
        assert_eq!(total_power(0.0, rational::to_f64(&r)), 0.0);
        assert_eq!(scalar(&named("x", &[]).pow(&r), &[("x", 0.0)]), 0.0);
    }
    assert!(Expr::zero().pow(&ratio(0, 1)).is_one());
    let x = named("x", &[]);
    assert_eq!(scalar(&Expr::one().over(&x), &[("x", 0.0)]), 0.0);
    assert_eq!(scalar(&x.over(&x), &[("x", 0.0)]), 0.0);
    assert_eq!(scalar(&x.over(&x), &[("x", -3.0)]), 1.0);
}

#[test]
fn powers_of_one_base_are_collected() {
    let (x, t, w) = (named("x", &[]), positive("T"), nonnegative("w"));
    let half = ratio(1, 2);
    assert_eq!(x.pow(&ratio(5, 1)).times(&x.pow(&ratio(-2, 1))), x.pow(&ratio(3, 1)));
    assert_eq!(t.sqrt().times(&t.sqrt()), t);
    assert_eq!(t.over(&t), Expr::one());
    assert_eq!(w.over(&w), w.signum());
    assert_eq!(x.over(&x), x.signum().square());
    assert_eq!(x.square().pow(&half), x.abs());
    assert_eq!(x.square().pow(&ratio(3, 1)), x.pow(&ratio(6, 1)));
    assert_eq!(x.times(&t).square(), x.square().times(&t.square()));
    assert_eq!(Expr::int(4).times(&t).sqrt(), Expr::int(2).times(&t.sqrt()));
    assert_eq!(x.exp().times(&t.exp()), x.plus(&t).exp());
    assert_eq!(x.exp().pow(&half), x.scale(&half).exp());
    assert_eq!(Expr::int(8).pow(&ratio(2, 3)), Expr::int(4));
}

#[test]
fn a_power_has_the_value_of_its_base_raised() {
    let (x, y, t) = (named("x", &[]), named("y", &[]), positive("T"));
    let two = Expr::int(2);
    let bases: Vec<Expr> = vec![
        x.clone(),
        x.times(&y),
        x.times(&t),
        Expr::int(-2).times(&x),
        Expr::int(-2).times(&x).times(&t),
        two.times(&x).plus(&two.times(&y)),
        Expr::int(-3).times(&x).minus(&Expr::int(6).times(&t)),
        x.square(),
        x.pow(&ratio(-2, 1)),
        x.pow(&ratio(3, 1)),
        x.pow(&ratio(-1, 1)),
        x.square().times(&y),
        x.abs(),
        x.signum(),
        x.exp(),
        t.sqrt(),
        x.over(&x),
        x.square().plus(&t),
    ];
    let exponents = [(1, 2), (-1, 2), (2, 1), (-1, 1), (3, 1), (-2, 1), (2, 3), (3, 2), (4, 1)];
    for base in &bases {
        for (n, d) in exponents {
            let power = base.pow(&ratio(n, d));
            for (x, y, t) in [(1.3, -0.7, 0.6), (-1.1, 0.4, 2.0), (0.0, 1.5, 1.0), (-0.8, -2.0, 0.3), (2.0, 0.0, 1.7)] {
                let values = [("x", x), ("y", y), ("T", t)];
                let expected = total_power(scalar(base, &values), n as f64 / d as f64);
                let got = scalar(&power, &values);
                // A negative number has no root; anything goes there.
                if !expected.is_nan() {
                    check(&format!("({base})^({n}/{d}) at {values:?}"), got, expected, 1e-12);
                }
            }
        }
    }
}

#[test]
fn like_terms_are_collected() {
    let (x, y) = (named("x", &[]), named("y", &[]));
    let c = |n, d| Expr::constant(ratio(n, d));
    assert_eq!(Expr::add([c(2, 1).times(&x), c(3, 1).times(&x)]), c(5, 1).times(&x));
    assert_eq!(Expr::add([c(1, 2).times(&x), c(1, 3).times(&x)]), c(5, 6).times(&x));
    assert!(x.minus(&x).is_zero());
    assert_eq!(Expr::add([x.plus(&y), y.neg(), c(2, 1), c(-2, 1)]), x);
    assert_eq!(x.times(&y).plus(&y.times(&x)), Expr::mul([c(2, 1), x.clone(), y.clone()]));
    assert_eq!(x.plus(&y).scale(&ratio(-2, 1)), c(-2, 1).times(&y).minus(&c(2, 1).times(&x)));
    assert_eq!(Expr::sum(Axis::N, &c(3, 1).times(&k())), c(3, 1).times(&Expr::sum(Axis::N, &k())));
    assert!(Expr::sum(Axis::N, &Expr::zero()).is_zero());
}

#[test]
fn a_factor_that_is_a_sum_has_content_one_and_a_positive_first_coefficient() {
    let (x, y, z) = (named("x", &[]), named("y", &[]), named("z", &[]));
    let sum = x.scale(&ratio(-4, 1)).plus(&y.scale(&ratio(6, 1)));
    let product = sum.times(&z);
    let primitive = x.scale(&ratio(2, 1)).minus(&y.scale(&ratio(3, 1)));
    assert_eq!(product, Expr::mul([Expr::int(-2), primitive, z]));
    check("value", scalar(&product, &[("x", 1.5), ("y", -0.25), ("z", 3.0)]), (-6.0 - 1.5) * 3.0, 1e-15);
}

#[test]
fn terms_equal_up_to_bound_names_are_equal() {
    let (at, other) = (|n| named("a", &[n]), |n| named("b", &[n]));
    assert_eq!(Expr::sum(Axis::N, &at(Axis::N)), Expr::sum(N3, &at(N3)));
    let nested = |i: Axis, j: Axis| Expr::sum(i, &at(i).times(&Expr::sum(j, &other(j).times(&at(i)))));
    assert_eq!(nested(Axis::N, N1), nested(N3, N2));
    assert_eq!(nested(N1, N2), nested(N2, N1));
    let lse = |i| Expr::smoothmax(&Entropy::Shannon, i, &at(i));
    assert_eq!(lse(Axis::N), lse(N2));
    // A bound name is not a free one, and the axis of weights is free.
    assert_ne!(Expr::sum(Axis::N, &at(Axis::N).times(&other(N1))), Expr::sum(Axis::N, &at(Axis::N).times(&other(N2))));
    let weights = |i| Expr::weights(&Entropy::Shannon, i, &at(i));
    assert_ne!(weights(Axis::N), weights(N1));
    assert_eq!(Expr::sum(Axis::N, &weights(Axis::N)), Expr::sum(N2, &weights(N2)));
}

#[test]
fn renaming_an_axis_captures_nothing() {
    // Σ_{n1} a[n1]·b[n] with n called n1: the bound axis steps aside.
    let (a, b) = (|n| named("a", &[n]), |n| named("b", &[n]));
    let inner = Expr::sum(N1, &a(N1).times(&b(Axis::N)));
    assert_eq!(traverse::rename(&inner, Axis::N, N1), Expr::sum(N2, &a(N2).times(&b(N1))));
    let lse = Expr::smoothmax(&Entropy::Shannon, N1, &a(N1).plus(&b(Axis::N)));
    assert_eq!(traverse::rename(&lse, Axis::N, N1), Expr::smoothmax(&Entropy::Shannon, N2, &a(N2).plus(&b(N1))));
    // Two binders deep, and there and back.
    let deep = Expr::sum(N1, &a(N1).times(&Expr::sum(N2, &Expr::mul([a(N2), b(N1), b(Axis::N)]))));
    let moved = traverse::rename(&deep, Axis::N, N2);
    assert_eq!(moved.axes().iter().filter(|a| a.space == Space::Token).collect::<Vec<_>>(), [N2]);
    assert_eq!(traverse::rename(&moved, N2, Axis::N), deep);
    let env = sample(std::slice::from_ref(&deep), SIZES, &[], &mut Random::new(1));
    let (x, y) = (evaluate(&deep, &env).expect("a value"), evaluate(&moved, &env).expect("a value"));
    x.data.iter().zip(&y.data).for_each(|(x, y)| check("renamed", *y, *x, 1e-14));
}

/// The structure of a term: its text with inputs called by their role and place.
fn structure(e: &Expr) -> String {
    let children: Vec<String> = e.children().into_iter().map(structure).collect();
    let head = match e.op() {
        Op::Leaf(l) => format!("{:?}{}{:?}", l.role, l.ordinal, l.axes),
        Op::Const(c) => c.to_string(),
        Op::Pow(_, r) => format!("pow {r}"),
        Op::Call(f, _) => f.name().to_string(),
        Op::Weights(kind, axis, _) => format!("weights {kind} {axis}"),
        Op::SmoothMax(kind, axis, _) => format!("smoothmax {kind} {axis}"),
        Op::Select(_) => "select".to_string(),
        Op::Solve(s) => format!("solve {} {}", s.row, s.column),
        Op::Sum(axis, _) => format!("sum {axis}"),
        Op::Mul(_) => "*".to_string(),
        Op::Add(_) => "+".to_string(),
    };
    format!("({head} {})", children.join(" "))
}

/// A term over eight inputs of three roles, whose names are given.
fn over_names(names: &[String], seed: u64) -> Expr {
    let mut random = Random::new(seed);
    let roles = [Role::Param, Role::Key, Role::Named];
    let axes: [&[Axis]; 3] = [&[], &[Axis::N, Axis::E], &[Axis::T, Axis::N]];
    let input = |j: usize| Expr::leaf(Leaf::new(roles[j % 3], j as u16, &names[j], axes[j % 3], Sign::Unknown));
    let mut terms: Vec<Expr> = (0..names.len()).map(input).collect();
    for _ in 0..14 {
        let (a, b) = (terms[random.below(terms.len())].clone(), terms[random.below(terms.len())].clone());
        terms.push(match random.below(6) {
            0 | 1 => a.plus(&b),
            2 => a.times(&b),
            3 => Expr::sum(Axis::N, &a.times(&b)),
            4 => a.square().plus(&b.abs()),
            _ => Expr::sum(Axis::E, &a.exp().minus(&b)),
        });
    }
    Expr::add(terms)
}

#[test]
fn order_does_not_depend_on_names() {
    let mut random = Random::new(5);
    for seed in 0..40 {
        let mut names = |prefix: &str| -> Vec<String> {
            (0..8).map(|j| format!("{prefix}{}{j}", char::from(b'a' + random.below(26) as u8))).collect()
        };
        let (one, two) = (names(""), names("z"));
        assert_eq!(structure(&over_names(&one, seed)), structure(&over_names(&two, seed)));
        assert_ne!(over_names(&one, seed), over_names(&two, seed));
    }
}

// Entropies.

/// p = [s − τ]₊ by sorting (Held, Wolfe and Crowder; Martins and Astudillo).
fn sparsemax(s: &[f64]) -> Vec<f64> {
    let mut sorted = s.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut tau) = (0.0, 0.0);
    for (j, x) in sorted.iter().enumerate() {
        sum += x;
        if 1.0 + (j + 1) as f64 * x > sum {
            tau = (sum - 1.0) / (j + 1) as f64;
        }
    }
    s.iter().map(|x| (x - tau).max(0.0)).collect()
}

/// p = [s/2 − τ]₊² by sorting (Peters, Niculae and Martins, algorithm 2).
fn entmax15(s: &[f64]) -> Vec<f64> {
    let top = s.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let halves: Vec<f64> = s.iter().map(|x| (x - top) / 2.0).collect();
    let mut sorted = halves.clone();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let (mut sum, mut squares, mut tau) = (0.0, 0.0, 0.0);
    for (j, x) in sorted.iter().enumerate() {
        sum += x;
        squares += x * x;
        let n = (j + 1) as f64;
        let mean = sum / n;
        let spread = (1.0 - (squares - n * mean * mean)) / n;
        if spread < 0.0 {
            break;
        }
        let candidate = mean - spread.sqrt();
        if candidate <= *x {
            tau = candidate;
        }
    }
    halves.iter().map(|x| (x - tau).max(0.0).powi(2)).collect()
}

fn score_lists() -> Vec<Vec<f64>> {
    let mut random = Random::new(3);
    let mut lists: Vec<Vec<f64>> =
        (0..30).map(|j| (0..1 + j % 9).map(|_| (0.3 + j as f64 / 10.0) * random.normal()).collect()).collect();
    lists.extend([vec![0.0; 5], vec![1e3, -1e3, 999.5], vec![2.0, 2.0, -1.0], vec![-7.0], vec![1e-9, 0.0, -1e-9]]);
    lists
}

fn entropies() -> Vec<Entropy> {
    let tsallis = [(6, 5), (3, 2), (2, 1), (3, 1)].map(|(n, d)| Entropy::Tsallis(ratio(n, d)));
    let norms = [(3, 2), (2, 1), (3, 1), (5, 1)].map(|(n, d)| Entropy::Norm(ratio(n, d)));
    [Entropy::Shannon].into_iter().chain(tsallis).chain(norms).collect()
}

/// H(p), straight from its definition.
fn entropy(kind: &Entropy, p: &[f64]) -> f64 {
    match kind {
        Entropy::Shannon => -p.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>(),
        Entropy::Tsallis(a) => {
            let a = rational::to_f64(a);
            p.iter().map(|p| p - p.powf(a)).sum::<f64>() / (a * (a - 1.0))
        }
        Entropy::Norm(g) => {
            let g = rational::to_f64(g);
            1.0 - p.iter().map(|p| p.powf(g)).sum::<f64>().powf(1.0 / g)
        }
    }
}

/// ∂H/∂p_i.
fn entropy_slope(kind: &Entropy, p: &[f64], i: usize) -> f64 {
    match kind {
        Entropy::Shannon => -p[i].ln() - 1.0,
        Entropy::Tsallis(a) => {
            let a = rational::to_f64(a);
            (1.0 - a * p[i].powf(a - 1.0)) / (a * (a - 1.0))
        }
        Entropy::Norm(g) => {
            let g = rational::to_f64(g);
            -(p[i] / p.iter().map(|p| p.powf(g)).sum::<f64>().powf(1.0 / g)).powf(g - 1.0)
        }
    }
}

#[test]
fn sparsemax_and_entmax15_agree_with_their_exact_algorithms() {
    for s in score_lists() {
        for (kind, exact) in
            [(2, 1), (3, 2)].map(|(n, d)| Entropy::Tsallis(ratio(n, d))).iter().zip([sparsemax(&s), entmax15(&s)])
        {
            for (got, expected) in maximizer(kind, &s).into_iter().zip(exact) {
                check(&format!("{kind} of {s:?}"), got, expected, 1e-9);
            }
        }
    }
}

#[test]
fn weights_satisfy_the_optimality_conditions() {
    for s in score_lists() {
        for kind in entropies() {
            let p = maximizer(&kind, &s);
            check(&format!("{kind}: Σp of {s:?}"), p.iter().sum(), 1.0, 1e-12);
            assert!(p.iter().all(|p| *p >= 0.0), "{kind} {p:?}");
            // s_i + ∂H/∂p_i = λ on the support, at most λ off it.
            let slope = |i: usize| s[i] + entropy_slope(&kind, &p, i);
            let support: Vec<usize> = (0..s.len()).filter(|&i| p[i] > 1e-6).collect();
            let lambda = slope(support[0]);
            for &i in &support {
                check(&format!("{kind}: multiplier {i} of {s:?}"), slope(i), lambda, 1e-6);
            }
            if kind != Entropy::Shannon {
                for i in (0..s.len()).filter(|&i| p[i] == 0.0) {
                    assert!(slope(i) <= lambda + 1e-6, "{kind}: {i} of {s:?} should be in the support");
                }
            }
        }
    }
}

#[test]
fn a_smooth_maximum_is_the_value_at_its_weights_and_no_other_point_is_better() {
    let mut random = Random::new(9);
    for s in score_lists() {
        for kind in entropies() {
            let p = maximizer(&kind, &s);
            let value = |p: &[f64]| p.iter().zip(&s).map(|(p, s)| p * s).sum::<f64>() + entropy(&kind, p);
            check(&format!("{kind} of {s:?}"), smoothmax(&kind, &s), value(&p), 1e-9);
            for _ in 0..20 {
                let raw: Vec<f64> = s.iter().map(|_| -random.uniform().ln()).collect();
                let total: f64 = raw.iter().sum();
                let mixed: Vec<f64> = raw.iter().zip(&p).map(|(x, p)| 0.1 * x / total + 0.9 * p).collect();
                assert!(value(&mixed) <= smoothmax(&kind, &s) + 1e-9, "{kind} of {s:?} at {mixed:?}");
            }
        }
    }
}

#[test]
fn a_shift_of_the_scores_shifts_the_maximum_and_keeps_the_weights() {
    for s in score_lists() {
        for kind in entropies() {
            let shifted: Vec<f64> = s.iter().map(|x| x + 2.5).collect();
            check(&format!("{kind} of {s:?}"), smoothmax(&kind, &shifted), smoothmax(&kind, &s) + 2.5, 1e-9);
            for (a, b) in maximizer(&kind, &shifted).into_iter().zip(maximizer(&kind, &s)) {
                check(&format!("{kind} weights of {s:?}"), a, b, 1e-7);
            }
        }
    }
}

// The interpreter.

#[test]
fn reductions_over_tokens_look_only_at_visible_ones() {
    let (a, s) = (named("a", &[Axis::N]), named("s", &[Axis::T, Axis::N]));
    let mut env = sample(&[a.clone(), s.clone()], SIZES, &[], &mut Random::new(2));
    let seen = [true, false, true, false, false, true, true, true];
    env.visible = Some(seen.to_vec());
    let (values, scores) = (env.values["a"].data.clone(), env.values["s"].data.clone());
    let get = |e: &Expr| evaluate(e, &env).expect("a value").data;
    let (sum, lse) = (get(&Expr::sum(Axis::N, &a)), get(&Expr::smoothmax(&Entropy::Shannon, Axis::N, &s)));
    let weights = get(&Expr::weights(&Entropy::Shannon, Axis::N, &s));
    let columns = get(&Expr::sum(Axis::T, &s));
    let seen_columns = get(&Expr::sum(Axis::T, &s.times(&Expr::leaf(Leaf::visible(Axis::N)))));
    for t in 0..2 {
        let visible: Vec<usize> = (0..4).filter(|n| seen[4 * t + n]).collect();
        check("Σ", sum[t], visible.iter().map(|&n| values[n]).sum(), 1e-14);
        let total: f64 = visible.iter().map(|&n| scores[4 * t + n].exp()).sum();
        check("lse", lse[t], total.ln(), 1e-14);
        for n in 0..4 {
            let expected = if seen[4 * t + n] { scores[4 * t + n].exp() / total } else { 0.0 };
            check("softmax", weights[4 * t + n], expected, 1e-14);
        }
    }
    for n in 0..4 {
        let expected = (0..2).filter(|t| seen[4 * t + n]).map(|t| scores[4 * t + n]).sum();
        check("Σ over queries that see the token", seen_columns[n], expected, 1e-14);
        check("Σ over queries", columns[n], scores[n] + scores[4 + n], 1e-14);
    }
}

#[test]
fn a_query_that_sees_nothing_gets_zero() {
    let o = Expr::sum(Axis::N, &Expr::weights(&Entropy::Shannon, Axis::N, &Expr::dot(&q(), &k())).times(&k()));
    let mut env = sample(std::slice::from_ref(&o), SIZES, &[], &mut Random::new(2));
    env.visible = Some(vec![false, false, false, false, true, true, false, true]);
    for e in [o.clone(), o.exp(), o.plus(&q())] {
        let value = evaluate(&e, &env).expect("a value").data;
        assert_eq!(value[..3], [0.0; 3]);
        assert!(value[3..].iter().all(|x| *x != 0.0 && x.is_finite()));
    }
}

// Differentiation.

/// The gradient of Σ_t f with respect to one input, by central differences.
fn finite_differences(f: &Expr, input: &Leaf, env: &Env) -> Vec<f64> {
    let total = |env: &Env| evaluate(f, env).expect("a value").data.iter().sum::<f64>();
    let step = 1e-5;
    (0..env.values[&*input.name].data.len())
        .map(|j| {
            let at = |h: f64| {
                let mut env = env.clone();
                env.values.get_mut(&*input.name).expect("the input").data[j] += h;
                total(&env)
            };
            (at(step) - at(-step)) / (2.0 * step)
        })
        .collect()
}

/// The value of a gradient along all the axes of its input.
fn along(slope: &Expr, input: &Leaf, env: &Env) -> Vec<f64> {
    let value = evaluate(slope, env).expect("a value");
    let zero = Tensor::build(&input.axes, |a| env.sizes.length(a), |_| 0.0);
    broadcast(&[&value, &zero], |a| env.sizes.length(a), |v| v[0]).data
}

/// The gradient of Σ_t f for one input agrees with central differences.
fn check_gradient(name: &str, f: &Expr, input: &Leaf, env: &Env) {
    let slope = gradient(&Expr::sum(Axis::T, f), input);
    let expected = finite_differences(f, input, env);
    for (got, expected) in along(&slope, input, env).into_iter().zip(expected) {
        check(&format!("∂/∂{} of {name}", input.name), got, expected, 1e-6);
    }
}

/// One scalar function of q (a number per query) for each operation, called by what it exercises.
fn functions() -> Vec<(String, Expr)> {
    let t = positive("T");
    let score = Expr::dot(&q(), &k());
    let gap = q().minus(&k());
    let distance = Expr::sum(Axis::E, &gap.square());
    let over_tokens = |x: &Expr| Expr::sum(Axis::N, x);
    let over_all = |x: &Expr| over_tokens(&Expr::sum(Axis::E, x));
    let mut all = vec![
        ("add and mul".to_string(), over_tokens(&score.plus(&t).times(&score))),
        ("product of sums".to_string(), over_tokens(&score).times(&over_tokens(&score.square()))),
        ("integer power".to_string(), over_tokens(&score.pow(&ratio(3, 1)))),
        ("negative power".to_string(), over_tokens(&distance.plus(&t).pow(&ratio(-2, 1)))),
        ("root".to_string(), over_tokens(&distance.sqrt())),
        ("power of |x|".to_string(), over_all(&gap.abs().pow(&ratio(5, 2)))),
        ("exp".to_string(), over_tokens(&score.over(&t).exp())),
        ("log".to_string(), over_tokens(&distance.plus(&t).log())),
        ("abs".to_string(), over_all(&gap.abs())),
        ("sign".to_string(), over_tokens(&score.signum().times(&score))),
        ("select".to_string(), over_tokens(&Expr::select(&distance, &Expr::int(4), &distance.square(), &score.exp()))),
        ("sum".to_string(), Expr::sum(Axis::E, &q().square().times(&over_tokens(&k().square())))),
    ];
    for kind in entropies() {
        let scores = score.over(&t);
        let weights = Expr::weights(&kind, Axis::N, &scores);
        all.push((format!("smoothmax {kind}"), Expr::smoothmax(&kind, Axis::N, &scores).times(&t)));
        all.push((format!("weights {kind}"), over_tokens(&weights.times(&distance))));
    }
    all
}

fn environments(f: &Expr, seed: u64) -> [Env; 2] {
    let mut random = Random::new(seed);
    let free = sample(&[f.clone(), q(), k()], SIZES, &[], &mut random);
    let mut masked = free.clone();
    masked.visible = Some(vec![true, false, true, true, false, true, false, true]);
    [free, masked]
}

#[test]
fn gradients_are_the_limits_of_central_differences() {
    for (name, f) in functions() {
        for seed in 0..3 {
            for env in environments(&f, seed) {
                check_gradient(&name, &f, &query(), &env);
                check_gradient(&name, &f, &key(), &env);
                let per_query = along(&gradient(&f, &query()), &query(), &env);
                let expected = finite_differences(&f, &query(), &env);
                for (got, expected) in per_query.into_iter().zip(expected) {
                    check(&format!("∂/∂q of {name}, query by query"), got, expected, 1e-6);
                }
            }
        }
    }
}

/// Σ_t q_t² Σ_n k_n: the slope at token n is the sum over the queries that see n, though nothing else is at n.
#[test]
fn a_gradient_at_a_token_counts_the_queries_that_see_it() {
    let f = Expr::sum(Axis::E, &q().square().times(&Expr::sum(Axis::N, &k())));
    environments(&f, 0).iter().for_each(|env| check_gradient("Σ q² Σ k", &f, &key(), env));
}

#[test]
fn hessian_products_are_the_limits_of_differences_of_gradients() {
    let probe = leaf(Role::Probe, "u", &[Axis::T, Axis::E], Sign::Unknown);
    for (name, f) in functions() {
        let first = gradient(&f, &query());
        let second = hessian_vector(&first, &query(), &probe, &[]);
        for mut env in environments(&f, 1) {
            let mut random = Random::new(4);
            let u = Tensor::build(&probe.axes, |a| SIZES.length(a), |_| random.normal());
            env.values.insert("u".into(), u.clone());
            let got = along(&second, &query(), &env);
            let step = 1e-5;
            let at = |h: f64| {
                let mut env = env.clone();
                let q = env.values.get_mut("q").expect("q");
                q.data.iter_mut().zip(&u.data).for_each(|(q, u)| *q += h * u);
                along(&first, &query(), &env)
            };
            for (j, (up, down)) in at(step).into_iter().zip(at(-step)).enumerate() {
                check(&format!("Hessian of {name}"), got[j], (up - down) / (2.0 * step), 1e-6);
            }
        }
    }
}

#[test]
fn a_vjp_is_the_gradient_of_the_contraction_with_its_cotangent() {
    let cotangent = Expr::leaf(leaf(Role::Probe, "g", &[Axis::T, Axis::E], Sign::Unknown));
    let t = positive("T");
    let weights = Expr::weights(&Entropy::Shannon, Axis::N, &Expr::dot(&q(), &k()).over(&t));
    let rule = Expr::sum(Axis::N, &weights.times(&k()));
    let loss = Expr::sum(Axis::E, &cotangent.times(&rule));
    let Some(t) = t.as_leaf() else { panic!("a parameter") };
    for env in environments(&loss, 6) {
        for input in [&query(), &key(), t] {
            let got = along(&vjp(&rule, &cotangent, input), input, &env);
            for (got, expected) in got.into_iter().zip(finite_differences(&loss, input, &env)) {
                check(&format!("∂/∂{}", input.name), got, expected, 1e-6);
            }
        }
    }
}

#[test]
fn derivatives_at_kinks_are_zero_and_never_undefined() {
    let norm = Expr::sum(Axis::E, &q().square()).sqrt();
    let ones = Expr::sum(Axis::E, &q().abs());
    let power = Expr::sum(Axis::E, &q().abs().pow(&ratio(3, 2)));
    for f in [norm, ones, power] {
        let slope = gradient(&f, &query());
        let mut env = sample(std::slice::from_ref(&f), SIZES, &[], &mut Random::new(1));
        // The first query is zero, the second is not.
        env.values.get_mut("q").expect("q").data[..3].fill(0.0);
        let got = evaluate(&slope, &env).expect("a value").data;
        assert_eq!(got[..3], [0.0; 3], "∂ {f}");
        assert!(got[3..].iter().all(|x| x.is_finite() && *x != 0.0), "∂ {f}: {got:?}");
    }
}

#[test]
fn a_gradient_extends_along_the_axes_of_its_input() {
    for (name, f) in functions() {
        let allowed = query().axes.iter().copied().fold(f.axes(), |s, a| s.with(a));
        let slope = gradient(&f, &query());
        assert!(slope.axes().is_subset(allowed), "{name}: {}", slope.axes());
        assert!(!slope.has_axis(Axis::N) && !slope.has_axis(E1), "{name}");
    }
}
