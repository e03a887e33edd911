//! Letters: how a name of the language is written in Unicode and in LaTeX.

use super::math::OMITTED;

/// Greek names a recipe may use, and letters with a mark.
const GREEK: [(&str, &str, &str); 25] = [
    ("alpha", "α", r"\alpha"),
    ("beta", "β", r"\beta"),
    ("gamma", "γ", r"\gamma"),
    ("delta", "δ", r"\delta"),
    ("epsilon", "ε", r"\varepsilon"),
    ("eps", "ε", r"\varepsilon"),
    ("zeta", "ζ", r"\zeta"),
    ("eta", "η", r"\eta"),
    ("theta", "θ", r"\theta"),
    ("kappa", "κ", r"\kappa"),
    ("lambda", "λ", r"\lambda"),
    ("mu", "μ", r"\mu"),
    ("nu", "ν", r"\nu"),
    ("xi", "ξ", r"\xi"),
    ("pi", "π", r"\pi"),
    ("rho", "ρ", r"\rho"),
    ("sigma", "σ", r"\sigma"),
    ("tau", "τ", r"\tau"),
    ("phi", "φ", r"\varphi"),
    ("chi", "χ", r"\chi"),
    ("psi", "ψ", r"\psi"),
    ("omega", "ω", r"\omega"),
    ("Delta", "Δ", r"\Delta"),
    ("Lambda", "Λ", r"\Lambda"),
    ("Ftilde", "F̃", r"\tilde{F}"),
];

/// The base letter and the subscript that is part of the name (`d_h`, `W1`), split.
fn split(name: &str) -> (&str, &str) {
    if let Some((base, sub)) = name.split_once('_') {
        return (base, sub);
    }
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    name.split_at(name.len() - digits)
}

fn lookup(base: &str) -> Option<&'static (&'static str, &'static str, &'static str)> {
    GREEK.iter().find(|(name, letter, _)| *name == base || *letter == base)
}

/// The name in Unicode, with its own subscript as the first index.
pub fn unicode(name: &str) -> (String, Option<String>) {
    let (mark, rest) = strip_partial(name);
    let (base, sub) = split(rest);
    let letter = lookup(base).map_or(base, |(_, unicode, _)| unicode);
    (format!("{mark}{letter}"), (!sub.is_empty()).then(|| sub.to_string()))
}

/// The name in LaTeX, with its own subscript as the first index.
pub fn latex(name: &str) -> (String, Option<String>) {
    let (mark, rest) = strip_partial(name);
    let (base, sub) = split(rest);
    let letter = match lookup(base) {
        Some((_, _, latex)) => latex.to_string(),
        None if base == OMITTED => r"\ldots".to_string(),
        None if base.starts_with('∇') => base.replacen('∇', r"\nabla ", 1).trim_end().to_string(),
        None if base.chars().count() == 1 && base.is_ascii() => base.to_string(),
        None => {
            // LaTeX has no sign for other scripts without further packages.
            let ascii: String = base.chars().map(|c| if c.is_ascii() { c } else { '?' }).collect();
            format!(r"\mathrm{{{ascii}}}")
        }
    };
    let mark = if mark.is_empty() { "" } else { r"\partial " };
    let sub = match sub.chars().count() {
        0 => None,
        1 => Some(sub.to_string()),
        _ => Some(format!(r"\mathrm{{{}}}", sub.replace('_', r"\_"))),
    };
    (format!("{mark}{letter}"), sub)
}

fn strip_partial(name: &str) -> (&str, &str) {
    match name.strip_prefix('∂') {
        Some(rest) => ("∂", rest),
        None => ("", name),
    }
}

/// Digits and signs as superscripts, where Unicode has them.
pub fn superscript(text: &str) -> Option<String> {
    text.chars()
        .map(|c| match c {
            '0'..='9' => "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c as usize - '0' as usize),
            '−' => Some('⁻'),
            _ => None,
        })
        .collect()
}

/// Digits as subscripts, where Unicode has them.
pub fn subscript(text: &str) -> Option<String> {
    text.chars()
        .map(|c| match c {
            '0'..='9' => "₀₁₂₃₄₅₆₇₈₉".chars().nth(c as usize - '0' as usize),
            _ => None,
        })
        .collect()
}
