//! Terms over sizes as arithmetic of the emitted layer: √d_h becomes `size_d_h.sqrt()`.

use crate::ir::rational::{self, to_f64};
use crate::ir::{Expr, Func, Op, Rational, Role, traverse};
use crate::kernel::names;
use crate::plan::Unsupported;
use num_traits::{One, Zero};
use proc_macro2::{Ident, Literal, TokenStream};
use quote::{format_ident, quote};

/// A number of the emitted source.
pub fn literal(c: &Rational) -> TokenStream {
    float(to_f64(c))
}

pub fn float(x: f64) -> TokenStream {
    let size = Literal::f64_unsuffixed(x.abs());
    if x < 0.0 { quote!(-#size) } else { quote!(#size) }
}

/// A count of the emitted source.
pub fn count(n: usize) -> Literal {
    Literal::usize_unsuffixed(n)
}

/// A tensor and a number; nothing is done where nothing changes.
pub fn plus(x: TokenStream, c: Rational) -> TokenStream {
    if c.is_zero() {
        return x;
    }
    let c = literal(&c);
    quote!(#x.affine(1.0, #c)?)
}

/// A tensor times a number.
pub fn times(x: TokenStream, c: Rational) -> TokenStream {
    if c.is_one() {
        return x;
    }
    if c == rational::int(-1) {
        return quote!(#x.neg()?);
    }
    let c = literal(&c);
    quote!(#x.affine(#c, 0.0)?)
}

/// Whether the term is made of numbers and sizes alone.
pub fn is_number(e: &Expr) -> bool {
    let is_leaf_number = |e: &Expr| e.as_leaf().is_none_or(|leaf| leaf.role == Role::Size);
    e.axes().is_empty() && traverse::subterms(e).iter().all(is_leaf_number)
}

/// The variable that holds a size.
fn size(name: &str) -> Ident {
    format_ident!("size_{name}")
}

/// Whether a term mentions a size.
pub fn mentions(e: &Expr, name: &str) -> bool {
    let is_it = |e: &Expr| e.as_leaf().is_some_and(|leaf| leaf.role == Role::Size && *leaf.name == *name);
    traverse::subterms(e).iter().any(is_it)
}

/// The sizes that terms mention, as variables; `config` and, for `N`, the given count are in scope.
pub fn sizes(terms: &[Expr], tokens: &TokenStream) -> TokenStream {
    let all = [
        ("N", quote!(#tokens as f64)),
        ("d", quote!(config.d_model as f64)),
        ("d_h", quote!(config.head() as f64)),
        ("H", quote!(config.heads as f64)),
    ];
    let used = all.into_iter().filter(|(name, _)| terms.iter().any(|term| mentions(term, name)));
    used.map(|(name, value)| {
        let variable = size(name);
        quote!(let #variable = #value;)
    })
    .collect()
}

/// The term as f64 arithmetic over the variables of [`sizes`].
pub fn arithmetic(e: &Expr) -> Result<TokenStream, Unsupported> {
    let all = |xs: &[Expr]| xs.iter().map(arithmetic).collect::<Result<Vec<_>, _>>();
    Ok(match e.op() {
        Op::Const(c) => literal(c),
        Op::Leaf(leaf) if leaf.role == Role::Size => {
            let variable = size(&leaf.name);
            quote!(#variable)
        }
        Op::Add(xs) => {
            let xs = all(xs)?;
            quote!(#(#xs)+*)
        }
        Op::Mul(xs) => {
            let is_sum = xs.iter().map(|x| matches!(x.op(), Op::Add(_)));
            let factors = all(xs)?.into_iter().zip(is_sum).map(|(x, is_sum)| if is_sum { quote!((#x)) } else { x });
            factors.reduce(|product, x| quote!(#product * #x)).unwrap_or_else(|| quote!(1.0))
        }
        Op::Pow(x, r) => power(&arithmetic(x)?, r),
        Op::Call(func, x) => {
            let x = arithmetic(x)?;
            match func {
                Func::Exp => quote!(f64::exp(#x)),
                Func::Log => quote!(f64::ln(#x)),
                Func::Abs => quote!(f64::abs(#x)),
                Func::Sign => quote!(f64::signum(#x)),
                smooth => {
                    let function = names::primitive(*smooth);
                    quote!(<f64 as Real>::#function(#x))
                }
            }
        }
        Op::Select(parts) => {
            let [a, b, x, y] = [&parts[0], &parts[1], &parts[2], &parts[3]].map(arithmetic);
            let (a, b, x, y) = (a?, b?, x?, y?);
            quote!(if #a <= #b { #x } else { #y })
        }
        _ => return Err(Unsupported::formula("a parameter of it is no number a layer can compute".to_string())),
    })
}

fn power(x: &TokenStream, r: &Rational) -> TokenStream {
    if *r == rational::ratio(1, 2) {
        quote!(f64::sqrt(#x))
    } else if *r == rational::int(-1) {
        quote!(f64::recip(#x))
    } else {
        let r = literal(r);
        quote!(f64::powf(#x, #r))
    }
}
