//! What is known about the sign of a term, for every value of its inputs.

/// A point of the lattice; `Unknown` is its top.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Sign {
    Positive,
    NonNegative,
    Zero,
    NonPositive,
    Negative,
    Unknown,
}

use Sign::*;

impl Sign {
    pub fn is_nonnegative(self) -> bool {
        matches!(self, Positive | NonNegative | Zero)
    }
    pub fn is_nonzero(self) -> bool {
        matches!(self, Positive | Negative)
    }
    pub fn negate(self) -> Sign {
        match self {
            Positive => Negative,
            NonNegative => NonPositive,
            NonPositive => NonNegative,
            Negative => Positive,
            Zero | Unknown => self,
        }
    }
    /// The sign of a sum.
    pub fn plus(self, other: Sign) -> Sign {
        match (self, other) {
            (Zero, s) | (s, Zero) => s,
            (Positive, Positive | NonNegative) | (NonNegative, Positive) => Positive,
            (NonNegative, NonNegative) => NonNegative,
            (Negative, Negative | NonPositive) | (NonPositive, Negative) => Negative,
            (NonPositive, NonPositive) => NonPositive,
            _ => Unknown,
        }
    }
    /// The sign of a product.
    pub fn times(self, other: Sign) -> Sign {
        match (self, other) {
            (Zero, _) | (_, Zero) => Zero,
            (Unknown, _) | (_, Unknown) => Unknown,
            (Positive, s) | (s, Positive) => s,
            (Negative, s) | (s, Negative) => s.negate(),
            (NonNegative, s) | (s, NonNegative) => s,
            (NonPositive, NonPositive) => NonNegative,
        }
    }
    /// What is known when the value is one of two.
    pub fn join(self, other: Sign) -> Sign {
        match (self, other) {
            (a, b) if a == b => a,
            (a, b) if a.is_nonnegative() && b.is_nonnegative() => NonNegative,
            (a, b) if a.negate().is_nonnegative() && b.negate().is_nonnegative() => NonPositive,
            _ => Unknown,
        }
    }
    /// What is known when the value has both signs' properties (two descriptions of one value).
    pub fn meet(self, other: Sign) -> Sign {
        match (self, other) {
            (Unknown, s) | (s, Unknown) => s,
            (NonNegative, NonPositive) | (NonPositive, NonNegative) => Zero,
            (NonNegative | NonPositive, s) => s,
            (s, _) => s,
        }
    }
}
