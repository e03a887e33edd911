//! The elementwise functions: what they are called, their normal forms, values and slopes.
//!
//! The smooth ones are operations of their own and not quotients of exponentials, because those overflow where the
//! functions are tame, and subtract where the functions lose nothing:
//!
//! | function | is | slope |
//! |---|---|---|
//! | `sigmoid` σ(x) | 1/(1 + e⁻ˣ) | σ(x) σ(−x) |
//! | `softplus` | log(1 + eˣ) | σ(x) |
//! | `tanh` | (eˣ − e⁻ˣ)/(eˣ + e⁻ˣ) | 1 − tanh²(x) |
//! | `tanh_slope` | 1 − tanh²(x) = 4 σ(2x) σ(−2x) | −2 tanh(x) (1 − tanh²(x)) |
//! | `log_cosh` | log((eˣ + e⁻ˣ)/2) | tanh(x) |

use super::expr::{Expr, Op};
use super::rational;
use super::sign::Sign;
use num_traits::Signed;
use std::f64::consts::LN_2;
use std::fmt;
use std::str::FromStr;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Func {
    Exp,
    Log,
    Abs,
    Sign,
    Sigmoid,
    Softplus,
    Tanh,
    /// 1 − tanh².
    TanhSlope,
    LogCosh,
}

/// All of them.
const ALL: [Func; 9] = [
    Func::Exp,
    Func::Log,
    Func::Abs,
    Func::Sign,
    Func::Sigmoid,
    Func::Softplus,
    Func::Tanh,
    Func::TanhSlope,
    Func::LogCosh,
];

impl fmt::Display for Func {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Func {
    type Err = ();
    fn from_str(text: &str) -> Result<Func, ()> {
        ALL.into_iter().find(|func| func.name() == text).ok_or(())
    }
}

impl Func {
    pub fn name(self) -> &'static str {
        match self {
            Func::Exp => "exp",
            Func::Log => "log",
            Func::Abs => "abs",
            Func::Sign => "sign",
            Func::Sigmoid => "sigmoid",
            Func::Softplus => "softplus",
            Func::Tanh => "tanh",
            Func::TanhSlope => "tanh_slope",
            Func::LogCosh => "log_cosh",
        }
    }

    /// Whether f(0) = 0.
    pub fn keeps_zero(self) -> bool {
        matches!(self, Func::Abs | Func::Sign | Func::Tanh | Func::LogCosh)
    }

    /// Whether it takes no more than a few operations.
    pub fn is_cheap(self) -> bool {
        matches!(self, Func::Abs | Func::Sign)
    }

    /// The sign of f(x), given that of x.
    pub fn sign(self, x: Sign) -> Sign {
        match self {
            Func::Exp | Func::Sigmoid | Func::Softplus | Func::TanhSlope => Sign::Positive,
            Func::Log => Sign::Unknown,
            Func::Abs | Func::LogCosh if x.is_nonzero() => Sign::Positive,
            Func::Abs | Func::LogCosh => Sign::NonNegative,
            Func::Sign | Func::Tanh => x,
        }
    }

    /// f(x), with nothing that overflows or cancels on the way.
    pub fn of(self, x: f64) -> f64 {
        // e^−|x| is at most 1.
        let small = || (-x.abs()).exp();
        match self {
            Func::Exp => x.exp(),
            Func::Log => x.ln(),
            Func::Abs => x.abs(),
            Func::Sign if x == 0.0 => 0.0,
            Func::Sign => x.signum(),
            Func::Sigmoid if x < 0.0 => small() / (1.0 + small()),
            Func::Sigmoid => 1.0 / (1.0 + small()),
            Func::Softplus => x.max(0.0) + small().ln_1p(),
            Func::Tanh => x.tanh(),
            Func::TanhSlope => {
                let square = small() * small();
                4.0 * square / ((1.0 + square) * (1.0 + square))
            }
            // log(1 + 2 sinh²(x/2)), and |x| + log(1 + e^−2|x|) − log 2
            Func::LogCosh if x.abs() < 1.0 => (2.0 * (0.5 * x).sinh().powi(2)).ln_1p(),
            Func::LogCosh => x.abs() + (small() * small()).ln_1p() - LN_2,
        }
    }

    /// f′(x); a kink has the slope 0.
    pub fn slope(self, x: &Expr) -> Expr {
        match self {
            Func::Exp => x.exp(),
            Func::Log => x.pow(&rational::int(-1)),
            Func::Abs => x.signum(),
            Func::Sign => Expr::zero(),
            Func::Sigmoid => x.sigmoid().times(&x.neg().sigmoid()),
            Func::Softplus => x.sigmoid(),
            Func::Tanh => x.tanh_slope(),
            Func::TanhSlope => x.tanh().times(&x.tanh_slope()).scale(&rational::int(-2)),
            Func::LogCosh => x.tanh(),
        }
    }

    /// f″(x), away from kinks.
    pub fn bend(self, x: &Expr) -> Expr {
        let slope_of_slope = || Func::TanhSlope.slope(x);
        match self {
            Func::Exp => x.exp(),
            Func::Log => x.pow(&rational::int(-2)).neg(),
            Func::Abs | Func::Sign => Expr::zero(),
            // σ(x) σ(−x) (σ(−x) − σ(x))
            Func::Sigmoid => {
                let (here, there) = (x.sigmoid(), x.neg().sigmoid());
                Expr::mul([here.clone(), there.clone(), there.minus(&here)])
            }
            Func::Softplus => Func::Sigmoid.slope(x),
            Func::Tanh => slope_of_slope(),
            // s″ = −2 (s² + tanh s′), s = 1 − tanh²
            Func::TanhSlope => {
                let turn = x.tanh().times(&slope_of_slope());
                x.tanh_slope().square().plus(&turn).scale(&rational::int(-2))
            }
            Func::LogCosh => x.tanh_slope(),
        }
    }
}

impl Expr {
    pub fn call(func: Func, x: &Expr) -> Expr {
        match func {
            Func::Exp => x.exp(),
            Func::Log => x.log(),
            Func::Abs => x.abs(),
            Func::Sign => x.signum(),
            Func::Sigmoid => x.sigmoid(),
            Func::Softplus => x.softplus(),
            Func::Tanh => x.tanh(),
            Func::TanhSlope => x.tanh_slope(),
            Func::LogCosh => x.log_cosh(),
        }
    }

    fn called(&self, func: Func) -> Expr {
        Expr::make(Op::Call(func, self.clone()))
    }

    /// x or −x, whichever is written with a positive first coefficient, and whether it is −x.
    fn turned(&self) -> (Expr, bool) {
        let is_turned = self.split_content().0.is_negative();
        (if is_turned { self.neg() } else { self.clone() }, is_turned)
    }

    /// One form of x, −x and |x|, for functions that do not tell them apart.
    fn unsigned(&self) -> Expr {
        let inside = self.factors().into_iter().map(|factor| match factor.op() {
            Op::Call(Func::Abs, y) => y.clone(),
            _ => factor,
        });
        Expr::mul(inside).turned().0
    }

    /// 1/(1 + e⁻ˣ).
    pub fn sigmoid(&self) -> Expr {
        if self.is_zero() { Expr::constant(rational::ratio(1, 2)) } else { self.called(Func::Sigmoid) }
    }

    /// log(1 + eˣ).
    pub fn softplus(&self) -> Expr {
        self.called(Func::Softplus)
    }

    /// tanh(−x) = −tanh(x).
    pub fn tanh(&self) -> Expr {
        let (x, is_turned) = self.turned();
        match (x.is_zero(), is_turned) {
            (true, _) => x,
            (false, true) => x.called(Func::Tanh).neg(),
            (false, false) => x.called(Func::Tanh),
        }
    }

    /// 1 − tanh²(x), the same at x and −x.
    pub fn tanh_slope(&self) -> Expr {
        if self.is_zero() { Expr::one() } else { self.unsigned().called(Func::TanhSlope) }
    }

    /// log((eˣ + e⁻ˣ)/2), the same at x and −x.
    pub fn log_cosh(&self) -> Expr {
        if self.is_zero() { Expr::zero() } else { self.unsigned().called(Func::LogCosh) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::eval::{Env, Sizes, evaluate};
    use crate::ir::{Leaf, Role};

    const SMOOTH: [Func; 5] = [Func::Sigmoid, Func::Softplus, Func::Tanh, Func::TanhSlope, Func::LogCosh];

    fn value(e: &Expr) -> f64 {
        let env = Env::new(Sizes { queries: 1, tokens: 1, head: 1, model: 1, heads: 1 });
        evaluate(e, &env).expect("a number").data[0]
    }

    #[test]
    fn values_are_tame_everywhere() {
        for func in SMOOTH {
            for x in [-1e300, -800.0, -1e-300, 0.0, 1e-300, 800.0, 1e300] {
                assert!(func.of(x).is_finite(), "{}({x})", func.name());
            }
        }
        assert_eq!(Func::Softplus.of(1e300), 1e300);
        assert!((Func::LogCosh.of(-1e-8) / 0.5e-16 - 1.0).abs() < 1e-15);
        assert_eq!(Func::Sigmoid.of(-700.0), (-700f64).exp());
    }

    #[test]
    fn slopes_are_slopes() {
        for func in SMOOTH {
            for eighths in [-28, -6, -1, 2, 12, 32] {
                let (x, h) = (f64::from(eighths) / 8.0, 1e-4);
                let number = Expr::constant(rational::ratio(i64::from(eighths), 8));
                let (above, here, below) = (func.of(x + h), func.of(x), func.of(x - h));
                let slope = value(&func.slope(&number));
                let bend = value(&func.bend(&number));
                assert!((slope - (above - below) / (2.0 * h)).abs() < 1e-7, "{}′({x})", func.name());
                assert!((bend - (above - 2.0 * here + below) / (h * h)).abs() < 1e-6, "{}″({x})", func.name());
            }
        }
    }

    #[test]
    fn one_form_for_x_and_its_opposite() {
        let [a, b] = [0, 1].map(|i| Expr::leaf(Leaf::new(Role::Param, i, "x", &[], Sign::Unknown)));
        let x = a.minus(&b);
        assert_eq!(x.neg().tanh(), x.tanh().neg());
        assert_eq!(x.neg().tanh_slope(), x.tanh_slope());
        assert_eq!(x.neg().log_cosh(), x.log_cosh());
        assert_eq!(x.abs().times(&a.abs()).log_cosh(), x.times(&a).log_cosh());
        assert_eq!(x.sigmoid().log(), x.neg().softplus().neg());
        assert_eq!(x.softplus().neg().exp(), x.neg().sigmoid());
    }
}
