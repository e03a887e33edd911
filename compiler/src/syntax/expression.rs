//! Expressions by precedence climbing: `+ -`, then `* /`, then unary `-`, then `^`, which binds tightest and to
//! the right (`-x^2` is `-(x^2)`, `2^-1` is allowed). Recursion and length are bounded, so that neither this parser
//! nor any later walk over the tree can run out of stack.

use crate::diagnostic::{Code, Diagnostic};
use crate::span::Span;

use super::ast::{Arg, BinaryOp, CompareOp, Comparison, Expr, ExprKind, Ident, Per};
use super::cursor::{Cursor, Failed, Parsed, RESERVED};
use super::lex::TokenKind;

/// So many expressions may be nested in each other (brackets, signs, powers, `else if`).
const MAX_NESTED: usize = 200;

/// So many operators may stand in one expression.
const MAX_OPERATORS: usize = 2000;

impl Cursor {
    /// A whole expression, not part of another.
    pub fn expression(&mut self) -> Parsed<Expr> {
        self.fresh(Cursor::sum)
    }

    /// A whole comparison, not part of an expression.
    pub fn comparison(&mut self) -> Parsed<Comparison> {
        self.fresh(Cursor::relation)
    }

    /// The arguments of a use: `(a, b = 1, per head)`.
    pub fn arguments(&mut self) -> Parsed<Vec<Arg>> {
        self.fresh(Cursor::args)
    }

    fn fresh<T>(&mut self, parse: impl FnOnce(&mut Cursor) -> Parsed<T>) -> Parsed<T> {
        self.nested = 0;
        self.operators = 0;
        parse(self)
    }

    fn deeper<T>(&mut self, parse: impl FnOnce(&mut Cursor) -> Parsed<T>) -> Parsed<T> {
        if self.nested >= MAX_NESTED {
            return Err(self.too_much(&format!("more than {MAX_NESTED} nested expressions")));
        }
        self.nested += 1;
        let parsed = parse(self);
        self.nested -= 1;
        parsed
    }

    fn count_operator(&mut self) -> Parsed<()> {
        self.operators += 1;
        if self.operators > MAX_OPERATORS {
            let message = format!("more than {MAX_OPERATORS} operators in one expression");
            return Err(self.too_much(&message));
        }
        Ok(())
    }

    fn too_much(&mut self, message: &str) -> Failed {
        let diagnostic = Diagnostic::new(Code::NestingTooDeep, message)
            .at(self.span(), "one too many")
            .help("name a part of the expression with `let`");
        self.complain(diagnostic);
        Failed
    }

    fn sum(&mut self) -> Parsed<Expr> {
        self.deeper(|cursor| {
            let operators = [("+", BinaryOp::Add), ("-", BinaryOp::Subtract)];
            cursor.chain(&operators, Cursor::product)
        })
    }

    fn product(&mut self) -> Parsed<Expr> {
        let operators = [("*", BinaryOp::Multiply), ("/", BinaryOp::Divide)];
        self.chain(&operators, Cursor::signed)
    }

    /// Operands joined by operators of one precedence, leaning left.
    fn chain(&mut self, operators: &[(&str, BinaryOp)], operand: fn(&mut Cursor) -> Parsed<Expr>) -> Parsed<Expr> {
        let mut left = operand(self)?;
        while let Some((_, op)) = operators.iter().find(|(symbol, _)| self.is(symbol)) {
            self.count_operator()?;
            self.advance();
            left = binary(*op, left, operand(self)?);
        }
        Ok(left)
    }

    fn signed(&mut self) -> Parsed<Expr> {
        let start = self.span();
        if !self.is("-") {
            return self.power();
        }
        self.count_operator()?;
        self.advance();
        let operand = self.deeper(Cursor::signed)?;
        Ok(Expr { span: start.join(operand.span), node: ExprKind::Negate(Box::new(operand)) })
    }

    fn power(&mut self) -> Parsed<Expr> {
        let base = self.primary()?;
        if !self.is("^") {
            return Ok(base);
        }
        self.count_operator()?;
        self.advance();
        let exponent = self.deeper(Cursor::signed)?;
        Ok(binary(BinaryOp::Power, base, exponent))
    }

    fn primary(&mut self) -> Parsed<Expr> {
        let span = self.span();
        match self.kind().clone() {
            TokenKind::Number { value, text } => {
                self.advance();
                let node = ExprKind::Number { value, text };
                Ok(Expr { node, span })
            }
            TokenKind::Word(text) if text == "if" => self.deeper(Cursor::choice),
            TokenKind::Word(text) if !RESERVED.contains(&text.as_str()) => {
                self.advance();
                self.name_or_call(Ident { text, span })
            }
            TokenKind::Symbol("(") => {
                self.advance();
                let inner = self.sum()?;
                let close = self.expect(")")?;
                Ok(Expr { node: inner.node, span: span.join(close) })
            }
            _ => Err(self.unexpected("an expression")),
        }
    }

    fn name_or_call(&mut self, name: Ident) -> Parsed<Expr> {
        let start = name.span;
        if !self.is("(") {
            return Ok(Expr { node: ExprKind::Name(name.text), span: start });
        }
        let args = self.args()?;
        Ok(Expr { node: ExprKind::Call { name, args }, span: start.join(self.previous_span()) })
    }

    fn args(&mut self) -> Parsed<Vec<Arg>> {
        self.expect("(")?;
        let mut args = Vec::new();
        while !self.is(")") {
            args.push(self.arg()?);
            if !self.eat(",") && !self.is(")") {
                return Err(self.unexpected("`,` or `)`"));
            }
        }
        self.expect(")")?;
        Ok(args)
    }

    fn arg(&mut self) -> Parsed<Arg> {
        let start = self.span();
        let per = Per::ALL.into_iter().find(|per| self.is_word("per") && self.next_is_word(per.as_str()));
        if let Some(per) = per {
            self.advance();
            self.advance();
            return Ok(Arg::Per(per, start.join(self.previous_span())));
        }
        if self.word().is_some() && self.next_is("=") {
            let name = self.expect_name("an argument name")?;
            self.expect("=")?;
            let value = self.sum()?;
            return Ok(Arg::Named { name, value });
        }
        Ok(Arg::Value(self.sum()?))
    }

    /// `if a <= b { x } else { y }`, where `else if` needs no braces.
    fn choice(&mut self) -> Parsed<Expr> {
        let start = self.span();
        self.advance();
        let condition = self.relation()?;
        let (then, _) = self.braced()?;
        if !self.is_word("else") {
            return Err(self.unexpected("`else`"));
        }
        self.advance();
        let (otherwise, end) = if self.is_word("if") {
            let chained = self.deeper(Cursor::choice)?;
            let end = chained.span;
            (chained, end)
        } else {
            self.braced()?
        };
        Ok(Expr {
            span: start.join(end),
            node: ExprKind::If { condition: Box::new(condition), then: Box::new(then), otherwise: Box::new(otherwise) },
        })
    }

    /// `{ x }`, and the span of the closing brace.
    fn braced(&mut self) -> Parsed<(Expr, Span)> {
        self.expect("{")?;
        let inner = self.sum()?;
        let close = self.expect("}")?;
        Ok((inner, close))
    }

    fn relation(&mut self) -> Parsed<Comparison> {
        let left = self.sum()?;
        let op = match self.kind() {
            TokenKind::Symbol("<=") => CompareOp::LessEqual,
            TokenKind::Symbol("<") => CompareOp::Less,
            TokenKind::Symbol(">=") => CompareOp::GreaterEqual,
            TokenKind::Symbol(">") => CompareOp::Greater,
            TokenKind::Symbol("=" | "==") => CompareOp::Equal,
            _ => return Err(self.unexpected("a comparison (`<=`, `<`, `>=`, `>` or `=`)")),
        };
        self.advance();
        let right = self.sum()?;
        Ok(Comparison { op, span: left.span.join(right.span), left, right })
    }
}

fn binary(op: BinaryOp, left: Expr, right: Expr) -> Expr {
    Expr {
        span: left.span.join(right.span),
        node: ExprKind::Binary { op, left: Box::new(left), right: Box::new(right) },
    }
}

#[cfg(test)]
mod tests {
    use crate::diagnostic::Code;
    use crate::syntax::{parse_expr, print_expr};

    /// The printer puts back only the parentheses that matter.
    fn check(input: &str, expect: &str) {
        let shown = match parse_expr(input) {
            Ok(expr) => print_expr(&expr),
            Err(diagnostics) => format!("{:?}", diagnostics[0].code),
        };
        assert_eq!(shown, expect, "{}", &input[..input.len().min(80)]);
    }

    #[test]
    fn precedence() {
        check("(a*b)+(c)", "a * b + c");
        check("a*(b+c)", "a * (b + c)");
        check("-(x^2)", "-x^2");
        check("(-x)^2", "(-x)^2");
        check("2^-1", "2^-1");
        check("a^(b^c)", "a^b^c");
        check("(a^b)^c", "(a^b)^c");
        check("a-(b-c)", "a - (b - c)");
        check("(a-b)-c", "a - b - c");
        check("a*(-b)", "a * -b");
        check("-(a*b)", "-(a * b)");
        check("2^(-(a*b))", "2^-(a * b)");
    }

    #[test]
    fn calls_and_choices() {
        check("f()", "f()");
        check("learn(sqrt(2*d_h),per head,)", "learn(sqrt(2 * d_h), per head)");
        check("taylor(1,scale=tau)", "taylor(1, scale = tau)");
        check("if a<=b{1}else if a=c{2}else{3}+4", "if a <= b { 1 } else if a = c { 2 } else { 3 } + 4");
        check("if a {1} else {2}", "UnexpectedToken");
        check("if a < b {1}", "UnexpectedToken");
    }

    #[test]
    fn mistakes() {
        check("", "UnexpectedToken");
        check("a +", "UnexpectedToken");
        check("a b", "UnexpectedToken");
        check("let", "UnexpectedToken");
        check("f(let = 1)", "ReservedName");
        check("1f32", "BadNumber");
        check("a[1]", "UnexpectedToken");
    }

    #[test]
    fn depth_and_length_are_bounded() {
        let deep = format!("{:?}", Code::NestingTooDeep);
        check(&format!("{}x", "-".repeat(500)), &deep);
        check(&format!("2{}", "^2".repeat(500)), &deep);
        check(&format!("1{}", "+1".repeat(100_000)), &deep);
        check(&format!("{}1", "if a < b { 1 } else ".repeat(300)), &deep);
        let fine = vec!["1"; 2001].join(" + ");
        check(&fine, &fine);
    }
}
