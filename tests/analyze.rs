//! The analysis of energies: verdicts against what one finds by hand, the bound on a ball, and the printed reports.
//!
//! `INSTA_UPDATE=always cargo test --test analyze` rewrites the reports; read each change as a mathematician would.

use energyc::analyze::{Definite, Known, Report, Verdict, analyze, parts};
use energyc::check::{Recipe, inputs};
use energyc::ir::{Axis, Leaf, Role, Sign};
use energyc::simplify::Options;
use std::path::{Path, PathBuf};

use Verdict::*;

fn recipe(text: &str) -> Recipe {
    let (file, diagnostics) = energyc::syntax::parse(text);
    assert!(diagnostics.is_empty(), "{text}: {diagnostics:?}");
    let (recipe, diagnostics) = energyc::check::check(&file, energyc::prelude::load());
    recipe.unwrap_or_else(|| panic!("{text}: {diagnostics:?}"))
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

fn stored(path: &Path) -> Recipe {
    recipe(&std::fs::read_to_string(path).expect("a recipe can be read"))
}

fn shipped(name: &str) -> Recipe {
    stored(&folder("recipes").join(format!("{name}.recipe")))
}

/// The report of a recipe, in which numbers speak against nothing.
fn report(recipe: &Recipe) -> Report {
    let report = analyze(recipe, &Options::default());
    assert!(report.problems.is_empty(), "{}: {:#?}\n{}", recipe.name, report.problems, report.text());
    report
}

fn verdicts(recipe: &Recipe) -> (Verdict, Verdict) {
    let report = report(recipe);
    (report.verdict("F_h").expect("a verdict"), report.verdict("F_rho").expect("a verdict"))
}

/// F_h and F_ρ of every shipped recipe.
#[test]
fn shipped_recipes_have_the_shape_one_finds_by_hand() {
    let expected = [
        // −(T/2) Σ γ (q·k)²: minus squares of something affine.
        ("linear", Concave, Concave),
        ("gated_linear", Concave, Concave),
        ("retention", Concave, Concave),
        // −T·m(q·k/T) with a convex m of something affine.
        ("softmax", Concave, Concave),
        ("sparsemax", Concave, Concave),
        ("entmax15", Concave, Concave),
        ("normmax", Concave, Concave),
        // One token: ½‖q − k‖², convex; two tokens far apart: a ridge between them. With the norms put in, ρ² − q·k_i.
        ("euclidean", Neither, Concave),
        // The same with its norms put in by the recipe.
        ("qknorm", Concave, Concave),
        // Away from kinks a Hessian ⪯ 0, a valley at every token: neither.
        ("l1", Neither, Neither),
        // One token: convex; two far apart: a ridge.
        ("lp", Neither, Neither),
        // The same; with the norms put in the cases are x and δ√(2x) − δ²/2 of x = ρ² − q·k_i, concave with equal slopes.
        ("huber", Neither, Concave),
        // −T log(exp(c) + Σ exp(q·k/T)) and −T Σ softplus(b + q·k/T): minus convex functions of something affine.
        ("sink", Concave, Concave),
        ("sigmoid_attention", Concave, Concave),
        // −Σ [q·k]₊³/3: minus convex.
        ("dense_memory", Concave, Concave),
        // tanh bends both ways.
        ("softcap", Neither, Neither),
        // As `lp`: a valley at every token, a ridge between two.
        ("logcosh", Neither, Neither),
        // A bowl whose walls bend down far away; with the norms put in, the logarithm of something affine.
        ("cauchy", Neither, Concave),
        // The energies of the above; an optimizer changes nothing about them.
        ("momentum", Concave, Concave),
        ("nag", Concave, Concave),
        ("hopfield", Concave, Concave),
        ("loop_softmax", Concave, Concave),
        ("newton_light", Concave, Concave),
        ("newton_light_exact", Concave, Concave),
        ("newton", Neither, Concave),
        ("newton_taylor", Neither, Concave),
        ("newton_taylor2", Neither, Concave),
        ("huber_lse_nag", Neither, Concave),
    ];
    let files = std::fs::read_dir(folder("recipes")).expect("recipes").map(|e| e.expect("an entry").path());
    let names = files.filter(|p| p.extension().is_some_and(|e| e == "recipe")).count();
    assert_eq!(names, expected.len(), "every shipped recipe has a line");
    for (name, energy, on_ball) in expected {
        assert_eq!(verdicts(&shipped(name)), (energy, on_ball), "{name}");
    }
}

#[test]
fn energies_the_prelude_does_not_have_have_the_shape_one_finds_by_hand() {
    let expected = [
        // a‖q − k‖² − q·k with a > 0: as the squared distance.
        ("attract_and_align", Neither, Concave),
        // √(c² + (q·k)²) is a norm of (c, q·k).
        ("bounded_pull", Convex, Convex),
        // log(1 + r²/ν) bends up nearby and down beyond; with the norms put in, log of something affine.
        ("student", Neither, Concave),
        // −cos is no more curved one way than the other on the circle.
        ("cosine", Neither, Concave),
        ("two_temperatures", Neither, Concave),
    ];
    for (name, energy, on_ball) in expected {
        let path = folder("tests/ok").join(format!("{name}.recipe"));
        assert_eq!(verdicts(&stored(&path)), (energy, on_ball), "{name}");
    }
}

const SUM: &str = "global total() { F = sum(E) }";
const LSE: &str = "global lse(T = learn(1));";

/// The energy in a recipe, with a learned a > 0 if it has one.
fn of(energy: &str, global: &str) -> Recipe {
    let has_a = energy.split(|c: char| !c.is_alphanumeric()).any(|word| word == "a");
    let parameter = if has_a { "a = learn(0.5)" } else { "" };
    recipe(&format!("recipe r {{ local c({parameter}) {{ E = {energy} }} {global} optimizer gd; }}"))
}

/// Sums of E are as E is.
#[test]
fn sums_have_the_shape_of_their_terms() {
    for (energy, expected) in [
        ("a * dot(q, k)", Affine),
        ("a * norm(q - k)", Convex),
        ("a * norm(q - k)^4", Convex),
        ("a * norm(q - k)^1.5", Convex),
        ("-a * norm(q)^2", Concave),
        ("-a * norm(q - k)", Concave),
        // r^(1/2): a cusp at 0, flattening beyond.
        ("a * sqrt(norm(q - k))", Neither),
        ("a * log(1 + norm(q - k)^2)", Neither),
        ("a * exp(dot(q, k))", Convex),
        ("a * exp(-norm(q - k)^2)", Neither),
        ("a * softplus(dot(q, k))", Convex),
        ("a * tanh(dot(q, k))", Neither),
        ("a * dot(q, k)^3", Neither),
        ("a * dot(q, k)^4", Convex),
        ("a * dot(q, k) * norm(q)", Neither),
        ("a * norm(q)^2 * norm(k)^2", Convex),
        // The sign of −dot(k, k) + 1 depends on the token: neither for all tokens.
        ("a * norm(q)^2 * (1 - norm(k)^2)", Neither),
        ("a * max(dot(q, k), 0)", Convex),
        ("a * min(dot(q, k), norm(k))", Concave),
        ("a * max(norm(q - k), norm(q + k))", Convex),
        ("if dot(q, k) <= 0 { 0 } else { a * dot(q, k)^2 }", Convex),
        // s up to 1, then 1: a concave function of the distance, which is convex.
        ("a * min(norm(q - k), 1)", Neither),
        ("a * norm(q - k)^2 - norm(q)", Neither),
        ("a * sum(abs(q - k)^1.5)", Convex),
        ("a / norm(q - k)", Neither),
    ] {
        assert_eq!(verdicts(&of(energy, SUM)).0, expected, "{energy}");
    }
}

/// −T log Σ exp(−E/T): concave E stay concave, any other have a valley at each token and ridges between.
#[test]
fn free_energies_are_concave_where_their_terms_are() {
    for (energy, expected) in [
        ("a * norm(q - k)", Neither),
        ("a * norm(q - k)^4", Neither),
        ("-a * norm(q)^2", Concave),
        ("-a * norm(q - k)^2", Concave),
        ("log(1 + norm(q - k)^2)", Neither),
        // The same for every token: a‖q‖² and a constant.
        ("a * norm(q)^2", Convex),
    ] {
        assert_eq!(verdicts(&of(energy, LSE)).0, expected, "{energy}");
    }
}

#[test]
fn other_globals_are_analyzed() {
    for (global, expected) in [
        ("global g(T = learn(1)) { F = T * log(sum(exp(E / T))) }", Convex),
        ("global g() { F = sum(E)^2 }", Convex),
        ("global g() { F = log(1 + sum(E)) }", Neither),
        ("global g() { F = -sum(E) }", Concave),
        ("global tsallis(alpha = 2, T = learn(1));", Neither),
        ("global norm_entropy(gamma = 3, T = learn(1));", Neither),
        ("global g(T = 1, gamma = decay(sigmoid)) where T > 0 { F = -T * log(sum(gamma * exp(-E / T))) }", Neither),
    ] {
        assert_eq!(verdicts(&of("a * norm(q - k)^2", global)).0, expected, "{global}");
    }
}

/// Steep, constrained, kinked, unbounded: whatever the checker lets through has a report without problems.
#[test]
fn awkward_energies_have_reports() {
    for energy in [
        "-50 * dot(q, k)",
        "dot(q, k)^6",
        "norm(q - k)^6",
        "1 / norm(q - k)",
        "-dot(q, k) / (norm(q) * norm(k))",
        "if norm(q) <= norm(k) { dot(q, k) } else { -dot(q, k) }",
        "sum(exp(q) * k)",
        "norm(q) * norm(k) + a",
        "abs(abs(dot(q, k)) - 1)",
        "tanh(a * dot(q, k)) * norm(q - k)",
    ] {
        report(&of(energy, LSE));
        report(&of(energy, SUM));
    }
    for constraint in ["norm(q) = rho", "norm(k) = 2 * rho", "norm(q) = sqrt(d_h), norm(k) = rho"] {
        for energy in ["norm(q - k)", "norm(q - k)^2", "dot(q, k) / norm(q)"] {
            let text =
                format!("recipe r {{ local c() {{ E = {energy} }} {LSE} optimizer gd; constrain {constraint}; }}");
            report(&recipe(&text));
        }
    }
}

/// The names a reader has given are never taken.
#[test]
fn parameters_may_have_any_name() {
    for name in ["A", "B", "g", "m", "p", "u", "c", "rho"] {
        let text = format!(
            "recipe r {{ local x({name} = 2) where {name} > 0 {{ E = if norm(q - k) <= {name} {{ norm(q - k)^2 / 2 }} \
             else {{ {name} * (norm(q - k) - {name} / 2) }} }} {LSE} optimizer gd; }}"
        );
        assert_eq!(verdicts(&recipe(&text)).0, Neither, "{name}");
    }
}

fn signs(recipe: &Recipe) -> Vec<Definite> {
    let probe = Leaf::new(Role::Probe, 0, "u", &[Axis::T, Axis::E], Sign::Unknown);
    parts(&recipe.energy, &inputs::q(), &probe, &Known::of(recipe)).iter().map(|part| part.sign).collect()
}

#[test]
fn parts_have_the_signs_one_finds_by_hand() {
    // I and minus a covariance.
    assert_eq!(signs(&shipped("euclidean")), [Definite::Positive, Definite::Negative]);
    assert_eq!(signs(&shipped("softmax")), [Definite::Negative]);
    assert_eq!(signs(&shipped("huber")), [Definite::Positive, Definite::Negative]);
    // Only the kinks are convex.
    assert_eq!(signs(&shipped("l1")), [Definite::Negative]);
    // A norm is one part, though its curvature is a difference.
    assert_eq!(signs(&of("a * norm(q - k)", SUM)), [Definite::Positive]);
    assert_eq!(signs(&of("dot(q, k)", SUM)), []);
    // d‖q‖ times d(q·k).
    assert!(signs(&of("norm(q) * dot(q, k)", SUM)).contains(&Definite::Unknown));
}

#[test]
fn the_bound_on_the_ball_is_told() {
    let says = |recipe: &Recipe, words: &str| {
        let text = report(recipe).text();
        let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(text.contains(words), "{words}\n{text}");
    };
    says(&shipped("euclidean"), "F_ρ = ρ² − T log Σ_i exp(q·k_i/T)");
    says(&shipped("euclidean"), "F_h ≤ F_ρ where ‖q‖ ≤ ρ and ‖k_i‖ ≤ ρ: so on 1400 draws");
    says(&shipped("softmax"), "so F_ρ = F_h");
    says(&shipped("qknorm"), "F' ≤ F_ρ where");
    // Norms that lower the energy.
    says(&of("-a * norm(q - k)^2", SUM), "F_h ≤ F_ρ does not hold for all ‖q‖ ≤ ρ and ‖k_i‖ ≤ ρ");
}

#[test]
fn stationary_points_are_solved_for_q_where_it_stands_alone() {
    let says = |recipe: &Recipe, words: &str| {
        let text = report(recipe).text();
        assert!(text.contains(words), "{words}\n{text}");
    };
    says(&shipped("euclidean"), "    q = Σ_i p_i k_i\n");
    says(&shipped("euclidean"), "    z = Σ_i p_i (W₂ h_i)\n");
    says(&shipped("huber"), "    q = (1/(Σ_i p_i c_i)) Σ_i p_i c_i k_i\n");
    says(&shipped("softmax"), "    Σ_i p_i k_i = 0\n");
    says(&shipped("l1"), "    Σ_i p_i sign(q − k_i) = 0\n");
    says(&shipped("softmax"), "    Σ_h W₁ᵀ (∇_q F_h) = 0\n");
}

#[test]
fn json_has_the_verdicts_and_every_section() {
    let json = report(&shipped("euclidean")).json();
    assert_eq!(json["verdicts"]["F_h"], "neither");
    assert_eq!(json["verdicts"]["F_rho"], "concave");
    for section in ["energy", "hessian", "curvature", "stationary", "ball"] {
        assert!(json["sections"][section].as_array().is_some_and(|lines| !lines.is_empty()), "{section}");
    }
    assert_eq!(json["sections"]["ball"][1]["left"]["latex"], r"F_{\rho}");
}

#[test]
fn reports_read_as_recorded() {
    let mut settings = insta::Settings::clone_current();
    settings.set_snapshot_path("../tests/golden/analyze");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.bind(|| {
        for name in ["euclidean", "softmax", "huber", "l1", "entmax15", "newton", "newton_taylor2", "newton_light"] {
            insta::assert_snapshot!(name, report(&shipped(name)).text());
        }
    });
}

/// The verdict, and whether kinks are listed.
fn seen(sections: &str) -> (Verdict, bool) {
    let recipe = recipe(&format!("recipe r {{ {sections} global s() {{ F = sum(E) }} optimizer gd; }}"));
    let report = analyze(&recipe, &Options::default());
    assert!(report.problems.is_empty(), "{sections}\n{}", report.text());
    (report.verdict("F_h").expect("a verdict"), report.text().contains("Kinks:"))
}

/// A parameter that is fixed has the value the recipe gives it, and no other.
#[test]
fn fixed_parameters_have_their_values() {
    let net =
        |head: &str| seen(&format!("local net({head}) {{ E = a * sum(abs(q - k)) + (1 - a) * norm(q - k)^2 / 2 }}"));
    assert_eq!(net("a = 0.5"), (Convex, true));
    assert_ne!(net("a = 1.39").0, Convex);
    assert_ne!(net("a = learn(0.5)").0, Convex);
    assert_eq!(seen("local s(a = 3) { E = (a - 1) * norm(q - k)^2 }"), (Convex, false));
    assert_eq!(seen("local s(a = 0.5) { E = (a - 1) * norm(q - k)^2 }"), (Concave, false));
    assert_eq!(seen("local s(a = sqrt(d_h)) { E = -a * norm(q - k)^2 }"), (Concave, false));
}

/// What is learned stays where the ingredient's conditions put it.
#[test]
fn learned_parameters_stay_in_their_domain() {
    let (verdict, _) = seen(
        "local net(a = learn(0.5)) where a >= 0, a <= 1 { E = a * sum(abs(q - k)) + (1 - a) * norm(q - k)^2 / 2 }",
    );
    assert_eq!(verdict, Convex);
}

#[test]
fn signs_follow_from_cases() {
    assert_eq!(seen("local s() { E = max(dot(q, k), 0)^2 }").0, Convex);
    assert_eq!(seen("local s() { E = max(norm(q - k) - 1, 0)^3 }").0, Convex);
    assert_eq!(seen("local s() { E = -max(dot(q, k), 0) }").0, Concave);
}

#[test]
fn kinks_nobody_can_reach_are_not_listed() {
    for energy in [
        "if norm(q - k)^2 >= -1 { norm(q - k)^2 } else { 0 }",
        "if 1 + norm(q - k)^2 <= 0.5 { 0 } else { norm(q - k)^2 }",
        "sqrt(1 + norm(q - k)^2)",
    ] {
        assert!(!seen(&format!("local s() {{ E = {energy} }}")).1, "{energy}");
    }
    assert!(!seen("local s(a = 0.5) { E = abs(a - 1 - norm(q - k)^2) }").1);
    assert!(seen("local s(a = 1.5) { E = abs(a - 1 - norm(q - k)^2) }").1);
    assert!(seen("local s() { E = abs(dot(q, k)) }").1);
}

/// Where a part of the Hessian is 0, or all of it.
#[test]
fn systems_without_curvature_are_analyzed() {
    for sections in [
        "local n() { E = norm(q - k) } global gated_square_sum; optimizer newton(solve = taylor(1), eps = 3);",
        "local dot; global g() { F = sum(E) } optimizer newton(eps = 1);",
        "local dot; global g() { F = sum(E) } optimizer newton(solve = taylor(2), eps = 1);",
    ] {
        let report = analyze(&recipe(&format!("recipe r {{ {sections} }}")), &Options::default());
        assert!(report.problems.is_empty(), "{}", report.text());
    }
}
