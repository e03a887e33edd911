//! Known identities are found by the general rules, and each is lost when a rule it needs is taken away: nothing is
//! recognized by its shape.

use energyc::check::{Recipe, check as check_recipe, inputs};
use energyc::derive::{Derivation, backward, derive, hessian, reveal};
use energyc::ir::eval::{Env, Sizes, evaluate};
use energyc::ir::sample::{Random, sample};
use energyc::ir::{Axis, Entropy, Expr, Func, Leaf, Op, Role, Space, rational, traverse};
use energyc::prelude;
use energyc::simplify::cost::operations;
use energyc::simplify::{Objective, Options, ReferenceSizes, RuleSet, simplify};
use energyc::syntax::parse;

const N1: Axis = Axis::new(Space::Token, 1);
const E1: Axis = Axis::new(Space::Head, 1);

fn recipe(text: &str) -> Recipe {
    let (file, diagnostics) = parse(text);
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    let (recipe, diagnostics) = check_recipe(&file, prelude::load());
    recipe.unwrap_or_else(|| panic!("{diagnostics:?}"))
}
fn named_recipe(local: &str, global: &str) -> Recipe {
    recipe(&format!("recipe r {{ local {local}; global {global}; optimizer gd; values free; }}"))
}
fn options(rules: RuleSet) -> Options {
    Options { rules, ..Options::default() }
}
fn leaf_at(leaf: Leaf, axes: &[Axis]) -> Expr {
    Expr::leaf(Leaf { axes: axes.to_vec(), ..leaf })
}
fn contains(e: &Expr, part: &Expr) -> bool {
    traverse::subterms(e).contains(part)
}
fn calls(e: &Expr, func: Func) -> bool {
    traverse::subterms(e).iter().any(|x| matches!(x.op(), Op::Call(f, _) if *f == func))
}
fn parameter(recipe: &Recipe, name: &str) -> Leaf {
    recipe.param(name).unwrap_or_else(|| panic!("a parameter {name}")).leaf.clone()
}

/// `found` holds with all rules, and no longer when one of `needed` is taken away.
fn check(needed: &[&str], found: impl Fn(&Options) -> bool) {
    assert!(found(&options(RuleSet::default())), "not found with all rules");
    for name in needed {
        let fewer = RuleSet::default().without(name);
        assert_eq!(fewer.rules.len() + 1, RuleSet::default().rules.len(), "no rule `{name}`");
        assert!(!found(&options(fewer)), "still found without `{name}`");
    }
}
/// Values for the inputs of the terms, and for the weights a derivation has named.
fn environment(terms: &[Expr], derivation: &Derivation, seed: u64) -> Env {
    let sizes = Sizes { queries: 2, tokens: 4, head: 3, model: 3, heads: 2 };
    let revealed: Vec<Expr> = terms.iter().map(|e| reveal(e, &derivation.names)).collect();
    let mut env = sample(&revealed, sizes, &[], &mut Random::new(seed));
    for named in &derivation.names {
        let value = evaluate(&reveal(&named.value(), &derivation.names), &env).expect("a value");
        env.values.insert(named.leaf.name.to_string(), value);
    }
    env
}

// The gradient of log-sum-exp.

/// softmax attention with F = −T·log Σ exp(q·k/T) spelled out.
fn spelled_out() -> Recipe {
    let mut recipe = named_recipe("dot", "lse(T = learn(1))");
    let t = Expr::leaf(parameter(&recipe, "T"));
    let score = Expr::dot(&Expr::leaf(inputs::q()), &Expr::leaf(inputs::k()));
    let total = Expr::sum(Axis::N, &score.over(&t).exp());
    recipe.energy = t.times(&total.log()).neg();
    recipe
}

#[test]
fn the_gradient_of_a_free_energy_is_a_weighted_mean() {
    let recipe = spelled_out();
    assert!(calls(&recipe.energy, Func::Log) && calls(&recipe.energy, Func::Exp));
    check(&["log-sum-exp", "sum-hoist"], |options| {
        let derivation = derive(&recipe, options);
        let [named] = derivation.names.as_slice() else { return false };
        let p = leaf_at(named.leaf.clone(), &[Axis::T, Axis::N]);
        let expected = Expr::sum(Axis::N, &p.times(&Expr::leaf(inputs::k()))).neg();
        let gradient = &derivation.gradient.term;
        *gradient == expected && !traverse::mentions(gradient, &parameter(&recipe, "T"))
    });
}

// |x| squared.

#[test]
fn an_absolute_value_that_enters_squared_leaves_no_kink() {
    for global in ["square_sum", "gated_square_sum"] {
        let recipe = named_recipe("abs_dot", global);
        assert!(calls(&recipe.energy, Func::Abs));
        let smooth = |e: &Expr| !calls(e, Func::Abs) && !calls(e, Func::Sign);
        check(&["abs-even-power"], |options| smooth(&derive(&recipe, options).energy.term));
        // Differentiated as it stands it has a kink; the derivative of the simplified energy has none.
        let raw = energyc::calculus::gradient(&recipe.energy, &inputs::q());
        assert!(!smooth(&raw), "{raw}");
        assert!(smooth(&derive(&recipe, &Options::default()).gradient.term));
    }
}

// D = rowsum(dO ∘ O).

/// ∂s of softmax attention, with the forward output o = Σ p v at hand, and what D looks like in it.
fn softmax_score_cotangent(options: &Options) -> (Expr, Expr, Expr) {
    let derivation = derive(&named_recipe("dot", "lse"), &Options::default());
    let pass = backward(&derivation, options);
    let [named] = derivation.names.as_slice() else { panic!("one kind of weights") };
    let p = |n| leaf_at(named.leaf.clone(), &[Axis::T, n]);
    let v = |n, e| leaf_at(inputs::v(), &[n, e]);
    let g = |e| leaf_at(pass.cotangent.clone(), &[Axis::T, e]);
    let output = Expr::sum(N1, &p(N1).times(&v(N1, E1)));
    let with_output = Expr::sum(E1, &g(E1).times(&output));
    let with_scores = Expr::sum(N1, &p(N1).times(&Expr::sum(E1, &g(E1).times(&v(N1, E1)))));
    let [definition] = pass.definitions.as_slice() else { panic!("one definition") };
    (definition.value.term.clone(), with_output, with_scores)
}

#[test]
fn the_backward_pass_of_softmax_reuses_its_output() {
    let found = |options: &Options| {
        let (scores, with_output, with_scores) = softmax_score_cotangent(options);
        contains(&scores, &with_output) && !contains(&scores, &with_scores)
    };
    check(&["sum-swap", "sum-absorb", "sum-hoist"], found);
    // Without the rule the sum over tokens is there a second time.
    let fewer = options(RuleSet::default().without("sum-swap"));
    let (scores, _, with_scores) = softmax_score_cotangent(&fewer);
    assert!(contains(&scores, &with_scores), "{scores}");
}

// The state of linear attention.

fn at(tokens: f64) -> ReferenceSizes {
    ReferenceSizes { tokens, head: 64.0, ..ReferenceSizes::default() }
}

#[test]
fn linear_attention_keeps_a_matrix_state_where_that_is_cheaper() {
    let direction = derive(&named_recipe("abs_dot", "square_sum"), &Options::default()).direction.term;
    let cheapest = |tokens: f64, rules: RuleSet| {
        simplify(&direction, &Options { objective: Objective::Cheapest(at(tokens)), ..options(rules) }).term
    };
    let (k, v) = (leaf_at(inputs::k(), &[N1, E1]), leaf_at(inputs::v(), &[N1, Axis::E]));
    let state = Expr::sum(N1, &k.times(&v));
    check(&["sum-swap"], |options| contains(&cheapest(4096.0, options.rules.clone()), &state));
    let (long, short) = (cheapest(4096.0, RuleSet::default()), cheapest(16.0, RuleSet::default()));
    assert!(!contains(&short, &state), "{short}");
    let flops = |e: &Expr, tokens: f64| operations(std::slice::from_ref(e)).evaluate(at(tokens));
    assert!(flops(&long, 4096.0) < flops(&short, 4096.0));
    assert!(flops(&short, 16.0) < flops(&long, 16.0));
}

// Covariance in the Hessian.

#[test]
fn the_hessian_by_distance_is_the_identity_minus_a_covariance() {
    let recipe = named_recipe("euclidean", "lse(T = learn(1))");
    let derivation = derive(&recipe, &Options::default());
    let t = Expr::leaf(parameter(&recipe, "T"));
    let [named] = derivation.names.as_slice() else { panic!("one kind of weights") };
    let p = |n| leaf_at(named.leaf.clone(), &[Axis::T, n]);
    let k = |n, e| leaf_at(inputs::k(), &[n, e]);
    check(&["distribute"], |options| {
        let found = hessian(&derivation, options);
        let u = |e| leaf_at(found.probe.clone(), &[Axis::T, e]);
        let mean = |e| Expr::sum(N1, &p(N1).times(&k(N1, e)));
        let second = Expr::sum(N1, &Expr::mul([p(N1), k(N1, Axis::E), Expr::sum(E1, &k(N1, E1).times(&u(E1)))]));
        let first = mean(Axis::E).times(&Expr::sum(E1, &u(E1).times(&mean(E1))));
        let covariance = u(Axis::E).minus(&second.minus(&first).over(&t));
        let centred = Expr::sum(E1, &k(N1, E1).times(&u(E1))).minus(&Expr::sum(E1, &u(E1).times(&mean(E1))));
        let half_centred = Expr::sum(N1, &Expr::mul([p(N1), k(N1, Axis::E), centred]));
        let half_centred = u(Axis::E).minus(&half_centred.over(&t));
        let term = &found.product;
        (*term == covariance || *term == half_centred) && !traverse::mentions(term, &inputs::q())
    });
    // And it is the Hessian.
    let product = hessian(&derivation, &Options::default());
    let gradient = reveal(&derivation.gradient.term, &derivation.names);
    let env = environment(&[product.product.clone(), gradient.clone()], &derivation, 5);
    let got = evaluate(&product.product, &env).expect("a value");
    let step = 1e-5;
    let moved = |h: f64| {
        let mut env = env.clone();
        let u = env.values["u"].data.clone();
        env.values.get_mut("q").expect("q").data.iter_mut().zip(u).for_each(|(q, u)| *q += h * u);
        evaluate(&gradient, &env).expect("a value").data
    };
    for (got, (up, down)) in got.data.iter().zip(moved(step).into_iter().zip(moved(-step))) {
        let expected = (up - down) / (2.0 * step);
        assert!((got - expected).abs() < 1e-7, "got {got}, expected {expected}");
    }
}

// Constraints.

#[test]
fn on_a_sphere_distance_attention_is_softmax_attention() {
    let sphere = recipe(
        "recipe r { local euclidean; global lse(T = learn(1)); optimizer gd; values free; \
         constrain norm(q) = rho, norm(k) = rho; }",
    );
    let plain = derive(&named_recipe("dot", "lse(T = learn(1))"), &Options::default());
    // Parameters by their names only: rho is declared beside T here.
    let renamed = |e: &Expr| {
        traverse::substitute_leaves(e, &mut |leaf| {
            (leaf.role == Role::Param).then(|| Expr::leaf(Leaf { ordinal: 0, ..leaf.clone() }))
        })
    };
    let same = |a: &Expr, b: &Expr| renamed(a) == renamed(b);
    let found = |options: &Options| {
        let derived = derive(&sphere, options);
        let value = |d: &Derivation| reveal(&d.direction.term, &d.names);
        same(&derived.direction.term, &plain.direction.term) && same(&value(&derived), &value(&plain))
    };
    // Scores lose ρ² where weights get their name, the energy by a rule.
    check(&["square-of-sum"], found);
    check(&["square-of-sum", "smoothmax-shift"], |options| {
        let energy = derive(&sphere, options).energy.term;
        let is_product = |e: &Expr| energyc::notation::text::plain(e) == "q·k_i/T";
        traverse::subterms(&energy).iter().any(|x| matches!(x.op(), Op::SmoothMax(_, _, scores) if is_product(scores)))
    });
    // The weights by themselves lose their constant as well.
    let t = Expr::leaf(parameter(&sphere, "T"));
    let weights = |energy: &Expr| Expr::weights(&Entropy::Shannon, Axis::N, &energy.neg().over(&t));
    let by_distance = weights(&sphere.local);
    let by_product = weights(&Expr::dot(&Expr::leaf(inputs::q()), &Expr::leaf(inputs::k())).neg());
    check(&["square-of-sum", "weights-shift"], |options| {
        let options = energyc::derive::options_for(&sphere, options);
        simplify(&by_distance, &options).term == by_product
    });
}

// Sigmoids and what they leave of 1.

#[test]
fn smooth_functions_and_what_they_leave() {
    let [q, k] = [inputs::q(), inputs::k()].map(Expr::leaf);
    let (x, one, two) = (q.minus(&k), Expr::one(), rational::int(2));
    let sigma = x.sigmoid();
    let less = |c: &Expr, f: &Expr| c.minus(&c.times(f));
    let cases = [
        ("sigmoid-complement", less(&q, &sigma), q.times(&x.neg().sigmoid())),
        ("sigmoid-pair", sigma.plus(&x.neg().sigmoid()), one.clone()),
        ("sigmoid-centred", x.scale(&two).sigmoid().scale(&two).minus(&one), x.tanh()),
        ("softplus-pair", x.softplus().minus(&x.neg().softplus()), x.clone()),
        ("tanh-complement", less(&k, &x.tanh().square()), k.times(&x.tanh_slope())),
    ];
    for (rule, written, expected) in cases {
        check(&[rule], |options| simplify(&written, options).term == expected);
    }
}

#[test]
fn gradients_of_smooth_energies_are_short() {
    let cases = [
        ("l() { E = sum(log(cosh(q - k))) }", "lse", "Σ_i p_i tanh(q − k_i)"),
        ("l() { E = sum(log(exp(q - k) + exp(k - q))) }", "lse", "Σ_i p_i tanh(q − k_i)"),
        ("l(c = 30) where c > 0 { E = -c * tanh(dot(q, k) / c) }", "lse", "−Σ_i p_i (1 − tanh²(q·k_i/c)) k_i"),
        ("dot", "g(b = 0) { F = -sum(softplus(b - E)) }", "−Σ_i σ(b + q·k_i) k_i"),
        ("dot", "g(b = 0) { F = -sum(log(1 + exp(b - E))) }", "−Σ_i σ(b + q·k_i) k_i"),
    ];
    for (local, global, expected) in cases {
        let semicolon = |part: &str| if part.ends_with('}') { "" } else { ";" };
        let text = format!(
            "recipe r {{ local {local}{} global {global}{} optimizer gd; }}",
            semicolon(local),
            semicolon(global)
        );
        let gradient = derive(&recipe(&text), &Options::default()).gradient.term;
        assert_eq!(energyc::notation::text::plain(&gradient), expected, "{text}");
    }
}

// Quotients, zeros and scores.

/// The recipe of a local and a global energy, both written out.
fn of_energies(local: &str, global: &str) -> Recipe {
    recipe(&format!("recipe r {{ local {local} global {global} optimizer gd; }}"))
}

#[test]
fn two_quotients_over_one_divisor_become_one() {
    let local = "l(c = 1) where c > 0 { E = norm(q - k)^2 / (c^2 + norm(q - k)^2) }";
    let recipe = of_energies(local, "lse(T = 1);");
    let short = "2c² Σ_i p_i (q − k_i)/(c² + ‖q − k_i‖²)²";
    check(&["factor"], |options| energyc::notation::text::plain(&derive(&recipe, options).gradient.term) == short);
}

#[test]
fn a_quotient_inside_of_a_divisor_is_cleared() {
    let recipe = of_energies("l(c = 1) where c > 0 { E = log(1 + norm(q - k)^2 / c) }", "lse(T = 1);");
    let short = "2 Σ_i p_i (q − k_i)/(c + ‖q − k_i‖²)";
    let finds = |options: &Options| energyc::notation::text::plain(&derive(&recipe, options).gradient.term) == short;
    check(&["clear-quotient"], finds);
}

#[test]
fn where_a_product_is_zero_is_said_once() {
    let recipe = of_energies("l() { E = max(dot(q, k), 0)^3 / 3 }", "g() { F = -sum(E) }");
    let finds = |options: &Options| {
        energyc::notation::text::plain(&derive(&recipe, options).gradient.term) == "−Σ_i [q·k_i]₊² k_i"
    };
    check(&["select-zero-twice"], finds);
}

#[test]
fn sums_over_components_stay_inner_products() {
    let recipe = of_energies("l() { E = norm(q, 1) * dot(q, k) }", "g() { F = sum(E^2) }");
    let gradient = derive(&recipe, &Options::default()).gradient.term;
    let short = "2 Σ_i (‖q‖₁² (q·k_i) k_i + (q·k_i)² ‖q‖₁ sign(q))";
    assert_eq!(energyc::notation::text::plain(&gradient), short);
}

// What weights and shares are made of.

#[test]
fn scores_lose_what_no_token_changes() {
    for energy in ["-dot(q, k) + norm(q)^2", "norm(q)^4 - dot(q, k)", "sum(abs(q) - q * k)"] {
        let recipe = of_energies(&format!("l() {{ E = {energy} }}"), "lse(T = 2);");
        let derivation = derive(&recipe, &Options::default());
        assert_eq!(energyc::notation::text::plain(derivation.names[0].depends_on()), "q·k_i/T", "{energy}");
    }
}

/// The direction, ∂s_i and the name of a share, in text.
fn in_shares(global: &str) -> (String, String, Role) {
    let derivation = derive(&of_energies("dot;", global), &Options::default());
    let pass = backward(&derivation, &Options::default());
    let text = |e: &Expr| energyc::notation::text::plain(e);
    let scores = pass.definitions.iter().find(|d| &*d.leaf.name == "∂s").expect("the scores' cotangent");
    (text(&derivation.direction.term), text(&scores.value.term), derivation.names[0].leaf.role)
}

#[test]
fn a_sum_with_other_parts_has_shares() {
    let shares = [
        "g() { F = -log(1 + sum(exp(-E))) }",
        "g(a = learn(0), b = learn(1)) { F = -log(exp(a) + exp(b / 2) + sum(exp(-E))) }",
        "g(gamma = gate(sigmoid)) { F = -log(1 + 2 * sum(gamma * exp(-E))) }",
    ];
    let (direction, scores, _) = in_shares("g() { F = -log(sum(exp(-E))) }");
    for global in shares {
        assert_eq!(in_shares(global), (direction.clone(), scores.clone(), Role::Share), "{global}");
    }
}

#[test]
fn a_quotient_of_sums_is_a_mean() {
    let mean = of_energies("dot;", "g() { F = sum(E * exp(-E)) / sum(exp(-E)) }");
    let derivation = derive(&mean, &Options::default());
    let [named] = derivation.names.as_slice() else { panic!("one kind of weights") };
    assert_eq!(named.leaf.role, Role::Weights);
    assert!(!calls(&derivation.gradient.term, Func::Exp), "{}", derivation.gradient.term);
    let with_rest = of_energies("dot;", "g() { F = sum(E * exp(-E)) / (1 + sum(exp(-E))) }");
    let derivation = derive(&with_rest, &Options::default());
    assert_eq!(derivation.names[0].leaf.role, Role::Share);
    assert!(!calls(&derivation.gradient.term, Func::Exp), "{}", derivation.gradient.term);
}
