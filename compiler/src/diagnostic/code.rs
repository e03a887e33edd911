//! Every code the compiler can report, as one table: number, title, why it is refused, and an example of the
//! wrong and the right way. `energyc explain CODE` prints a row; the numbers are stable.
//!
//! `E00xx` the file, `E01xx` syntax, `E02xx` names, `E03xx` axes, `E04xx` domains, `E05xx` structure, `Wxxxx` warnings.

use super::Severity;

/// One row of the table.
struct Row {
    number: &'static str,
    title: &'static str,
    why: &'static str,
    wrong: &'static str,
    right: &'static str,
}

macro_rules! codes {
    ($($code:ident $number:literal $title:literal { why: $why:literal wrong: $wrong:literal right: $right:literal })*) => {
        /// A stable name for one kind of diagnostic.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
        pub enum Code {
            $(#[doc = $title] $code,)*
        }

        impl Code {
            pub const ALL: &'static [Code] = &[$(Code::$code),*];

            fn row(self) -> Row {
                match self {
                    $(Code::$code => Row { number: $number, title: $title, why: $why, wrong: $wrong, right: $right },)*
                }
            }
        }
    };
}

codes! {
    NotUtf8 "E0001" "the file is not UTF-8 text" {
        why: "Recipes are UTF-8 text. The message names the byte offset of the first bad byte."
        wrong: "a file saved as UTF-16 or Latin-1"
        right: "the same file saved as UTF-8 (a byte order mark is allowed)"
    }
    EmptyFile "E0002" "the file holds no recipe and no ingredient" {
        why: "There is nothing to compile in a file of blanks and comments."
        wrong: "// to be written"
        right: "recipe softmax {\n    local     dot();\n    global    lse(T = 1);\n    optimizer gd(eta = 1);\n}"
    }
    IsDirectory "E0003" "the path is a directory" {
        why: "The compiler reads one recipe file at a time."
        wrong: "energyc check recipes/"
        right: "energyc check recipes/huber_lse_nag.recipe"
    }
    CannotRead "E0004" "the file cannot be read" {
        why: "It does not exist, or the system refused to open it; the message repeats what the system said."
        wrong: "energyc check recipes/hubber.recipe"
        right: "energyc check recipes/huber_lse_nag.recipe"
    }
    FileTooLarge "E0005" "the file is larger than 1 MiB" {
        why: "A recipe is a page of text. The limit keeps every stage of the compiler within known bounds."
        wrong: "a data file given by mistake"
        right: "a recipe of at most 1048576 bytes"
    }
    NestingTooDeep "E0006" "the text is nested too deeply or an expression is too long" {
        why: "At most 64 brackets may be open at once, 200 expressions may nest (signs, powers, `else if`), and one expression may hold 2000 operators."
        wrong: "global g() { F = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((1))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) }"
        right: "global g() { let part = sum(E);  F = part }"
    }

    UnexpectedToken "E0101" "something else was expected here" {
        why: "The text does not follow the grammar at this place; the message says what may stand there."
        wrong: "recipe r { local huber(delta: 1); }"
        right: "recipe r { local huber(delta = 1); }"
    }
    UnclosedDelimiter "E0102" "a bracket or a block comment is not closed" {
        why: "Every `(`, `{`, `[` and `/*` needs its partner, and they must nest."
        wrong: "global lse(T) { F = -T * log(sum(exp(-E / T)) }"
        right: "global lse(T) { F = -T * log(sum(exp(-E / T))) }"
    }
    BadNumber "E0103" "a number is malformed or out of range" {
        why: "Numbers are decimal and without a suffix: `1`, `0.5`, `1e-3`, `1_000`. They have at most 100 characters and, unless zero, a size between 1e-300 and 1e300."
        wrong: "local huber(delta = 1f32)"
        right: "local huber(delta = 1.0)"
    }
    BadCharacter "E0104" "a character has no meaning in a recipe" {
        why: "Recipes are made of names, numbers, brackets, comments and `+ - * / ^ = < > , ;`. There are no strings."
        wrong: "E = norm(q − k)²"
        right: "E = norm(q - k)^2"
    }

    UnknownIngredient "E0201" "no ingredient has this name" {
        why: "An ingredient comes from the prelude, from the same file, or is defined in place."
        wrong: "local hubber(delta = 1);"
        right: "local huber(delta = 1);"
    }
    UnknownName "E0202" "no value has this name" {
        why: "A name is a parameter, a `let`, a `state`, or one of the names with a meaning (`q`, `k`, `z`, `h`, `E`, `F`, `d`, `d_h`, `H`, `N`) where that name is in scope."
        wrong: "local l(a) { E = b * norm(q - k) }"
        right: "local l(a) { E = a * norm(q - k) }"
    }
    UnknownFunction "E0203" "no function has this name" {
        why: "Functions are built into the language; a recipe cannot define its own."
        wrong: "E = nrm(q - k)"
        right: "E = norm(q - k)"
    }
    UnknownArgument "E0204" "the ingredient or function has no such argument" {
        why: "Arguments are given by the names in the definition."
        wrong: "local huber(detla = 1);"
        right: "local huber(delta = 1);"
    }
    DuplicateParameter "E0205" "a name is defined twice" {
        why: "A parameter, an argument or an ingredient may be defined once only; which of two would count?"
        wrong: "local l(a, a) { E = a * norm(q - k) }"
        right: "local l(a, b) { E = a * norm(q - k)^b }"
    }
    ParameterClash "E0206" "two ingredients of one recipe share a parameter name" {
        why: "The parameters of a recipe live in one space, so that a layer has one `eta`, not two."
        wrong: "local mine(eta) { E = eta * norm(q - k) }\noptimizer gd(eta = 1);"
        right: "local mine(scale) { E = scale * norm(q - k) }\noptimizer gd(eta = 1);"
    }
    UnusedParameter "E0207" "a parameter is never used" {
        why: "A value that changes nothing is most likely a slip, and a learned one would never get a gradient."
        wrong: "local l(a, b) { E = a * norm(q - k) }"
        right: "local l(a) { E = a * norm(q - k) }"
    }
    RecursiveDefinition "E0208" "a value is defined by itself" {
        why: "A `let`, a parameter default or an ingredient may only use what stands before it."
        wrong: "param a = b;\nparam b = a;"
        right: "param a = 1;\nparam b = a;"
    }
    WrongKind "E0209" "an ingredient of another kind is needed here" {
        why: "A recipe takes a local energy, a global energy and an optimizer, each in its own section."
        wrong: "local lse(T = 1);"
        right: "global lse(T = 1);"
    }
    ReservedName "E0210" "this word cannot be a name" {
        why: "`recipe local global optimizer let state if else where` belong to the language, and the names with a meaning keep it."
        wrong: "local l(state) { E = state * norm(q - k) }"
        right: "local l(scale) { E = scale * norm(q - k) }"
    }

    AxisMismatch "E0301" "two operands live on different axes" {
        why: "Only values on the same axis can be added; a scalar fits everywhere. The message names both axes."
        wrong: "local l() { E = norm(q - h) }"
        right: "local l() { E = norm(q - k) }"
    }
    EnergyNotScalar "E0302" "an energy must be a scalar" {
        why: "`E` is one number per attended token and `F` one number per query; a vector cannot be descended."
        wrong: "local l() { E = q - k }"
        right: "local l() { E = norm(q - k) }"
    }
    WrongArity "E0303" "wrong number of arguments" {
        why: "The message says how many arguments the function or ingredient takes."
        wrong: "E = norm(q, k)"
        right: "E = norm(q - k)"
    }

    LogNotPositive "E0401" "the logarithm of a value not known to be positive" {
        why: "The energy must be defined for every input, so the argument of `log` must be positive by construction."
        wrong: "E = log(norm(q - k))"
        right: "E = log(1 + norm(q - k)^2)"
    }
    PowerDomain "E0402" "a fractional power of a value not known to be nonnegative" {
        why: "`x^0.5` has no real value at negative x."
        wrong: "E = dot(q, k)^0.5"
        right: "E = norm(q - k)^0.5"
    }
    ParameterDomain "E0403" "a parameter lies outside its domain" {
        why: "An ingredient states with `where` which parameters it is made for."
        wrong: "global lse(T = -1);"
        right: "global lse(T = 1);"
    }
    NotStructural "E0404" "this must be a number known at compile time" {
        why: "Some constants, such as exponents, decide the shape of the derivative; they can be neither learned nor a size."
        wrong: "local power(p = learn(3));"
        right: "local power(p = 3);"
    }
    DivisionByZero "E0405" "division by zero" {
        why: "The divisor is zero for every input."
        wrong: "F = sum(E) / (1 - 1)"
        right: "F = sum(E) / N"
    }

    MissingSection "E0501" "a recipe lacks a section" {
        why: "A layer is a local energy, a global energy and an optimizer; none has a default."
        wrong: "recipe r {\n    local  dot();\n    global lse(T = 1);\n}"
        right: "recipe r {\n    local     dot();\n    global    lse(T = 1);\n    optimizer gd(eta = 1);\n}"
    }
    DuplicateSection "E0502" "a section appears twice" {
        why: "A recipe has one of each section (`param` excepted)."
        wrong: "values free;\nvalues tied;"
        right: "values tied;"
    }
    MissingAssignment "E0503" "an ingredient never assigns its result" {
        why: "A local assigns `E`, a global assigns `F`, an optimizer assigns `z`."
        wrong: "local l() { let E2 = norm(q - k)^2; }"
        right: "local l() { E = norm(q - k)^2 }"
    }
    SeveralRecipes "E0504" "the file holds several recipes" {
        why: "One file compiles to one layer."
        wrong: "recipe a { … }\nrecipe b { … }"
        right: "recipe a { … }"
    }
    NoRecipe "E0505" "the file holds no recipe" {
        why: "Ingredients alone are not a layer; a recipe says which of them to use."
        wrong: "local l() { E = norm(q - k) }"
        right: "local l() { E = norm(q - k) }\nrecipe r { local l(); global lse(T = 1); optimizer gd(eta = 1); }"
    }
    BadConstraint "E0506" "this constraint is not supported" {
        why: "A constraint fixes the length of `q` or of `k` to a parameter or a number."
        wrong: "constrain norm(q) <= 1;"
        right: "constrain norm(q) = 1, norm(k) = 1;"
    }
    BadValue "E0507" "this value is not allowed here" {
        why: "For instance `learn(…)` outside a parameter, or a gate with an unknown nonlinearity."
        wrong: "E = learn(1) * norm(q - k)"
        right: "local l(a = learn(1)) { E = a * norm(q - k) }"
    }
    BadSteps "E0508" "`steps` needs a positive integer" {
        why: "The layer takes its step this many times."
        wrong: "steps 0;"
        right: "steps 4;"
    }
    NotDifferentiable "E0509" "the optimizer needs a derivative that does not exist" {
        why: "A Newton step needs a Hessian; at a kink or a jump of the energy there is none."
        wrong: "local l() { E = if norm(q - k) <= 1 { 0 } else { 1 } }\noptimizer newton();"
        right: "local l() { E = norm(q - k)^2 / 2 }\noptimizer newton();"
    }
    UnsupportedOptimizer "E0510" "the optimizer program cannot be compiled" {
        why: "Only programs over `grad`, `hess`, `solve` and arithmetic can be derived and lowered."
        wrong: "optimizer o() { z = hess(hess(z)); }"
        right: "optimizer o(eta) { z = z - eta * grad(z); }"
    }

    SingularHessian "E0511" "the system of a second-order step is singular" {
        why: "A step that solves with the Hessian needs one that has an inverse. The Hessian of an energy that is linear in q, such as an inner product, has rank below the number of tokens: 0 for a query that sees one."
        wrong: "local dot;  global lse;  optimizer newton;"
        right: "local dot;  global lse;  optimizer newton(eps = 1);"
    }
    NoExpansion "E0512" "a series has nothing to expand around" {
        why: "The inverse of A = αI − B is a series in B/α. Where the Hessian has no constant part along the identity, α must be given, or damping provides it."
        wrong: "local huber;  global lse;  optimizer newton(solve = taylor(1));"
        right: "local huber;  global lse;  optimizer newton(solve = taylor(1, alpha = 1));"
    }

    PlanDisagrees "E0901" "the compiler's plan computes something else than the formulas" {
        why: "Before anything runs, the plan of a recipe is run on small inputs and compared with the derived formulas. Where they differ, the compiler has made a mistake: the recipe is refused, so that nobody trains on wrong numbers. Please report it with the text of the recipe."
        wrong: "nothing is wrong with the recipe"
        right: "the same recipe, written in another way, may do until the mistake is mended"
    }

    SimplifierLimit "W0001" "the simplifier reached its limit" {
        why: "The result is correct, but a simpler form may exist. Recipes with fewer terms avoid this."
        wrong: "an energy with hundreds of different terms"
        right: "the same energy with common parts named by `let`"
    }
    ShadowedPrelude "W0002" "an ingredient hides one of the prelude" {
        why: "The definition in the file wins; whoever reads the recipe may think of the other."
        wrong: "local huber(delta) { E = norm(q - k) }"
        right: "local my_huber(delta) { E = norm(q - k) }"
    }
    MaybeSingular "W0003" "the system of a second-order step may be singular" {
        why: "For some inputs the Hessian has no inverse; there the solution counts as 0 and the token stays where it is."
        wrong: "local huber;  global lse;  optimizer newton;"
        right: "local huber;  global lse;  optimizer newton(eps = 1);"
    }
}

impl Code {
    /// Finds a code by its number, in any case.
    pub fn parse(text: &str) -> Option<Code> {
        let text = text.trim();
        Code::ALL.iter().copied().find(|code| code.as_str().eq_ignore_ascii_case(text))
    }

    /// The number, such as `E0101`.
    pub fn as_str(self) -> &'static str {
        self.row().number
    }

    pub fn title(self) -> &'static str {
        self.row().title
    }

    pub fn severity(self) -> Severity {
        if self.as_str().starts_with('W') { Severity::Warning } else { Severity::Error }
    }

    /// The long text for `energyc explain`: why, a wrong and a right example.
    pub fn explanation(self) -> String {
        let row = self.row();
        format!(
            "# {}: {}\n\n{}\n\nWrong:\n\n{}\n\nRight:\n\n{}\n",
            row.number,
            row.title,
            row.why,
            indented(row.wrong),
            indented(row.right)
        )
    }
}

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

fn indented(example: &str) -> String {
    let lines: Vec<String> = example.lines().map(|line| format!("    {line}")).collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_sorted_and_parse_back() {
        for pair in Code::ALL.windows(2) {
            assert!(pair[0].as_str() < pair[1].as_str(), "{pair:?}");
        }
        for &code in Code::ALL {
            assert_eq!(Code::parse(code.as_str()), Some(code));
            assert_eq!(Code::parse(&code.as_str().to_lowercase()), Some(code));
        }
        assert_eq!(Code::parse("E9999"), None);
    }

    #[test]
    fn explanations_show_both_ways() {
        let text = Code::UnknownIngredient.explanation();
        assert!(text.starts_with("# E0201: no ingredient has this name\n"));
        assert!(text.contains("    local hubber(delta = 1);"));
        assert!(text.contains("    local huber(delta = 1);"));
    }
}
