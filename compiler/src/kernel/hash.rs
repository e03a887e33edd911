//! The key of a recipe: a hash of what it means, whatever it is called and however its file is laid out.

use crate::check::recipe::{Method, Param, ParamValue, Recipe, Whose};

/// 128 bits in hexadecimal. Recipes with the same key have the same kernel and the same layer.
pub fn recipe_hash(recipe: &Recipe) -> String {
    let text = canonical(recipe);
    // FNV-1a over 128 bits: stable everywhere, and nobody attacks a registry of recipes.
    let step = |hash: u128, byte: u8| (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013B);
    let hash = text.bytes().fold(0x6c62_272e_07bb_0142_62b8_2175_6295_c58d, step);
    format!("{hash:032x}")
}

/// Everything of a recipe that its kernel or layer depends on, line by line.
fn canonical(recipe: &Recipe) -> String {
    let mut lines = vec![format!("energy {}", recipe.energy)];
    lines.extend(recipe.params.iter().map(param));
    lines.extend(recipe.constraints.iter().map(|c| format!("constrain {} {}", c.vector.name, c.radius)));
    let (values, write_back, tokens) = (recipe.values, recipe.write_back, recipe.tokens);
    lines.push(format!("{values:?} {write_back:?} {} {tokens:?}", recipe.steps));
    let program = &recipe.program;
    lines.extend(program.states.iter().map(|s| format!("state {} {}", s.leaf.name, s.init)));
    lines.extend(program.gradients.iter().map(|point| format!("gradient {point}")));
    if let Some(p) = &program.preconditioner {
        let method = match &p.method {
            Method::Exact => "exact".to_string(),
            Method::Taylor { order, alpha } => format!("taylor {order} {alpha:?}"),
        };
        lines.push(format!("solve {} {} {method} {:?}", p.curvature, p.shift, p.scale));
    }
    lines.push(format!("z {}", program.z));
    lines.extend(program.next_states.iter().map(|s| format!("next {s}")));
    lines.join("\n")
}

fn param(param: &Param) -> String {
    let value = match &param.value {
        ParamValue::Fixed(e) => format!("fixed {e}"),
        ParamValue::Learn { init, each } => format!("learn {init}{}", each.marks()),
        ParamValue::Gate(squash, Whose::Token) => format!("gate {}", squash.as_str()),
        ParamValue::Gate(squash, Whose::Query) => format!("gate {}, per query", squash.as_str()),
        ParamValue::Decay(squash) => format!("decay {}", squash.as_str()),
    };
    format!("param {} {value}", param.name)
}
