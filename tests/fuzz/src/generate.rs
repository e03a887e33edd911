//! Random recipes that are valid by construction: logarithms of what is positive, roots of what is not negative,
//! components only beside components, names once each, numbers of moderate size.
//!
//! What the compiler refuses nonetheless (a sign it cannot see, a system that is always singular) is drawn again by the
//! caller, who counts it.

use crate::names::Names;
use crate::prelude;
use crate::program;
use crate::random::Random;
use crate::tree::{
    Compare, Constraint, Each, Entropy, Exponent, Expr, Function, Ingredient, Kind, Optimizer, Pairing, Param, Place,
    Ratio, Recipe, Size, Value, Values, WriteBack,
};

/// What a term's sign must be, whatever the inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Want {
    Any,
    NonNegative,
    Positive,
}

/// A recipe from a seed.
pub fn recipe(seed: u64) -> Recipe {
    let mut generator = Generator::new(seed);
    loop {
        if let Some(recipe) = generator.recipe() {
            return recipe;
        }
    }
}

/// The state of drawing one recipe.
pub struct Generator {
    pub random: Random,
    pub names: Names,
    /// The parameters of the ingredient that is being drawn.
    pub params: Vec<Param>,
    /// The recipe's own parameters.
    own: Vec<Param>,
    /// `let`s of the ingredient that may be used: name, and whether it has components.
    lets: Vec<(String, bool)>,
    /// Whether nothing with a kink may be drawn.
    is_smooth: bool,
    /// Whether exponentials may still be taken; one inside of another grows too fast.
    exponentials: usize,
}

impl Generator {
    fn new(seed: u64) -> Generator {
        Generator {
            random: Random::new(seed),
            names: Names::default(),
            params: vec![],
            own: vec![],
            lets: vec![],
            is_smooth: false,
            exponentials: 1,
        }
    }

    fn recipe(&mut self) -> Option<Recipe> {
        self.names = Names::default();
        self.own.clear();
        let solves = self.random.chance(0.22);
        self.is_smooth = solves;
        if self.random.one_in(7) {
            let name = self.names.fresh(&mut self.random);
            let value = self.value(Want::Positive);
            self.own.push(Param { name, value, is_positive: false });
        }
        let local = self.local();
        let global = self.global();
        let optimizer = program::optimizer(self, solves);
        if !mentions_input(&local.body, &local.lets, &Expr::Query) {
            return None;
        }
        if !mentions_input(&global.body, &global.lets, &Expr::Energy) {
            return None;
        }
        let values = if self.random.chance(0.4) { Values::Tied } else { Values::Free };
        let mut implied = vec![];
        let mut constraints = vec![];
        if !solves && self.random.one_in(7) {
            let radius = self.radius(&mut implied);
            let both = self.random.below(3);
            if both != 1 {
                constraints.push(Constraint { of_query: true, radius: radius.clone() });
            }
            if both != 2 {
                constraints.push(Constraint { of_query: false, radius });
            }
        }
        let modes = [WriteBack::Transpose, WriteBack::Pinv, WriteBack::Free, WriteBack::FreePinv];
        let write_back = self.random.one_in(5).then(|| self.random.pick(&modes));
        let steps = self.random.one_in(6).then(|| 1 + self.random.below(3) as u32);
        let tokens_evolve = self.random.one_in(6).then(|| self.random.one_in(2));
        let name = Names::title(&mut self.random);
        let mut params = std::mem::take(&mut self.own);
        let recipe = Recipe {
            name,
            params: vec![],
            implied,
            local,
            global,
            optimizer,
            values,
            constraints,
            write_back,
            steps,
            tokens_evolve,
        };
        params.retain(|param| uses(&recipe, &param.name));
        Some(Recipe { params, ..recipe })
    }

    fn radius(&mut self, implied: &mut Vec<String>) -> Expr {
        match self.random.below(4) {
            0 => Expr::ratio(3, 2),
            1 => Expr::Size(Size::Head).apply(Function::Sqrt),
            2 if !self.own.is_empty() => Expr::Name(self.own[0].name.clone()),
            _ => {
                let name = self.names.fresh(&mut self.random);
                implied.push(name.clone());
                let name = Expr::Name(name);
                if self.random.one_in(3) { Expr::number(2).times(name) } else { name }
            }
        }
    }

    // Values and parameters.

    pub fn number(&mut self, want: Want) -> Expr {
        let positive = [(1, 1), (2, 1), (1, 2), (3, 2), (1, 4), (3, 1), (1, 3), (7, 10), (5, 4)];
        let (numerator, denominator) = self.random.pick(&positive);
        let negative = want == Want::Any && self.random.one_in(4);
        Expr::ratio(if negative { -numerator } else { numerator }, denominator)
    }

    /// The value of a parameter, in an energy.
    pub fn value(&mut self, want: Want) -> Value {
        let sized = |size: Size| Expr::Size(size).apply(Function::Sqrt);
        let fixed = match self.random.below(6) {
            0 => sized(Size::Head),
            1 => Expr::number(1).over(sized(Size::Head)),
            _ => self.number(want),
        };
        match self.random.below(5) {
            0 | 1 => Value::Learn { init: fixed, each: Each::heads(self.random.one_in(2)) },
            _ => Value::Fixed(fixed),
        }
    }

    /// A parameter of the ingredient, new or used before.
    pub fn parameter(&mut self, want: Want) -> Expr {
        let is_number = |value: &Value| match value {
            Value::Gate | Value::QueryGate | Value::Decay | Value::Way(_) => false,
            _ => !value.is_vector(),
        };
        let fits = |p: &&Param| p.is_positive && is_number(&p.value);
        let known: Vec<String> = self.params.iter().filter(fits).map(|p| p.name.clone()).collect();
        if !known.is_empty() && self.random.one_in(2) {
            return Expr::Name(self.random.pick(&known));
        }
        if !self.own.is_empty() && self.random.one_in(2) && want != Want::Positive {
            return Expr::Name(self.own[0].name.clone());
        }
        let name = self.names.fresh(&mut self.random);
        let is_positive = want != Want::Any || self.random.one_in(2);
        let value = match self.random.below(8) {
            0 if !self.own.is_empty() => Value::Term(Expr::number(2).times(Expr::Name(self.own[0].name.clone()))),
            _ => self.value(if is_positive { Want::Positive } else { Want::Any }),
        };
        self.params.push(Param { name: name.clone(), value, is_positive });
        Expr::Name(name)
    }

    /// A parameter per component, new or used before.
    fn component_weight(&mut self, want: Want) -> Expr {
        let fits = |p: &&Param| p.value.is_vector() && (p.is_positive || want == Want::Any);
        let known: Vec<String> = self.params.iter().filter(fits).map(|p| p.name.clone()).collect();
        if !known.is_empty() && self.random.one_in(2) {
            return Expr::Name(self.random.pick(&known));
        }
        let name = self.names.fresh(&mut self.random);
        let is_positive = want != Want::Any || self.random.one_in(2);
        let init = self.number(if is_positive { Want::Positive } else { Want::Any });
        let value = Value::Learn { init, each: Each { head: self.random.one_in(2), component: true } };
        self.params.push(Param { name: name.clone(), value, is_positive });
        Expr::Name(name)
    }

    /// A gate of the query, the one there is or a new one.
    fn query_gate(&mut self) -> Expr {
        let known = self.params.iter().find(|p| p.value == Value::QueryGate).map(|p| p.name.clone());
        if let Some(name) = known {
            return Expr::Name(name);
        }
        let name = self.names.fresh(&mut self.random);
        self.params.push(Param { name: name.clone(), value: Value::QueryGate, is_positive: false });
        Expr::Name(name)
    }

    /// A number known to the compiler, in place or as a parameter.
    fn exponent(&mut self, choices: &[(i64, i64)]) -> Exponent {
        let (numerator, denominator) = self.random.pick(choices);
        let number = Ratio::new(numerator, denominator);
        if !self.random.one_in(8) {
            return Exponent::Number(number);
        }
        let name = self.names.fresh(&mut self.random);
        self.params.push(Param { name: name.clone(), value: Value::Fixed(Expr::Number(number)), is_positive: false });
        Exponent::Name(name)
    }

    // Ingredients.

    fn local(&mut self) -> Ingredient {
        self.params.clear();
        self.lets.clear();
        if self.random.chance(0.35) {
            let smooth = ["dot", "euclidean", "logcosh", "cauchy", "softcap"];
            let name = if self.is_smooth { self.random.pick(&smooth) } else { self.random.pick(&prelude::LOCALS) };
            return self.of_prelude(Kind::Local, name);
        }
        let mut lets = vec![];
        if self.random.one_in(5) {
            let has_components = self.random.one_in(2);
            let value = if has_components { self.vector(1, Want::Any) } else { self.scalar(1, Want::Any) };
            let name = self.names.fresh(&mut self.random);
            lets.push((name.clone(), value));
            self.lets.push((name, has_components));
        }
        let depth = 1 + self.random.below(3);
        let body = self.scalar(depth, Want::Any);
        self.definition(Kind::Local, lets, body)
    }

    fn global(&mut self) -> Ingredient {
        self.params.clear();
        self.lets.clear();
        if self.random.chance(0.45) {
            let name = if self.random.one_in(2) { "lse" } else { self.random.pick(&prelude::GLOBALS) };
            return self.of_prelude(Kind::Global, name);
        }
        let mut lets = vec![];
        if self.random.one_in(6) {
            let value = self.total(1, Want::Any);
            let name = self.names.fresh(&mut self.random);
            lets.push((name.clone(), value));
            self.lets.push((name, false));
        }
        let depth = 1 + self.random.below(3);
        let body = self.total(depth, Want::Any);
        self.definition(Kind::Global, lets, body)
    }

    fn definition(&mut self, kind: Kind, lets: Vec<(String, Expr)>, body: Expr) -> Ingredient {
        let mentions_own = self
            .own
            .iter()
            .any(|own| body.mentions(&own.name) || lets.iter().any(|(_, value)| value.mentions(&own.name)));
        let mut params = std::mem::take(&mut self.params);
        params.retain(|p| body.mentions(&p.name) || lets.iter().any(|(_, value)| value.mentions(&p.name)));
        // A term over the recipe's parameters can only be given where the ingredient is used.
        let has_terms = params.iter().any(|p| matches!(p.value, Value::Term(_)));
        let place = match () {
            _ if mentions_own && has_terms => {
                // Only a section sees the recipe's parameters, and only a use can be given terms: take those away.
                for param in &mut params {
                    if matches!(param.value, Value::Term(_)) {
                        param.value = Value::Fixed(Expr::number(1));
                    }
                }
                Place::Section
            }
            _ if mentions_own => Place::Section,
            _ if has_terms || self.random.one_in(4) => Place::File,
            _ => Place::Section,
        };
        let name = Names::title(&mut self.random);
        Ingredient { kind, name, params, lets, body, place }
    }

    fn of_prelude(&mut self, kind: Kind, name: &str) -> Ingredient {
        let mut ingredient = prelude::energy(kind, name);
        for param in &mut ingredient.params {
            let (is_shape, is_weight) = (
                matches!(
                    (name, param.name.as_str()),
                    ("lp", _) | ("tsallis", "alpha") | ("norm_entropy", "gamma") | ("dense_memory", _)
                ),
                name == "gated_square_sum" && param.name == "gamma",
            );
            param.value = match () {
                _ if is_weight && self.random.one_in(2) => Value::Gate,
                _ if is_weight => Value::Decay,
                _ if is_shape && name == "lp" => {
                    let choices = [(1, 1), (2, 1), (3, 1), (3, 2), (4, 1), (5, 2)];
                    let (numerator, denominator) = self.random.pick(&choices);
                    Value::Fixed(Expr::ratio(numerator, denominator))
                }
                _ if is_shape => {
                    let (numerator, denominator) = self.random.pick(&SHAPES);
                    Value::Fixed(Expr::ratio(numerator, denominator))
                }
                _ if !self.own.is_empty() && self.random.one_in(3) => {
                    Value::Term(Expr::number(2).times(Expr::Name(self.own[0].name.clone())))
                }
                _ => self.value(Want::Positive),
            };
            if !self.names.is_free(&param.name) {
                // A name that is given away: only a term brings no parameter of its own, so draw it all again.
                return self.of_prelude_without_parameters(kind);
            }
            self.names.reserve(&[&param.name]);
        }
        ingredient
    }

    fn of_prelude_without_parameters(&mut self, kind: Kind) -> Ingredient {
        match kind {
            Kind::Local => prelude::energy(Kind::Local, if self.random.one_in(2) { "dot" } else { "euclidean" }),
            Kind::Global => {
                let body =
                    Expr::Energy.negated().apply(Function::Exp).apply(Function::Sum).apply(Function::Log).negated();
                self.params.clear();
                self.definition(Kind::Global, vec![], body)
            }
        }
    }

    // Local energies.

    fn base_vector(&mut self) -> Expr {
        let named: Vec<String> = self.lets.iter().filter(|(_, components)| *components).map(|l| l.0.clone()).collect();
        if !named.is_empty() && self.random.one_in(2) {
            return Expr::Name(self.random.pick(&named));
        }
        let base = match self.random.below(8) {
            0 | 1 => Expr::Query,
            2 => Expr::Key,
            3 => Expr::Query.plus(Expr::Key),
            4 => Expr::Query.times(Expr::Key),
            _ => Expr::Query.minus(Expr::Key),
        };
        if self.random.one_in(12) { self.component_weight(Want::Any).times(base) } else { base }
    }

    /// A term with components.
    pub fn vector(&mut self, depth: usize, want: Want) -> Expr {
        if depth == 0 {
            let x = self.base_vector();
            return match want {
                Want::Any => x,
                Want::NonNegative if self.is_smooth => x.to(2, 1),
                Want::NonNegative => {
                    if self.random.one_in(2) {
                        x.to(2, 1)
                    } else {
                        x.apply(Function::Abs)
                    }
                }
                Want::Positive => Expr::number(1).plus(x.to(2, 1)),
            };
        }
        let d = depth - 1;
        match want {
            Want::Positive if self.random.one_in(12) => self.component_weight(Want::Positive),
            Want::NonNegative if self.random.one_in(10) => {
                self.component_weight(Want::Positive).times(self.vector(d, Want::NonNegative))
            }
            Want::Any if self.random.one_in(14) => match self.random.below(4) {
                0 => self.vector(d, Want::Any).plus(self.component_weight(Want::Any)),
                1 => self.vector(d, Want::Any).over(self.component_weight(Want::Positive)),
                _ => self.component_weight(Want::Any).times(self.vector(d, Want::Any)),
            },
            Want::Positive => match self.random.below(5) {
                0 => self.exponential(d, true),
                1 => self.vector(d, Want::Any).apply(Function::Sigmoid),
                2 => self.number(Want::Positive).plus(self.vector(d, Want::NonNegative)),
                3 => Expr::number(1).plus(self.vector(d, Want::Any).to(2, 1)).apply(Function::Sqrt),
                _ => Expr::number(1).plus(self.vector(d, Want::Any).to(2, 1)),
            },
            Want::NonNegative => match self.random.below(if self.is_smooth { 4 } else { 8 }) {
                0 => self.vector(d, Want::Any).to(2, 1),
                1 => self.vector(d, Want::Positive),
                2 => self.number(Want::Positive).times(self.vector(d, Want::NonNegative)),
                3 => self.vector(d, Want::NonNegative).plus(self.vector(0, Want::NonNegative)),
                4 => self.vector(d, Want::Any).apply(Function::Abs),
                5 => self.vector(d, Want::NonNegative).apply(Function::Sqrt),
                6 => {
                    let base = self.vector(d, Want::NonNegative);
                    Expr::Power(Box::new(base), self.exponent(&[(3, 2), (5, 2), (1, 2), (4, 3)]))
                }
                _ => {
                    let (a, b) = (self.vector(d, Want::NonNegative), self.vector(0, Want::NonNegative));
                    a.pair(Pairing::Max, b)
                }
            },
            Want::Any => match self.random.below(if self.is_smooth { 20 } else { 27 }) {
                0 | 1 => self.vector(d, Want::NonNegative),
                2 => self.vector(d, Want::Any).minus(self.vector(0, Want::Any)),
                3 => self.vector(d, Want::Any).plus(self.vector(0, Want::Any)),
                4 => self.vector(d, Want::Any).times(self.vector(0, Want::Any)),
                5 => self.vector(d, Want::Any).over(self.vector(d, Want::Positive)),
                6 => self.vector(d, Want::Any).apply(Function::Tanh),
                7 => self.vector(d, Want::Positive).apply(Function::Log),
                8 => self.vector(d, Want::Any).apply(Function::Softplus),
                9 => self.exponential(d, true),
                10 => self.vector(d, Want::Any).plus(self.number(Want::Any)),
                11 => self.parameter(Want::Any).times(self.vector(d, Want::Any)),
                12 => self.scalar(d.min(1), Want::Any).times(self.vector(d, Want::Any)),
                13 => self.vector(d, Want::Any).over(self.scalar(d.min(1), Want::Positive)),
                14 => self.vector(d, Want::Any).to(3, 1),
                15 => {
                    let base = self.vector(d, Want::Positive);
                    Expr::Power(Box::new(base), self.exponent(&[(-1, 1), (-1, 2), (-2, 1), (-3, 2)]))
                }
                16 => self.vector(d, Want::Any).apply(Function::Cosh).apply(Function::Log),
                17 => self.vector(d, Want::NonNegative).apply(Function::Log1p),
                18 => {
                    let x = self.vector(d, Want::Any);
                    x.clone().minus(x.apply(Function::Mean))
                }
                19 => written_tanh(self.vector(0, Want::Any)),
                20 => self.vector(d, Want::Any).apply(Function::Sign).times(self.vector(d, Want::Any)),
                21 => self.vector(d, Want::Any).pair(Pairing::Max, self.vector(0, Want::Any)),
                22 => {
                    let bound = if self.random.one_in(2) { self.number(Want::Any) } else { self.parameter(Want::Any) };
                    self.vector(d, Want::Any).pair(Pairing::Min, bound)
                }
                23 => self.choice(d, Generator::vector),
                24 => self.vector(d, Want::Any).apply(Function::Abs),
                25 => self.vector(d, Want::Any).apply(Function::Relu),
                _ => self.vector(d, Want::Any).negated(),
            },
        }
    }

    /// `if a <= b { x } else { y }` of two terms of one kind.
    fn choice(&mut self, depth: usize, term: fn(&mut Generator, usize, Want) -> Expr) -> Expr {
        let compare = self.random.pick(&[Compare::LessEqual, Compare::Less, Compare::GreaterEqual, Compare::Greater]);
        let left = term(self, 0, Want::Any);
        let right = if self.random.one_in(2) { self.number(Want::Any) } else { term(self, 0, Want::Any) };
        let then = term(self, depth, Want::Any);
        let otherwise = if self.random.one_in(3) { self.number(Want::Any) } else { term(self, 0, Want::Any) };
        Expr::choose(compare, left, right, then, otherwise)
    }

    /// exp of something that is not large, or 1 + it where exponentials have been used up.
    fn exponential(&mut self, depth: usize, components: bool) -> Expr {
        if self.exponentials == 0 {
            let inner = if components { self.vector(0, Want::Any) } else { self.scalar(0, Want::Any) };
            return Expr::number(1).plus(inner.to(2, 1));
        }
        self.exponentials -= 1;
        let inner = if components { self.vector(depth, Want::Any) } else { self.scalar(depth, Want::Any) };
        self.exponentials += 1;
        let inner = match self.random.below(3) {
            0 => inner.negated().over(Expr::number(2)),
            1 => inner.over(Expr::number(4)),
            _ => Expr::ratio(1, 2).times(inner),
        };
        inner.apply(Function::Exp)
    }

    /// One number from components.
    fn reduced(&mut self, depth: usize, want: Want) -> Expr {
        let vector = |generator: &mut Generator, want: Want| generator.vector(depth, want);
        match (want, self.random.below(6)) {
            (Want::Positive, _) => vector(self, Want::Positive).apply(Function::Sum),
            (Want::NonNegative, 0) if !self.is_smooth => {
                let x = vector(self, Want::Any);
                Expr::PowerNorm(Box::new(x), self.exponent(&[(1, 1), (3, 1), (3, 2), (4, 1)]))
            }
            (Want::NonNegative, 1 | 2) if !self.is_smooth => vector(self, Want::Any).apply(Function::Norm),
            (Want::NonNegative, 3) => vector(self, Want::Any).apply(Function::Norm).to(2, 1),
            (Want::NonNegative, _) => vector(self, Want::NonNegative).apply(Function::Sum),
            (Want::Any, 0) => vector(self, Want::Any).apply(Function::Sum),
            (Want::Any, 1 | 2) => vector(self, Want::Any).pair(Pairing::Dot, self.vector(0, Want::Any)),
            (Want::Any, 3) => Expr::Query.pair(Pairing::Dot, Expr::Key),
            (Want::Any, 4) => vector(self, Want::Any).apply(Function::Mean),
            (Want::Any, _) => self.reduced(depth, Want::NonNegative),
        }
    }

    /// A local ingredient of the prelude, called.
    fn called(&mut self) -> Expr {
        let smooth = ["dot", "euclidean", "logcosh", "cauchy", "softcap"];
        let name = if self.is_smooth { self.random.pick(&smooth) } else { self.random.pick(&prelude::LOCALS) };
        let args = match name {
            "lp" => vec![("p".to_string(), self.random.pick(&[Expr::number(2), Expr::number(3), Expr::ratio(3, 2)]))],
            "huber" => vec![("delta".to_string(), self.number(Want::Positive))],
            "cauchy" | "softcap" => vec![("c".to_string(), self.number(Want::Positive))],
            _ => vec![],
        };
        Expr::Call(name.to_string(), args)
    }

    /// A number per pair of a query and a token, in a local energy.
    pub fn scalar(&mut self, depth: usize, want: Want) -> Expr {
        let named: Vec<String> = self.lets.iter().filter(|(_, components)| !components).map(|l| l.0.clone()).collect();
        if want == Want::Any && !named.is_empty() && self.random.one_in(4) {
            return Expr::Name(self.random.pick(&named));
        }
        if depth == 0 {
            return match want {
                Want::Positive => Expr::number(1).plus(self.reduced(0, Want::NonNegative)),
                _ => self.reduced(0, want),
            };
        }
        let d = depth - 1;
        match want {
            Want::Any if self.random.one_in(16) => self.query_gate().times(self.scalar(d, Want::Any)),
            Want::Positive if self.random.one_in(24) => self.query_gate(),
            Want::Positive => match self.random.below(6) {
                0 => self.exponential(d, false),
                1 => self.reduced(d, Want::Positive),
                2 => self.parameter(Want::Positive).plus(self.scalar(d, Want::NonNegative)),
                3 => Expr::number(1).plus(self.scalar(d, Want::NonNegative)).apply(Function::Sqrt),
                4 => self.scalar(d, Want::Any).apply(Function::Sigmoid),
                _ => Expr::number(1).plus(self.scalar(d, Want::NonNegative)),
            },
            Want::NonNegative => match self.random.below(if self.is_smooth { 5 } else { 9 }) {
                0 => self.scalar(d, Want::Any).to(2, 1),
                1 => self.reduced(d, Want::NonNegative),
                2 => self.scalar(d, Want::Positive),
                3 => self.scalar(d, Want::NonNegative).plus(self.scalar(0, Want::NonNegative)),
                4 => self.scalar(d, Want::NonNegative).times(self.scalar(0, Want::NonNegative)),
                5 => self.scalar(d, Want::Any).apply(Function::Abs),
                6 => self.scalar(d, Want::NonNegative).apply(Function::Sqrt),
                7 => {
                    let base = self.scalar(d, Want::NonNegative);
                    Expr::Power(Box::new(base), self.exponent(&[(3, 2), (1, 2), (2, 3), (5, 4)]))
                }
                _ => self.scalar(d, Want::NonNegative).pair(Pairing::Max, self.scalar(0, Want::NonNegative)),
            },
            Want::Any => match self.random.below(if self.is_smooth { 20 } else { 26 }) {
                0 | 1 => self.reduced(depth, Want::Any),
                2 => self.scalar(d, Want::NonNegative),
                3 => self.scalar(d, Want::Any).minus(self.scalar(0, Want::Any)),
                4 => self.scalar(d, Want::Any).plus(self.scalar(0, Want::Any)),
                5 => self.scalar(d, Want::Any).times(self.scalar(0, Want::Any)),
                6 => self.scalar(d, Want::Any).over(self.scalar(d, Want::Positive)),
                7 => self.parameter(Want::Any).times(self.scalar(d, Want::Any)),
                8 => self.number(Want::Any).times(self.scalar(d, Want::Any)),
                9 => self.scalar(d, Want::Any).apply(Function::Tanh),
                10 => self.scalar(d, Want::Positive).apply(Function::Log),
                11 => self.scalar(d, Want::Any).apply(Function::Softplus),
                12 => self.exponential(d, false),
                13 => self.called(),
                14 => self.scalar(d, Want::Any).negated(),
                15 => {
                    let base = self.scalar(d, Want::Positive);
                    Expr::Power(Box::new(base), self.exponent(&[(-1, 1), (-1, 2), (-2, 1)]))
                }
                16 => self.scalar(d, Want::Any).apply(Function::Cosh).apply(Function::Log),
                17 => self.scalar(d, Want::NonNegative).apply(Function::Log1p),
                18 => written_sigmoid(self.scalar(d, Want::Any)),
                19 => self.scalar(d, Want::Any).apply(Function::Square),
                20 => self.scalar(d, Want::Any).apply(Function::Abs),
                21 => self.scalar(d, Want::Any).apply(Function::Sign).times(self.scalar(d, Want::Any)),
                22 => self.scalar(d, Want::Any).pair(Pairing::Max, self.scalar(0, Want::Any)),
                23 => {
                    let bound = if self.random.one_in(2) { self.number(Want::Any) } else { self.parameter(Want::Any) };
                    self.scalar(d, Want::Any).pair(Pairing::Min, bound)
                }
                24 => self.scalar(d, Want::Any).apply(Function::Relu),
                _ => self.choice(d, Generator::scalar),
            },
        }
    }

    // Global energies.

    /// A gate or a decay, the one there is or a new one.
    fn weight(&mut self) -> Expr {
        let known = self.params.iter().find(|p| matches!(p.value, Value::Gate | Value::Decay)).map(|p| p.name.clone());
        if let Some(name) = known {
            return Expr::Name(name);
        }
        let name = self.names.fresh(&mut self.random);
        let value = if self.random.one_in(2) { Value::Gate } else { Value::Decay };
        self.params.push(Param { name: name.clone(), value, is_positive: false });
        Expr::Name(name)
    }

    /// A number per token, in a global energy.
    fn each(&mut self, depth: usize, want: Want) -> Expr {
        if depth == 0 {
            return match want {
                Want::Any => Expr::Energy,
                Want::NonNegative => Expr::Energy.to(2, 1),
                Want::Positive => Expr::number(1).plus(Expr::Energy.to(2, 1)),
            };
        }
        let d = depth - 1;
        match want {
            Want::Any if self.random.one_in(20) => self.each(d, Want::Any).over(self.query_gate()),
            Want::Positive => match self.random.below(4) {
                0 => self.weight(),
                1 => self.each(d, Want::Any).apply(Function::Sigmoid),
                2 => self.small_exponential(d),
                _ => Expr::number(1).plus(self.each(d, Want::NonNegative)),
            },
            Want::NonNegative => match self.random.below(if self.is_smooth { 2 } else { 4 }) {
                0 => self.each(d, Want::Any).to(2, 1),
                1 => self.each(d, Want::Positive),
                2 => self.each(d, Want::Any).apply(Function::Abs),
                _ => self.each(d, Want::NonNegative).apply(Function::Sqrt),
            },
            Want::Any => match self.random.below(if self.is_smooth { 13 } else { 18 }) {
                0 => Expr::Energy,
                1 => self.each(d, Want::NonNegative),
                2 => self.parameter(Want::Any).times(self.each(d, Want::Any)),
                3 => self.each(d, Want::Any).over(self.parameter(Want::Positive)),
                4 => self.each(d, Want::Any).apply(Function::Tanh),
                5 => self.each(d, Want::Any).apply(Function::Softplus),
                6 => self.weight().times(self.each(d, Want::Any)),
                7 => self.each(d, Want::Any).minus(self.number(Want::Any)),
                8 => self.each(d, Want::Positive).apply(Function::Log),
                9 => self.each(d, Want::Any).over(self.each(d, Want::Positive)),
                10 => self.each(d, Want::Any).apply(Function::Cosh).apply(Function::Log),
                11 => Expr::number(1).plus(self.each(d, Want::Any).apply(Function::Exp)).apply(Function::Log),
                12 => Expr::number(1).minus(self.each(d, Want::Any).apply(Function::Sigmoid)),
                13 => self.each(d, Want::Any).pair(Pairing::Max, self.number(Want::Any)),
                14 => self.each(d, Want::Any).pair(Pairing::Min, self.parameter(Want::Any)),
                15 => self.choice(d, Generator::each),
                16 => self.each(d, Want::Any).apply(Function::Relu),
                _ => self.each(d, Want::Any).apply(Function::Sign).times(self.each(d, Want::Any)),
            },
        }
    }

    fn small_exponential(&mut self, depth: usize) -> Expr {
        let inner = self.each(depth.min(1), Want::Any);
        let temperature = match self.random.below(9) {
            0 => self.query_gate(),
            1..=4 => Expr::number(2),
            _ => self.parameter(Want::Positive),
        };
        inner.negated().over(temperature).apply(Function::Exp)
    }

    /// A number per query, in a global energy.
    fn total(&mut self, depth: usize, want: Want) -> Expr {
        if want == Want::Any && !self.lets.is_empty() && self.random.one_in(3) {
            return Expr::Name(self.lets[0].0.clone());
        }
        if depth == 0 {
            let each = self.each(1, want);
            return match self.random.below(4) {
                0 => each.apply(Function::Sum).over(Expr::Size(Size::Tokens)),
                1 => each.apply(Function::Sum).over(Expr::number(1).apply(Function::Sum)),
                _ => each.apply(Function::Sum),
            };
        }
        let d = depth - 1;
        match want {
            Want::Any if self.random.one_in(12) => match self.random.below(3) {
                0 => {
                    let vector = self.component_weight(Want::Any);
                    let reduce = self.random.pick(&[Function::Norm, Function::Sum, Function::Mean]);
                    vector.apply(reduce).times(self.total(d, Want::Any))
                }
                _ => self.query_gate().times(self.total(d, Want::Any)),
            },
            Want::Positive => match self.random.below(3) {
                0 => Expr::number(1).plus(self.total(d, Want::NonNegative)),
                1 => self.small_exponential(d).apply(Function::Sum),
                _ => self.parameter(Want::Positive).plus(self.total(d, Want::NonNegative)),
            },
            Want::NonNegative => match self.random.below(if self.is_smooth { 3 } else { 5 }) {
                0 => self.total(d, Want::Any).to(2, 1),
                1 => self.each(depth, Want::NonNegative).apply(Function::Sum),
                2 => self.total(d, Want::Positive),
                3 => self.total(d, Want::Any).apply(Function::Abs),
                _ => self.total(d, Want::NonNegative).apply(Function::Sqrt),
            },
            Want::Any => match self.random.below(if self.is_smooth { 15 } else { 19 }) {
                0 | 1 => self.each(depth, Want::Any).apply(Function::Sum),
                2 | 3 => {
                    let sum = self.small_exponential(d).apply(Function::Sum).apply(Function::Log);
                    self.parameter(Want::Positive).negated().times(sum)
                }
                4 => self.regularized(d),
                5 => self.total(d, Want::Positive).apply(Function::Log),
                6 => Expr::number(1).plus(self.total(d, Want::NonNegative)).apply(Function::Sqrt),
                7 => self.total(d, Want::Any).plus(self.total(0, Want::Any)),
                8 => self.total(d, Want::Any).times(self.total(0, Want::Any)).over(Expr::Size(Size::Tokens)),
                9 => {
                    let weight = self.each(1, Want::Positive);
                    let over = weight.clone().apply(Function::Sum);
                    weight.times(self.each(d, Want::Any)).apply(Function::Sum).over(over)
                }
                10 => self.total(d, Want::Any).over(self.total(d, Want::Positive)),
                11 => self.parameter(Want::Any).times(self.total(d, Want::Any)),
                12 => self.total(d, Want::Any).over(Expr::Size(Size::Tokens)).apply(Function::Tanh),
                13 => self.total(d, Want::Any).negated(),
                14 => {
                    let mean = Expr::Energy.apply(Function::Sum).over(Expr::number(1).apply(Function::Sum));
                    let deviation = Expr::Energy.minus(mean);
                    let each = if self.random.one_in(2) {
                        deviation.to(2, 1)
                    } else {
                        deviation.negated().over(Expr::number(2)).apply(Function::Exp)
                    };
                    each.apply(Function::Sum)
                }
                15 => self.total(d, Want::Any).pair(Pairing::Max, self.total(0, Want::Any)),
                16 => self.total(d, Want::Any).apply(Function::Abs),
                17 => self.total(d, Want::Any).pair(Pairing::Min, self.parameter(Want::Any)),
                _ => self.choice(d, Generator::total),
            },
        }
    }

    fn regularized(&mut self, depth: usize) -> Expr {
        let energy = if self.random.one_in(2) { Expr::Energy } else { self.each(depth, Want::Any) };
        // A number per token it must be.
        let energy = if mentions(&energy, &Expr::Energy) { energy } else { Expr::Energy };
        let temperature = match self.random.below(9) {
            0 => self.query_gate(),
            1..=4 => self.number(Want::Positive),
            _ => self.parameter(Want::Positive),
        };
        let entropy = if self.random.one_in(2) { Entropy::Tsallis } else { Entropy::Norm };
        let shape = self.exponent(&SHAPES);
        Expr::Minimum(entropy, Box::new(energy), Box::new(temperature), shape)
    }
}

/// exp(x)/(1 + exp(x)), which is a function's value written out.
fn written_sigmoid(x: Expr) -> Expr {
    let exp = x.apply(Function::Exp);
    exp.clone().over(Expr::number(1).plus(exp))
}

/// (exp(x) − exp(−x))/(exp(x) + exp(−x)).
fn written_tanh(x: Expr) -> Expr {
    let (up, down) = (x.clone().apply(Function::Exp), x.negated().apply(Function::Exp));
    up.clone().minus(down.clone()).over(up.plus(down))
}

/// Shapes of entropies.
const SHAPES: [(i64, i64); 5] = [(2, 1), (3, 2), (3, 1), (4, 3), (5, 2)];

fn mentions(e: &Expr, input: &Expr) -> bool {
    e == input || matches!(e, Expr::Call(..)) || e.children().into_iter().any(|child| mentions(child, input))
}

fn mentions_input(body: &Expr, lets: &[(String, Expr)], input: &Expr) -> bool {
    mentions(body, input) || lets.iter().any(|(name, value)| body.mentions(name) && mentions(value, input))
}

/// Takes away what nothing uses any more.
pub fn tidy(recipe: &mut Recipe) {
    for ingredient in [&mut recipe.local, &mut recipe.global].into_iter().filter(|i| i.place != Place::Prelude) {
        let uses = |lets: &[(String, Expr)], body: &Expr, name: &str| {
            body.mentions(name) || lets.iter().any(|(_, value)| value.mentions(name))
        };
        let Ingredient { params, lets, body, .. } = ingredient;
        for position in (0..lets.len()).rev() {
            let name = lets[position].0.clone();
            if !uses(&lets[position + 1..], body, &name) {
                lets.remove(position);
            }
        }
        params.retain(|p| uses(lets, body, &p.name));
    }
    let Optimizer { params, body, place, .. } = &mut recipe.optimizer;
    if *place != Place::Prelude {
        params.retain(|p| body.iter().any(|statement| statement.value().mentions(&p.name)));
    }
    let implied = std::mem::take(&mut recipe.implied);
    let params = std::mem::take(&mut recipe.params);
    recipe.implied = implied.into_iter().filter(|name| uses(recipe, name)).collect();
    recipe.params = params.into_iter().filter(|param| uses(recipe, &param.name)).collect();
}

/// Whether anything in the recipe uses the name.
fn uses(recipe: &Recipe, name: &str) -> bool {
    let bodies = [&recipe.local, &recipe.global].into_iter().flat_map(|i| i.lets.iter().map(|l| &l.1).chain([&i.body]));
    let statements = recipe.optimizer.body.iter().map(|statement| statement.value());
    let radii = recipe.constraints.iter().map(|constraint| &constraint.radius);
    bodies.chain(statements).chain(radii).any(|e| e.mentions(name))
        || recipe.declared().any(|param| param.value.mentions(name))
}
