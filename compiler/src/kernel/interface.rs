//! What a program that calls emitted kernels needs to know of them: the fields of their structures.

use super::names;
use crate::plan::Plan;
use crate::plan::schedule::{Domain, Pass};
use proc_macro2::Ident;

/// The public face of a kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Interface {
    /// The fields of `Inputs`, and the inputs they hold.
    pub inputs: Vec<(String, String)>,
    /// The fields of `Gradients`, those of the direction.
    pub gradients: Vec<Field>,
    /// The fields of `EnergyGradients`.
    pub energy_gradients: Vec<Field>,
}

/// A gradient.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Field {
    pub field: String,
    /// The input it is the gradient of.
    pub name: String,
    /// A number or a vector per head, to be summed over the batch.
    pub is_shared: bool,
}

/// The face of a plan's kernel.
pub fn interface(plan: &Plan) -> Interface {
    let fields = |pass: &Pass| {
        let all = names::gradient_fields(pass).into_iter();
        let known = |(field, name, domain): (Ident, String, Domain)| Field {
            field: field.to_string(),
            name,
            is_shared: matches!(domain, Domain::Scalar | Domain::Vector),
        };
        all.map(known).collect()
    };
    let inputs = names::public_inputs(plan).into_iter();
    Interface {
        inputs: inputs
            .map(|l| (names::input_field(&l).to_string(), l.name.trim_end_matches('₀').to_string()))
            .collect(),
        gradients: fields(&plan.tiles.backward),
        energy_gradients: fields(&plan.tiles.energy_backward),
    }
}
