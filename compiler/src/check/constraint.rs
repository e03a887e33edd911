//! `constrain norm(q) = rho, norm(k) = rho;`: vectors held at a length.

use std::collections::BTreeSet;

use super::axes;
use super::definition::collect_names;
use super::inputs;
use super::recipe::{Constraint, Origin, ParamValue};
use super::term::{Bindings, Checker, Place, Scope, Value};
use crate::diagnostic::{Code, Diagnostic};
use crate::ir::{Expr, Leaf, Sign};
use crate::syntax::ast::{self, Arg, CompareOp, Comparison, ExprKind};

/// The names that belong to tokens.
const TOKENS: [&str; 6] = ["q", "k", "z", "h", "E", "F"];

impl Checker<'_> {
    /// The constraints of a recipe. A name that nobody declared becomes a parameter with the value 1.
    pub fn constraints(&mut self, given: &[Comparison], params: &Bindings) -> Vec<Constraint> {
        let mut constraints: Vec<Constraint> = Vec::new();
        for comparison in given {
            let Some(constraint) = self.constraint(comparison, params) else {
                continue;
            };
            if constraints.iter().any(|other| other.vector == constraint.vector) {
                let message = format!("the length of `{}` is fixed twice", constraint.vector.name);
                self.report(Diagnostic::new(Code::BadConstraint, message).at(comparison.span, "fixed before"));
                continue;
            }
            constraints.push(constraint);
        }
        constraints
    }

    fn constraint(&mut self, comparison: &Comparison, params: &Bindings) -> Option<Constraint> {
        let vector = normed_vector(&comparison.left).filter(|_| comparison.op == CompareOp::Equal);
        let Some(vector) = vector else {
            let diagnostic = Diagnostic::new(Code::BadConstraint, "only the lengths of `q` and `k` can be constrained")
                .at(comparison.span, "not of the form `norm(q) = …`")
                .help("write `constrain norm(q) = rho, norm(k) = rho;`");
            self.report(diagnostic);
            return None;
        };
        let mut names = BTreeSet::new();
        collect_names(&comparison.right, &mut names);
        if let Some(input) = names.iter().find(|name| TOKENS.contains(*name)) {
            let diagnostic = Diagnostic::new(Code::BadConstraint, "a length must be the same for all tokens")
                .at(comparison.right.span, format!("`{input}` is different for every token"))
                .help("a length is made of numbers, parameters and sizes");
            self.report(diagnostic);
            return None;
        }
        let mut scope = self.radius_scope(&comparison.right, params);
        let radius = self.term(&comparison.right, &mut scope)?.expr;
        if radius.sign() != Sign::Positive || !radius.axes().is_empty() {
            let is = match radius.axes().is_empty() {
                true => "not known to be positive".to_string(),
                false => axes::describe_this(radius.axes()),
            };
            let diagnostic = Diagnostic::new(Code::BadConstraint, "a length must be a positive number")
                .at(comparison.right.span, is);
            self.report(diagnostic);
            return None;
        }
        Some(Constraint { vector, radius })
    }

    fn radius_scope(&mut self, radius: &ast::Expr, params: &Bindings) -> Scope {
        let mut scope = Scope::new(Place::Value);
        scope.extend(params);
        let mut names = BTreeSet::new();
        collect_names(radius, &mut names);
        for name in names {
            if scope.knows(name) || inputs::RESERVED.contains(&name) {
                continue;
            }
            let declared = self.params.term(name).map(|expr| Value::of(expr, 1));
            let value = declared.or_else(|| {
                let one = ParamValue::Fixed(Expr::one());
                self.declare(name, one, Some(Sign::Positive), Origin::Recipe, radius.span)
            });
            scope.define(name, value);
        }
        scope
    }
}

/// `q` or `k`, from `norm(q)` or `norm(k)`.
fn normed_vector(expr: &ast::Expr) -> Option<Leaf> {
    let ExprKind::Call { name, args } = &expr.node else {
        return None;
    };
    let [Arg::Value(ast::Expr { node: ExprKind::Name(vector), .. })] = args.as_slice() else {
        return None;
    };
    let known = [inputs::q(), inputs::k()].into_iter().find(|leaf| *leaf.name == **vector);
    known.filter(|_| name.text == "norm")
}
