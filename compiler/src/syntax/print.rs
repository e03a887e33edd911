//! Expressions as text: on one line with as few parentheses as the grammar allows, or broken over several lines when
//! they do not fit. The layout depends on the tree alone, never on how it was written before.

use std::fmt::{self, Write};

use super::ast::{Arg, BinaryOp, Comparison, Expr, ExprKind};

/// No line is longer than this if it can be helped.
pub const MAX_WIDTH: usize = 100;

/// One step of indentation.
pub const STEP: usize = 4;

/// Deeper structure is not indented further; it would only push text off the page.
const MAX_INDENT: usize = 40;

/// How tightly an expression holds together; a looser one inside a tighter place needs parentheses.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Binding {
    Sum,
    Product,
    Sign,
    Power,
    Primary,
}

/// The expression on one line.
pub fn print_expr(expr: &Expr) -> String {
    let mut text = String::new();
    let _ = write_expr(&mut text, expr, Binding::Sum);
    text
}

/// The comparison on one line.
pub fn print_comparison(comparison: &Comparison) -> String {
    let mut text = String::new();
    let _ = write_comparison(&mut text, comparison);
    text
}

/// Appends the expression to `out`, whose last line it continues, breaking it where it does not fit. `room` is kept
/// free for what follows.
pub fn lay_out(out: &mut String, expr: &Expr, indent: usize, room: usize) {
    lay_out_in(out, expr, Binding::Sum, indent, room);
}

/// Appends `name(args)`, one argument a line if they do not fit on one.
pub fn lay_out_call(out: &mut String, name: &str, args: &[Arg], indent: usize, room: usize) {
    if fits(out, room, |text| write_call(text, name, args)) {
        let _ = write_call(out, name, args);
        return;
    }
    out.push_str(name);
    out.push('(');
    for arg in Arg::in_order(args) {
        new_line(out, indent + STEP);
        match arg {
            Arg::Value(value) => lay_out(out, value, indent + STEP, 1),
            Arg::Named { name, value } => {
                out.push_str(&name.text);
                out.push_str(" = ");
                lay_out(out, value, indent + STEP, 1);
            }
            Arg::Per(..) => {
                let _ = write_arg(out, arg);
            }
        }
        out.push(',');
    }
    new_line(out, indent);
    out.push(')');
}

/// Whether what `write` writes fits on the last line of `out`.
fn fits(out: &str, room: usize, write: impl FnOnce(&mut Narrow) -> fmt::Result) -> bool {
    let last_line = out.rsplit('\n').next().unwrap_or_default();
    let used = last_line.chars().count() + room;
    let mut narrow = Narrow { room: MAX_WIDTH.saturating_sub(used) };
    write(&mut narrow).is_ok()
}

/// A sink that fails as soon as a line is full, so that measuring a long expression costs no more than a line.
struct Narrow {
    room: usize,
}

impl Write for Narrow {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.room = self.room.checked_sub(text.chars().count()).ok_or(fmt::Error)?;
        Ok(())
    }
}

pub fn new_line(out: &mut String, indent: usize) {
    out.push('\n');
    push_indent(out, indent);
}

pub fn push_indent(out: &mut String, indent: usize) {
    out.extend(std::iter::repeat_n(' ', indent.min(MAX_INDENT)));
}

fn binding(expr: &Expr) -> Binding {
    match &expr.node {
        ExprKind::Binary { op, .. } => binding_of(*op),
        ExprKind::Negate(_) => Binding::Sign,
        _ => Binding::Primary,
    }
}

fn binding_of(op: BinaryOp) -> Binding {
    match op {
        BinaryOp::Add | BinaryOp::Subtract => Binding::Sum,
        BinaryOp::Multiply | BinaryOp::Divide => Binding::Product,
        BinaryOp::Power => Binding::Power,
    }
}

/// What the left and the right operand must at least be.
fn operand_bindings(op: BinaryOp) -> (Binding, Binding) {
    match binding_of(op) {
        Binding::Sum => (Binding::Sum, Binding::Product),
        Binding::Product => (Binding::Product, Binding::Sign),
        _ => (Binding::Primary, Binding::Sign),
    }
}

fn write_expr(out: &mut impl Write, expr: &Expr, at_least: Binding) -> fmt::Result {
    if binding(expr) < at_least {
        out.write_char('(')?;
        write_bare(out, expr)?;
        out.write_char(')')
    } else {
        write_bare(out, expr)
    }
}

fn write_bare(out: &mut impl Write, expr: &Expr) -> fmt::Result {
    match &expr.node {
        ExprKind::Number { text, .. } => out.write_str(text),
        ExprKind::Name(name) => out.write_str(name),
        ExprKind::Negate(operand) => {
            out.write_char('-')?;
            write_expr(out, operand, Binding::Sign)
        }
        ExprKind::Binary { op, left, right } => {
            let (left_binding, right_binding) = operand_bindings(*op);
            write_expr(out, left, left_binding)?;
            out.write_str(spaced(*op))?;
            write_expr(out, right, right_binding)
        }
        ExprKind::Call { name, args } => write_call(out, &name.text, args),
        ExprKind::If { condition, then, otherwise } => {
            out.write_str("if ")?;
            write_comparison(out, condition)?;
            out.write_str(" { ")?;
            write_expr(out, then, Binding::Sum)?;
            out.write_str(" } else ")?;
            if matches!(otherwise.node, ExprKind::If { .. }) {
                write_bare(out, otherwise)
            } else {
                out.write_str("{ ")?;
                write_expr(out, otherwise, Binding::Sum)?;
                out.write_str(" }")
            }
        }
    }
}

fn spaced(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => " + ",
        BinaryOp::Subtract => " - ",
        BinaryOp::Multiply => " * ",
        BinaryOp::Divide => " / ",
        BinaryOp::Power => "^",
    }
}

fn write_call(out: &mut impl Write, name: &str, args: &[Arg]) -> fmt::Result {
    out.write_str(name)?;
    out.write_char('(')?;
    for (index, arg) in Arg::in_order(args).into_iter().enumerate() {
        if index > 0 {
            out.write_str(", ")?;
        }
        write_arg(out, arg)?;
    }
    out.write_char(')')
}

fn write_arg(out: &mut impl Write, arg: &Arg) -> fmt::Result {
    match arg {
        Arg::Value(value) => write_expr(out, value, Binding::Sum),
        Arg::Named { name, value } => {
            out.write_str(&name.text)?;
            out.write_str(" = ")?;
            write_expr(out, value, Binding::Sum)
        }
        Arg::Per(per, _) => write!(out, "per {}", per.as_str()),
    }
}

fn write_comparison(out: &mut impl Write, comparison: &Comparison) -> fmt::Result {
    write_expr(out, &comparison.left, Binding::Sum)?;
    write!(out, " {} ", comparison.op.as_str())?;
    write_expr(out, &comparison.right, Binding::Sum)
}

fn lay_out_in(out: &mut String, expr: &Expr, at_least: Binding, indent: usize, room: usize) {
    if fits(out, room, |text| write_expr(text, expr, at_least)) {
        let _ = write_expr(out, expr, at_least);
    } else if binding(expr) < at_least {
        out.push('(');
        new_line(out, indent + STEP);
        lay_out(out, expr, indent + STEP, 0);
        new_line(out, indent);
        out.push(')');
    } else {
        break_up(out, expr, indent, room);
    }
}

/// One operator, argument or branch a line.
fn break_up(out: &mut String, expr: &Expr, indent: usize, room: usize) {
    match &expr.node {
        ExprKind::Binary { op, left, right } if *op == BinaryOp::Power => {
            let (base, exponent) = operand_bindings(*op);
            lay_out_in(out, left, base, indent, room);
            out.push('^');
            lay_out_in(out, right, exponent, indent, room);
        }
        ExprKind::Binary { op, .. } => {
            let (first, rest) = left_spine(expr, binding_of(*op));
            let (first_binding, rest_binding) = operand_bindings(*op);
            lay_out_in(out, first, first_binding, indent, room);
            for (op, operand) in rest {
                new_line(out, indent + STEP);
                out.push_str(op.as_str());
                out.push(' ');
                lay_out_in(out, operand, rest_binding, indent + STEP, room);
            }
        }
        ExprKind::Negate(operand) => {
            out.push('-');
            lay_out_in(out, operand, Binding::Sign, indent, room);
        }
        ExprKind::Call { name, args } => lay_out_call(out, &name.text, args, indent, room),
        ExprKind::If { condition, then, otherwise } => lay_out_if(out, condition, then, otherwise, indent),
        ExprKind::Number { .. } | ExprKind::Name(_) => {
            let _ = write_bare(out, expr);
        }
    }
}

/// `a + b - c` as `a` and then `+ b`, `- c`, without recursion.
fn left_spine(expr: &Expr, level: Binding) -> (&Expr, Vec<(BinaryOp, &Expr)>) {
    let mut first = expr;
    let mut rest = Vec::new();
    while let ExprKind::Binary { op, left, right } = &first.node {
        if binding_of(*op) != level {
            break;
        }
        rest.push((*op, right.as_ref()));
        first = left;
    }
    rest.reverse();
    (first, rest)
}

fn lay_out_if(out: &mut String, condition: &Comparison, then: &Expr, otherwise: &Expr, indent: usize) {
    out.push_str("if ");
    let _ = write_comparison(out, condition);
    out.push_str(" {");
    new_line(out, indent + STEP);
    lay_out(out, then, indent + STEP, 0);
    new_line(out, indent);
    out.push_str("} else ");
    if matches!(otherwise.node, ExprKind::If { .. }) {
        break_up(out, otherwise, indent, 0);
        return;
    }
    out.push('{');
    new_line(out, indent + STEP);
    lay_out(out, otherwise, indent + STEP, 0);
    new_line(out, indent);
    out.push('}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::parse_expr;

    fn check(input: &str, expect: &str) {
        let expr = match parse_expr(input) {
            Ok(expr) => expr,
            Err(diagnostics) => panic!("{diagnostics:?}"),
        };
        let mut out = "E = ".to_string();
        lay_out(&mut out, &expr, 0, 1);
        assert_eq!(out, expect);
    }

    #[test]
    fn what_fits_stays_on_one_line() {
        check("a+b*c^2", "E = a + b * c^2");
    }

    #[test]
    fn long_sums_break_before_operators() {
        let long = "a_rather_long_name_for_a_value";
        check(
            &format!("{long}+{long}*{long}-f({long})"),
            &format!("E = {long}\n    + {long} * {long}\n    - f({long})"),
        );
    }

    #[test]
    fn long_choices_and_calls_break_inside() {
        let long = "a_rather_long_name_for_a_value";
        check(
            &format!("if a < b {{ {long} * {long} }} else {{ f({long}, {long}, x = {long}, per head) }}"),
            &format!(
                "E = if a < b {{\n    {long} * {long}\n}} else {{\n    f(\n        {long},\n        {long},\n        x = {long},\n        per head,\n    )\n}}"
            ),
        );
    }
}
