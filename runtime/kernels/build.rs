//! Compiles the shipped recipes and puts a `Kernel` around each.

use energyc::check::Recipe;
use energyc::kernel::{Field, Interface, interface, recipe_hash, users};
use energyc::pipeline::Target;
use energyc::simplify::Options;
use energyc::{build, derive, plan};
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../recipes");
    println!("cargo::rerun-if-changed={}", folder.display());
    let entries = std::fs::read_dir(&folder).expect("the recipes are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == "recipe"));
    files.sort();
    let recipes = build::compile(&files, Target::Cpu);
    let kernels: String = recipes.iter().map(kernel).collect();
    let row = |r: &Recipe| {
        let module = users::identifier(&r.name);
        format!("        {:?} => Some(&compiled::{module}::Compiled),\n", recipe_hash(r))
    };
    let rows = recipes.iter().map(row);
    let find = format!(
        "/// The kernel of the recipe with this hash.\n\
         #[allow(unreachable_patterns)]\n\
         pub fn find(hash: &str) -> Option<&'static dyn Kernel> {{\n    match hash {{\n{}        _ => None,\n    }}\n}}\n",
        rows.collect::<String>()
    );
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("a build script has OUT_DIR"));
    let kernels = format!("/// A `Kernel` around every module.\nmod compiled {{\n{kernels}}}\n");
    std::fs::write(out.join("kernels.rs"), kernels + &find).expect("kernels can be written");
}

/// The gradients of a structure as rows of a list.
fn owned(fields: &[Field]) -> String {
    let row = |Field { field, name, is_shared }: &Field| {
        format!("                Gradient {{ name: {name:?}, values: gradients.{field}, is_shared: {is_shared} }},\n")
    };
    fields.iter().map(row).collect()
}

/// A `Kernel` around the module of a recipe.
fn kernel(recipe: &Recipe) -> String {
    let options = Options::default();
    let derivation = derive::derive(recipe, &options);
    let plan = plan::plan(&derivation, &options).expect("a compiled recipe has a plan");
    let Interface { inputs, gradients, energy_gradients } = interface(&plan);
    let inputs: String =
        inputs.iter().map(|(field, input)| format!("            {field}: (call.tensor)({input:?}),\n")).collect();
    let (owned, owned_of_energy) = (owned(&gradients), owned(&energy_gradients));
    let rows = gradients.iter().map(|Field { field, name, is_shared }| {
        format!("                ({name:?}, &self.gradients.{field}[..], {is_shared}),\n")
    });
    let lent: String = rows.collect();
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("a build script has OUT_DIR"));
    let (name, source) = (users::identifier(&recipe.name), build::source(&out, recipe));
    format!(
        "#[allow(non_snake_case)]
pub mod {name} {{
    use crate::recipes::{name} as kernel;
    use crate::{{Call, GRAD_ENERGY, GRAD_OUT, Gradient, Kernel, Saved, Session}};

    pub struct Compiled;

    #[derive(Default)]
    struct Buffers {{
        out: Vec<f32>,
        saved: kernel::Saved,
        gradients: kernel::Gradients,
        size: Option<kernel::Size>,
    }}

    impl Session for Buffers {{
        fn forward(&mut self, call: &Call) -> &[f32] {{
            let size = size(call);
            if self.size != Some(size) {{
                self.size = Some(size);
                self.out = vec![0.0; size.all_heads() * size.queries * size.head];
                self.gradients = kernel::Gradients::new(&size);
            }}
            kernel::forward(&size, &visible(call), &inputs(call), &mut self.saved, &mut self.out);
            &self.out
        }}

        fn backward<'a>(&'a mut self, call: &Call) -> Vec<(&'a str, &'a [f32], bool)> {{
            let given = (call.tensor)(GRAD_OUT);
            kernel::backward(&size(call), &visible(call), &inputs(call), given, &self.saved, &mut self.gradients);
            vec![
{lent}            ]
        }}
    }}

    fn size(call: &Call) -> kernel::Size {{
        let crate::Size {{ batch, heads, queries, tokens, head }} = call.size;
        kernel::Size {{ batch, heads, queries, tokens, head }}
    }}

    fn visible(call: &Call) -> Vec<kernel::Visible> {{
        call.visible.iter().map(|v| kernel::Visible::new(v.to_vec(), call.size.tokens)).collect()
    }}

    fn inputs<'a>(call: &Call<'a>) -> kernel::Inputs<'a> {{
        kernel::Inputs {{
{inputs}            dropout: call.dropout.map(|(seed, rate)| kernel::Dropout::new(seed, rate)),
        }}
    }}

    fn own(saved: &Saved) -> &kernel::Saved {{
        saved.downcast_ref().expect(\"the forward pass is of the same kernel\")
    }}

    impl Kernel for Compiled {{
        fn source(&self) -> &'static str {{
            include_str!({source:?})
        }}

        fn session(&self) -> Box<dyn Session> {{
            Box::new(Buffers::default())
        }}

        fn forward(&self, call: &Call) -> (Vec<f32>, Saved) {{
            let size = size(call);
            let mut out = vec![0.0; size.all_heads() * size.queries * size.head];
            let mut saved = kernel::Saved::default();
            kernel::forward(&size, &visible(call), &inputs(call), &mut saved, &mut out);
            (out, Box::new(saved))
        }}

        fn energy(&self, call: &Call) -> Vec<f32> {{
            let size = size(call);
            let mut out = vec![0.0; size.all_heads() * size.queries];
            kernel::energy(&size, &visible(call), &inputs(call), &mut out);
            out
        }}

        fn backward(&self, call: &Call, saved: &Saved) -> Vec<Gradient> {{
            let size = size(call);
            let mut gradients = kernel::Gradients::new(&size);
            let given = (call.tensor)(GRAD_OUT);
            kernel::backward(&size, &visible(call), &inputs(call), given, own(saved), &mut gradients);
            vec![
{owned}            ]
        }}

        fn energy_backward(&self, call: &Call) -> Vec<Gradient> {{
            let size = size(call);
            let mut gradients = kernel::EnergyGradients::new(&size);
            let given = (call.tensor)(GRAD_ENERGY);
            kernel::energy_backward(&size, &visible(call), &inputs(call), given, &mut gradients);
            vec![
{owned_of_energy}            ]
        }}
    }}
}}
"
    )
}
