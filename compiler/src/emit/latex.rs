//! A document as LaTeX: a fragment of `align*` environments, or a whole file that compiles.

use super::document::{Document, Line};
use crate::notation::latex;

/// A file that compiles with any LaTeX that has amsmath.
pub fn print(document: &Document) -> String {
    format!(
        "\\documentclass{{article}}\n\\usepackage{{amsmath,amssymb}}\n\\begin{{document}}\n{}\\end{{document}}\n",
        body(document)
    )
}

/// The document without preamble, to be put into a paper.
pub fn body(document: &Document) -> String {
    let mut out = format!("\\section*{{{}}}\n", escape(&document.title));
    for section in &document.sections {
        out.push_str(&format!("\\paragraph{{{}}}\n", section.title));
        let mut equations: Vec<String> = Vec::new();
        for line in &section.lines {
            match line {
                Line::Equation { left, right, with } => {
                    let sides: Vec<String> = right.iter().map(latex::print).collect();
                    let conditions: String = with
                        .iter()
                        .map(|(a, b)| format!(r", \quad {} = {}", latex::print(a), latex::print(b)))
                        .collect();
                    equations.push(format!("  {} &= {}{conditions}", latex::print(left), sides.join(" \\\\\n  &= ")));
                }
                Line::Note(note) => {
                    flush(&mut equations, &mut out);
                    out.push_str(&format!("{}\\par\n", escape(note)));
                }
            }
        }
        flush(&mut equations, &mut out);
    }
    out
}

fn flush(equations: &mut Vec<String>, out: &mut String) {
    if !equations.is_empty() {
        out.push_str(&format!("\\begin{{align*}}\n{}\n\\end{{align*}}\n", equations.join(" \\\\\n")));
        equations.clear();
    }
}

/// Unicode mathematics inside a sentence, in LaTeX.
fn escape(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '_' => out.push_str(r"\_"),
            '&' | '%' | '#' | '$' | '{' | '}' => {
                out.push('\\');
                out.push(c);
            }
            '\u{304}' | '\u{302}' => {}
            '^' => out.push_str(r"\^{}"),
            '\\' => out.push_str(r"\textbackslash{}"),
            '~' => out.push_str(r"\textasciitilde{}"),
            c => match command(c) {
                Some(command) => out.push_str(&format!("${command}$")),
                None if c.is_ascii() => out.push(c),
                None => out.push('?'),
            },
        }
    }
    out
}

fn command(c: char) -> Option<&'static str> {
    Some(match c {
        'α' => r"\alpha",
        'β' => r"\beta",
        'γ' => r"\gamma",
        'δ' => r"\delta",
        'ε' => r"\varepsilon",
        'ζ' => r"\zeta",
        'η' => r"\eta",
        'θ' => r"\theta",
        'κ' => r"\kappa",
        'λ' => r"\lambda",
        'μ' => r"\mu",
        'ν' => r"\nu",
        'ξ' => r"\xi",
        'π' => r"\pi",
        'ρ' => r"\rho",
        'σ' => r"\sigma",
        'τ' => r"\tau",
        'φ' => r"\varphi",
        'χ' => r"\chi",
        'ψ' => r"\psi",
        'ω' => r"\omega",
        'Δ' => r"\Delta",
        'Λ' => r"\Lambda",
        'Σ' => r"\sum",
        '∇' => r"\nabla",
        '∂' => r"\partial",
        '−' => "-",
        '·' => r"\cdot",
        '½' => r"\tfrac{1}{2}",
        '√' => r"\surd",
        '≤' => r"\le",
        '⊙' => r"\odot",
        '‖' => r"\Vert",
        'ᵀ' => r"^\top",
        '₊' => "_+",
        '⁻' => "^{-}",
        '⁰' => "^0",
        '¹' => "^1",
        '²' => "^2",
        '³' => "^3",
        '⁴' => "^4",
        '⁵' => "^5",
        '⁶' => "^6",
        '⁷' => "^7",
        '⁸' => "^8",
        '⁹' => "^9",
        '₀' => "_0",
        '₁' => "_1",
        '₂' => "_2",
        '₃' => "_3",
        '₄' => "_4",
        '₅' => "_5",
        '₆' => "_6",
        '₇' => "_7",
        '₈' => "_8",
        '₉' => "_9",
        '…' => r"\dots",
        _ => return None,
    })
}
