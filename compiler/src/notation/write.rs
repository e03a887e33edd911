//! From terms with named axes to formulas with vectors, inner products and indices.
//!
//! The component axis is never written: a term that extends along it is a vector, Σ_e a_e b_e is an inner product,
//! Σ_e x_e² a squared norm, two component axes make a matrix. Tokens are indexed i, j, …; queries t, and only where a sum
//! over queries makes them visible.

use super::math::{Math, Symbol};
use super::unit::with_units;
use crate::ir::{Axis, AxisSet, Entropy, Expr, Func, Leaf, Op, Rational, Role, Space, rational, traverse};
use num_traits::{One, Signed};

/// Letters for token indices, in the order they are taken.
const LETTERS: [&str; 6] = ["i", "j", "l", "m", "i'", "j'"];

/// A name that ends so is written with a hat.
pub const HAT: char = '^';

/// Writes terms; remembers which means x̄ it has used.
#[derive(Clone, Default)]
pub struct Writer {
    /// Terms that have a name: shown as a symbol wherever they occur.
    pub known: Vec<(Expr, Leaf)>,
    /// Whether Σ_i p_i x_i may be written x̄.
    pub means: bool,
    /// Whether x/‖x‖ may be written x̂.
    pub units: bool,
    /// Whether log Σ exp is told apart from the stable primitive, as proofs must.
    pub primitives: bool,
    /// The means that were written, as (weights, vector).
    pub used_means: Vec<(Leaf, Leaf)>,
    /// The x of the x̂ that were written.
    pub used_units: Vec<Leaf>,
    letters: Vec<(Axis, &'static str)>,
    show_query: bool,
    /// Component axes are written as indices e, f, …: the way out where vectors and matrices do not suffice.
    show_components: bool,
    /// Vector notation could not say what was asked of it.
    stuck: bool,
    /// What may still be written of the formula.
    left: usize,
}

/// Subterms a formula is written out to; what comes after is left out.
const MAX_WRITTEN: usize = 10_000;

impl Writer {
    /// A writer that names means and knows some terms.
    pub fn new(known: Vec<(Expr, Leaf)>) -> Writer {
        Writer { known, means: true, ..Writer::default() }
    }

    /// The same writer, which may write x/‖x‖ as x̂ or may not.
    pub fn with_unit_vectors(self, units: bool) -> Writer {
        Writer { units, ..self }
    }

    /// A writer that tells primitives apart.
    pub fn of_proofs() -> Writer {
        Writer { primitives: true, ..Writer::default() }
    }

    /// The formula of a term. A term that is a mean and nothing else is written out.
    pub fn write(&mut self, e: &Expr) -> Math {
        let e = &self.with_units(e);
        self.show_components = false;
        let formula = self.attempt(e);
        if !self.stuck {
            return formula;
        }
        self.show_components = true;
        self.attempt(e)
    }

    /// The term with unit vectors, where they may be written so.
    fn with_units(&mut self, e: &Expr) -> Expr {
        if !self.units {
            return e.clone();
        }
        let (term, used) = with_units(e, &|x: &Expr| self.multiple_of_known(x).is_some());
        for x in used {
            let x = Leaf { axes: vec![], ..x };
            if !self.used_units.contains(&x) {
                self.used_units.push(x);
            }
        }
        term
    }

    /// The formula of a term as a part of another.
    pub fn write_inside(&mut self, e: &Expr) -> Math {
        match e.op() {
            Op::Sum(axis, body) if self.means && mean(*axis, body).is_some() => self.token_sum_or_mean(*axis, body),
            _ => self.write(e),
        }
    }

    fn attempt(&mut self, e: &Expr) -> Math {
        self.letters.clear();
        self.stuck = false;
        self.left = MAX_WRITTEN;
        self.show_query =
            traverse::subterms(e).iter().any(|x| matches!(x.op(), Op::Sum(a, _) if a.space == Space::Query));
        for axis in e.axes().iter().filter(|a| a.space == Space::Token) {
            let letter = self.free_letter();
            self.letters.push((axis, letter));
        }
        let (c, rest) = e.split_coefficient();
        match rest.op() {
            Op::Sum(axis, body) if mean(*axis, body).is_some() => signed(&c, self.token_sum(*axis, body)),
            _ => self.term(e),
        }
    }

    fn free_letter(&self) -> &'static str {
        LETTERS.into_iter().find(|l| !self.letters.iter().any(|(_, used)| used == l)).unwrap_or("n")
    }

    fn term(&mut self, e: &Expr) -> Math {
        if self.left == 0 {
            return Math::omitted();
        }
        self.left -= 1;
        if let Some(symbol) = self.lookup(e) {
            return symbol;
        }
        match e.op() {
            Op::Const(c) => signed(c, Math::one()),
            Op::Leaf(leaf) => Math::Symbol(self.symbol(leaf)),
            Op::Add(xs) => self.sum(xs),
            Op::Mul(_) => self.product(e),
            Op::Pow(base, r) if r.is_negative() => Math::fraction(Math::one(), self.power(base, &-r)),
            Op::Pow(base, r) => self.power(base, r),
            Op::Call(Func::Exp, x) => self.exponential(x),
            Op::Call(Func::Log, x) => Math::Call("log", Box::new(self.term(x))),
            Op::Call(Func::Abs, x) => Math::Abs(Box::new(self.term(x))),
            Op::Call(Func::Sign, x) => Math::Call("sign", Box::new(self.term(x))),
            Op::Call(Func::Sigmoid, x) => Math::Call("σ", Box::new(self.term(x))),
            Op::Call(Func::Softplus, x) => Math::Call("softplus", Box::new(self.term(x))),
            Op::Call(Func::Tanh, x) => Math::Call("tanh", Box::new(self.term(x))),
            // 1 − tanh²(x)
            Op::Call(Func::TanhSlope, x) => {
                let tanh = Math::Call("tanh", Box::new(self.term(x)));
                Math::Sum(vec![(false, Math::one()), (true, raised(tanh, &rational::int(2)))])
            }
            Op::Call(Func::LogCosh, x) => Math::Call("log cosh", Box::new(self.term(x))),
            Op::Select(p) => match positive_part(e) {
                Some(x) => Math::Positive(Box::new(self.term(&x))),
                None => Math::Cases {
                    left: Box::new(self.term(&p[0])),
                    right: Box::new(self.term(&p[1])),
                    then: Box::new(self.term(&p[2])),
                    otherwise: Box::new(self.term(&p[3])),
                },
            },
            Op::Sum(axis, body) => match axis.space {
                Space::Head | Space::Model => self.component_sum(*axis, body),
                Space::Token => self.token_sum_or_mean(*axis, body),
                Space::Query => Math::Over("Σ", "t".into(), Box::new(self.term(body))),
            },
            Op::Solve(s) => {
                let matrix = self.matrix_inside(&s.matrix, s.row, s.column);
                self.stuck |= matrix.is_none();
                let matrix = matrix.unwrap_or_else(|| self.term(&s.matrix));
                Math::Product(vec![raised(matrix, &rational::int(-1)), self.term(&s.right)])
            }
            Op::SmoothMax(kind, axis, s) => self.smoothmax(kind, *axis, s),
            Op::Weights(kind, _, s) => {
                let name = match kind {
                    Entropy::Shannon => "softmax",
                    Entropy::Tsallis(_) => "entmax",
                    Entropy::Norm(_) => "normmax",
                };
                Math::Call(name, Box::new(self.term(s)))
            }
        }
    }

    /// The symbol of a known term, at whatever axes it occurs.
    fn lookup(&self, e: &Expr) -> Option<Math> {
        self.multiple_of_known(e).map(|(c, symbol)| signed(&c, symbol))
    }

    /// (c, symbol) when the term is c times a known one.
    fn multiple_of_known(&self, e: &Expr) -> Option<(Rational, Math)> {
        self.known.iter().find_map(|(known, leaf)| {
            let ((a, x), (b, y)) = (canonical_axes(e, known)?.split_coefficient(), known.split_coefficient());
            let leaf = Leaf { axes: e.axes().iter().collect(), ..leaf.clone() };
            (x == y).then(|| (a / b, Math::Symbol(self.symbol(&leaf))))
        })
    }

    fn symbol(&self, leaf: &Leaf) -> Symbol {
        let mut symbol = match leaf.name.strip_suffix(HAT) {
            Some(name) => Symbol { hat: true, ..Symbol::new(name) },
            None => Symbol::new(&leaf.name),
        };
        for axis in &leaf.axes {
            match axis.space {
                Space::Query if self.show_query => symbol.indices.push("t".into()),
                Space::Token => {
                    let letter = self.letters.iter().rev().find(|(a, _)| a == axis).map_or("i", |(_, l)| l);
                    symbol.indices.push(letter.into());
                }
                Space::Head if self.show_components => symbol.indices.push(component(*axis).into()),
                _ => {}
            }
        }
        symbol
    }

    /// Terms, a positive one first where there is one.
    fn sum(&mut self, xs: &[Expr]) -> Math {
        let mut terms: Vec<(bool, Math)> = Vec::new();
        for x in xs {
            terms.push(self.signed_term(x));
            if self.left == 0 {
                break;
            }
        }
        if terms.len() < xs.len() {
            terms.push((false, Math::omitted()));
        }
        // The normal form has its constant last; 1 + x reads better.
        if let Some(last) = terms.pop_if(|(minus, m)| !*minus && matches!(m, Math::Number(_))) {
            terms.insert(0, last);
        }
        positive_first(terms)
    }

    /// A term of a sum: whether it is subtracted, and what.
    fn signed_term(&mut self, e: &Expr) -> (bool, Math) {
        let is_product = matches!(e.op(), Op::Mul(_)) && self.left > 0 && self.multiple_of_known(e).is_none();
        if is_product {
            self.left -= 1;
        }
        let (minus, m) = if is_product { self.signed_product(e, true) } else { (false, self.term(e)) };
        match m {
            Math::Sum(mut terms) if terms.len() == 1 => {
                let (inner, m) = terms.remove(0);
                (minus != inner, m)
            }
            m => (minus, m),
        }
    }

    /// exp(x), and y^c for exp(c log y).
    fn exponential(&mut self, x: &Expr) -> Math {
        let (logs, others): (Vec<Expr>, Vec<Expr>) =
            x.factors().into_iter().partition(|f| matches!(f.op(), Op::Call(Func::Log, _)));
        match logs.first().map(Expr::op) {
            Some(Op::Call(_, y)) if logs.len() == 1 && !self.primitives => {
                let (base, exponent) = (self.term(y), self.term(&Expr::mul(others)));
                Math::Power(Box::new(base), Box::new(exponent))
            }
            _ => match (x.op(), self.primitives) {
                // exp(x + log y) is y exp(x).
                (Op::Add(terms), false) if terms.iter().any(is_logarithm) => {
                    let (logs, others): (Vec<Expr>, Vec<Expr>) = terms.iter().cloned().partition(is_logarithm);
                    let logs = logs.iter().map(|log| log.exp());
                    self.term(&Expr::mul(logs.chain([Expr::add(others).exp()])))
                }
                _ => Math::Exp(Box::new(self.term(x))),
            },
        }
    }

    fn power(&mut self, base: &Expr, r: &Rational) -> Math {
        if r.is_one() {
            return self.term(base);
        }
        if let Op::Sum(axis, body) = base.op()
            && let Some(x) = square(body).filter(|_| matches!(axis.space, Space::Head | Space::Model))
        {
            let norm = Math::Norm(Box::new(self.term(&x)), None);
            let exponent = r * rational::int(2);
            return if exponent.is_one() { norm } else { raised(norm, &exponent) };
        }
        // (a − 1)² reads better as (1 − a)².
        let turns = rational::is_even_integer(r) && is_negative(base);
        let inner = if turns { self.term(&base.neg()) } else { self.term(base) };
        if *r == rational::ratio(1, 2) {
            return Math::Root(Box::new(inner));
        }
        raised(inner, r)
    }

    fn product(&mut self, e: &Expr) -> Math {
        let (minus, product) = self.signed_product(e, false);
        if minus { product.negated() } else { product }
    }

    /// Whether a minus stands in front of a product, and the product: a coefficient as a fraction, then scalars,
    /// vectors, and Σ last.
    fn signed_product(&mut self, e: &Expr, is_term: bool) -> (bool, Math) {
        let (c, rest) = e.split_coefficient();
        if let Some(minimum) = self.minimum(&c, &rest) {
            return (false, minimum);
        }
        let minus = c.is_negative();
        let mut c = c.abs();
        // Which pairs are seen is said in words, beside the formulas.
        let mut factors: Vec<Expr> = rest.factors().into_iter().filter(|f| !is_visibility(f)).collect();
        let is_whole = |t: &Expr| t.split_coefficient().0.is_integer();
        if let Some(at) = only_sum(&factors)
            && !(c.is_integer() && factors[at].terms().iter().all(is_whole))
            && factors[at].scale(&c).terms().iter().any(|t| t.split_coefficient().0.abs().is_one())
        {
            // ½(2a − b) reads better as (a − b/2), and 2(½a + b) as (a + 2b).
            factors[at] = factors[at].scale(&c);
            c = Rational::one();
        }
        let (mut minus, turned) = self.turned(&factors, minus, is_term);
        let toward = |j: usize, x: &Expr| if turned[j] { x.neg() } else { x.clone() };
        let (mut above, mut below, mut sums, mut vectors, mut roots) = (vec![], vec![], vec![], vec![], vec![]);
        let (mut divisors, mut numbers) = (vec![], vec![]);
        // Weights per component stand in front of the vectors they weigh.
        let mut weights = 0;
        if !c.numer().is_one() {
            above.push(Math::Number(Rational::from_integer(c.numer().clone())));
        }
        if !c.denom().is_one() {
            below.push(Math::Number(Rational::from_integer(c.denom().clone())));
        }
        for (j, factor) in factors.iter().enumerate() {
            if self.left == 0 {
                above.push(Math::omitted());
                break;
            }
            let is_vector = factor.axes().has_space(Space::Head) || factor.axes().has_space(Space::Model);
            let written = |this: &mut Self| {
                let beside = factors.iter().zip(&turned).filter(|(_, turned)| **turned);
                match beside.map(|(other, _)| other).find_map(|other| turned_around(factor, other)) {
                    _ if turned[j] => this.negated(factor),
                    Some((base, r)) => raised(this.term(&base), &r),
                    None => this.term(factor),
                }
            };
            match factor.op() {
                Op::Pow(base, r) if r.is_negative() && !is_vector => below.push(self.power(&toward(j, base), &-r)),
                Op::Pow(base, r) if r.is_negative() && !self.show_components && is_sum(base) => {
                    divisors.push(self.power(&toward(j, base), &-r))
                }
                _ if is_weight(factor) => {
                    vectors.insert(weights, written(self));
                    weights += 1;
                }
                _ if is_vector => vectors.push(written(self)),
                Op::Add(_) if factor.axes().is_empty() => numbers.push(written(self)),
                Op::Sum(..)
                | Op::SmoothMax(..)
                | Op::Call(Func::Log | Func::TanhSlope, _)
                | Op::Add(_)
                | Op::Mul(_) => sums.push(written(self)),
                Op::Pow(base, r) if *r == rational::ratio(1, 2) && factor.axes().is_empty() => {
                    roots.push(self.term(base))
                }
                _ => above.push(written(self)),
            }
        }
        if !roots.is_empty() {
            above.push(Math::Root(Box::new(Math::product(roots))));
        }
        // A name may turn out to be the negative of what stands here.
        for sum in &mut sums {
            if matches!(sum, Math::Sum(terms) if terms.iter().all(|(minus, _)| *minus)) {
                *sum = std::mem::replace(sum, Math::one()).negated();
                minus = !minus;
            }
        }
        let is_open = |m: &Math| matches!(m, Math::Over(..) | Math::Call("log", _));
        let (open_numbers, mut coefficients): (Vec<Math>, Vec<Math>) = numbers.into_iter().partition(is_open);
        let (open, closed): (Vec<Math>, Vec<Math>) = sums.into_iter().partition(is_open);
        let mut open: Vec<Math> = open_numbers.into_iter().chain(open).collect();
        let mut out = Vec::new();
        // Whether nothing else is divided by.
        let is_whole = below.is_empty();
        if open.len() == 1 && vectors.is_empty() && below.iter().any(|b| matches!(b, Math::Over(..))) {
            // A ratio of two sums.
            let ratio = Math::fraction(open.remove(0), Math::product(below));
            out.extend(above.into_iter().chain(coefficients).chain(closed).chain([ratio]));
        } else if e.axes().is_empty() && open.is_empty() {
            // A number, such as (1 + a)/(2b).
            let above = above.into_iter().chain(coefficients).chain(closed).collect();
            out.push(Math::fraction(Math::product(above), Math::product(below)));
        } else if open.is_empty() && below.iter().any(has_index) && is_short_above(&closed, &vectors, &divisors) {
            // What the divisor belongs to stands above it: p_i (v_i − q)/(c + ‖q − k_i‖²).
            let above =
                above.into_iter().chain(coefficients).chain(closed).chain(std::mem::take(&mut vectors)).collect();
            out.push(Math::fraction(Math::product(above), Math::product(below)));
        } else if ![&open, &vectors, &closed, &coefficients].iter().all(|all| all.is_empty()) {
            // The coefficient stands in front; what carries an index stays with the rest.
            let (indexed, mut plain): (Vec<Math>, Vec<Math>) =
                above.into_iter().partition(|m| has_index(m) && !below.iter().any(has_index));
            if !below.is_empty() {
                plain.append(&mut coefficients);
            }
            out.push(Math::fraction(Math::product(plain), Math::product(below)));
            out.extend(coefficients.into_iter().chain(indexed).chain(closed));
        } else {
            out.push(Math::fraction(Math::product(above), Math::product(below)));
        }
        if !divisors.is_empty() && !vectors.is_empty() {
            // Entry by entry, as the product is.
            let above = match vectors.len() {
                1 if is_whole => Math::product(out.drain(..).chain([vectors.remove(0)]).collect()),
                1 => vectors.remove(0),
                _ => Math::Elementwise(std::mem::take(&mut vectors)),
            };
            let below =
                if divisors.len() == 1 { divisors.remove(0) } else { Math::Elementwise(std::mem::take(&mut divisors)) };
            vectors.push(Math::fraction(above, below));
        }
        vectors.extend(divisors.into_iter().map(|divisor| Math::fraction(Math::one(), divisor)));
        match vectors.len() {
            0 => {}
            1 => out.push(vectors.remove(0)),
            _ if self.show_components => out.extend(vectors),
            _ => out.push(Math::Elementwise(vectors)),
        }
        out.extend(open);
        (minus, single_inner_over(Math::product(out)))
    }

    /// Whether a minus is left, and which factors are written turned around, (b − a) for (a − b).
    ///
    /// 1 − a reads better than a − 1, and −(a + b) better than −a − b, at the price of a minus. A minus goes into a
    /// difference: −(a − b) is b − a, −sign(a − b) is sign(b − a). Among the terms of a sum it stays, unless all there
    /// is beside a difference of two letters is numbers.
    fn turned(&self, factors: &[Expr], minus: bool, is_term: bool) -> (bool, Vec<bool>) {
        let mut turned: Vec<bool> = factors.iter().map(is_negative).collect();
        let minus = minus != (turned.iter().filter(|turned| **turned).count() % 2 == 1);
        if !minus {
            return (false, turned);
        }
        let is_number = |j: usize| factors[j].axes().is_empty();
        let goes_into = |j: &usize| !turned[*j] && self.reads_better_negated(&factors[*j]);
        let last = (0..factors.len()).rfind(goes_into);
        match last {
            Some(last) if is_term && !is_turnable_at(factors, last) => return (true, turned),
            Some(last) => turned[last] = true,
            None if is_term => return (true, turned),
            None => match (0..factors.len()).rfind(|j| turned[*j] && is_number(*j)) {
                Some(last) => turned[last] = false,
                None => return (true, turned),
            },
        }
        (false, turned)
    }

    /// Whether −e can be written without a leading minus by turning a difference around.
    fn reads_better_negated(&self, e: &Expr) -> bool {
        match e.op() {
            Op::Add(terms) => terms.iter().any(is_subtracted) || terms.iter().all(is_turnable),
            Op::Call(Func::Sign | Func::Tanh, x) => matches!(x.op(), Op::Add(_)) && self.reads_better_negated(x),
            Op::Pow(x, r) if r.is_integer() && r.is_positive() && !rational::is_even_integer(r) => {
                is_plain(x) && self.reads_better_negated(x)
            }
            Op::Sum(axis, body) if axis.space == Space::Token => {
                body.factors().iter().any(|f| self.reads_better_negated(f))
            }
            _ => false,
        }
    }

    /// −e, written by turning a difference around.
    fn negated(&mut self, e: &Expr) -> Math {
        match e.op() {
            Op::Call(Func::Sign, x) => Math::Call("sign", Box::new(self.term(&x.neg()))),
            Op::Call(Func::Tanh, x) => Math::Call("tanh", Box::new(self.term(&x.neg()))),
            Op::Sum(axis, body) if axis.space == Space::Token => self.token_sum(*axis, &body.neg()),
            Op::Pow(base, r) => self.power(&base.neg(), r),
            _ => self.term(&e.neg()),
        }
    }

    /// −T·max_p (Σ p s + H(p)) is min_p (Σ p E − T·H(p)) with E = −T s.
    fn minimum(&mut self, c: &Rational, rest: &Expr) -> Option<Math> {
        let factors = rest.factors();
        let at =
            factors.iter().position(|f| matches!(f.op(), Op::SmoothMax(Entropy::Tsallis(_) | Entropy::Norm(_), ..)))?;
        let Op::SmoothMax(kind, axis, scores) = factors[at].op() else { return None };
        let temperature =
            Expr::mul(factors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, f)| f.clone())).scale(&-c);
        if temperature.sign() != crate::ir::Sign::Positive || temperature.has_axis(*axis) {
            return None;
        }
        let letter = self.free_letter();
        self.letters.push((*axis, letter));
        let energy = self.term(&scores.times(&temperature).neg());
        self.letters.pop();
        let weighted = match energy {
            Math::Sum(mut terms) if terms.len() == 1 => {
                let (minus, m) = terms.remove(0);
                (minus, Math::Over("Σ", letter.into(), Box::new(Math::product(vec![Math::indexed("p", letter), m]))))
            }
            m => (false, Math::Over("Σ", letter.into(), Box::new(Math::product(vec![Math::indexed("p", letter), m])))),
        };
        let entropy = Math::product(vec![self.term(&temperature), entropy_symbol(kind)]);
        Some(Math::Over("min", "p".into(), Box::new(Math::Sum(vec![weighted, (true, entropy)]))))
    }

    fn token_sum_or_mean(&mut self, axis: Axis, body: &Expr) -> Math {
        match mean(axis, body) {
            Some((weights, vector)) if self.means => {
                let used = (Leaf { axes: vec![], ..weights.clone() }, Leaf { axes: vec![], ..vector.clone() });
                if !self.used_means.contains(&used) {
                    self.used_means.push(used);
                }
                let mut symbol = mean_symbol(&weights, &vector);
                if self.show_query {
                    symbol.indices.push("t".into());
                }
                Math::Symbol(symbol)
            }
            _ => self.token_sum(axis, body),
        }
    }

    fn token_sum(&mut self, axis: Axis, body: &Expr) -> Math {
        let letter = self.free_letter();
        self.letters.push((axis, letter));
        let body = self.term(body);
        self.letters.pop();
        Math::Over("Σ", letter.into(), Box::new(body))
    }

    /// log Σ exp for Shannon; max over the simplex otherwise.
    fn smoothmax(&mut self, kind: &Entropy, axis: Axis, s: &Expr) -> Math {
        let letter = self.free_letter();
        self.letters.push((axis, letter));
        let is_sum = *kind == Entropy::Shannon && !self.primitives;
        let scores = if is_sum { self.term(&s.exp()) } else { self.term(s) };
        self.letters.pop();
        let over = |body: Math| Math::Over("Σ", letter.into(), Box::new(body));
        match kind {
            Entropy::Shannon if self.primitives => {
                Math::Over("lse", letter.into(), Box::new(Math::Call("", Box::new(scores))))
            }
            Entropy::Shannon => Math::Call("log", Box::new(over(scores))),
            Entropy::Tsallis(_) | Entropy::Norm(_) => {
                let p = Math::indexed("p", letter);
                let entropy = entropy_symbol(kind);
                let value = Math::Sum(vec![(false, over(Math::product(vec![p, scores]))), (false, entropy)]);
                Math::Over("max", "p".into(), Box::new(value))
            }
        }
    }

    /// Σ over components: norms, inner products, matrix–vector products.
    fn component_sum(&mut self, axis: Axis, body: &Expr) -> Math {
        if self.show_components {
            return Math::Over("Σ", component(axis).into(), Box::new(self.term(body)));
        }
        let (c, rest) = body.split_coefficient();
        if let Op::Add(terms) = rest.op() {
            let sums: Vec<Expr> = terms.iter().map(|t| Expr::sum(axis, &t.scale(&c))).collect();
            // Sums that are the same are added.
            let all = Expr::add(sums.iter().cloned());
            return if all.terms().len() < sums.len() { self.term(&all) } else { self.sum(&sums) };
        }
        if let Some(x) = square(&rest) {
            let norm = Math::Norm(Box::new(self.term(&x)), None);
            return signed(&c, raised(norm, &rational::int(2)));
        }
        if let Some((x, p)) = absolute_power(&rest) {
            let norm = Math::Norm(Box::new(self.term(&x)), Some(p.clone()));
            return signed(&c, if p.is_one() { norm } else { raised(norm, &p) });
        }
        let factors = rest.factors().into_iter().filter(|f| !is_visibility(f));
        let (vectors, scalars): (Vec<Expr>, Vec<Expr>) = factors.partition(|f| f.has_axis(axis));
        let scalars: Vec<Math> = scalars.iter().map(|s| self.term(s)).collect();
        // A vector that is a multiple of a known one lends its number to the whole.
        let known: Vec<(Rational, Expr)> = vectors
            .into_iter()
            .map(|v| match self.multiple_of_known(&v) {
                Some((number, _)) => (number.clone(), v.scale(&number.recip())),
                None => (Rational::one(), v),
            })
            .collect();
        let c = known.iter().fold(c, |c, (number, _)| c * number);
        let vectors: Vec<Expr> = known.into_iter().map(|(_, v)| v).collect();
        let inner = self.contraction(axis, &vectors);
        signed(&c, Math::product(scalars.into_iter().chain([inner]).collect()))
    }

    fn contraction(&mut self, axis: Axis, vectors: &[Expr]) -> Math {
        let is_matrix = |e: &Expr| e.axes().iter().any(|a| a.space == axis.space && a != axis);
        if let Some(at) = vectors.iter().position(is_matrix) {
            let row = vectors[at].axes().iter().find(|a| a.space == axis.space && *a != axis).unwrap_or(axis);
            let is_alone = vectors.len() == 1;
            if let Some(matrix) = self.matrix_inside(&vectors[at], row, axis).filter(|_| !is_alone) {
                let others: Vec<Math> =
                    vectors.iter().enumerate().filter(|(j, _)| *j != at).map(|(_, v)| self.term(v)).collect();
                let vector =
                    if others.len() == 1 { others.into_iter().next() } else { Some(Math::Elementwise(others)) };
                return Math::Product(vec![matrix].into_iter().chain(vector).collect());
            }
            self.stuck = true;
        }
        // The cotangent or probe first, then q, then weights per component, then the rest.
        let mut order: Vec<&Expr> = vectors.iter().collect();
        order.sort_by_key(|v| match v.as_leaf().map(|l| l.role) {
            Some(Role::Probe) => 0,
            Some(Role::Query) => 1,
            _ if is_weight(v) => 2,
            _ => 3,
        });
        let mut parts: Vec<Math> = order.into_iter().map(|v| self.term(v)).collect();
        match parts.len() {
            1 => Math::Over("Σ", "e".into(), Box::new(Math::Entry(Box::new(parts.remove(0)), "e".into()))),
            2 => {
                let second = parts.remove(1);
                Math::Inner(Box::new(parts.remove(0)), Box::new(second))
            }
            _ => {
                let first = parts.remove(0);
                Math::Inner(Box::new(first), Box::new(Math::Elementwise(parts)))
            }
        }
    }

    /// A term along two component axes, as a matrix.
    pub fn matrix(&mut self, e: &Expr, row: Axis, column: Axis) -> Option<Math> {
        self.left = MAX_WRITTEN;
        self.matrix_inside(e, row, column)
    }

    fn matrix_inside(&mut self, e: &Expr, row: Axis, column: Axis) -> Option<Math> {
        if self.left == 0 {
            return Some(Math::omitted());
        }
        self.left -= 1;
        match e.op() {
            Op::Leaf(leaf) if leaf.axes.contains(&row) && leaf.axes.contains(&column) => {
                Some(Math::Symbol(self.symbol(leaf)))
            }
            Op::Add(xs) => {
                let terms = xs.iter().map(|x| {
                    let (c, rest) = x.split_coefficient();
                    Some((c.is_negative(), self.matrix_inside(&rest.scale(&c.abs()), row, column)?))
                });
                Some(positive_first(terms.collect::<Option<Vec<_>>>()?))
            }
            Op::Sum(Axis::T, body) => {
                Some(Math::Over("Σ", "t".into(), Box::new(self.matrix_inside(body, row, column)?)))
            }
            Op::Sum(axis, body) if axis.space == Space::Token => {
                let letter = self.free_letter();
                self.letters.push((*axis, letter));
                let body = self.matrix_inside(body, row, column);
                self.letters.pop();
                Some(Math::Over("Σ", letter.into(), Box::new(body?)))
            }
            Op::Mul(_) => {
                let (c, rest) = e.split_coefficient();
                let both = AxisSet::of(&[row, column]);
                let (mut scalars, mut rows, mut columns, mut matrices) = (vec![], vec![], vec![], vec![]);
                for f in rest.factors().into_iter().filter(|f| !is_visibility(f)) {
                    match (f.has_axis(row), f.has_axis(column)) {
                        (false, false) => scalars.push(f),
                        (true, false) => rows.push(f),
                        (false, true) => columns.push(f),
                        (true, true) => matrices.push(f),
                    }
                }
                let front = Expr::mul(scalars.into_iter().chain([Expr::constant(c.abs())]));
                let vector = |this: &mut Self, parts: &[Expr]| this.term(&Expr::mul(parts.iter().cloned()));
                let body = match (matrices.as_slice(), rows.is_empty(), columns.is_empty()) {
                    ([], false, false) => Math::Outer(Box::new(vector(self, &rows)), Box::new(vector(self, &columns))),
                    ([m], true, true) => self.matrix_inside(m, row, column)?,
                    ([m], false, true) if m.as_leaf().is_some_and(Leaf::is_identity) => {
                        Math::Call("diag", Box::new(vector(self, &rows)))
                    }
                    _ => return None,
                };
                debug_assert!(both.is_subset(e.axes()));
                let product = Math::product(vec![self.term(&front), body]);
                Some(if c.is_negative() { product.negated() } else { product })
            }
            Op::Select(p) => {
                let mut branch = |x: &Expr| {
                    if x.is_zero() {
                        Some(signed(&rational::int(0), Math::one()))
                    } else {
                        self.matrix_inside(x, row, column)
                    }
                };
                let (then, otherwise) = (branch(&p[2])?, branch(&p[3])?);
                Some(Math::Cases {
                    left: Box::new(self.term(&p[0])),
                    right: Box::new(self.term(&p[1])),
                    then: Box::new(then),
                    otherwise: Box::new(otherwise),
                })
            }
            _ => None,
        }
    }
}

/// Whether a term is a difference of letters, or a function of one, and all beside it is numbers.
fn is_turnable(term: &Expr) -> bool {
    let factors = term.factors();
    (0..factors.len()).any(|at| is_turnable_at(&factors, at))
}

fn is_turnable_at(factors: &[Expr], at: usize) -> bool {
    let is_number = |(j, f): (usize, &Expr)| j == at || f.axes().is_empty();
    is_plain(&factors[at]) && factors.iter().enumerate().all(is_number)
}

/// Whether a difference, or what it is the argument of, is one of letters, q − k_i.
fn is_plain(e: &Expr) -> bool {
    match e.op() {
        Op::Call(Func::Sign | Func::Tanh, x) => is_plain(x),
        Op::Add(terms) => terms.iter().all(|term| term.split_coefficient().1.as_leaf().is_some()),
        _ => false,
    }
}

/// Whether a factor reads better with a minus taken out: a − 1, which is −(1 − a), a sum whose terms are all
/// subtracted, and odd powers of these.
fn is_negative(e: &Expr) -> bool {
    match e.op() {
        Op::Pow(base, r) => r.is_integer() && !rational::is_even_integer(r) && is_sum(base) && is_negative(base),
        Op::Add(terms) => is_less_number(e, terms) || terms.iter().all(is_subtracted),
        _ => false,
    }
}

/// a − 1, of numbers.
fn is_less_number(e: &Expr, terms: &[Expr]) -> bool {
    e.axes().is_empty() && terms.last().and_then(Expr::as_const).is_some_and(|c| c.is_negative())
}

/// Whether a term of a sum is written with a minus.
fn is_subtracted(term: &Expr) -> bool {
    let (c, rest) = term.split_coefficient();
    c.is_negative() != (rest.factors().iter().filter(|f| is_negative(f)).count() % 2 == 1)
}

/// x when the term is { 0 if x ≤ 0, else x }, the positive part of x.
pub fn positive_part(e: &Expr) -> Option<Expr> {
    let Op::Select(parts) = e.op() else { return None };
    let [a, b, then, otherwise] = &**parts;
    (then.is_zero() && *otherwise == a.minus(b)).then(|| otherwise.clone())
}

fn is_logarithm(e: &Expr) -> bool {
    matches!(e.op(), Op::Call(Func::Log, _))
}

fn is_visibility(e: &Expr) -> bool {
    e.as_leaf().is_some_and(|leaf| leaf.role == Role::Visible)
}

/// The index letter of a component axis.
fn component(axis: Axis) -> &'static str {
    ["e", "f", "g", "a", "b"].get(axis.index as usize).copied().unwrap_or("c")
}

/// S(p), the entropy of the weights; which one, the document says.
pub fn entropy_symbol(_kind: &Entropy) -> Math {
    Math::Call("S", Box::new(Math::symbol("p")))
}

/// The entropy written out.
pub fn entropy_formula(kind: &Entropy) -> Math {
    let p = || Math::indexed("p", "i");
    let over = |body: Math| Math::Over("Σ", "i".into(), Box::new(body));
    match kind {
        Entropy::Shannon => over(Math::Product(vec![p(), Math::Call("log", Box::new(p()))])).negated(),
        Entropy::Tsallis(alpha) => {
            let difference = Math::Sum(vec![(false, p()), (true, raised(p(), alpha))]);
            let scale = alpha * (alpha - rational::int(1));
            over(coefficient_of(&scale.recip(), difference))
        }
        Entropy::Norm(gamma) => {
            let norm = Math::Norm(Box::new(Math::symbol("p")), Some(gamma.clone()));
            Math::Sum(vec![(false, Math::one()), (true, norm)])
        }
    }
}

fn coefficient_of(c: &Rational, m: Math) -> Math {
    if c.is_one() { m } else { Math::Product(vec![Math::Number(c.clone()), m]) }
}

/// The sum of terms, the first one that is not subtracted in front.
fn positive_first(mut terms: Vec<(bool, Math)>) -> Math {
    if let Some(first) = terms.iter().position(|(minus, _)| !minus) {
        let positive = terms.remove(first);
        terms.insert(0, positive);
    }
    Math::sum(terms)
}

/// c·m with c's sign in front.
fn signed(c: &Rational, m: Math) -> Math {
    let product = if c.abs().is_one() { m } else { coefficient(c.abs(), m) };
    if c.is_negative() { product.negated() } else { product }
}

fn coefficient(c: Rational, m: Math) -> Math {
    if m.is_one() { Math::Number(c) } else { Math::product(vec![Math::Number(c), m]) }
}

fn raised(base: Math, r: &Rational) -> Math {
    Math::Power(Box::new(base), Box::new(signed(r, Math::one())))
}

/// (1/x)·(a·b) with nothing else is the fraction (a·b)/x, and (1/x) v is v/x.
fn single_inner_over(m: Math) -> Math {
    match m {
        Math::Product(mut parts) if parts.len() == 2 => match (&parts[0], &parts[1]) {
            (
                Math::Fraction(one, below),
                Math::Symbol(_) | Math::Inner(..) | Math::Power(..) | Math::Norm(..) | Math::Cases { .. },
            ) if one.is_one() => {
                let below = below.clone();
                Math::Fraction(Box::new(parts.remove(1)), below)
            }
            _ => Math::Product(parts),
        },
        m => m,
    }
}

/// Whether what is multiplied fits above a divisor: inner products and norms, and one short vector.
fn is_short_above(numbers: &[Math], vectors: &[Math], divisors: &[Math]) -> bool {
    let is_short = |m: &Math| matches!(m, Math::Symbol(_) | Math::Sum(_) | Math::Call(..));
    let is_number = |m: &Math| matches!(m, Math::Inner(..) | Math::Power(..) | Math::Norm(..));
    divisors.is_empty() && vectors.len() <= 1 && vectors.iter().all(is_short) && numbers.iter().all(is_number)
}

/// Whether a formula carries an index, so that it belongs under its Σ and not into the coefficient.
fn has_index(m: &Math) -> bool {
    match m {
        Math::Symbol(s) => !s.indices.is_empty(),
        Math::Number(_) => false,
        Math::Power(x, _) | Math::Abs(x) | Math::Root(x) | Math::Norm(x, _) | Math::Exp(x) | Math::Call(_, x) => {
            has_index(x)
        }
        Math::Product(xs) => xs.iter().any(has_index),
        Math::Sum(terms) => terms.iter().any(|(_, term)| has_index(term)),
        _ => true,
    }
}

fn is_sum(e: &Expr) -> bool {
    matches!(e.op(), Op::Add(_))
}

/// (−x, r) when the factor is an even power of x and sign(x) is being turned around beside it.
fn turned_around(factor: &Expr, flipped: &Expr) -> Option<(Expr, Rational)> {
    match (factor.op(), flipped.op()) {
        (Op::Pow(base, r), Op::Call(Func::Sign, x)) if base == x && rational::is_even_integer(r) => {
            Some((base.neg(), r.clone()))
        }
        _ => None,
    }
}

/// The place of the only sum among factors.
fn only_sum(factors: &[Expr]) -> Option<usize> {
    let mut sums = factors.iter().enumerate().filter(|(_, f)| matches!(f.op(), Op::Add(_)));
    let (at, _) = sums.next()?;
    sums.next().is_none().then_some(at)
}

/// x when the term is x².
fn square(e: &Expr) -> Option<Expr> {
    match e.op() {
        Op::Pow(x, r) if *r == rational::int(2) => Some(x.clone()),
        Op::Mul(factors) => {
            let roots: Option<Vec<Expr>> = factors.iter().map(square).collect();
            roots.map(Expr::mul)
        }
        _ => None,
    }
}

/// (x, p) when the term is |x|^p.
fn absolute_power(e: &Expr) -> Option<(Expr, Rational)> {
    match e.op() {
        Op::Call(Func::Abs, x) => Some((x.clone(), Rational::one())),
        Op::Pow(base, r) => match base.op() {
            Op::Call(Func::Abs, x) => Some((x.clone(), r.clone())),
            // |x|⁴ is x⁴.
            _ if rational::is_even_integer(r) && r.is_positive() => Some((base.clone(), r.clone())),
            _ => None,
        },
        _ => None,
    }
}

/// x̄, numbered as its weights are: x̄ for p, x̄₂ for p₂.
pub fn mean_symbol(weights: &Leaf, vector: &Leaf) -> Symbol {
    let number = weights.name.trim_start_matches(|c: char| !c.is_ascii_digit());
    Symbol { bar: true, ..Symbol::new(&format!("{}{number}", vector.name)) }
}

/// (p, x) when Σ_axis body is the mean Σ_i p_i x_i of a vector.
fn mean(axis: Axis, body: &Expr) -> Option<(Leaf, Leaf)> {
    let Op::Mul(factors) = body.op() else { return None };
    let [a, b] = factors.as_slice() else { return None };
    let (a, b) = (a.as_leaf()?, b.as_leaf()?);
    let (weights, vector) = if a.role == Role::Weights { (a, b) } else { (b, a) };
    let is_mean = axis.space == Space::Token
        && weights.role == Role::Weights
        && matches!(vector.role, Role::Key | Role::Value)
        && !vector.name.ends_with(HAT)
        && vector.axes.contains(&axis);
    is_mean.then(|| (weights.clone(), vector.clone()))
}

/// `e` with its token and component axes named as in `known`, when both have the same kinds of axes.
fn canonical_axes(e: &Expr, known: &Expr) -> Option<Expr> {
    let (from, to): (Vec<Axis>, Vec<Axis>) = (e.axes().iter().collect(), known.axes().iter().collect());
    let same = from.len() == to.len() && from.iter().zip(&to).all(|(a, b)| a.space == b.space);
    same.then(|| from.iter().zip(&to).filter(|(a, b)| a != b).fold(e.clone(), |e, (&a, &b)| traverse::rename(&e, a, b)))
}

/// Whether a term is a vector along components that belongs to no token: a weight per component, or made of some.
fn is_weight(e: &Expr) -> bool {
    let axes: Vec<Axis> = e.axes().iter().collect();
    matches!(axes.as_slice(), [axis] if matches!(axis.space, Space::Head))
}
