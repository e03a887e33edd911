//! Compiles the shipped recipes into kernels and puts an engine around each.

use energyc::check::Recipe;
use energyc::kernel::{Interface, interface, recipe_hash};
use energyc::pipeline::Target;
use energyc::simplify::Options;
use energyc::{build, derive, plan};
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../recipes");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).expect("the recipes are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "recipe"));
    files.sort();
    let recipes = build::compile(&files, Target::Cpu);
    let engines: String = recipes.iter().map(engine).collect();
    let rows =
        recipes.iter().map(|r| format!("        {:?} => Some(Box::new({}::Compiled)),\n", recipe_hash(r), r.name));
    let find = format!(
        "/// The engine of the recipe with this key.\n\
         #[allow(unreachable_patterns)]\n\
         fn by_hash(hash: &str) -> Option<Box<dyn Engine>> {{\n    match hash {{\n{}        _ => None,\n    }}\n}}\n",
        rows.collect::<String>()
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("a build script has OUT_DIR"));
    std::fs::write(out.join("engines.rs"), engines + &find).expect("engines can be written");
}

/// An engine around the module of a recipe.
fn engine(recipe: &Recipe) -> String {
    let options = Options::default();
    let derivation = derive::derive(recipe, &options);
    let plan = plan::plan(&derivation, &options).expect("a compiled recipe has a plan");
    let Interface { inputs, backward, constants, energy_backward } = interface(&plan);
    let inputs: String =
        inputs.iter().map(|(field, input)| format!("            {field}: problem.tensor({input:?}),\n")).collect();
    let passes = [
        ("backward", "Gradients", "GRAD_OUT", backward),
        ("constants", "ConstantGradients", "GRAD_OUT", constants),
        ("energy_backward", "EnergyGradients", "GRAD_ENERGY", energy_backward),
    ];
    let passes: String = passes
        .iter()
        .map(|(pass, gradients, given, fields)| {
            let rows: String = fields
                .iter()
                .map(|field| {
                    let name = &field.name;
                    match field.is_number {
                        true => format!(
                            "            all.insert({name:?}.into(), over_batch(&gradients.{name}, size.heads));\n"
                        ),
                        false => format!("            all.insert({name:?}.into(), gradients.{name});\n"),
                    }
                })
                .collect();
            if fields.is_empty() {
                return format!(
                    "        fn {pass}(&self, _: &Problem, _: &Forward) -> Gradients {{\n            \
                     Gradients::new()\n        }}\n"
                );
            }
            format!(
                "        fn {pass}(&self, problem: &Problem, forward: &Forward) -> Gradients {{
            let size = size(problem);
            let mut gradients = kernel::{gradients}::new(&size);
            let given = problem.tensor({given});
            kernel::{pass}(&size, &visible(problem), &inputs(problem), given, forward.saved(), &mut gradients);
            let mut all = Gradients::new();
{rows}            all
        }}
"
            )
        })
        .collect();
    let name = &recipe.name;
    format!(
        "#[allow(non_snake_case, unused_imports)]
mod {name} {{
    use super::kernels::{name} as kernel;
    use super::*;

    pub struct Compiled;

    fn size(problem: &Problem) -> kernel::Size {{
        let crate::problem::Size {{ batch, heads, queries, tokens, head }} = problem.size;
        kernel::Size {{ batch, heads, queries, tokens, head }}
    }}

    fn visible(problem: &Problem) -> Vec<kernel::Visible> {{
        let one = |v: &energyc::primitives::visible::Visible| kernel::Visible::new(v.intervals().to_vec(), v.tokens());
        problem.visible.iter().map(one).collect()
    }}

    fn inputs(problem: &Problem) -> kernel::Inputs<'_> {{
        kernel::Inputs {{
{inputs}        }}
    }}

    impl Engine for Compiled {{
        fn forward(&self, problem: &Problem) -> Forward {{
            let size = size(problem);
            let mut out = vec![0.0; size.all_heads() * size.queries * size.head];
            let mut saved = kernel::Saved::default();
            kernel::forward(&size, &visible(problem), &inputs(problem), &mut saved, &mut out);
            Forward {{ out, saved: Box::new(saved) }}
        }}

        fn energy(&self, problem: &Problem) -> Vec<f32> {{
            let size = size(problem);
            let mut out = vec![0.0; size.all_heads() * size.queries];
            kernel::energy(&size, &visible(problem), &inputs(problem), &mut out);
            out
        }}

{passes}    }}
}}
"
    )
}
