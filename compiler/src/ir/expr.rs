//! Terms and their constructors, which keep the sum-of-products normal form (tier A).
//!
//! The normal form: sums and products are flat and sorted; a sum holds every term once with a rational coefficient; a
//! product holds every base once with a rational exponent, its one constant first; a sum that is a factor has content
//! one and a positive first coefficient; bound axes have canonical names. Nothing here distributes or hoists: that is
//! the work of the rewrite rules.

use super::axis::{Axis, AxisSet, Space};
use super::func::Func;
use super::memo::{Memo, Stored};
use super::rational::{self, Rational};
use super::sign::Sign;
use super::traverse;
use num_traits::{One, Signed, Zero};
use std::cell::RefCell;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{BuildHasherDefault, DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// The part an input plays; also its place in the order of factors.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// `N`, `d`, `d_h`, `H`.
    Size,
    /// A parameter of the recipe: a number, or one per component.
    Param,
    /// γ_i, a number per attended token, or γ, one per query.
    Gate,
    /// γ_{t,i}, the product of per-step factors between i and t.
    Decay,
    /// A weight matrix.
    Matrix,
    /// 1 at a pair of a query and a token it sees, 0 at any other.
    Visible,
    /// What attention dropout multiplies a pair of a query and a token by.
    Kept,
    /// A named `weights` node: nonnegative, one along its token axis.
    Weights,
    /// A named share of a whole that has other parts as well: nonnegative, 0 at tokens that are not seen.
    Share,
    /// The moved token, before (`z`) or after (`q`) projection.
    Query,
    /// The attended tokens `h`, `k`.
    Key,
    /// The values `v`.
    Value,
    /// What a result is contracted with: a cotangent or the probe of a Hessian.
    Probe,
    /// The cotangent of a quantity per query and token; 0 at pairs that are not seen.
    Adjoint,
    /// An opaque quantity with a name.
    Named,
}

/// An input of the algebra. Two leaves are the same input when role, ordinal and name agree.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Leaf {
    pub role: Role,
    /// Place of declaration among leaves of its role, so that order does not depend on names.
    pub ordinal: u16,
    pub axes: Vec<Axis>,
    pub sign: Sign,
    pub name: Arc<str>,
}

impl Leaf {
    pub fn new(role: Role, ordinal: u16, name: &str, axes: &[Axis], sign: Sign) -> Leaf {
        Leaf { role, ordinal, axes: axes.to_vec(), sign, name: name.into() }
    }
    /// 1 where the query sees the token, 0 elsewhere.
    pub fn visible(token: Axis) -> Leaf {
        Leaf::new(Role::Visible, 0, "visible", &[Axis::T, token], Sign::NonNegative)
    }
    /// How many components there are along an axis of them: `d_h` or `d`.
    pub fn length(components: Axis) -> Option<Leaf> {
        let size = |ordinal, name| Some(Leaf::new(Role::Size, ordinal, name, &[], Sign::Positive));
        match components.space {
            Space::Model => size(1, "d"),
            Space::Head => size(2, "d_h"),
            Space::Query | Space::Token => None,
        }
    }
    /// The identity matrix.
    pub fn identity(row: Axis, column: Axis) -> Leaf {
        Leaf::new(Role::Matrix, u16::MAX, "I", &[row, column], Sign::NonNegative)
    }
    pub fn is_identity(&self) -> bool {
        self.role == Role::Matrix && self.ordinal == u16::MAX
    }
    /// Whether both name the same input, whatever their axes are called.
    pub fn same_input(&self, other: &Leaf) -> bool {
        self.role == other.role && self.ordinal == other.ordinal && self.name == other.name
    }
    /// One of 64 bits, the same for the same input.
    fn bit(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.role, self.ordinal, &self.name).hash(&mut hasher);
        1 << (hasher.finish() % 64)
    }
}

/// The concave entropy H behind a smooth maximum max_p Σ p_i s_i + H(p).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Entropy {
    /// −Σ p log p: log-sum-exp and softmax.
    Shannon,
    /// Σ (p − p^α) / (α(α − 1)), α > 1: entmax; α = 2 is sparsemax.
    Tsallis(Rational),
    /// 1 − ‖p‖_γ, γ > 1: normmax.
    Norm(Rational),
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Op {
    Const(Rational),
    Leaf(Leaf),
    Pow(Expr, Rational),
    Call(Func, Expr),
    Weights(Entropy, Axis, Expr),
    SmoothMax(Entropy, Axis, Expr),
    /// `[a, b, x, y]`: x where a ≤ b, else y.
    Select(Box<[Expr; 4]>),
    /// The solution of a linear system.
    Solve(Box<System>),
    Sum(Axis, Expr),
    Mul(Vec<Expr>),
    Add(Vec<Expr>),
}

/// x with Σ_column `matrix[row, column]`·`x[column]` = `right[row]`; the row axis is bound. A singular system has the
/// solution 0, as 1/0 is 0.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct System {
    pub row: Axis,
    pub column: Axis,
    pub matrix: Expr,
    pub right: Expr,
}

struct Node {
    op: Op,
    axes: AxisSet,
    sign: Sign,
    hash: u64,
    /// A bit for every input, shared by some.
    inputs: u64,
    /// Operations above one another.
    height: u32,
    /// No other term ever has it.
    number: u64,
}

/// An immutable, shared term in normal form.
#[derive(Clone)]
pub struct Expr(Arc<Node>);

impl PartialEq for Expr {
    fn eq(&self, other: &Expr) -> bool {
        Equal::default().same(self, other)
    }
}

/// A comparison under way. Written out, a term that shares its subterms may be too large to go through, so what two
/// large terms have in common is looked at once.
#[derive(Default)]
struct Equal {
    looks: usize,
    seen: HashSet<(*const Node, *const Node)>,
}

impl Equal {
    /// Pairs of nodes that are compared without a note of it.
    const FEW: usize = 128;

    fn same(&mut self, a: &Expr, b: &Expr) -> bool {
        if Arc::ptr_eq(&a.0, &b.0) {
            return true;
        }
        if a.0.hash != b.0.hash {
            return false;
        }
        self.looks += 1;
        let is_noted = self.looks > Equal::FEW && !self.seen.insert((Arc::as_ptr(&a.0), Arc::as_ptr(&b.0)));
        is_noted || self.parts(a.op(), b.op())
    }

    fn all(&mut self, x: &[Expr], y: &[Expr]) -> bool {
        x.len() == y.len() && x.iter().zip(y).all(|(x, y)| self.same(x, y))
    }

    fn parts(&mut self, a: &Op, b: &Op) -> bool {
        match (a, b) {
            (Op::Const(a), Op::Const(b)) => rational::same(a, b),
            (Op::Leaf(a), Op::Leaf(b)) => a == b,
            (Op::Pow(x, r), Op::Pow(y, s)) => rational::same(r, s) && self.same(x, y),
            (Op::Call(f, x), Op::Call(g, y)) => f == g && self.same(x, y),
            (Op::Weights(k, i, x), Op::Weights(l, j, y)) | (Op::SmoothMax(k, i, x), Op::SmoothMax(l, j, y)) => {
                k == l && i == j && self.same(x, y)
            }
            (Op::Select(x), Op::Select(y)) => self.all(&x[..], &y[..]),
            (Op::Solve(x), Op::Solve(y)) => {
                (x.row, x.column) == (y.row, y.column)
                    && self.same(&x.matrix, &y.matrix)
                    && self.same(&x.right, &y.right)
            }
            (Op::Sum(i, x), Op::Sum(j, y)) => i == j && self.same(x, y),
            (Op::Mul(x), Op::Mul(y)) | (Op::Add(x), Op::Add(y)) => self.all(x, y),
            _ => false,
        }
    }
}
impl Eq for Expr {}
impl Hash for Expr {
    fn hash<S: Hasher>(&self, state: &mut S) {
        state.write_u64(self.0.hash)
    }
}
impl PartialOrd for Expr {
    fn partial_cmp(&self, other: &Expr) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Expr {
    fn cmp(&self, other: &Expr) -> Ordering {
        if self == other {
            return Ordering::Equal;
        }
        let by_parts = || match (self.op(), other.op()) {
            (Op::Const(a), Op::Const(b)) => rational::compare(a, b),
            (Op::Pow(x, r), Op::Pow(y, s)) => x.cmp(y).then_with(|| rational::compare(r, s)),
            (a, b) => a.cmp(b),
        };
        match self.0.height.min(other.0.height) < TALL {
            true => by_parts(),
            false => remembered((self.0.number, other.0.number), by_parts),
        }
    }
}

/// Two terms of this height may differ only at their feet, so how they compare is remembered.
const TALL: u32 = 16;
/// As many comparisons are remembered.
const COMPARISONS: usize = 1 << 18;

/// Terms made so far.
static MADE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static ORDERS: RefCell<HashMap<(u64, u64), Ordering, BuildHasherDefault<Stored>>> = RefCell::default();
}

fn remembered(pair: (u64, u64), compare: impl FnOnce() -> Ordering) -> Ordering {
    let known = ORDERS.try_with(|orders| orders.borrow().get(&pair).copied());
    known.ok().flatten().unwrap_or_else(|| {
        let order = compare();
        let _ = ORDERS.try_with(|orders| {
            let mut orders = orders.borrow_mut();
            if orders.len() >= COMPARISONS {
                orders.clear();
            }
            orders.insert(pair, order);
        });
        order
    })
}
impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl Expr {
    pub fn op(&self) -> &Op {
        &self.0.op
    }
    pub fn axes(&self) -> AxisSet {
        self.0.axes
    }
    pub fn sign(&self) -> Sign {
        self.0.sign
    }
    pub fn has_axis(&self, axis: Axis) -> bool {
        self.0.axes.contains(axis)
    }

    pub(super) fn make(op: Op) -> Expr {
        let mut hasher = DefaultHasher::new();
        match &op {
            Op::Const(c) => (c.numer(), c.denom()).hash(&mut hasher),
            Op::Pow(x, r) => (x, r.numer(), r.denom()).hash(&mut hasher),
            op => op.hash(&mut hasher),
        }
        share(op, hasher.finish())
    }

    /// Whether both are one and the same shared term; equal terms need not be.
    pub fn is(&self, other: &Expr) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the input may occur in the term; if not, it does not.
    pub fn may_mention(&self, input: &Leaf) -> bool {
        self.0.inputs & input.bit() != 0
    }

    // Constants and inputs.

    pub fn constant(c: Rational) -> Expr {
        Expr::make(Op::Const(c))
    }
    pub fn int(n: i64) -> Expr {
        Expr::constant(rational::int(n))
    }
    pub fn zero() -> Expr {
        Expr::int(0)
    }
    pub fn one() -> Expr {
        Expr::int(1)
    }
    pub fn leaf(leaf: Leaf) -> Expr {
        Expr::make(Op::Leaf(leaf))
    }
    pub fn as_const(&self) -> Option<&Rational> {
        match self.op() {
            Op::Const(c) => Some(c),
            _ => None,
        }
    }
    pub fn as_leaf(&self) -> Option<&Leaf> {
        match self.op() {
            Op::Leaf(l) => Some(l),
            _ => None,
        }
    }
    pub fn is_zero(&self) -> bool {
        self.as_const().is_some_and(|c| c.is_zero())
    }
    pub fn is_one(&self) -> bool {
        self.as_const().is_some_and(|c| c.is_one())
    }

    // Sums.

    /// Σ terms, like terms collected.
    pub fn add(terms: impl IntoIterator<Item = Expr>) -> Expr {
        let mut constant = Rational::zero();
        // A term without its coefficient, the coefficient, and the term itself.
        let mut parts: Vec<(Expr, Rational, Expr)> = Vec::new();
        let mut push = |term: &Expr| match term.op() {
            Op::Const(c) => constant += c,
            _ => {
                let (c, rest) = term.split_coefficient();
                parts.push((rest, c, term.clone()));
            }
        };
        for term in terms {
            match term.op() {
                Op::Add(inner) => inner.iter().for_each(&mut push),
                _ => push(&term),
            }
        }
        // The terms of a sum are sorted already, and sorting makes use of that.
        parts.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        let mut flat: Vec<Expr> = Vec::with_capacity(parts.len() + 1);
        for like in parts.chunk_by(|(a, ..), (b, ..)| a == b) {
            if let [(_, _, term)] = like {
                flat.push(term.clone());
                continue;
            }
            let c: Rational = like.iter().map(|(_, c, _)| c).sum();
            flat.extend((!c.is_zero()).then(|| like[0].0.scale(&c)));
        }
        if !constant.is_zero() {
            flat.push(Expr::constant(constant));
        }
        match flat.len() {
            0 => Expr::zero(),
            1 => flat.remove(0),
            _ => Expr::make(Op::Add(flat)),
        }
    }

    /// c · self, c pushed into a sum; the order of its terms and factors stays.
    pub fn scale(&self, c: &Rational) -> Expr {
        if c.is_one() {
            return self.clone();
        }
        if c.is_zero() {
            return Expr::zero();
        }
        match self.op() {
            Op::Const(d) => Expr::constant(c * d),
            Op::Add(terms) => Expr::make(Op::Add(terms.iter().map(|t| t.scale(c)).collect())),
            Op::Mul(factors) => match factors[0].as_const() {
                Some(d) => Expr::with_coefficient(c * d, &factors[1..]),
                None => Expr::with_coefficient(c.clone(), factors),
            },
            _ => Expr::with_coefficient(c.clone(), std::slice::from_ref(self)),
        }
    }
    /// c times factors in normal form.
    fn with_coefficient(c: Rational, factors: &[Expr]) -> Expr {
        match factors {
            [one] if c.is_one() => one.clone(),
            _ if c.is_one() => Expr::make(Op::Mul(factors.to_vec())),
            _ => Expr::make(Op::Mul(std::iter::once(Expr::constant(c)).chain(factors.iter().cloned()).collect())),
        }
    }
    pub fn neg(&self) -> Expr {
        self.scale(&rational::int(-1))
    }
    pub fn minus(&self, other: &Expr) -> Expr {
        Expr::add([self.clone(), other.neg()])
    }
    pub fn plus(&self, other: &Expr) -> Expr {
        Expr::add([self.clone(), other.clone()])
    }

    /// (c, x) with self = c · x and x free of a constant factor.
    pub fn split_coefficient(&self) -> (Rational, Expr) {
        match self.op() {
            Op::Const(c) => (c.clone(), Expr::one()),
            Op::Mul(factors) => match factors[0].as_const() {
                Some(c) => (c.clone(), Expr::with_coefficient(Rational::one(), &factors[1..])),
                None => (Rational::one(), self.clone()),
            },
            _ => (Rational::one(), self.clone()),
        }
    }
    /// The constant factor.
    fn coefficient(&self) -> Rational {
        let factor = match self.op() {
            Op::Mul(factors) => factors[0].as_const(),
            _ => self.as_const(),
        };
        factor.cloned().unwrap_or_else(Rational::one)
    }

    /// The terms of a sum, or the term itself.
    pub fn terms(&self) -> Vec<Expr> {
        match self.op() {
            Op::Add(terms) => terms.clone(),
            _ => vec![self.clone()],
        }
    }
    /// The factors of a product, or the term itself.
    pub fn factors(&self) -> Vec<Expr> {
        match self.op() {
            Op::Mul(factors) => factors.clone(),
            _ => vec![self.clone()],
        }
    }

    /// (content, primitive part): for a sum the common rational factor with the sign of its first coefficient.
    pub fn split_content(&self) -> (Rational, Expr) {
        let Op::Add(terms) = self.op() else { return self.split_coefficient() };
        let coefficients: Vec<Rational> = terms.iter().map(Expr::coefficient).collect();
        let mut content = rational::content(&coefficients);
        if coefficients[0].is_negative() {
            content = -content;
        }
        let inverse = content.recip();
        (content, self.scale(&inverse))
    }

    // Products and powers.

    /// Π factors, powers of one base collected.
    pub fn mul(factors: impl IntoIterator<Item = Expr>) -> Expr {
        let mut constant = Rational::one();
        let mut exponents: Vec<Expr> = Vec::new();
        // Bases and their exponents; alone, a power is what it was.
        let mut powers: Vec<(Expr, Rational, Expr)> = Vec::new();
        let mut push = |factor: &Expr| match factor.op() {
            Op::Const(c) => constant *= c,
            Op::Add(_) => {
                let (c, primitive) = factor.split_content();
                constant *= c;
                powers.push((primitive.clone(), Rational::one(), primitive));
            }
            Op::Pow(base, r) => powers.push((base.clone(), r.clone(), factor.clone())),
            Op::Call(Func::Exp, x) => exponents.push(x.clone()),
            _ => powers.push((factor.clone(), Rational::one(), factor.clone())),
        };
        for factor in factors {
            match factor.op() {
                Op::Mul(inner) => inner.iter().for_each(&mut push),
                _ => push(&factor),
            }
        }
        if constant.is_zero() {
            return Expr::zero();
        }
        let mut flat = Vec::new();
        let mut again = Vec::new();
        powers.sort_by(|(a, ..), (b, ..)| a.cmp(b));
        for same in powers.chunk_by(|(a, ..), (b, ..)| a == b) {
            let power = match same {
                [(_, _, alone)] => alone.clone(),
                _ => collect_power(&same[0].0, same.iter().map(|(_, r, _)| r)),
            };
            match power.op() {
                Op::Const(_) | Op::Mul(_) => again.push(power),
                _ => flat.push(power),
            }
        }
        let exponent = Expr::add(exponents);
        if !exponent.is_zero() {
            flat.push(exponent.exp());
        }
        drop_redundant_visibility(&mut flat);
        if !again.is_empty() {
            again.extend(flat);
            again.push(Expr::constant(constant));
            return Expr::mul(again);
        }
        flat.sort();
        match (flat.len(), constant.is_one()) {
            (0, _) => Expr::constant(constant),
            (1, true) => flat.remove(0),
            (1, false) if matches!(flat[0].op(), Op::Add(_)) => flat[0].scale(&constant),
            (_, true) => Expr::make(Op::Mul(flat)),
            (_, false) => {
                flat.insert(0, Expr::constant(constant));
                Expr::make(Op::Mul(flat))
            }
        }
    }
    pub fn times(&self, other: &Expr) -> Expr {
        Expr::mul([self.clone(), other.clone()])
    }
    pub fn over(&self, other: &Expr) -> Expr {
        self.times(&other.pow(&rational::int(-1)))
    }
    pub fn square(&self) -> Expr {
        self.pow(&rational::int(2))
    }

    /// self^r, the total power.
    pub fn pow(&self, r: &Rational) -> Expr {
        if r.is_zero() {
            return Expr::one();
        }
        if r.is_one() {
            return self.clone();
        }
        let keep = || Expr::make(Op::Pow(self.clone(), r.clone()));
        match self.op() {
            Op::Const(c) => rational::exact_power(c, r).map_or_else(keep, Expr::constant),
            Op::Pow(base, s) => {
                let both = r * s;
                if base.sign().is_nonnegative() || (r.is_integer() && s.is_integer()) {
                    base.pow(&both)
                } else if rational::is_even_integer(s) {
                    base.abs().pow(&both)
                } else {
                    keep()
                }
            }
            Op::Call(Func::Exp, x) => x.scale(r).exp(),
            // 0 and 1 are their own powers.
            Op::Leaf(leaf) if leaf.role == Role::Visible => self.clone(),
            Op::Mul(factors) => {
                let splits = |f: &Expr| r.is_integer() || f.sign().is_nonnegative();
                if !factors.iter().any(splits) {
                    return keep();
                }
                let (inside, outside): (Vec<Expr>, Vec<Expr>) = factors.iter().cloned().partition(|f| !splits(f));
                let outside = outside.iter().map(|f| f.pow(r));
                if inside.is_empty() {
                    Expr::mul(outside)
                } else {
                    let rest = Expr::mul(inside);
                    let kept = Expr::make(Op::Pow(rest, r.clone()));
                    Expr::mul(outside.chain([kept]))
                }
            }
            Op::Add(_) => {
                let (c, primitive) = self.split_content();
                let (c, primitive) =
                    if r.is_integer() || c.is_positive() { (c, primitive) } else { (-c, primitive.neg()) };
                if c.is_one() {
                    return Expr::make(Op::Pow(primitive, r.clone()));
                }
                let outside = Expr::constant(c).pow(r);
                Expr::mul([outside, Expr::make(Op::Pow(primitive, r.clone()))])
            }
            _ => keep(),
        }
    }
    pub fn sqrt(&self) -> Expr {
        self.pow(&rational::ratio(1, 2))
    }

    // Elementwise functions.

    pub fn exp(&self) -> Expr {
        match self.op() {
            Op::Const(c) if c.is_zero() => Expr::one(),
            Op::Call(Func::Log, x) => x.clone(),
            _ => match self.minus_softplus() {
                // exp(−log(1 + eˣ)) = σ(−x)
                Some(x) => x.neg().sigmoid(),
                None => Expr::make(Op::Call(Func::Exp, self.clone())),
            },
        }
    }
    /// x when the term is −softplus(x).
    fn minus_softplus(&self) -> Option<&Expr> {
        let Op::Mul(factors) = self.op() else { return None };
        match factors.as_slice() {
            [c, x] if *c == Expr::int(-1) => match x.op() {
                Op::Call(Func::Softplus, x) => Some(x),
                _ => None,
            },
            _ => None,
        }
    }
    pub fn log(&self) -> Expr {
        match self.op() {
            Op::Const(c) if c.is_one() => Expr::zero(),
            Op::Call(Func::Exp, x) => x.clone(),
            // log σ(x) = −log(1 + e⁻ˣ)
            Op::Call(Func::Sigmoid, x) => x.neg().softplus().neg(),
            _ => Expr::make(Op::Call(Func::Log, self.clone())),
        }
    }
    pub fn abs(&self) -> Expr {
        if self.sign().is_nonnegative() {
            return self.clone();
        }
        if self.sign().negate().is_nonnegative() {
            return self.neg();
        }
        let (c, primitive) = self.split_content();
        let (known, unknown): (Vec<Expr>, Vec<Expr>) =
            primitive.factors().into_iter().partition(|f| f.sign().is_nonnegative());
        let inner = Expr::make(Op::Call(Func::Abs, Expr::mul(unknown)));
        Expr::mul(known.into_iter().chain([Expr::constant(c.abs()), inner]))
    }
    /// −1, 0 or 1.
    pub fn signum(&self) -> Expr {
        match self.sign() {
            Sign::Positive => return Expr::one(),
            Sign::Negative => return Expr::int(-1),
            Sign::Zero => return Expr::zero(),
            _ => {}
        }
        let (c, primitive) = self.split_content();
        let kept = primitive.factors().into_iter().filter(|f| f.sign() != Sign::Positive);
        let inner = Expr::make(Op::Call(Func::Sign, Expr::mul(kept)));
        inner.scale(&c.signum())
    }
    /// x where a ≤ b, else y.
    pub fn select(a: &Expr, b: &Expr, x: &Expr, y: &Expr) -> Expr {
        if x == y {
            return x.clone();
        }
        match (a.as_const(), b.as_const()) {
            (Some(p), Some(q)) => (if p <= q { x } else { y }).clone(),
            _ if a.minus(b).sign().negate().is_nonnegative() => x.clone(),
            _ if a.minus(b).sign() == Sign::Positive => y.clone(),
            _ => Expr::make(Op::Select(Box::new([a.clone(), b.clone(), x.clone(), y.clone()]))),
        }
    }

    // Reductions.

    /// Σ_axis body; a constant factor stands in front, and components that are all the same are counted.
    pub fn sum(axis: Axis, body: &Expr) -> Expr {
        let (c, rest) = body.split_content();
        if c.is_zero() {
            return Expr::zero();
        }
        if let (false, Some(length)) = (rest.has_axis(axis), Leaf::length(axis)) {
            return body.times(&Expr::leaf(length));
        }
        let (axis, rest) = bind(axis, &rest);
        let sum = Expr::make(Op::Sum(axis, rest));
        if c.is_one() { sum } else { Expr::mul([Expr::constant(c), sum]) }
    }
    pub fn smoothmax(kind: &Entropy, axis: Axis, scores: &Expr) -> Expr {
        let (axis, scores) = bind(axis, scores);
        Expr::make(Op::SmoothMax(kind.clone(), axis, scores))
    }
    pub fn weights(kind: &Entropy, axis: Axis, scores: &Expr) -> Expr {
        Expr::make(Op::Weights(kind.clone(), axis, scores.clone()))
    }
    /// The x along `column` with Σ_column matrix·x = right along `row`.
    pub fn solve(row: Axis, column: Axis, matrix: &Expr, right: &Expr) -> Expr {
        let (c, right) = right.split_content();
        if c.is_zero() {
            return Expr::zero();
        }
        let taken = matrix.axes().union(right.axes()).without(row).with(column);
        let canonical = taken.fresh(row.space);
        let [matrix, right] = [matrix, &right].map(|x| traverse::rename(x, row, canonical));
        let solution = Expr::make(Op::Solve(Box::new(System { row: canonical, column, matrix, right })));
        if c.is_one() { solution } else { Expr::mul([Expr::constant(c), solution]) }
    }
    /// Σ_e a_e b_e over the components both share.
    pub fn dot(a: &Expr, b: &Expr) -> Expr {
        Expr::sum(Axis::E, &a.times(b))
    }

    /// Whether the term is 0 at every token the query does not see.
    pub fn vanishes_unseen(&self, token: Axis) -> bool {
        match self.op() {
            Op::Leaf(leaf) => {
                matches!(leaf.role, Role::Weights | Role::Share | Role::Visible | Role::Adjoint)
                    && leaf.axes.contains(&token)
            }
            Op::Weights(_, axis, _) => *axis == token,
            Op::Pow(x, _) => x.vanishes_unseen(token),
            Op::Call(func, x) if func.keeps_zero() => x.vanishes_unseen(token),
            Op::Mul(xs) => xs.iter().any(|x| x.vanishes_unseen(token)),
            _ => false,
        }
    }

    /// (i, s) when the term is log Σ_i exp(s), which overflows as written and not as a smooth maximum.
    pub fn as_log_sum_exp(&self) -> Option<(Axis, Expr)> {
        let Op::Call(Func::Log, sum) = self.op() else { return None };
        let Op::Sum(axis, body) = sum.op() else { return None };
        match body.op() {
            Op::Call(Func::Exp, scores) => Some((*axis, scores.clone())),
            _ => None,
        }
    }

    /// The immediate subterms.
    pub fn children(&self) -> Vec<&Expr> {
        self.op().children()
    }
}

impl Op {
    fn children(&self) -> Vec<&Expr> {
        match self {
            Op::Const(_) | Op::Leaf(_) => vec![],
            Op::Pow(x, _) | Op::Call(_, x) | Op::Weights(_, _, x) | Op::SmoothMax(_, _, x) | Op::Sum(_, x) => vec![x],
            Op::Select(parts) => parts.iter().collect(),
            Op::Solve(s) => vec![&s.matrix, &s.right],
            Op::Mul(xs) | Op::Add(xs) => xs.iter().collect(),
        }
    }
}

/// The terms of a thread, by their hashes, so that what is built twice is stored once and compared in one look. Nothing
/// depends on it: a term that is not found is made.
#[derive(Default)]
struct Shared {
    terms: HashMap<u64, Weak<Node>, BuildHasherDefault<Stored>>,
    /// As many as there may be before those that nobody holds any more are taken out.
    room: usize,
}

thread_local! {
    static SHARED: RefCell<Shared> = RefCell::default();
}

impl Shared {
    const ROOM: usize = 1 << 14;

    fn find(&self, op: &Op, hash: u64) -> Option<Expr> {
        let found = Expr(self.terms.get(&hash)?.upgrade()?);
        Equal::default().parts(found.op(), op).then_some(found)
    }

    fn keep(&mut self, e: &Expr) {
        if self.terms.len() >= self.room {
            self.terms.retain(|_, term| term.strong_count() > 0);
            self.room = Shared::ROOM.max(2 * self.terms.len());
        }
        self.terms.insert(e.0.hash, Arc::downgrade(&e.0));
    }
}

/// The term of an operation, the one there is if there is one.
fn share(op: Op, hash: u64) -> Expr {
    let found = SHARED.try_with(|shared| shared.borrow().find(&op, hash));
    found.ok().flatten().unwrap_or_else(|| {
        let (axes, sign, inputs) = (axes_of(&op), sign_of(&op), inputs_of(&op));
        let height = op.children().iter().map(|x| x.0.height + 1).max().unwrap_or(0);
        let number = MADE.fetch_add(1, Relaxed);
        let made = Expr(Arc::new(Node { axes, sign, hash, inputs, height, number, op }));
        let _ = SHARED.try_with(|shared| shared.borrow_mut().keep(&made));
        made
    })
}

/// Visibility changes nothing beside a factor that is 0 wherever the token is not seen.
fn drop_redundant_visibility(factors: &mut Vec<Expr>) {
    let is_visibility = |f: &Expr| f.as_leaf().filter(|l| l.role == Role::Visible).map(|l| l.axes[1]);
    let Some(token) = factors.iter().find_map(is_visibility) else { return };
    if factors.iter().any(|f| is_visibility(f).is_none() && f.vanishes_unseen(token)) {
        factors.retain(|f| is_visibility(f) != Some(token));
    }
}

/// base^(e₁)·base^(e₂)·…; when the exponents cancel, 1 where base ≠ 0 and 0 where base = 0.
fn collect_power<'a>(base: &Expr, exponents: impl Iterator<Item = &'a Rational>) -> Expr {
    let total: Rational = exponents.sum();
    if !total.is_zero() {
        return base.pow(&total);
    }
    match base.sign() {
        s if s.is_nonzero() => Expr::one(),
        s if s.is_nonnegative() => base.signum(),
        _ => base.signum().pow(&rational::int(2)),
    }
}

/// Renames a bound axis to the canonical one: the smallest index ≥ 1 not otherwise free in the body.
fn bind(axis: Axis, body: &Expr) -> (Axis, Expr) {
    if axis.space == Space::Query {
        return (axis, body.clone());
    }
    let canonical = body.axes().without(axis).fresh(axis.space);
    (canonical, traverse::rename(body, axis, canonical))
}

fn axes_of(op: &Op) -> AxisSet {
    // A reduction over tokens looks at the tokens its query sees.
    let visible = |axis: Axis, set: AxisSet| if axis.space == Space::Token { set.with(Axis::T) } else { set };
    match op {
        Op::Const(_) => AxisSet::EMPTY,
        Op::Leaf(leaf) => AxisSet::of(&leaf.axes),
        Op::Pow(x, _) | Op::Call(_, x) => x.axes(),
        Op::Weights(_, axis, x) => visible(*axis, x.axes().with(*axis)),
        Op::SmoothMax(_, axis, x) | Op::Sum(axis, x) => visible(*axis, x.axes().without(*axis)),
        Op::Select(parts) => parts.iter().fold(AxisSet::EMPTY, |s, x| s.union(x.axes())),
        Op::Solve(s) => s.matrix.axes().union(s.right.axes()).without(s.row).with(s.column),
        Op::Mul(xs) | Op::Add(xs) => xs.iter().fold(AxisSet::EMPTY, |s, x| s.union(x.axes())),
    }
}

fn inputs_of(op: &Op) -> u64 {
    match op {
        Op::Leaf(leaf) => leaf.bit(),
        op => op.children().into_iter().fold(0, |bits, x| bits | x.0.inputs),
    }
}

fn sign_of(op: &Op) -> Sign {
    match op {
        Op::Const(c) if c.is_zero() => Sign::Zero,
        Op::Const(c) if c.is_positive() => Sign::Positive,
        Op::Const(_) => Sign::Negative,
        Op::Leaf(leaf) => leaf.sign,
        Op::Pow(x, r) => power_sign(x.sign(), r),
        Op::Call(func, x) => func.sign(x.sign()),
        Op::Weights(..) => Sign::NonNegative,
        Op::SmoothMax(..) | Op::Solve(_) => Sign::Unknown,
        Op::Select(parts) => {
            let [a, b, x, y] = &**parts;
            // b ≥ a in the first branch, a > b in the second.
            let (not_above, below) = (at_most(b.sign()), at_most(a.sign()));
            let (not_below, above) = (at_most(a.sign().negate()).negate(), at_most(b.sign().negate()).negate());
            let strict = |sign: Sign| match sign {
                Sign::NonPositive => Sign::Negative,
                Sign::NonNegative => Sign::Positive,
                sign => sign,
            };
            let mut first = SignWhere::new(&[(a, not_above), (b, not_below)]);
            let mut second = SignWhere::new(&[(a, strict(above)), (b, strict(below))]);
            first.of(x).join(second.of(y))
        }
        Op::Sum(_, x) => x.sign(),
        Op::Mul(xs) => xs.iter().fold(Sign::Positive, |s, x| s.times(x.sign())),
        Op::Add(xs) => xs.iter().fold(Sign::Zero, |s, x| s.plus(x.sign())),
    }
}

/// What is known of a number that is at most one of this sign.
fn at_most(bound: Sign) -> Sign {
    match bound {
        Sign::Negative => Sign::Negative,
        Sign::Zero | Sign::NonPositive => Sign::NonPositive,
        _ => Sign::Unknown,
    }
}

/// The signs of terms where more is known of the signs of some of their subterms.
struct SignWhere<'a> {
    known: Vec<(&'a Expr, Sign)>,
    memo: Memo<Sign>,
}

impl<'a> SignWhere<'a> {
    fn new(known: &[(&'a Expr, Sign)]) -> SignWhere<'a> {
        let more = known.iter().copied().filter(|(_, sign)| *sign != Sign::Unknown);
        SignWhere { known: more.collect(), memo: Memo::default() }
    }

    fn of(&mut self, e: &Expr) -> Sign {
        let here = self.known.iter().filter(|(term, _)| *term == e).fold(e.sign(), |s, (_, more)| s.meet(*more));
        if here.is_nonzero() || self.known.is_empty() {
            return here;
        }
        if let Some(sign) = self.memo.get(e) {
            return *sign;
        }
        let composed = match e.op() {
            Op::Pow(x, r) => power_sign(self.of(x), r),
            Op::Mul(xs) => xs.iter().fold(Sign::Positive, |s, x| s.times(self.of(x))),
            Op::Add(xs) => xs.iter().fold(Sign::Zero, |s, x| s.plus(self.of(x))),
            _ => return here,
        };
        let sign = here.meet(composed);
        self.memo.insert(e.clone(), sign);
        sign
    }
}

pub(crate) fn power_sign(base: Sign, r: &Rational) -> Sign {
    match base {
        Sign::Positive | Sign::NonNegative | Sign::Zero => base,
        Sign::Negative if rational::is_even_integer(r) => Sign::Positive,
        _ if rational::is_even_integer(r) => Sign::NonNegative,
        s if r.is_integer() => s,
        _ => Sign::Unknown,
    }
}

impl fmt::Display for Entropy {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Entropy::Shannon => write!(f, "shannon"),
            Entropy::Tsallis(a) => write!(f, "tsallis:{a}"),
            Entropy::Norm(g) => write!(f, "norm:{g}"),
        }
    }
}

/// The stable text form: an s-expression.
impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let list = |f: &mut fmt::Formatter, head: &str, xs: &[Expr]| {
            write!(f, "({head}")?;
            xs.iter().try_for_each(|x| write!(f, " {x}"))?;
            write!(f, ")")
        };
        match self.op() {
            Op::Const(c) => write!(f, "{c}"),
            Op::Leaf(leaf) if leaf.axes.is_empty() => write!(f, "{}", leaf.name),
            Op::Leaf(leaf) => {
                let axes: Vec<String> = leaf.axes.iter().map(|a| a.to_string()).collect();
                write!(f, "{}[{}]", leaf.name, axes.join(","))
            }
            Op::Pow(x, r) => write!(f, "(pow {x} {r})"),
            Op::Call(func, x) => write!(f, "({} {x})", func.name()),
            Op::Weights(kind, axis, x) => write!(f, "(weights {kind} {axis} {x})"),
            Op::SmoothMax(kind, axis, x) => write!(f, "(smoothmax {kind} {axis} {x})"),
            Op::Select(parts) => list(f, "select", &parts[..]),
            Op::Solve(s) => write!(f, "(solve {} {} {} {})", s.row, s.column, s.matrix, s.right),
            Op::Sum(axis, x) => write!(f, "(sum {axis} {x})"),
            Op::Mul(xs) => list(f, "*", xs),
            Op::Add(xs) => list(f, "+", xs),
        }
    }
}
