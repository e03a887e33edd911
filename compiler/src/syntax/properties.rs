//! Properties of the whole syntax stage, on random input: nothing panics, printing and parsing undo each other, the
//! formatter is idempotent and loses no comment.

use num_rational::BigRational;
use proptest::prelude::*;

use super::ast::*;
use super::comments::Comment;
use super::number::parse_number;
use super::scan::scan;
use super::{format, parse, print_expr, read_source, same_tree};
use crate::diagnostic::render_all;
use crate::span::{Source, Span};

const PIECES: &[&str] = &[
    "recipe ",
    "local ",
    "global ",
    "optimizer ",
    "r ",
    "huber",
    "(",
    ")",
    "{",
    "}",
    "[",
    "]",
    ",",
    ";",
    "=",
    "<=",
    "==",
    "<",
    "+",
    "-",
    "*",
    "/",
    "^",
    "1",
    "2.5e-3",
    "1f32",
    "if ",
    "else ",
    "let ",
    "state ",
    "where ",
    "param ",
    "values ",
    "free",
    "steps ",
    "constrain ",
    "tokens ",
    "per head",
    "E ",
    "β",
    "²",
    "\"",
    "'a ",
    "'",
    "\n",
    "\r\n",
    "// c\n",
    "/* d */",
    "/*",
    "*/",
    "#",
    "_",
    ".",
    "r#x",
    "0x1",
    "1e",
    "\u{feff}",
    "\0",
    "// β end\n\n",
    "E = 1;",
    "local l() {",
    "recipe r {",
    "(x)",
    "b'x'",
    "r\"",
];

fn soup() -> impl Strategy<Value = String> {
    prop::collection::vec(prop::sample::select(PIECES), 0..60).prop_map(|pieces| pieces.concat())
}

fn survives(text: &str) {
    let (_, diagnostics) = parse(text);
    render_all(&diagnostics, &Source::new("f", text), false);
    if let Ok(once) = format(text) {
        assert_formatted(text, &once);
    }
}

fn assert_formatted(text: &str, once: &str) {
    let (again, diagnostics) = parse(once);
    assert_eq!(diagnostics, [], "{once}");
    assert!(same_tree(&parse(text).0, &again), "{once}");
    assert_eq!(format(once).as_deref(), Ok(once));
    assert_eq!(comment_texts(text), comment_texts(once));
}

fn comment_texts(text: &str) -> Vec<String> {
    let comments: Vec<Comment> = scan(text).comments;
    comments.into_iter().map(|comment| comment.text).collect()
}

fn ident(text: &str) -> Ident {
    Ident { text: text.to_string(), span: Span::default() }
}

fn expr(node: ExprKind) -> Expr {
    Expr { node, span: Span::default() }
}

fn value_of(text: &str) -> BigRational {
    parse_number(text).unwrap_or_default()
}

fn name() -> impl Strategy<Value = Ident> {
    prop::sample::select(&["a", "delta", "per", "head", "values", "β", "a_longer_name_than_most"][..]).prop_map(ident)
}

fn number() -> impl Strategy<Value = Number> {
    prop::sample::select(&["0", "1", "2.50", "1_000", "1e-3", "7."][..]).prop_map(|text| Number {
        value: value_of(text),
        text: text.to_string(),
        span: Span::default(),
    })
}

fn any_expr() -> BoxedStrategy<Expr> {
    let leaf = prop_oneof![
        number().prop_map(|number| expr(ExprKind::Number { value: number.value, text: number.text })),
        name().prop_map(|name| expr(ExprKind::Name(name.text))),
    ];
    leaf.prop_recursive(6, 40, 4, |inner| {
        let op = prop::sample::select(vec![
            BinaryOp::Add,
            BinaryOp::Subtract,
            BinaryOp::Multiply,
            BinaryOp::Divide,
            BinaryOp::Power,
        ]);
        prop_oneof![
            inner.clone().prop_map(|x| expr(ExprKind::Negate(Box::new(x)))),
            (op, inner.clone(), inner.clone()).prop_map(|(op, left, right)| expr(ExprKind::Binary {
                op,
                left: Box::new(left),
                right: Box::new(right)
            })),
            (name(), args(inner.clone())).prop_map(|(name, args)| expr(ExprKind::Call { name, args })),
            (comparison(inner.clone()), inner.clone(), inner).prop_map(|(condition, then, otherwise)| {
                expr(ExprKind::If {
                    condition: Box::new(condition),
                    then: Box::new(then),
                    otherwise: Box::new(otherwise),
                })
            }),
        ]
    })
    .boxed()
}

fn args(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Vec<Arg>> {
    let arg = prop_oneof![
        inner.clone().prop_map(Arg::Value),
        (name(), inner).prop_map(|(name, value)| Arg::Named { name, value }),
        prop::sample::select(&Per::ALL[..]).prop_map(|per| Arg::Per(per, Span::default())),
    ];
    prop::collection::vec(arg, 0..4)
}

fn comparison(inner: BoxedStrategy<Expr>) -> impl Strategy<Value = Comparison> {
    let op = prop::sample::select(vec![
        CompareOp::LessEqual,
        CompareOp::Less,
        CompareOp::GreaterEqual,
        CompareOp::Greater,
        CompareOp::Equal,
    ]);
    (op, inner.clone(), inner).prop_map(|(op, left, right)| Comparison { op, left, right, span: Span::default() })
}

/// The statement, section or item as tokens in plain text: spacing is chosen by [`spread`].
fn ingredient() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    let param = (name(), prop::option::of(any_expr())).prop_map(|(name, default)| match default {
        Some(default) => format!("{} = {}", name.text, print_expr(&default)),
        None => name.text,
    });
    let keyword = prop::sample::select(&["let ", "state ", ""][..]);
    let stmt = (keyword, name(), any_expr())
        .prop_map(|(keyword, name, value)| format!("{keyword}{} = {} ;", name.text, print_expr(&value)));
    let condition = comparison(any_expr()).prop_map(|condition| super::print_comparison(&condition));
    (
        kind,
        name(),
        prop::collection::vec(param, 0..3),
        prop::collection::vec(condition, 0..2),
        prop::collection::vec(stmt, 0..4),
    )
        .prop_map(|(kind, name, params, conditions, body)| {
            let conditions = match conditions.is_empty() {
                true => String::new(),
                false => format!("where {}", conditions.join(" , ")),
            };
            format!("{} {} ( {} ) {conditions} {{ {} }}", kind.as_str(), name.text, params.join(" , "), body.join(" "))
        })
}

fn section() -> impl Strategy<Value = String> {
    let kind = prop::sample::select(&Kind::ALL[..]);
    prop_oneof![
        (kind, name(), args(any_expr())).prop_map(|(kind, name, args)| {
            let call = print_expr(&expr(ExprKind::Call { name, args }));
            format!("{} {call} ;", kind.as_str())
        }),
        ingredient(),
        (name(), any_expr()).prop_map(|(name, value)| format!("param {} = {} ;", name.text, print_expr(&value))),
        prop::collection::vec(comparison(any_expr()), 1..3).prop_map(|constraints| {
            let printed: Vec<String> = constraints.iter().map(super::print_comparison).collect();
            format!("constrain {} ;", printed.join(" , "))
        }),
        Just("values tied ;".to_string()),
        Just("tokens evolve ;".to_string()),
        number().prop_map(|number| format!("steps {} ;", number.text)),
    ]
}

fn file() -> impl Strategy<Value = String> {
    let recipe = (name(), prop::collection::vec(section(), 0..5))
        .prop_map(|(name, sections)| format!("recipe {} {{ {} }}", name.text, sections.join(" ")));
    let item = prop_oneof![recipe, ingredient()];
    prop::collection::vec(item, 1..3).prop_map(|items| items.join(" "))
}

/// Replaces the gaps between words by other gaps, comments among them.
fn spread(text: &str, gaps: &[&str]) -> String {
    let mut gaps = gaps.iter().cycle();
    let mut out = String::new();
    for word in text.split(' ') {
        out.push_str(word);
        out.push_str(gaps.next().unwrap_or(&" "));
    }
    out
}

const GAPS: &[&str] = &[
    " ",
    " ",
    " ",
    "\n",
    "\n\n\n",
    "\r\n",
    " // line β\n",
    "\n// own\n",
    "\n/// doc\r\n",
    " /* block */ ",
    " /* two\r\n lines */ ",
    "\n\n/* a */ /* b */ // c \n\n",
    " /* /* nested */ */",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn token_soup_never_panics(text in soup()) {
        survives(&text);
    }

    #[test]
    fn any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        survives(&String::from_utf8_lossy(&bytes));
        if let Ok(source) = read_source(bytes, "f") {
            survives(&source.text);
        }
    }

    #[test]
    fn printed_expressions_parse_back(tree in any_expr()) {
        let printed = print_expr(&tree);
        let parsed = super::parse_expr(&printed);
        prop_assert!(parsed.is_ok_and(|parsed| super::same_expr(&parsed, &tree)), "{}", printed);
    }

    #[test]
    fn formatting_keeps_tree_and_comments(
        text in file(),
        gaps in prop::collection::vec(prop::sample::select(GAPS), 1..40),
    ) {
        let text = spread(&text, &gaps);
        let once = format(&text);
        prop_assert!(once.is_ok(), "{}\n{:?}", text, once);
        assert_formatted(&text, &once.unwrap_or_default());
    }
}
