//! The rule table: every row is an identity of the algebra on its whole domain (zeros and masks included) wherever its
//! conditions hold, and no condition is there for nothing.

use std::collections::{BTreeMap, BTreeSet};

use energyc::ir::eval::{Env, Sizes, evaluate};
use energyc::ir::sample::{Random, sample};
use energyc::ir::tensor::{Tensor, broadcast};
use energyc::ir::{Axis, Entropy, Expr, Leaf, Rational, Role, Sign, Space, rational};
use energyc::simplify::pattern::{Binding, Bindings, Pattern};
use energyc::simplify::rules::{Condition, Rule, Use, all};

const TOLERANCE: f64 = 1e-9;
const BINDINGS: usize = 24;
/// exp of more than this is infinite.
const LARGEST_EXPONENT: f64 = 700.0;
/// Without a mask, and with one.
const EITHER: [bool; 2] = [false, true];
const SIZES: [(usize, usize, usize); 3] = [(2, 3, 2), (3, 4, 1), (1, 1, 3)];

/// Conditions that steer the search; the rows hold without them.
const ABOUT_SEARCH: [(&str, Condition); 8] = [
    ("log-sum-exp", Condition::OfTokens("?i")),
    ("log-sum-scaled", Condition::OfTokens("?i")),
    ("add-commutes", Condition::NotSum("?b")),
    ("mul-commutes", Condition::NotProduct("?b")),
    ("sum-absorb", Condition::Extended("?a")),
    ("factor-one", Condition::NotConstant("?a")),
    ("select-factor-then", Condition::NotConstant("?x")),
    ("select-factor-else", Condition::NotConstant("?y")),
];

/// Rows whose conditions are needed only together: log(a·b) with one factor known positive is defined, and equal to
/// log a + log b, exactly where the other factor is positive too.
const TOGETHER: [&str; 1] = ["log-of-product"];

/// What may stand where a variable stands.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Sort {
    Term,
    Axis,
    Kind,
    Number,
}

fn sorts(rule: &Rule) -> BTreeMap<String, Sort> {
    fn visit(p: &Pattern, sort: Sort, out: &mut BTreeMap<String, Sort>) {
        match p {
            Pattern::Variable(v) => assert_eq!(*out.entry(v.clone()).or_insert(sort), sort, "{v}"),
            Pattern::Node(head, args) => {
                let sorts: &[Sort] = match head.as_str() {
                    "sum" => &[Sort::Axis, Sort::Term],
                    "weights" | "smoothmax" => &[Sort::Kind, Sort::Axis, Sort::Term],
                    "pow" => &[Sort::Term, Sort::Number],
                    _ => &[Sort::Term; 4],
                };
                args.iter().zip(sorts).for_each(|(p, s)| visit(p, *s, out));
            }
            _ => {}
        }
    }
    let mut out = BTreeMap::new();
    visit(&rule.left, Sort::Term, &mut out);
    visit(&rule.right, Sort::Term, &mut out);
    out
}

/// A new input along `axes`.
fn input(role: Role, number: usize, axes: &[Axis], sign: Sign) -> Expr {
    let name = format!("{role:?}{number}");
    Expr::leaf(Leaf::new(role, number as u16, &name, axes, sign))
}

const AXES: [&[Axis]; 8] = [
    &[],
    &[Axis::T],
    &[Axis::N],
    &[Axis::E],
    &[Axis::T, Axis::N],
    &[Axis::N, Axis::E],
    &[Axis::T, Axis::E],
    &[Axis::N, Axis::new(Space::Head, 1)],
];

/// A random term: an input, or a small combination of inputs. Numbers make the inputs of different variables differ.
fn term(random: &mut Random, number: usize) -> Expr {
    let axes = AXES[random.below(AXES.len())];
    let leaf = |j: usize, sign| input(Role::Named, 10 * number + j, axes, sign);
    let unknown = leaf(0, Sign::Unknown);
    match random.below(12) {
        0..=3 => unknown,
        4 => leaf(1, Sign::Positive),
        5 => leaf(2, Sign::NonNegative),
        6 => unknown.plus(&input(Role::Named, 10 * number + 3, AXES[random.below(8)], Sign::Unknown)),
        7 => unknown.times(&input(Role::Named, 10 * number + 4, AXES[random.below(8)], Sign::Unknown)),
        8 => unknown.pow(&rational::int([-2, -1, 2, 3][random.below(4)])),
        9 => Expr::constant(rational::ratio(random.below(9) as i64 - 4, 3)),
        10 => Expr::sum([Axis::N, Axis::E][random.below(2)], &unknown),
        _ => [unknown.exp(), unknown.abs(), unknown.signum()][random.below(3)].clone(),
    }
}

fn positive(random: &mut Random, number: usize) -> Expr {
    let leaf = input(Role::Named, 10 * number, AXES[random.below(AXES.len())], Sign::Positive);
    [leaf.clone(), leaf.square(), leaf.exp(), leaf.plus(&Expr::one())][random.below(4)].clone()
}

fn normalized(random: &mut Random, number: usize, axis: Axis) -> Expr {
    if axis.space == Space::Token && random.below(2) == 0 {
        return input(Role::Weights, number, &[Axis::T, axis], Sign::NonNegative);
    }
    Expr::weights(&kind(random), axis, &term(random, number))
}

fn kind(random: &mut Random) -> Entropy {
    let r = |n, d| rational::ratio(n, d);
    [
        Entropy::Shannon,
        Entropy::Tsallis(r(3, 2)),
        Entropy::Tsallis(r(2, 1)),
        Entropy::Norm(r(2, 1)),
        Entropy::Norm(r(7, 2)),
    ][random.below(5)]
    .clone()
}

fn number(random: &mut Random) -> Rational {
    [rational::int(2), rational::int(3), rational::int(-2), rational::int(4), rational::int(-1)][random.below(5)]
        .clone()
}

/// The axes a row is tried on. Weights and smooth maxima run over tokens or components; only sums run over queries.
#[derive(Clone, Copy, PartialEq)]
enum Over {
    Tokens,
    Queries,
}

/// Whether the row has sums and neither weights nor smooth maxima.
fn only_sums(rule: &Rule) -> bool {
    let text = format!("{:?} {:?} {:?}", rule.left, rule.right, rule.conditions);
    text.contains("\"sum\"") && !["weights", "smoothmax", "Normalized"].iter().any(|word| text.contains(word))
}

/// A random binding; half of the time it is steered towards the conditions, without which they would rarely hold.
fn bindings(rule: &Rule, over: Over, random: &mut Random) -> Bindings {
    let sorts = sorts(rule);
    let axes: &[Axis] = match over {
        Over::Queries if only_sums(rule) => &[Axis::T, Axis::N, Axis::E],
        _ => &[Axis::N, Axis::E, Axis::new(Space::Token, 1), Axis::new(Space::Head, 1)],
    };
    let mut bound: Bindings = BTreeMap::new();
    for (v, sort) in &sorts {
        let binding = match sort {
            Sort::Axis => Binding::Axis(axes[random.below(axes.len())]),
            Sort::Kind => Binding::Kind(kind(random)),
            Sort::Number => Binding::Number(number(random)),
            Sort::Term => continue,
        };
        bound.insert(v.clone(), binding);
    }
    for (j, v) in sorts.iter().filter(|(_, s)| **s == Sort::Term).map(|(v, _)| v).enumerate() {
        let mut value = term(random, j);
        for condition in &rule.conditions {
            if random.below(2) == 0 {
                continue;
            }
            match condition {
                Condition::Positive(p) if p == v => value = positive(random, j),
                Condition::Normalized(p, i) if p == v => {
                    if let Some(Binding::Axis(axis)) = bound.get(*i) {
                        value = normalized(random, j, *axis);
                    }
                }
                _ => {}
            }
        }
        bound.insert(v.clone(), Binding::Term(value));
    }
    bound
}

/// Visibility in which every query sees something and, where it can be, something is hidden.
fn mask(sizes: Sizes, random: &mut Random) -> Vec<bool> {
    let mut seen: Vec<bool> = (0..sizes.queries * sizes.tokens).map(|_| random.below(2) == 0).collect();
    for row in seen.chunks_mut(sizes.tokens) {
        row[random.below(sizes.tokens)] = true;
    }
    seen
}

/// Values with exact zeros among them, and weights that are zero on what is hidden.
fn environment(terms: &[Expr], sizes: Sizes, visible: Option<Vec<bool>>, random: &mut Random) -> Env {
    let mut env = sample(terms, sizes, &[], random);
    let leaves: BTreeSet<Leaf> = terms.iter().flat_map(energyc::ir::traverse::inputs).collect();
    for leaf in leaves.iter().filter(|l| l.sign != Sign::Positive) {
        let value = env.values.get_mut(&*leaf.name).expect("sampled");
        value.data.iter_mut().filter(|_| random.below(6) == 0).for_each(|x| *x = 0.0);
        if leaf.role != Role::Weights {
            continue;
        }
        for (t, row) in value.data.chunks_mut(sizes.tokens).enumerate() {
            for (n, p) in row.iter_mut().enumerate() {
                let seen = visible.as_ref().is_none_or(|v| v[t * sizes.tokens + n]);
                *p = if seen { *p + 0.01 } else { 0.0 };
            }
            let total: f64 = row.iter().sum();
            row.iter_mut().for_each(|p| *p /= total);
        }
    }
    env.visible = visible;
    env
}

/// The value along the axes of both terms, 0 at pairs that are hidden.
fn value(e: &Expr, other: &Expr, env: &Env) -> Tensor {
    let result = evaluate(e, env).unwrap_or_else(|problem| panic!("{e}: {problem}"));
    let axes: Vec<Axis> = e.axes().union(other.axes()).iter().collect();
    let zero = Tensor::build(&axes, |a| env.sizes.length(a), |_| 0.0);
    let mut full = broadcast(&[&result, &zero], |a| env.sizes.length(a), |v| v[0]);
    if let Some(visible) = &env.visible {
        let hidden = Tensor::build(
            &full.axes,
            |a| env.sizes.length(a),
            |index| {
                let at = |space| full.axes.iter().zip(index).filter(move |(a, _)| a.space == space).map(|(_, &i)| i);
                let mut pairs = at(Space::Query).flat_map(|t| at(Space::Token).map(move |n| (t, n)));
                f64::from(pairs.any(|(t, n)| !visible[t * env.sizes.tokens + n]))
            },
        );
        full = broadcast(&[&full, &hidden], |a| env.sizes.length(a), |v| if v[1] > 0.0 { 0.0 } else { v[0] });
    }
    full
}

/// The largest difference between the two sides on several sizes, with and without a mask; `undefined` where neither
/// has a value.
fn check(left: &Expr, right: &Expr, masks: &[bool], undefined: f64, random: &mut Random) -> f64 {
    let mut worst: f64 = 0.0;
    for (queries, tokens, head) in SIZES {
        let sizes = Sizes { queries, tokens, head, model: 2, heads: 2 };
        for &masked in masks {
            let visible = masked.then(|| mask(sizes, random));
            let env = environment(&[left.clone(), right.clone()], sizes, visible, random);
            let (a, b) = (value(left, right, &env), value(right, left, &env));
            for (&x, &y) in a.data.iter().zip(&b.data) {
                let error = match (x.is_nan(), y.is_nan()) {
                    (true, true) => undefined,
                    (false, false) if x == y => 0.0,
                    (false, false) if x.is_finite() && y.is_finite() => (x - y).abs() / (1.0 + x.abs().max(y.abs())),
                    // An exponential beyond the numbers there are: the rules say how to avoid it, and nothing is undefined.
                    (false, false) if x == f64::INFINITY && y > LARGEST_EXPONENT => 0.0,
                    _ => f64::INFINITY,
                };
                worst = worst.max(error);
            }
        }
    }
    worst
}

fn sides(rule: &Rule, bound: &Bindings) -> (Expr, Expr) {
    let side = |p: &Pattern| p.instantiate(bound).unwrap_or_else(|e| panic!("{}: {e}", rule.name));
    (side(&rule.left), side(&rule.right))
}

/// Every wrong instance of the row among `BINDINGS` that satisfy its conditions.
fn wrong_instances(rule: &Rule, over: Over, masks: &[bool]) -> Vec<String> {
    let mut random = Random::new(7);
    let (mut tried, mut telling, mut wrong) = (0, 0, Vec::new());
    for _ in 0..20_000 {
        let bound = bindings(rule, over, &mut random);
        if !rule.conditions.iter().all(|c| c.holds(&bound)) {
            continue;
        }
        let (left, right) = sides(rule, &bound);
        // An identity of the normal form has nothing left to tell; any other row must.
        telling += usize::from(left != right);
        tried += 1;
        let error = check(&left, &right, masks, f64::INFINITY, &mut random);
        if error > TOLERANCE {
            wrong.push(format!("{}: {error:.1e}\n  {left}\n  {right}\n", rule.name));
        }
        if tried >= BINDINGS && (telling >= BINDINGS || rule.usage == Use::Silent) {
            return wrong;
        }
    }
    panic!("{}: {tried} bindings, {telling} of them telling", rule.name);
}

#[test]
fn names_are_unique_and_kebab_case() {
    let rules = all();
    let names: BTreeSet<&str> = rules.iter().map(|r| r.name.as_str()).collect();
    assert_eq!(names.len(), rules.len());
    for name in names {
        let word = |w: &str| !w.is_empty() && w.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit());
        assert!(name.split('-').all(word), "{name}");
        assert!(!name.ends_with("-chain"), "{name}: the suffix means a variant");
    }
}

#[test]
fn the_readme_lists_every_row_once_in_order() {
    let readme = include_str!("../compiler/src/simplify/rules/README.md");
    let table = readme.split("## The table").nth(1).expect("a table");
    let listed: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| ")?.split(' ').next()).skip(1).collect();
    let rules = all();
    assert_eq!(listed, rules.iter().map(|r| r.name.as_str()).collect::<Vec<_>>());
}

#[test]
fn the_right_side_binds_nothing_new() {
    for rule in all() {
        let left: BTreeSet<&str> = rule.left.variables().into_iter().collect();
        let right: BTreeSet<&str> = rule.right.variables().into_iter().collect();
        assert!(right.is_subset(&left), "{}: {right:?} from {left:?}", rule.name);
    }
}

#[test]
fn every_row_holds_over_tokens_and_components() {
    let wrong = |rule: &Rule| wrong_instances(rule, Over::Tokens, &EITHER);
    let wrong: Vec<String> = all().iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn every_row_of_sums_holds_over_queries_when_all_is_visible() {
    let rules: Vec<Rule> = all().into_iter().filter(only_sums).collect();
    assert!(rules.len() >= 5, "{rules:?}");
    let wrong = |rule: &Rule| wrong_instances(rule, Over::Queries, &[false]);
    let wrong: Vec<String> = rules.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

/// A sum over queries of something at token n runs over the queries that see n, so a row that takes the only factor
/// at n out of such a sum (or puts one in) changes its value.
#[test]
fn every_row_of_sums_holds_over_queries_under_a_mask() {
    let rules: Vec<Rule> = all().into_iter().filter(only_sums).collect();
    let wrong = |rule: &Rule| wrong_instances(rule, Over::Queries, &EITHER);
    let wrong: Vec<String> = rules.iter().flat_map(wrong).collect();
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

/// Differences of the two sides over bindings that satisfy every condition except those in `without`.
fn violations(rule: &Rule, without: &[Condition], over: Over) -> Vec<f64> {
    let mut random = Random::new(11);
    let mut found = Vec::new();
    for _ in 0..20_000 {
        let bound = bindings(rule, over, &mut random);
        if rule.conditions.iter().all(|c| c.holds(&bound) != without.contains(c)) {
            let (left, right) = sides(rule, &bound);
            found.push(check(&left, &right, &EITHER, 0.0, &mut random));
        }
        if found.len() == BINDINGS {
            break;
        }
    }
    found
}

#[test]
fn every_condition_is_needed() {
    for rule in all() {
        let is_needed = |c: &&Condition| !ABOUT_SEARCH.contains(&(rule.name.as_str(), **c));
        let needed: Vec<Condition> = rule.conditions.iter().filter(is_needed).copied().collect();
        let groups: Vec<Vec<Condition>> = match TOGETHER.contains(&rule.name.as_str()) {
            true => vec![needed],
            false => needed.into_iter().map(|c| vec![c]).collect(),
        };
        for group in groups {
            let differences = [Over::Tokens, Over::Queries].map(|over| violations(&rule, &group, over));
            let worst = differences.concat().into_iter().fold(0.0, f64::max);
            assert!(worst > 1e-3, "{} holds without {group:?}", rule.name);
        }
    }
}

#[test]
fn conditions_about_the_search_are_not_about_truth() {
    for (name, condition) in ABOUT_SEARCH {
        let rule = all().into_iter().find(|r| r.name == name).expect(name);
        assert!(rule.conditions.contains(&condition), "{name} has no {condition:?}");
        let found = violations(&rule, &[condition], Over::Tokens);
        // These two hold of every term on its own, so nothing violates them here.
        let is_of_classes = matches!(condition, Condition::NotSum(_) | Condition::NotProduct(_));
        assert!(is_of_classes || !found.is_empty(), "{name}: {condition:?}");
        assert!(found.iter().all(|error| *error <= TOLERANCE), "{name}: {condition:?} {found:?}");
    }
}

#[test]
fn conditions_needed_together_hold_with_either() {
    for name in TOGETHER {
        let rule = all().into_iter().find(|r| r.name == name).expect(name);
        for condition in &rule.conditions {
            let found = violations(&rule, &[*condition], Over::Tokens);
            assert!(found.len() == BINDINGS && found.iter().all(|e| *e <= TOLERANCE), "{condition:?} {found:?}");
        }
    }
}
