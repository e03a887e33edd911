//! The algebra: values with named axes.
//!
//! # What a term means
//!
//! A term denotes a real-valued function of its free axes. Multiplication and addition broadcast over the union of
//! their operands' axes; `sum(axis, x)` removes one axis; there are no positional shapes, no transposes and no
//! captured indices.
//!
//! | term | meaning |
//! |---|---|
//! | constant | an exact rational |
//! | leaf | an input, a parameter or a size, with its own ordered axes |
//! | `add`, `mul` | n-ary, commutative, sorted, like terms and powers collected |
//! | `pow x r` | x^r for a rational r, **total**: 0^r = 0 for every r ≠ 0, also a negative one; fractional powers are of terms that are nonnegative but for rounding, and below 0 they are 0 |
//! | `exp log abs sign` | elementwise; `sign 0 = 0` |
//! | `sigmoid softplus tanh tanh_slope log_cosh` | elementwise and smooth; what each is, [`func`] says |
//! | `select a b x y` | x where a ≤ b, else y; the other branch is not looked at |
//! | `sum i x` | Σ_i x |
//! | `smoothmax K i s` | max over the simplex of Σ p_i s_i + H_K(p); for Shannon's entropy this is log Σ exp s_i |
//! | `weights K i s` | the maximizing p, which is the gradient of `smoothmax`: softmax, entmax(α), normmax(γ) |
//!
//! The total power is what makes derivatives right at the awkward points: the gradient of |x| is x·|x|^(−1), which is
//! 0 at 0 without any 0·∞. Because of it, x^a·x^b = x^(a+b) holds everywhere unless a + b = 0.
//!
//! # Axis scope
//!
//! `sum` and `smoothmax` bind their axis; `weights K i s` keeps it: its result extends along i. Bound indices are
//! canonical (the smallest index ≥ 1 not free in the body), so equal-up-to-renaming means equal.
//!
//! Every reduction over tokens runs over the tokens *visible* to the query, so its result depends on the query axis
//! even when its body does not. A sum over queries runs over all queries that see anything; where only those that see
//! a token n count, the body says so with the leaf [`expr::Leaf::visible`], unless it has a factor that is 0 elsewhere
//! anyway. Queries that see nothing are outside the algebra: by definition every result is 0 there.
//!
//! # Invariants
//!
//! Terms are immutable, shared and built only through the constructors of [`expr`], which keep the normal form (tier A
//! of the simplifier). Order never depends on names or on when a term was built.

pub mod axis;
pub mod budget;
pub mod eval;
pub mod expr;
pub mod func;
pub mod linear;
pub mod memo;
pub mod rational;
pub mod sample;
pub mod sign;
pub mod tensor;
pub mod traverse;

pub use axis::{Axis, AxisSet, Space};
pub use budget::Budget;
pub use expr::{Entropy, Expr, Leaf, Op, Role, System};
pub use func::Func;
pub use rational::Rational;
pub use sign::Sign;
