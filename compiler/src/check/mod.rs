//! From the tree of a file to a [`Recipe`]: names, values, axes and domains.
//!
//! Everything wrong is reported in one run. A part that is wrong has no value, and what depends on it says nothing.

mod axes;
mod constraint;
mod definition;
pub(crate) mod domain;
mod energy;
mod function;
pub mod inputs;
mod library;
mod params;
mod program;
mod reading;
pub mod recipe;
mod recognize;
mod section;
mod solve;
mod term;
mod value;

pub use recipe::{
    Constraint, Each, Ingredients, Method, Origin, Param, ParamValue, Preconditioner, Program, Recipe, Squash, State,
    Tokens, Used, Values, Whose, WriteBack,
};

use crate::diagnostic::{Code, Diagnostic};
use crate::prelude::Prelude;
use crate::syntax::ast::{self, File, Item, Section};
use library::Library;

/// The recipe a file holds, and everything there is to say about it. There is a recipe only without errors.
pub fn check(file: &File, prelude: &Prelude) -> (Option<Recipe>, Vec<Diagnostic>) {
    let (recipe, mut diagnostics) = check_file(file, prelude);
    let names = file.items.iter().map(|item| match item {
        Item::Recipe(_) => None,
        Item::Ingredient(ingredient) => Some(&ingredient.name),
    });
    // All of them ingredients, and at least one.
    let names: Option<Vec<_>> = names.collect();
    if let Some(first) = names.and_then(|names| names.first().copied()) {
        let diagnostic = Diagnostic::new(Code::NoRecipe, "the file defines ingredients, but no recipe")
            .at(first.span, "an ingredient that no recipe uses")
            .help("add `recipe name { local …; global …; optimizer …; }`");
        diagnostics.push(diagnostic);
    }
    (recipe, diagnostics)
}

/// As [`check`], but a file of ingredients alone is fine.
pub fn check_file(file: &File, prelude: &Prelude) -> (Option<Recipe>, Vec<Diagnostic>) {
    let mut diagnostics = Vec::new();
    let mut shared = Library::of_prelude(&prelude.ingredients);
    let mut recipes: Vec<&ast::Recipe> = Vec::new();
    for item in &file.items {
        match item {
            Item::Recipe(recipe) => recipes.push(recipe),
            Item::Ingredient(ingredient) => shared.define(ingredient, &mut diagnostics),
        }
    }
    diagnostics.extend(several(&recipes));
    let mut budget = term::BUDGET;
    let mut result = None;
    for recipe in &recipes {
        let mut library = shared.clone();
        for section in &recipe.sections {
            if let Section::Define(ingredient) = section {
                library.define(ingredient, &mut diagnostics);
            }
        }
        library.refuse_cycles(&mut diagnostics);
        let (read, visited) = reading::read(recipe, &library, &mut budget, &mut diagnostics);
        reading::review(&library, &visited, &mut budget, &mut diagnostics);
        result = read;
    }
    if recipes.is_empty() {
        shared.refuse_cycles(&mut diagnostics);
        reading::review(&shared, &Default::default(), &mut budget, &mut diagnostics);
    }
    let diagnostics = in_order(diagnostics);
    let result = result.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    (result, diagnostics)
}

fn several(recipes: &[&ast::Recipe]) -> Option<Diagnostic> {
    let [first, second, ..] = recipes else {
        return None;
    };
    Some(
        Diagnostic::new(Code::SeveralRecipes, format!("the file holds {} recipes", recipes.len()))
            .also(first.name.span, "the first")
            .at(second.name.span, "another")
            .help("one file compiles to one layer: move the others into files of their own"),
    )
}

/// By place in the text, each once.
fn in_order(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    diagnostics.sort_by_key(Diagnostic::primary_span);
    diagnostics.dedup();
    diagnostics
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::render_all;
    use crate::ir::{Axis, AxisSet};
    use crate::prelude;
    use crate::span::Source;
    use crate::syntax::parse;

    fn recipe(text: &str) -> Recipe {
        let (file, mut diagnostics) = parse(text);
        let (recipe, found) = super::check(&file, prelude::load());
        diagnostics.extend(found);
        let shown = render_all(&diagnostics, &Source::new("test.recipe", text), false);
        recipe.unwrap_or_else(|| panic!("{shown}"))
    }

    /// The local energy, F over E, and F with E put in.
    fn check(sections: &str, local: &str, global: &str, energy: &str) {
        let recipe = recipe(&format!("recipe r {{ {sections} }}"));
        let terms = [&recipe.local, &recipe.global, &recipe.energy].map(ToString::to_string);
        assert_eq!(terms, [local, global, energy]);
        assert!(recipe.local.axes().is_subset(AxisSet::of(&[Axis::T, Axis::N])));
        assert!(recipe.energy.axes().is_subset(AxisSet::of(&[Axis::T])));
    }

    #[test]
    fn energies_become_terms() {
        check(
            "local dot; global lse; optimizer gd;",
            "(* -1 (sum e1 (* q[t,e1] k[n,e1])))",
            "(* -1 T (log (sum n1 (exp (* -1 E[t,n1] (pow T -1))))))",
            "(* -1 T (log (sum n1 (exp (* (pow T -1) (sum e1 (* q[t,e1] k[n1,e1])))))))",
        );
        check(
            "local abs_dot; global gated_square_sum(gamma = decay(sigmoid)); optimizer gd;",
            "(abs (sum e1 (* q[t,e1] k[n,e1])))",
            "(* -1/2 T (sum n1 (* gamma[t,n1] (pow E[t,n1] 2))))",
            "(* -1/2 T (sum n1 (* gamma[t,n1] (pow (abs (sum e1 (* q[t,e1] k[n1,e1]))) 2))))",
        );
        check(
            "local lp(p = 3); global tsallis(alpha = 2, T = 1); optimizer gd;",
            "(sum e1 (pow (abs (+ q[t,e1] (* -1 k[n,e1]))) 3))",
            "(* -1 T (smoothmax tsallis:2 n1 (* -1 E[t,n1] (pow T -1))))",
            "(* -1 T (smoothmax tsallis:2 n1 (* -1 (pow T -1) \
             (sum e1 (pow (abs (+ q[t,e1] (* -1 k[n1,e1]))) 3)))))",
        );
    }

    #[test]
    fn ingredients_call_ingredients_and_functions_of_the_same_name_stay_functions() {
        check(
            "local mine() { E = euclidean() + 0.1 * dot() } global mine() { F = sum(E) / sum(1) } optimizer gd;",
            "(+ (* 1/2 (sum e1 (pow (+ q[t,e1] (* -1 k[n,e1])) 2))) (* -1/10 (sum e1 (* q[t,e1] k[n,e1]))))",
            "(* (pow (sum n1 1) -1) (sum n1 E[t,n1]))",
            "(* 1/10 (pow (sum n1 1) -1) (sum n1 (+ (* 5 (sum e1 (pow (+ q[t,e1] (* -1 k[n1,e1])) 2))) \
             (* -1 (sum e1 (* q[t,e1] k[n1,e1]))))))",
        );
    }

    #[test]
    fn the_logarithm_of_a_sum_stays_for_the_simplifier() {
        check(
            "local dot; global mine() { F = log(sum(2 * exp(E)) / N) } optimizer gd;",
            "(* -1 (sum e1 (* q[t,e1] k[n,e1])))",
            "(log (* 2 (pow N -1) (sum n1 (exp E[t,n1]))))",
            "(log (* 2 (pow N -1) (sum n1 (exp (* -1 (sum e1 (* q[t,e1] k[n1,e1])))))))",
        );
    }

    #[test]
    fn parameters_come_in_order_and_structural_ones_are_numbers() {
        let recipe = recipe(
            "local mine(a = learn(2), c) { E = a * huber() + lp(p = 2 * c) }
             recipe r {
                 optimizer momentum;
                 param rho = learn(sqrt(d_h), per head);
                 constrain norm(q) = radius;
                 local ours(b = 2, c = 3/2) { E = b * mine(c = c) + mine_again(rho) }
                 global lse(2 * rho);
                 steps 3;
             }
             local mine_again(x) { E = x * l1() }",
        );
        let shown = |param: &Param| format!("{} {:?}", param.name, param.origin);
        let names: Vec<String> = recipe.params.iter().map(shown).collect();
        let expect = [
            "b Ingredient(Local)",
            "a Ingredient(Local)",
            "delta Ingredient(Local)",
            "beta Ingredient(Optimizer)",
            "eta Ingredient(Optimizer)",
            "rho Recipe",
            "radius Recipe",
        ];
        assert_eq!(names, expect);
        let ordinals = recipe.params.iter().map(|param| param.leaf.ordinal);
        assert!(ordinals.eq(0..7));
        assert_eq!(recipe.structural, [("c".to_string(), crate::ir::rational::ratio(3, 2))]);
        assert_eq!(recipe.constraints[0].radius.to_string(), "radius");
        assert_eq!(recipe.ingredients.global.values, [("T".to_string(), "2 * rho".to_string())]);
        assert_eq!((recipe.steps, recipe.values, recipe.tokens), (3, Values::Free, Tokens::Evolve));
        for leaf in crate::ir::traverse::inputs(&recipe.energy) {
            let declared = recipe.param(&leaf.name).map(|param| &param.leaf);
            assert!(declared.is_none_or(|declared| declared == &leaf), "{leaf:?}");
        }
    }

    #[test]
    fn parameters_extend_along_what_they_have_numbers_for() {
        let recipe = recipe(
            "recipe r {
                 local l(w = learn(1, per component, per head), g = gate(sigmoid, per query)) { E = g * sum(w * q * k) }
                 global lse(T = learn(2, per head));
                 optimizer gd;
             }",
        );
        let axes = |name: &str| recipe.param(name).expect("a parameter").leaf.axes.clone();
        assert_eq!([axes("w"), axes("g"), axes("T")], [vec![Axis::E], vec![Axis::T], vec![]]);
        let ParamValue::Learn { each, .. } = recipe.param("w").expect("a parameter").value else { panic!("learned") };
        assert_eq!((each, each.shape(3, 5)), (Each { head: true, component: true }, vec![3, 5]));
        assert_eq!(recipe.local.to_string(), "(* g[t] (sum e1 (* w[e1] q[t,e1] k[n,e1])))");
    }

    #[test]
    fn the_words_of_marks_are_names_too() {
        let recipe = recipe(
            "recipe r {
                 param per = learn(1, per component);
                 local l(component = 2, head = learn(1, per head)) { let query = per * k; E = component * head * dot(q, query) }
                 global lse;
                 optimizer gd;
             }",
        );
        assert_eq!(recipe.local.to_string(), "(* component head (sum e1 (* per[e1] q[t,e1] k[n,e1])))");
    }

    #[test]
    fn programs_run_in_order() {
        let program = recipe("recipe r { local dot; global lse; optimizer nag; }").program;
        let terms = |terms: &[crate::ir::Expr]| terms.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(terms(&program.gradients), ["(+ z[t,c] (* -1 beta p[t,c]))"]);
        assert_eq!(program.z.to_string(), "(+ z[t,c] (* -1 eta (+ ∇F[t,c] (* beta p[t,c]))))");
        assert_eq!(terms(&program.next_states), ["(+ ∇F[t,c] (* beta p[t,c]))"]);
        assert_eq!(program.states[0].init.to_string(), "0");
    }
}
