//! The claims about second derivatives, in numbers: eigenvalues on random inputs.
//!
//! At every draw the parts must be semidefinite as claimed and must sum to the Hessian, the Hessian must be the slope of
//! the gradient nobody has simplified, and nothing seen may speak against what composition has proven, be it an
//! eigenvalue or a chord (F between two points against the mean of its values there, which kinks do not disturb). What
//! is seen besides is kept as a witness: an eigenvalue clearly below 0 or a chord below F says "not convex".

use super::curvature::Curvature;
use super::draws::{self, Setting};
use super::parts::{Definite, Part, times_probe};
use crate::calculus;
use crate::check::inputs;
use crate::check::recipe::Recipe;
use crate::derive::Kink;
use crate::ir::eval::{Env, Sizes, effort, evaluate, evaluate_all};
use crate::ir::tensor::Tensor;
use crate::ir::{Axis, Expr, Leaf};
use crate::verify::samples::near;
use crate::verify::{slopes, steady};
use nalgebra::DMatrix;

/// Rounding, relative to the size of what was added up.
const ROUNDING: f64 = 1e-8;
/// Finite differences are this good, relative to 1 + the size of the entries.
const SLOPES: f64 = 1e-5;
/// What is called clearly positive or negative, relative to the size of the parts.
const CLEARLY: f64 = 1e-5;

/// Numbers that one evaluation may keep; settings that take more are left out.
const AT_ONCE: usize = 20_000_000;

/// What is claimed: all terms with their names opened.
#[derive(Clone, Debug)]
pub struct Claims {
    /// F as the recipe gives it.
    pub energy: Expr,
    /// The Hessian times the probe.
    pub product: Expr,
    pub parts: Vec<Part>,
    pub probe: Leaf,
    pub curvature: Curvature,
    /// Where there is no Hessian to look at.
    pub kinks: Vec<Kink>,
}

/// A place at which F is seen not to be convex, or not concave.
#[derive(Clone, Debug, PartialEq)]
pub enum Witness {
    Eigenvalue {
        value: f64,
        place: Vec<f64>,
    },
    /// F in the middle of two points less the mean of its values there.
    Chord {
        rise: f64,
        ends: [Vec<f64>; 2],
    },
}

/// A setting with what was seen in it.
#[derive(Clone, Debug)]
pub struct Evidence {
    pub setting: Setting,
    pub not_convex: Option<Witness>,
    pub not_concave: Option<Witness>,
}

/// What all draws together came to.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Draws whose Hessian was looked at, and those of them compared with finite differences.
    pub draws: usize,
    pub compared: usize,
    pub chords: usize,
    /// The smallest and the largest eigenvalue.
    pub range: Option<(f64, f64)>,
    pub evidence: Vec<Evidence>,
    pub problems: Vec<String>,
}

/// Matrices at one draw.
#[derive(Clone, Debug)]
pub struct Matrices {
    pub hessian: DMatrix<f64>,
    pub parts: Vec<DMatrix<f64>>,
    /// Finite differences of the gradient, where they can be trusted.
    pub slopes: Option<DMatrix<f64>>,
}

/// Looks at every draw, as far as the settings' work goes.
pub fn look(claims: &Claims, recipe: &Recipe, settings: &[Setting]) -> Seen {
    let mut seen = Seen::default();
    let gradient = calculus::gradient(&claims.energy, &inputs::q());
    let products: Vec<Expr> = std::iter::once(claims.product.clone())
        .chain(claims.parts.iter().map(|part| times_probe(&part.form, &claims.probe)))
        .collect();
    let fits = |setting: &&Setting| {
        let sizes = Sizes { queries: setting.env.sizes.head, ..setting.env.sizes };
        effort(products.iter().cloned(), sizes).kept <= AT_ONCE
    };
    for setting in settings.iter().take_while(|setting| !setting.env.work.is_spent()).filter(fits) {
        let mut evidence = Evidence { setting: setting.clone(), not_convex: None, not_concave: None };
        let mut problems = Vec::new();
        for place in setting.places.iter().take_while(|_| !setting.env.work.is_spent()) {
            let env = draws::at(&setting.env, place);
            let of_place = |problem: String| format!("{problem}, at q = {}", draws::vector(place));
            match matrices(&products, &gradient, claims, &env) {
                Err(problem) => problems.push(of_place(problem)),
                Ok(None) => {}
                Ok(Some(found)) => match judge(&found, &claims.parts, claims.curvature, 0.0) {
                    Err(problem) => {
                        let rounding = rounding(&products, &claims.probe, &env).unwrap_or(0.0);
                        if judge(&found, &claims.parts, claims.curvature, rounding).is_err() {
                            problems.push(of_place(problem));
                        }
                    }
                    Ok(spectrum) => {
                        seen.draws += 1;
                        seen.compared += usize::from(found.slopes.is_some());
                        seen.widen(spectrum.lowest, spectrum.highest);
                        if found.slopes.is_some() {
                            evidence.add_eigenvalues(&spectrum, place);
                        }
                    }
                },
            }
        }
        match chords(&claims.energy, setting) {
            Err(problem) => problems.push(problem),
            Ok(chords) => {
                seen.chords += chords.len();
                for (witness, size) in chords {
                    problems.extend(against(&witness, size, claims.curvature));
                    evidence.add_chord(witness, size);
                }
            }
        }
        let place = || format!("{} ({})", draws::describe(&setting.env, recipe), describe_draw(setting));
        seen.problems.extend(problems.into_iter().map(|problem| format!("{problem}; {}", place())));
        seen.evidence.push(evidence);
    }
    seen
}

fn describe_draw(setting: &Setting) -> String {
    let sizes = setting.env.sizes;
    format!("N = {}, d_h = {}, seed {}", sizes.tokens, sizes.head, setting.seed)
}

/// Every matrix of a draw; nothing where a kink is near or a value is too large for f64.
fn matrices(products: &[Expr], gradient: &Expr, claims: &Claims, env: &Env) -> Result<Option<Matrices>, String> {
    if claims.kinks.iter().any(|kink| near(kink, env)) {
        return Ok(None);
    }
    let wide = draws::columns(env, &claims.probe);
    let matrix = |x: &Tensor| {
        let width = wide.sizes.head;
        DMatrix::from_column_slice(width, width, &slopes::along(x, &[Axis::T, Axis::E], &wide).data)
    };
    let mut all: Vec<DMatrix<f64>> = evaluate_all(products, &wide)?.iter().map(matrix).collect();
    if all.iter().any(|m| m.iter().any(|x| !x.is_finite())) {
        return Ok(None);
    }
    let slopes = slopes::directional(gradient, &inputs::q(), &claims.probe, &wide)?.map(|x| matrix(&x));
    let slopes = slopes.filter(|m| m.iter().all(|x| x.is_finite()));
    let hessian = all.remove(0);
    Ok(Some(Matrices { hessian, parts: all, slopes }))
}

/// The eigenvalues of a Hessian, and how large what it was added up from is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spectrum {
    pub lowest: f64,
    pub highest: f64,
    pub size: f64,
}

/// How far rounding may move the entries of the matrices.
fn rounding(products: &[Expr], probe: &Leaf, env: &Env) -> Result<f64, String> {
    let entries = |env: &Env| {
        let all = evaluate_all(products, &draws::columns(env, probe))?;
        Ok(all.into_iter().flat_map(|x| x.data).collect())
    };
    steady::movement(env, entries, |a, b| (a - b).abs())
}

/// Holds the matrices of a draw, each entry known to some accuracy, against what is claimed of them.
pub fn judge(found: &Matrices, parts: &[Part], curvature: Curvature, accuracy: f64) -> Result<Spectrum, String> {
    let size = found.parts.iter().map(DMatrix::amax).fold(found.hessian.amax(), f64::max);
    let rounding = ROUNDING * (1.0 + size) + accuracy;
    let sum = found.parts.iter().fold(DMatrix::zeros(found.hessian.nrows(), found.hessian.ncols()), |s, m| s + m);
    let gap = (&sum - &found.hessian).amax();
    if gap > rounding {
        return Err(format!("the parts sum to something else than the Hessian: they differ by {gap:.1e}"));
    }
    for (number, (part, matrix)) in parts.iter().zip(&found.parts).enumerate() {
        let (lowest, highest) = eigenvalues(matrix);
        let wrong = match part.sign {
            Definite::Positive if lowest < -rounding => Some(("⪰ 0", lowest)),
            Definite::Negative if highest > rounding => Some(("⪯ 0", highest)),
            _ => None,
        };
        if let Some((claim, value)) = wrong {
            return Err(format!("part {} is not {claim}: it has the eigenvalue {value:.3e}", number + 1));
        }
    }
    if let Some(slopes) = &found.slopes {
        let gap = (slopes - &found.hessian).amax();
        if gap > SLOPES * (1.0 + size) + accuracy {
            return Err(format!("the Hessian is not the slope of the gradient: they differ by {gap:.1e}"));
        }
    }
    let (lowest, highest) = eigenvalues(&found.hessian);
    if curvature.is_convex() && lowest < -rounding {
        return Err(format!("the Hessian of a convex energy has the eigenvalue {lowest:.3e}"));
    }
    if curvature.is_concave() && highest > rounding {
        return Err(format!("the Hessian of a concave energy has the eigenvalue {highest:.3e}"));
    }
    Ok(Spectrum { lowest, highest, size })
}

/// The smallest and largest eigenvalue of the symmetric part.
fn eigenvalues(m: &DMatrix<f64>) -> (f64, f64) {
    let symmetric = (m + m.transpose()) * 0.5;
    let values = symmetric.symmetric_eigenvalues();
    (values.min(), values.max())
}

/// F in the middle of every two places less the mean of its values there, with the size of these values.
fn chords(energy: &Expr, setting: &Setting) -> Result<Vec<(Witness, f64)>, String> {
    let value = |q: &[f64]| -> Result<f64, String> {
        let value = evaluate(energy, &draws::at(&setting.env, q))?;
        Ok(value.data.first().copied().unwrap_or(f64::NAN))
    };
    let mut all = Vec::new();
    for (i, a) in setting.places.iter().enumerate() {
        for b in &setting.places[i + 1..] {
            let middle: Vec<f64> = a.iter().zip(b).map(|(a, b)| 0.5 * (a + b)).collect();
            let (at_a, at_b, between) = (value(a)?, value(b)?, value(&middle)?);
            let rise = between - 0.5 * (at_a + at_b);
            if rise.is_finite() {
                let size = at_a.abs().max(at_b.abs()).max(between.abs());
                all.push((Witness::Chord { rise, ends: [a.clone(), b.clone()] }, size));
            }
        }
    }
    Ok(all)
}

/// What a chord says against what is proven.
fn against(witness: &Witness, size: f64, curvature: Curvature) -> Option<String> {
    let Witness::Chord { rise, ends: [a, b] } = witness else { return None };
    let rounding = ROUNDING * (1.0 + size);
    let between = || format!("between q = {} and q = {}", draws::vector(a), draws::vector(b));
    if curvature.is_convex() && *rise > rounding {
        return Some(format!("a convex energy rises above its chord by {rise:.3e} {}", between()));
    }
    if curvature.is_concave() && *rise < -rounding {
        return Some(format!("a concave energy falls below its chord by {:.3e} {}", -rise, between()));
    }
    None
}

impl Seen {
    fn widen(&mut self, lowest: f64, highest: f64) {
        let (low, high) = self.range.unwrap_or((lowest, highest));
        self.range = Some((low.min(lowest), high.max(highest)));
    }
}

impl Evidence {
    fn add_eigenvalues(&mut self, spectrum: &Spectrum, place: &[f64]) {
        let clear = CLEARLY * (1.0 + spectrum.size);
        let witness = |value| Witness::Eigenvalue { value, place: place.to_vec() };
        let better = |old: &Option<Witness>, value: f64| match old {
            Some(Witness::Eigenvalue { value: old, .. }) => value.abs() > old.abs(),
            _ => true,
        };
        if spectrum.lowest < -clear && better(&self.not_convex, spectrum.lowest) {
            self.not_convex = Some(witness(spectrum.lowest));
        }
        if spectrum.highest > clear && better(&self.not_concave, spectrum.highest) {
            self.not_concave = Some(witness(spectrum.highest));
        }
    }

    /// Chords count where no eigenvalue says it already.
    fn add_chord(&mut self, witness: Witness, size: f64) {
        let Witness::Chord { rise, .. } = &witness else { return };
        let clear = CLEARLY * (1.0 + size);
        if *rise > clear && self.not_convex.is_none() {
            self.not_convex = Some(witness);
        } else if *rise < -clear && self.not_concave.is_none() {
            self.not_concave = Some(witness);
        }
    }

    pub fn shows_both_by_eigenvalues(&self) -> bool {
        let smooth = |w: &Option<Witness>| matches!(w, Some(Witness::Eigenvalue { .. }));
        smooth(&self.not_convex) && smooth(&self.not_concave)
    }

    pub fn shows_both(&self) -> bool {
        self.not_convex.is_some() && self.not_concave.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::parts::Reason;

    fn claim(sign: Definite) -> Part {
        Part { sign, reason: Reason::Squares, form: Expr::zero(), scatter: None }
    }

    fn diagonal(entries: &[f64]) -> DMatrix<f64> {
        DMatrix::from_diagonal(&nalgebra::DVector::from_row_slice(entries))
    }

    /// I − diag(0, 3): one part ⪰ 0, one ⪯ 0.
    fn found() -> Matrices {
        let parts = vec![diagonal(&[1.0, 1.0]), diagonal(&[0.0, -3.0])];
        Matrices { hessian: diagonal(&[1.0, -2.0]), parts, slopes: Some(diagonal(&[1.0, -2.0])) }
    }

    #[test]
    fn true_claims_pass() {
        let parts = [claim(Definite::Positive), claim(Definite::Negative)];
        let spectrum = judge(&found(), &parts, Curvature::Unknown, 0.0).expect("all claims are true");
        assert_eq!((spectrum.lowest, spectrum.highest), (-2.0, 1.0));
    }

    #[test]
    fn every_wrong_claim_is_caught() {
        let right = [claim(Definite::Positive), claim(Definite::Negative)];
        let refused = |found: Matrices, parts: &[Part], curvature, words: &str| {
            let problem = judge(&found, parts, curvature, 0.0).expect_err(words);
            assert!(problem.contains(words), "{problem}");
        };
        let wrong = [claim(Definite::Positive), claim(Definite::Positive)];
        refused(found(), &wrong, Curvature::Unknown, "part 2 is not ⪰ 0: it has the eigenvalue -3.000e0");
        let wrong = [claim(Definite::Negative), claim(Definite::Negative)];
        refused(found(), &wrong, Curvature::Unknown, "part 1 is not ⪯ 0");
        refused(found(), &right, Curvature::Convex, "convex energy has the eigenvalue -2");
        refused(found(), &right, Curvature::Concave, "concave energy has the eigenvalue 1");
        let missing = Matrices { parts: vec![diagonal(&[1.0, 1.0])], ..found() };
        refused(missing, &right[..1], Curvature::Unknown, "sum to something else");
        let elsewhere = Matrices { slopes: Some(diagonal(&[1.0, -2.1])), ..found() };
        refused(elsewhere, &right, Curvature::Unknown, "not the slope");
    }

    #[test]
    fn chords_speak_against_wrong_curvatures() {
        let chord = |rise| Witness::Chord { rise, ends: [vec![0.0], vec![1.0]] };
        assert!(against(&chord(0.1), 1.0, Curvature::Convex).is_some());
        assert!(against(&chord(-0.1), 1.0, Curvature::Convex).is_none());
        assert!(against(&chord(-0.1), 1.0, Curvature::Concave).is_some());
        assert!(against(&chord(-0.1), 1.0, Curvature::Affine).is_some());
        assert!(against(&chord(1e-12), 1.0, Curvature::Affine).is_none());
    }
}
