//! Convex, concave, neither or not known: what is proven first, then what is seen.

use super::curvature::Curvature;
use super::numbers::{Evidence, Seen};
use super::parts::{Definite, Part};

/// What an energy is as a function of q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Convex and concave.
    Affine,
    Convex,
    Concave,
    /// With witnesses.
    Neither,
    Unknown,
}

impl Verdict {
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Affine => "affine",
            Verdict::Convex => "convex",
            Verdict::Concave => "concave",
            Verdict::Neither => "neither",
            Verdict::Unknown => "unknown",
        }
    }
    pub fn is_concave(self) -> bool {
        matches!(self, Verdict::Affine | Verdict::Concave)
    }
}

/// What is proven: by composition, or where there is a Hessian everywhere by the signs of all its parts.
pub fn proven(composed: Curvature, parts: &[Part], has_kinks: bool) -> Curvature {
    let all = |sign| !has_kinks && parts.iter().all(|part| part.sign == sign);
    match composed {
        Curvature::Unknown if all(Definite::Positive) => Curvature::Convex,
        Curvature::Unknown if all(Definite::Negative) => Curvature::Concave,
        composed => composed,
    }
}

/// Two witnesses against both, of one setting where there is such a one.
pub fn witnesses(seen: &Seen) -> Option<(&Evidence, &Evidence)> {
    let both = |at_start: bool, smooth: bool| {
        let mut settings = seen.evidence.iter().filter(|e| e.setting.at_start == at_start);
        settings.find(|e| if smooth { e.shows_both_by_eigenvalues() } else { e.shows_both() }).map(|one| (one, one))
    };
    let one = || [(true, true), (true, false), (false, true), (false, false)].into_iter().find_map(|(s, e)| both(s, e));
    let not_convex = || seen.evidence.iter().find(|e| e.not_convex.is_some());
    let not_concave = || seen.evidence.iter().find(|e| e.not_concave.is_some());
    one().or_else(|| Some((not_convex()?, not_concave()?)))
}

/// The verdict.
pub fn verdict(proven: Curvature, seen: &Seen) -> Verdict {
    match proven {
        Curvature::Constant | Curvature::Affine => Verdict::Affine,
        Curvature::Convex => Verdict::Convex,
        Curvature::Concave => Verdict::Concave,
        Curvature::Unknown if witnesses(seen).is_some() => Verdict::Neither,
        Curvature::Unknown => Verdict::Unknown,
    }
}
