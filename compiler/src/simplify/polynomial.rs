//! Polynomials in the sizes N, d, d_h, H: how costs are stated.

use super::cost::ReferenceSizes;
use std::collections::BTreeMap;
use std::fmt;

/// The size symbols, in the order they are printed.
const SYMBOLS: [&str; 4] = ["N", "d", "d_h", "H"];

/// Σ coefficient · N^a d^b d_h^c H^e.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Polynomial {
    terms: BTreeMap<[u32; 4], i64>,
}

impl Polynomial {
    pub fn constant(c: i64) -> Polynomial {
        Polynomial { terms: BTreeMap::from([([0; 4], c)]) }
    }
    pub fn symbol(name: &str) -> Polynomial {
        let mut powers = [0; 4];
        if let Some(j) = SYMBOLS.iter().position(|s| *s == name) {
            powers[j] = 1;
        }
        Polynomial { terms: BTreeMap::from([(powers, 1)]) }
    }
    pub fn plus(&self, other: &Polynomial) -> Polynomial {
        let mut sum = self.clone();
        for (powers, c) in &other.terms {
            let entry = sum.terms.entry(*powers).or_insert(0);
            *entry = entry.saturating_add(*c);
        }
        sum.terms.retain(|_, c| *c != 0);
        sum
    }
    pub fn times(&self, other: &Polynomial) -> Polynomial {
        let mut product = Polynomial::default();
        for (p, a) in &self.terms {
            for (q, b) in &other.terms {
                let powers = std::array::from_fn(|j| p[j] + q[j]);
                product = product.plus(&Polynomial { terms: BTreeMap::from([(powers, a.saturating_mul(*b))]) });
            }
        }
        product
    }
    pub fn scale(&self, c: i64) -> Polynomial {
        self.times(&Polynomial::constant(c))
    }
    /// The terms that can lead for one of N queries, with d_h = d/H: what does not grow with the queries is left out, and
    /// a term is dropped when another is at least as large for all 1 ≤ H ≤ d.
    pub fn order_per_query(&self) -> String {
        let shared = self.terms.keys().filter(|[n, ..]| *n > 0);
        let exponents = shared.map(|powers| powers.map(i64::from)).map(|[n, d, d_h, h]| [n - 1, d + d_h, h - d_h]);
        let mut terms: Vec<[i64; 3]> = exponents.collect();
        terms.sort();
        terms.dedup();
        let below =
            |x: &[i64; 3], y: &[i64; 3]| x != y && y[0] >= x[0] && y[1] >= x[1] && y[1] - x[1] + y[2] - x[2] >= 0;
        let mut leading: Vec<[i64; 3]> = terms.iter().filter(|x| !terms.iter().any(|y| below(x, y))).copied().collect();
        leading.sort_by_key(|[n, d, h]| (std::cmp::Reverse(*n), *d, *h));
        let written: Vec<String> = leading.iter().map(order_term).collect();
        written.join(" + ")
    }
    pub fn evaluate(&self, sizes: ReferenceSizes) -> f64 {
        let at = [sizes.tokens, sizes.model, sizes.head, sizes.heads];
        let power = |powers: &[u32; 4]| powers.iter().zip(at).map(|(p, x)| x.powi(*p as i32)).product::<f64>();
        self.terms.iter().map(|(powers, c)| *c as f64 * power(powers)).sum()
    }
}

impl fmt::Display for Polynomial {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        if self.terms.is_empty() {
            return write!(f, "0");
        }
        let mut terms: Vec<_> = self.terms.iter().collect();
        terms.sort_by_key(|(powers, _)| (std::cmp::Reverse(powers.iter().sum::<u32>()), std::cmp::Reverse(**powers)));
        for (j, (powers, c)) in terms.into_iter().enumerate() {
            match (j, *c < 0) {
                (0, false) => {}
                (0, true) => write!(f, "−")?,
                (_, false) => write!(f, " + ")?,
                (_, true) => write!(f, " − ")?,
            }
            let symbols: Vec<String> = SYMBOLS
                .iter()
                .zip(powers)
                .filter(|(_, p)| **p > 0)
                .map(|(s, p)| format!("{s}{}", superscript(*p)))
                .collect();
            match (c.abs(), symbols.is_empty()) {
                (1, false) => write!(f, "{}", symbols.join("·"))?,
                (c, false) => write!(f, "{c}·{}", symbols.join("·"))?,
                (c, true) => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

/// N·d²/H for exponents of N, d and H.
fn order_term([n, d, h]: &[i64; 3]) -> String {
    let power = |symbol: &str, p: i64| format!("{symbol}{}", superscript(p.unsigned_abs() as u32));
    let factors = [("N", *n), ("d", *d), ("H", *h)];
    let part = |positive: bool| {
        let chosen = factors.iter().filter(|(_, p)| *p != 0 && (*p > 0) == positive);
        chosen.map(|(symbol, p)| power(symbol, *p)).collect::<Vec<_>>().join("·")
    };
    match (part(true), part(false)) {
        (above, below) if below.is_empty() => {
            if above.is_empty() {
                "1".to_string()
            } else {
                above
            }
        }
        (above, below) => format!("{}/{below}", if above.is_empty() { "1".to_string() } else { above }),
    }
}

fn superscript(p: u32) -> String {
    if p == 1 {
        return String::new();
    }
    p.to_string().chars().map(|c| "⁰¹²³⁴⁵⁶⁷⁸⁹".chars().nth(c as usize - '0' as usize).unwrap_or(c)).collect()
}
