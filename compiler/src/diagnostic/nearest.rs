//! The closest known name to a misspelt one, for "did you mean" hints.

/// The candidate nearest to `name`, if any is near enough to be a likely slip of the fingers.
///
/// A third of the letters may differ (at least one); ties go to the alphabetically first candidate,
/// so the hint does not depend on the order in which names are listed.
pub fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // The distance costs the product of the lengths, and no known name is that long.
    if name.chars().count() > 64 {
        return None;
    }
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .filter(|candidate| *candidate != name && !candidate.is_empty())
        .map(|candidate| (distance(name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.chars().count())
        .min()
        .map(|(_, candidate)| candidate)
}

/// Letters that differ, a swap of neighbours counting once and case not at all.
fn distance(a: &str, b: &str) -> usize {
    strsim::damerau_levenshtein(&a.to_lowercase(), &b.to_lowercase())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, candidates: &[&str], expect: Option<&str>) {
        assert_eq!(nearest(name, candidates.iter().copied()), expect);
    }

    #[test]
    fn finds_slips_and_nothing_else() {
        check("hubber", &["huber", "lse", "power"], Some("huber"));
        check("Huber", &["huber"], Some("huber"));
        check("lsse", &["huber", "lse"], Some("lse"));
        check("quadratic", &["huber", "lse"], None);
        check("x", &["y", "z"], None);
        check("", &["a"], None);
        check("huber", &[], None);
    }

    #[test]
    fn ties_are_alphabetical() {
        check("bat", &["rat", "cat"], Some("cat"));
        check("bat", &["cat", "rat"], Some("cat"));
    }
}
