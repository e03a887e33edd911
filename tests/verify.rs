//! Verification and equivalence: every recipe passes, energies the prelude does not have pass, and every line of the
//! report fails when the piece it judges is made wrong, and no other line does.

use std::fs;
use std::path::Path;

use energyc::check::{Recipe, check, inputs};
use energyc::derive;
use energyc::diagnostic::render_all;
use energyc::equiv::{Equivalence, equivalence};
use energyc::ir::{Axis, Expr, rational};
use energyc::prelude;
use energyc::simplify::pattern::Pattern;
use energyc::simplify::{Options, Proof, RuleSet, Simplified, proof};
use energyc::span::Source;
use energyc::syntax::parse;
use energyc::verify::chain::{Case, DIRECTION, ENERGY};
use energyc::verify::{Line, Outcome, Parts, Report, kernel, verify, verify_derivation};

fn recipe(text: &str) -> Recipe {
    let (file, mut diagnostics) = parse(text);
    let (recipe, found) = check(&file, prelude::load());
    diagnostics.extend(found);
    let shown = render_all(&diagnostics, &Source::new("test.recipe", text), false);
    recipe.unwrap_or_else(|| panic!("{shown}"))
}

/// A recipe file by name.
fn stored(name: &str) -> Recipe {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(format!("{name}.recipe"));
    recipe(&fs::read_to_string(path).expect("a recipe"))
}

fn passes(recipe: &Recipe) -> Report {
    let report = verify(recipe, &Options::default());
    println!("{}\n{report}", recipe.name);
    assert!(report.passed(), "{}\n{report}", recipe.name);
    report
}

fn failing(report: &Report) -> Vec<&'static str> {
    report.lines.iter().filter(|line| line.failed()).map(|line| line.name).collect()
}

fn parts(name: &str) -> Parts {
    Parts::of(&stored(name), &Options::default())
}

/// A term nobody simplified.
fn as_is(term: Expr) -> Simplified {
    Simplified { proof: Proof::trivial(&term), term, hit_limit: false, rejected: vec![] }
}

fn scaled(term: &Expr) -> Expr {
    term.scale(&rational::ratio(101, 100))
}

#[test]
fn every_recipe_passes() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    let mut names: Vec<String> = fs::read_dir(folder)
        .expect("the recipes")
        .filter_map(|entry| entry.expect("an entry").file_name().into_string().ok())
        .filter_map(|name| name.strip_suffix(".recipe").map(str::to_string))
        .collect();
    names.sort();
    assert!(!names.is_empty());
    for name in names {
        let report = passes(&stored(&name));
        let solves = stored(&name).program.preconditioner.is_some();
        assert_eq!(report.lines.len(), if solves { 17 } else { 16 }, "{name}");
    }
}

const LSE: &str = "global lse(T = learn(1)); optimizer gd;";

#[test]
fn energies_of_ones_own_pass() {
    for (name, sections) in [
        ("cauchy", format!("local c() {{ E = log(1 + norm(q - k)^2) }} {LSE}")),
        ("cosine", format!("local c() {{ E = -dot(q, k) / (norm(q) * norm(k)) }} {LSE}")),
        ("two", format!("local c(a = 0.5) {{ E = a * norm(q - k)^2 - dot(q, k) }} {LSE}")),
        ("log_cosh", format!("local c() {{ E = sum(log(exp(q - k) + exp(k - q))) }} {LSE}")),
        ("tied", "local euclidean; global lse; optimizer gd; values tied;".to_string()),
        ("pseudo_huber", "local dot; global c() { F = sum(sqrt(1 + E^2)) } optimizer gd;".to_string()),
    ] {
        let report = passes(&recipe(&format!("recipe {name} {{ {sections} }}")));
        let line = report.line("descent").expect("a line");
        let applies = matches!(line.outcome, Outcome::Pass { .. });
        assert_eq!(applies, name == "tied", "{name}: {line}");
    }
}

/// Σ_t g[t] at token n runs over the queries that see n, also where its body does not mention n.
#[test]
fn tokens_nobody_sees_get_nothing_back() {
    passes(&recipe("recipe r { local euclidean; global c() { F = sum(E) } optimizer gd; }"));
}

/// Parameters may be called what the derivation calls its own quantities.
#[test]
fn parameters_may_have_any_name() {
    for name in ["p", "u", "g", "c", "a", "o", "s", "Z", "S", "tau", "out", "energy"] {
        let local = format!("local c({name} = 2) where {name} > 0 {{ E = {name} * norm(q - k)^2 }}");
        passes(&recipe(&format!("recipe r {{ {local} {LSE} }}")));
    }
}

/// ‖q − k‖ = √(2ρ² − 2 q·k) on the sphere.
#[test]
fn a_constrained_distance_is_finite_where_tokens_meet() {
    let local = "local c() { E = norm(q - k) }";
    let text = format!("recipe r {{ {local} {LSE} constrain norm(q) = rho, norm(k) = rho; }}");
    passes(&recipe(&text));
}

/// In one dimension, q and k on a sphere are the same or opposite: their sum is 0 to a rounding, where this has no slope.
#[test]
fn a_sphere_of_one_dimension_is_no_place_to_judge() {
    passes(&recipe(
        "recipe r { local l() { E = log1p(norm(q + k, 4)) } global lse(T = 1); optimizer gd; \
         constrain norm(q) = 1.5, norm(k) = 1.5; }",
    ));
    // Two kinks, which may cancel.
    passes(&recipe(
        "recipe r { local l1; global lse(T = 0.7); optimizer gd; values tied; constrain norm(q) = 1.5, norm(k) = 1.5; }",
    ));
}

#[test]
fn constrained_energies_pass() {
    for energy in ["sum(abs(q - k))", "norm(q - k)^4", "-dot(q, k) / (norm(q) * norm(k))"] {
        for constraint in ["norm(q) = rho", "norm(k) = rho", "norm(q) = rho, norm(k) = rho"] {
            let sections = format!("local c() {{ E = {energy} }} {LSE} constrain {constraint};");
            passes(&recipe(&format!("recipe r {{ {sections} }}")));
        }
    }
}

#[test]
fn other_entropies_and_shapes_pass() {
    for sections in [
        "local euclidean; global norm_entropy(gamma = 3, T = learn(1));",
        "local euclidean; global norm_entropy(gamma = 1.5, T = learn(1)); values tied;",
        "local l1; global tsallis(alpha = 1.25, T = learn(1));",
        "local huber(delta = learn(0.5)); global tsallis(alpha = 3, T = learn(1)); values tied;",
        "local lp(p = 1.5); global lse(T = learn(1));",
        "local euclidean; global g(T = 1, gamma = decay(sigmoid)) where T > 0 { F = -T * log(sum(gamma * exp(-E / T))) }",
        "local c() { E = if dot(q, k) <= 0 { 0 } else { dot(q, k)^2 } } global lse;",
        "local c() { E = 1 / norm(q - k) } global lse;",
    ] {
        passes(&recipe(&format!("recipe r {{ {sections} optimizer gd; }}")));
    }
}

#[test]
fn a_wrong_gradient_fails() {
    let mut parts = parts("softmax");
    let gradient = scaled(&parts.derivation.gradient.term);
    parts.derivation.gradient = as_is(gradient);
    assert_eq!(failing(&verify_derivation(&parts)), ["gradient"]);
}

/// The part along q that a constraint drops is not missed; any other is.
#[test]
fn a_wrong_gradient_fails_under_a_constraint() {
    let mut parts = parts("qknorm");
    let gradient = scaled(&parts.derivation.gradient.term);
    parts.derivation.gradient = as_is(gradient);
    assert_eq!(failing(&verify_derivation(&parts)), ["gradient"]);
}

#[test]
fn a_wrong_gradient_in_z_fails() {
    let mut parts = parts("huber");
    parts.gradient_in_z = scaled(&parts.gradient_in_z);
    assert_eq!(failing(&verify_derivation(&parts)), ["gradient in z"]);
}

/// A direction 1% too long still descends.
#[test]
fn a_wrong_direction_fails() {
    let mut parts = parts("linear");
    let direction = scaled(&parts.derivation.direction.term);
    parts.derivation.direction = as_is(direction);
    parts.backward = derive::backward(&parts.derivation, &Options::default());
    assert_eq!(failing(&verify_derivation(&parts)), ["direction"]);
}

#[test]
fn a_direction_uphill_fails() {
    for values in ["tied", "free"] {
        let text = format!("recipe r {{ local euclidean; global lse; optimizer gd; values {values}; }}");
        let mut parts = Parts::of(&recipe(&text), &Options::default());
        let direction = parts.derivation.direction.term.neg();
        parts.derivation.direction = as_is(direction);
        parts.backward = derive::backward(&parts.derivation, &Options::default());
        assert_eq!(failing(&verify_derivation(&parts)), ["direction", "descent"]);
    }
}

#[test]
fn a_wrong_hessian_fails() {
    let mut parts = parts("softmax");
    parts.hessian.matrix = parts.hessian.matrix.neg();
    parts.hessian.product = parts.hessian.product.neg();
    assert_eq!(failing(&verify_derivation(&parts)), ["hessian"]);
}

#[test]
fn a_wrong_matrix_fails() {
    let mut parts = parts("euclidean");
    parts.hessian.matrix = scaled(&parts.hessian.matrix);
    assert_eq!(failing(&verify_derivation(&parts)), ["hessian matrix"]);
}

#[test]
fn a_backward_pass_without_one_of_its_terms_fails() {
    let base = parts("euclidean");
    for input in 0..base.backward.gradients.len() {
        let mut parts = base.clone();
        let gradient = &mut parts.backward.gradients[input];
        let terms = gradient.value.term.terms();
        gradient.value = as_is(Expr::add(terms[1..].iter().cloned()));
        let report = verify_derivation(&parts);
        assert_eq!(failing(&report), ["vjp", "step"], "{}", base.backward.gradients[input].leaf.name);
    }
    let mut parts = base.clone();
    parts.backward.gradients.pop();
    assert_eq!(failing(&verify_derivation(&parts)), ["vjp", "step"], "a missing cotangent");
}

/// A formula that would be right without masks: Σ_n 1 stands for N.
#[test]
fn a_backward_pass_that_forgets_masks_fails() {
    let mut parts = parts("softmax");
    let seen = Expr::sum(Axis::N, &Expr::leaf(parts.derivation.names[0].leaf.clone()).signum());
    let tokens = Expr::leaf(inputs::sizes()[0].clone());
    let gradient = &mut parts.backward.gradients[0];
    gradient.value = as_is(Expr::mul([gradient.value.term.clone(), seen, tokens.pow(&rational::int(-1))]));
    assert_eq!(failing(&verify_derivation(&parts)), ["vjp"]);
}

#[test]
fn a_wrong_simplification_fails() {
    let mut parts = parts("softmax");
    let form = &mut parts.hessian.form[0];
    form.proof = Proof::trivial(&scaled(&form.term));
    form.proof.end = form.term.clone();
    let report = verify_derivation(&parts);
    assert_eq!(failing(&report), ["simplified", "proofs"]);
}

#[test]
fn a_wrong_proof_fails() {
    let base = parts("euclidean");
    fn lemma(parts: &mut Parts) -> &mut energyc::simplify::proof::Lemma {
        let lemmas = parts.hessian.form.iter_mut().flat_map(|form| &mut form.proof.lemmas);
        lemmas.into_iter().find(|l| !l.steps.is_empty()).expect("a step")
    }
    let steps = |parts: &mut Parts| lemma(parts).steps.remove(0);
    let mut parts = base.clone();
    steps(&mut parts);
    assert_eq!(failing(&verify_derivation(&parts)), ["proofs"], "a step is missing");

    let mut parts = base.clone();
    let step = &mut lemma(&mut parts).steps[0];
    step.forward = !step.forward;
    assert_eq!(failing(&verify_derivation(&parts)), ["proofs"], "a step goes the wrong way");

    let mut parts = base.clone();
    let rule = steps(&mut parts).rule;
    let mut parts = base.clone();
    parts.options.rules = parts.options.rules.without(&rule);
    assert_eq!(failing(&verify_derivation(&parts)), ["proofs"], "a rule does not exist");
}

/// A rule that is wrong cannot get a wrong formula through: the comparison refuses it, or a line fails.
#[test]
fn a_wrong_rule_is_caught() {
    for (name, right) in [("sum-of-sum", "(+ (sum ?i ?a) ?b)"), ("distribute", "(+ (* ?a ?b) ?c)"), ("sum-to-one", "2")]
    {
        let mut rules = RuleSet::default().rules;
        let rule = rules.iter_mut().find(|r| r.name == name).expect("the rule");
        rule.right = Pattern::parse(right).expect("a pattern");
        let options = Options { rules: RuleSet::of(rules), ..Options::default() };
        let parts = Parts::of(&stored("euclidean"), &options);
        let refused = [&parts.derivation.gradient, &parts.derivation.direction]
            .into_iter()
            .chain(&parts.hessian.form)
            .chain(parts.backward.gradients.iter().map(|d| &d.value))
            .any(|s| !s.rejected.is_empty());
        let report = verify_derivation(&parts);
        assert!(refused || report.line("simplified").is_some_and(|l| l.failed()), "{name}\n{report}");
        for line in ["gradient", "direction", "hessian", "vjp"] {
            assert!(report.line(line).is_some_and(|l| !l.failed()), "{name}\n{report}");
        }
    }
}

/// −log ‖q − k‖² is infinite where they meet; everything else about it is fine.
#[test]
fn a_pole_fails() {
    let mut pole = recipe("recipe r { local euclidean; global c() { F = sum(E) } optimizer gd; }");
    let apart = Expr::leaf(inputs::q()).minus(&Expr::leaf(inputs::k()));
    pole.energy = Expr::sum(Axis::N, &Expr::sum(Axis::E, &apart.square()).log());
    let report = verify(&pole, &Options::default());
    assert_eq!(failing(&report), ["awkward points"], "{report}");
}

fn proven(a: &Recipe, b: &Recipe) -> (Proof, Vec<String>) {
    match equivalence(a, b, &Options::default()) {
        Equivalence::Proven { proof, notes } => (proof, notes),
        other => panic!("{} and {}: {other:?}", a.name, b.name),
    }
}

fn differ(a: &Recipe, b: &Recipe) -> String {
    match equivalence(a, b, &Options::default()) {
        Equivalence::Differ { evidence } => evidence,
        other => panic!("{} and {}: {other:?}", a.name, b.name),
    }
}

#[test]
fn normalized_distance_is_softmax() {
    for (a, b) in [("qknorm", "softmax"), ("softmax", "qknorm")] {
        let (found, notes) = proven(&stored(a), &stored(b));
        println!("{notes:#?}");
        let constrained = derive::options_for(&stored("qknorm"), &Options::default());
        proof::check(&found, &constrained.rules).expect("the proof replays");
        let says = |words: &str| notes.iter().any(|n| n.contains(words));
        assert!(says("T is ") && says("the rules agree for equal T"), "{notes:?}");
        assert!(says("`qknorm` normalizes in the layer"), "{notes:?}");
    }
}

#[test]
fn names_do_not_matter() {
    let renamed = recipe(
        "recipe other {
            local  inner() { E = -dot(k, q) }
            global soft(tau = sqrt(d_h)) where tau > 0 { F = -tau * log(sum(exp(-E / tau))) }
            optimizer go(step = 1) where step > 0 { z = z - step * grad(z); }
        }",
    );
    let (_, notes) = proven(&stored("softmax"), &renamed);
    assert!(notes.iter().any(|n| n.contains("T of `softmax`") && n.contains("tau of `other`")), "{notes:?}");
    let momentum = |state: &str| {
        recipe(&format!(
            "recipe m {{ local dot; global lse;
                optimizer m(b = 0.9, e = 1) {{ state {state} = 0; {state} = b * {state} + grad(z); z = z - e * {state}; }} }}"
        ))
    };
    proven(&momentum("p"), &momentum("m"));
}

#[test]
fn equal_energies_written_otherwise_are_proven() {
    let l1 = recipe("recipe lp1 { local lp(p = 1); global lse(T = learn(sqrt(2 * d_h), per head)); optimizer gd; }");
    let (_, notes) = proven(&stored("l1"), &l1);
    assert!(notes.is_empty(), "{notes:?}");
    let square = recipe(&format!("recipe square {{ local c() {{ E = norm(q - k)^2 }} {LSE} }}"));
    let lp2 = recipe(&format!("recipe lp2 {{ local lp(p = 2); {LSE} }}"));
    proven(&square, &lp2);
    // ‖q‖² + ‖k‖² − 2 q·k, multiplied out by hand.
    let opened =
        recipe(&format!("recipe opened {{ local c() {{ E = norm(q)^2 + norm(k)^2 - 2 * dot(q, k) }} {LSE} }}"));
    proven(&square, &opened);
}

/// log cosh, however it is written, is one function.
#[test]
fn functions_written_out_are_recognized() {
    let with = |energy: &str| recipe(&format!("recipe r {{ local c() {{ E = {energy} }} {LSE} }}"));
    let forms = [
        "sum(log(cosh(q - k)))",
        "sum(log((exp(q - k) + exp(k - q)) / 2))",
        "sum(softplus(2 * (q - k)) - (q - k) - log(2))",
        "sum(abs(q - k) + log(1 + exp(-2 * abs(q - k))) - log(2))",
    ];
    for form in forms {
        let (_, notes) = proven(&with(forms[0]), &with(form));
        assert!(notes.is_empty(), "{form}: {notes:?}");
    }
}

/// log(1 + eˣ + e²ˣ), four ways: equal as rational functions of exponentials, which no rule rewrites into each other.
#[test]
fn exponentials_are_compared_as_variables() {
    let forms = [
        "sum(log((1 + exp(q - k) + exp(2 * (q - k))) / 2))",
        "sum(log(exp(k - q) + 1 + exp(q - k)) + q - k - log(2))",
        "sum(abs(q - k) + q - k + log(1 + exp(-abs(q - k)) + exp(-2 * abs(q - k))))",
        "sum(log(1 + exp(k - q) + exp(2 * (k - q))) + 2 * (q - k))",
    ];
    let with = |energy: &str| recipe(&format!("recipe r {{ local c() {{ E = {energy} }} {LSE} }}"));
    for (i, a) in forms.iter().enumerate() {
        for (j, b) in forms.iter().enumerate().filter(|(j, _)| *j != i) {
            let answer = equivalence(&with(a), &with(b), &Options::default());
            let Equivalence::Decided { substitutions, .. } = answer else { panic!("{a} and {b}: {answer:?}") };
            let says = |words: &str| substitutions.iter().any(|line| line.contains(words));
            assert!(says("= exp(q − k_i)") && says("= exp(q − v_i)"), "{substitutions:?}");
            assert_eq!(says("q − k_i = 0 say the same"), i == 2 || j == 2, "{substitutions:?}");
            // The first is smaller by log 2 a component, under the logarithm; the second's weights have dropped theirs.
            assert_eq!(says("log(2), the same for every token"), (i == 0) != (j == 0), "{substitutions:?}");
        }
    }
    differ(&with(forms[0]), &with("sum(1.01 * log(1 + exp(q - k) + exp(2 * (q - k))))"));
    // The kink stays where it is one.
    differ(&with(forms[2]), &with("sum(abs(q - k) + log(1 + exp(-abs(q - k))))"));
}

#[test]
fn different_rules_differ() {
    for (a, b) in
        [("euclidean", "softmax"), ("entmax15", "sparsemax"), ("huber", "euclidean"), ("linear", "gated_linear")]
    {
        let evidence = differ(&stored(a), &stored(b));
        println!("{a}, {b}: {evidence}");
        assert!(evidence.contains("seed") && evidence.contains("d_h"), "{evidence}");
    }
    // Σ|q − k|² is twice ½‖q − k‖²: for equal T another rule.
    let lp2 = recipe("recipe lp2 { local lp(p = 2); global lse(T = learn(sqrt(2 * d_h), per head)); optimizer gd; }");
    differ(&lp2, &stored("euclidean"));
}

#[test]
fn layers_differ_in_more_than_the_direction() {
    let with = |rest: &str| recipe(&format!("recipe r {{ local dot; global lse; {rest} }}"));
    assert!(differ(&with("optimizer gd;"), &with("optimizer gd; values tied;")).contains("tied"));
    assert!(differ(&with("optimizer gd;"), &with("optimizer gd; write_back pinv;")).contains("W1⁺"));
    assert!(differ(&with("optimizer gd;"), &with("optimizer momentum;")).contains("states"));
    assert!(differ(&with("optimizer momentum;"), &with("optimizer nag;")).contains("gradient"));
    assert!(differ(&with("optimizer gd;"), &with("optimizer gd; steps 2;")).contains("steps"));
}

/// A fixed parameter is part of the rule; a learned one can take any value.
#[test]
fn fixed_values_are_compared() {
    let softmax = |global: &str| recipe(&format!("recipe r {{ local dot; global {global} optimizer gd; }}"));
    let (two, three) = (softmax("lse(T = 2);"), softmax("lse(T = 3);"));
    assert!(matches!(equivalence(&two, &three, &Options::default()), Equivalence::Differ { .. }));
    let written = softmax("two() { F = -2 * log(sum(exp(-E / 2))) }");
    proven(&two, &written);
    let learned = softmax("lse(T = learn(5));");
    let (_, notes) = proven(&two, &learned);
    assert!(notes.iter().any(|n| n.contains("agree for equal T")), "{notes:?}");
}

#[test]
fn an_optimizer_that_climbs_does_not_descend() {
    let climbing = recipe("recipe r { local dot; global lse; optimizer up() { z = z + grad(z); } values tied; }");
    let report = verify(&climbing, &Options::default());
    let failed: Vec<&str> = report.lines.iter().filter(|l| l.failed()).map(|l| l.name).collect();
    assert_eq!(failed, ["descent"]);
}

/// What the line about descent says of an optimizer: "pass", "fail", or why there is no claim.
fn descent(optimizer: &str) -> (&'static str, String) {
    let text = format!("recipe r {{ local euclidean; global lse(T = 1); optimizer {optimizer} values tied; }}");
    let report = verify(&recipe(&text), &Options::default());
    let others: Vec<&str> = failing(&report).into_iter().filter(|name| *name != "descent").collect();
    assert!(others.is_empty(), "{optimizer}\n{report}");
    match &report.line("descent").expect("a line").outcome {
        Outcome::Pass { .. } => ("pass", String::new()),
        Outcome::Fail { where_, .. } => ("fail", where_.clone()),
        Outcome::NotApplicable { reason } => ("open", reason.clone()),
        Outcome::Warning { reason } => ("loses", reason.clone()),
        Outcome::Inconclusive { reason } => ("untried", reason.clone()),
    }
}

/// A claim is about the program, not about the direction it uses.
#[test]
fn programs_that_descend_are_told_from_programs_that_do_not() {
    for optimizer in [
        "gd;",
        "momentum;",
        "nag;",
        "s(eta = 0.1) { z = z - eta * sign(grad(z)); }",
        "n(eta = 0.1) { z = z - eta * grad(z) / norm(grad(z)); }",
        "a(b = 0.9, eta = 0.1) { state s = 0; s = b * s + (1 - b) * grad(z)^2; z = z - eta * grad(z) / (sqrt(s) + 0.01); }",
    ] {
        let (outcome, why) = descent(optimizer);
        assert_eq!(outcome, "pass", "{optimizer}: {why}");
    }
    for (optimizer, words) in [
        ("up(eta = 0.1) { z = z + eta * sign(grad(z)); }", "goes up: it raises F on all 64 draws"),
        ("up(eta = -1) { z = z - eta * grad(z); }", "goes up: it raises F on all 64 draws"),
        // Down where z > 0, up where z < 0.
        ("m(eta = 0.1) { z = z * exp(-eta * grad(z)); }", "does not lower F on"),
    ] {
        let (outcome, why) = descent(optimizer);
        assert_eq!(outcome, "fail", "{optimizer}: {why}");
        assert!(why.contains(words), "{optimizer}: {why}");
    }
    for (optimizer, words) in [
        ("w(eta = 0.1) { z = z - eta * grad(z) - 0.1 * z; }", "also moves z where ∇F = 0"),
        ("e(eta = 0.1) { let y = z - eta * grad(z); z = z - eta * grad(y); }", "at another point than z"),
        ("newton(eps = 3);", "A may be indefinite"),
    ] {
        let (outcome, why) = descent(optimizer);
        assert_eq!(outcome, "open", "{optimizer}: {why}");
        assert!(why.contains(words), "{optimizer}: {why}");
    }
}

/// The layer brings q and k to their lengths before the heads see them; formulas that hold there only are right.
#[test]
fn steps_normalize_what_is_constrained() {
    for (energy, optimizer, constraint) in [
        ("log(0.1 + norm(q - k))", "gd", "norm(q) = rho, norm(k) = rho"),
        ("log(1 + norm(q - k)^2)", "newton(eps = 3)", "norm(q) = rho, norm(k) = 2 * rho"),
        ("exp(-norm(q - k))", "gd", "norm(k) = 0.1"),
        ("exp(-norm(q - k))", "momentum", "norm(q) = 0.1"),
    ] {
        let sections = format!("local c() {{ E = {energy} }} global lse(T = 1); optimizer {optimizer};");
        let report =
            verify(&recipe(&format!("recipe r {{ {sections} constrain {constraint}; }}")), &Options::default());
        assert!(report.line("step").is_some_and(|line| !line.failed()), "{energy}\n{report}");
    }
}

/// A Hessian of 0 with a shift is a system like any other.
#[test]
fn a_hessian_of_zero_passes() {
    for solve in ["exact", "taylor(2)"] {
        let text = format!(
            "recipe r {{ local dot; global g() {{ F = sum(E) }} optimizer newton(solve = {solve}, eps = 2); }}"
        );
        passes(&recipe(&text));
    }
}

/// Exponentials beyond f64 are no disagreement.
#[test]
fn steep_energies_pass() {
    for energy in ["-50 * dot(q, k)", "-dot(q, k)^3", "dot(q, k)^6", "norm(q - k)^6", "-200 * dot(q, k)"] {
        passes(&recipe(&format!("recipe r {{ local c() {{ E = {energy} }} {LSE} }}")));
    }
}

#[test]
fn a_kernel_that_is_off_in_a_few_digits_fails() {
    let case = Case::new(&stored("huber"), &Options::default()).expect("a plan");
    let lines = |factor: f64, name: &str| -> Vec<Line> {
        kernel::lines(&case, "a kernel", &|env, visible| {
            let mut values = case.planned::<f32>(env, visible);
            values.get_mut(name).expect("a value").iter_mut().for_each(|x| *x *= factor);
            vec![("", values)]
        })
    };
    assert!(lines(1.0, DIRECTION).iter().all(|line| matches!(line.outcome, Outcome::Pass { .. })));
    for (name, line) in [(DIRECTION, 0), (ENERGY, 1), ("k", 2), ("energy q", 3)] {
        let failed: Vec<&str> = lines(1.001, name).iter().filter(|line| line.failed()).map(|line| line.name).collect();
        assert_eq!(failed, [kernel::LINES[line]]);
    }
    assert!(lines(1.001, DIRECTION)[0].is_of_plan());
}
