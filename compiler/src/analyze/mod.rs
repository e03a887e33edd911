//! Analysis: what shape an energy has, where it can be smallest, and what bounds it.
//!
//! ```text
//! F_h ──compose──▶ curvature      convex, concave, affine: proven for values, kinks included
//!     └─compose──▶ parts          ∇²F_h as a sum of matrices ⪰ 0, ⪯ 0 or of unknown sign, with reasons
//!                    └─ numbers   eigenvalues on random inputs: every claim, and witnesses where nothing is proven
//! ∇F_h = 0 ──▶ q = R/c            stationary points
//! F_h with ‖q‖ = ‖k_i‖ = ρ ──▶ F_ρ   the bound on a ball, tried on draws, and analyzed like F_h
//! A = a∇²F_h + b ──▶ numbers      for a second-order step: eigenvalues, the radius of its series and its error
//! ```
//! Nothing is trusted that numbers can speak against: a disagreement is a problem of the report.

mod ball;
mod curvature;
mod draws;
mod known;
mod lines;
mod matrix;
mod numbers;
mod parts;
mod report;
mod scatter;
mod stationary;
mod subject;
mod system;
mod verdict;

pub use curvature::{Curvature, curvature};
pub use known::Known;
pub use parts::{Definite, Part, Reason, parts};
pub use report::{Report, Section};
pub use verdict::Verdict;

use crate::check::{Method, Recipe};
use crate::derive::{derive, options_for};
use crate::emit::document::{Defined, Line};
use crate::simplify::Options;
use crate::verify::stable;
use ball::Bound;
use draws::Ball;
use subject::Subject;

/// Problems beyond these are more of the same.
const MOST_PROBLEMS: usize = 5;

/// Analyzes the energy of a recipe.
pub fn analyze(recipe: &Recipe, options: &Options) -> Report {
    let (on_sphere, ball) = ball::on_the_sphere(recipe);
    // A recipe that holds its vectors at a length is looked at inside that length.
    let within = (!recipe.constraints.is_empty()).then_some(&ball);
    let subject = Subject::of(derive(recipe, options), within, options);
    let name = lines::head();
    let mut defined = Defined::default();
    let assuming = options_for(recipe, options);
    let mut sections = vec![
        section("energy", "Energy", lines::energy(&subject)),
        section("hessian", "Hessian", lines::hessian(&subject, &name, &assuming, &mut defined)),
        section("curvature", "Curvature", lines::curvature(&subject, &name)),
        section("stationary", "Stationary points", stationary::lines(&subject, &assuming, &mut defined)),
    ];
    let bound = bound(&on_sphere, &ball, recipe, &subject, options);
    sections.push(section("ball", "On a ball", bound.lines));
    let solved = recipe.program.preconditioner.as_ref().zip(subject.derivation.preconditioned.as_ref());
    if let Some((how, done)) = solved {
        let title = if how.method == Method::Exact { "The system" } else { "The series" };
        sections.push(section("system", title, system::lines(&subject.derivation, done, how)));
    }
    let problems = subject.seen.problems.iter().chain(&bound.problems).take(MOST_PROBLEMS).cloned().collect();
    let verdicts = vec![("F_h", subject.verdict()), ("F_rho", bound.verdict)];
    Report { title: recipe.name.clone(), verdicts, sections, problems }
}

fn section(name: &'static str, title: &str, lines: Vec<Line>) -> Section {
    Section { name, title: title.to_string(), lines }
}

/// What there is to say about F_ρ.
struct Bounded {
    lines: Vec<Line>,
    verdict: Verdict,
    problems: Vec<String>,
}

/// F_ρ: what it is, whether it bounds F_h, and its own shape.
fn bound(on_sphere: &Recipe, ball: &Ball, recipe: &Recipe, subject: &Subject, options: &Options) -> Bounded {
    let derived = derive(on_sphere, options);
    let bound = derived.energy.term.clone();
    let has_norms = bound != subject.derivation.energy.term;
    let minima = |name: &_, subject: &Subject| lines::minima(name, &ball.query, subject);
    if !has_norms && recipe.constraints.is_empty() {
        let lines = lines::no_norms().into_iter().chain(minima(&lines::head(), subject)).collect();
        return Bounded { lines, verdict: subject.verdict(), problems: vec![] };
    }
    let found: Bound = ball::try_bound(&stable(&recipe.energy), &bound, ball, on_sphere);
    let mut lines = lines::bound(&derived, ball, recipe, &found);
    if !has_norms {
        // The recipe's own constraints have made F_h what F_ρ is.
        lines.extend(minima(&lines::head(), subject));
        return Bounded { lines, verdict: subject.verdict(), problems: vec![] };
    }
    let name = lines::on_ball();
    let bounded = Subject::of(derived, Some(ball), options);
    let assuming = options_for(on_sphere, options);
    lines.extend(lines::hessian(&bounded, &name, &assuming, &mut Defined::default()));
    lines.extend(lines::curvature(&bounded, &name));
    lines.extend(minima(&lines::head(), subject));
    lines.extend(minima(&name, &bounded));
    Bounded { lines, verdict: bounded.verdict(), problems: bounded.seen.problems }
}
