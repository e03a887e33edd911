//! What every layer must do: both paths agree, both gradients agree with each other and with differences of the layer,
//! every variable learns, and masks hide what they say.

use candle_core::{DType, Device, Module, Result, Tensor, Var};
use candle_nn::{VarBuilder, VarMap};

const BATCH: usize = 2;
const TOKENS: usize = 7;
const D: usize = 12;
const HEADS: usize = 3;

/// What of a batch is particular, for any layer's own type.
#[derive(Clone, Copy, Default)]
struct Particular<'a> {
    lengths: Option<&'a [usize]>,
    documents: Option<&'a [u32]>,
    dropout: Option<(u64, f64)>,
}

/// A layer of whatever recipe.
trait Subject: Sized + Clone {
    fn make(vb: VarBuilder) -> Result<Self>;
    fn by_tensor_ops(self) -> Self;
    fn run(&self, z: &Tensor, particular: Particular) -> Result<Tensor>;
    /// The same for whole sequences, as other code would call it.
    fn plain(&self, z: &Tensor) -> Result<Tensor>;
    fn forces(&self, z: &Tensor, particular: Particular) -> Result<[Tensor; 2]>;
}

macro_rules! subject {
    ($module:ident, |$layer:ident, $z:ident, $context:ident| $run:expr, |$own:ident, $point:ident| $plain:expr) => {
        impl Subject for layers::$module::Layer {
            fn make(vb: VarBuilder) -> Result<Self> {
                layers::$module::Layer::new(&layers::$module::Config { d_model: D, heads: HEADS }, vb)
            }
            fn by_tensor_ops(self) -> Self {
                self.with_tensor_ops()
            }
            fn run(&self, $z: &Tensor, particular: Particular) -> Result<Tensor> {
                let Particular { lengths, documents, dropout } = particular;
                let dropout = dropout.map(|(seed, rate)| layers::$module::Dropout::new(seed, rate));
                let ($layer, $context) = (self, &layers::$module::Context { lengths, documents, dropout });
                $run
            }
            fn plain(&self, $point: &Tensor) -> Result<Tensor> {
                let $own = self;
                $plain
            }
            fn forces(&self, z: &Tensor, particular: Particular) -> Result<[Tensor; 2]> {
                let Particular { lengths, documents, dropout } = particular;
                let dropout = dropout.map(|(seed, rate)| layers::$module::Dropout::new(seed, rate));
                let context = &layers::$module::Context { lengths, documents, dropout };
                Ok([self.force(z, context)?, self.force_with_tensor_ops(z, context)?])
            }
        }
    };
}

macro_rules! stateless {
    ($module:ident) => {
        subject!($module, |layer, z, context| layer.forward_with(z, context), |layer, z| layer.forward(z));
    };
}

/// Two steps, so that the states are looked at too; the second with something in front that a norm could be.
macro_rules! stateful {
    ($module:ident) => {
        subject!(
            $module,
            |layer, z, context| {
                use layers::$module::Stateful as _;
                let state = layer.start(z)?;
                let (z, state) = layer.step(z, &state, context)?;
                Ok(layer.step_with(&z, &state, context, |y| y * 0.7)?.0)
            },
            |layer, z| layer.run(z, Particular::default())
        );
    };
}

/* subjects */

fn main() -> Result<()> {
    /* checks */
    Ok(())
}

fn numbers(x: &Tensor) -> Vec<f32> {
    x.flatten_all().and_then(|x| x.to_vec1()).expect("numbers")
}

fn near(what: &str, x: &Tensor, y: &Tensor, tolerance: f32) {
    let (x, y) = (numbers(x), numbers(y));
    let scale = y.iter().fold(1e-3, |largest: f32, y| largest.max(y.abs()));
    for (i, (a, b)) in x.iter().zip(&y).enumerate() {
        assert!((a - b).abs() <= tolerance * scale, "{what}: {a} and {b} at {i}, of numbers up to {scale}");
    }
}

/// Σ c·y with fixed c, so that every entry counts differently.
fn loss(y: &Tensor) -> Result<Tensor> {
    let c: Vec<f32> = (0..y.elem_count()).map(|i| (1.0 + 0.37 * i as f32).sin()).collect();
    (y * Tensor::from_vec(c, y.shape(), &Device::Cpu)?)?.sum_all()
}

fn check<L: Subject>(name: &str) -> Result<()> {
    let variables = VarMap::new();
    let layer = L::make(VarBuilder::from_varmap(&variables, DType::F32, &Device::Cpu))?;
    let other = layer.clone().by_tensor_ops();
    // The same numbers in every run.
    for (j, (_, variable)) in sorted(&variables).into_iter().enumerate() {
        if variable.rank() == 2 {
            // Squares of the place, as a wave along it would make a matrix of rank 2.
            let wave = |i: usize| 0.4 * (((i + j) * (i + j)) as f32 * 0.071 + j as f32).sin();
            let x: Vec<f32> = (0..variable.elem_count()).map(wave).collect();
            variable.set(&Tensor::from_vec(x, variable.shape(), &Device::Cpu)?)?;
        }
    }
    let wave: Vec<f32> = (0..BATCH * TOKENS * D).map(|i| (i as f32 * i as f32 * 0.013).cos()).collect();
    let z = Var::from_tensor(&Tensor::from_vec(wave, (BATCH, TOKENS, D), &Device::Cpu)?)?;

    let none = Particular::default();
    let documents: Vec<u32> = (0..BATCH * TOKENS).map(|i| (i % TOKENS / 3) as u32).collect();
    let contexts = [
        ("whole sequences", none),
        ("lengths", Particular { lengths: Some(&[TOKENS, 4]), ..none }),
        ("documents", Particular { documents: Some(&documents), ..none }),
        ("dropout", Particular { dropout: Some((3, 0.3)), ..none }),
    ];
    near(&format!("{name} as a module"), &layer.plain(&z)?, &layer.run(&z, none)?, 1e-6);
    for (what, context) in contexts {
        let what = format!("{name}, {what}");
        let (x, y) = (layer.run(&z, context)?, other.run(&z, context)?);
        near(&format!("{what}: two paths"), &x, &y, 1e-4);
        let [x_force, y_force] = layer.forces(&z, context)?;
        near(&format!("{what}: forces"), &x_force, &y_force, 1e-4);
        if context.lengths.is_some() {
            let absent = numbers(&x_force.get(1)?.narrow(0, 4, TOKENS - 4)?);
            assert!(absent.iter().all(|x| *x == 0.0), "{what}: absent tokens are moved");
        }
        let (grads, grads_of_other) = (loss(&x)?.backward()?, loss(&y)?.backward()?);
        let all = sorted(&variables).into_iter().chain([("z".to_string(), z.clone())]);
        for (variable_name, variable) in all {
            let what = format!("{what}: gradient of {variable_name}");
            let Some(grad) = grads.get(&variable) else { panic!("{what} is missing") };
            // What nothing depends on has the gradient 0 from a kernel, and none by tensor operations.
            match grads_of_other.get(&variable) {
                Some(grad_of_other) => near(&what, grad, grad_of_other, 1e-3),
                None => assert!(numbers(grad).iter().all(|x| *x == 0.0), "{what} is missing by tensor ops"),
            }
            differences(&what, &layer, &z, &variable, grad, context)?;
        }
    }
    println!("{name}");
    Ok(())
}

/// Two entries of a gradient against differences of the layer, in f32 and therefore coarse.
fn differences<L: Subject>(
    what: &str,
    layer: &L,
    z: &Var,
    variable: &Var,
    grad: &Tensor,
    context: Particular,
) -> Result<()> {
    let grad = numbers(grad);
    let largest = (0..grad.len()).max_by(|i, j| grad[*i].abs().total_cmp(&grad[*j].abs())).unwrap_or(0);
    let before = variable.as_tensor().copy()?;
    let at = |i: usize, step: f32| -> Result<f64> {
        let mut x = numbers(&before);
        x[i] += step;
        variable.set(&Tensor::from_vec(x, before.shape(), &Device::Cpu)?)?;
        Ok(f64::from(loss(&layer.run(z, context)?)?.to_scalar::<f32>()?))
    };
    let scale = f64::from(grad[largest].abs()).max(1e-2);
    for i in [largest, grad.len() / 2] {
        // From both sides, and from either: at a kink a gradient is the slope of one.
        let ends = [[4e-3, -4e-3], [1e-3, -1e-3], [1e-3, 0.0], [0.0, -1e-3]];
        let slope = |[to, from]: [f32; 2]| Ok((at(i, to)? - at(i, from)?) / f64::from(to - from));
        let slopes = ends.into_iter().map(slope).collect::<Result<Vec<f64>>>()?;
        let is_near = |slope: &f64| (slope - f64::from(grad[i])).abs() <= 3e-2 * scale;
        assert!(slopes.iter().any(is_near), "{what}: {} at {i}, but differences give {slopes:?}", grad[i]);
    }
    variable.set(&before)
}

/// The variables by name.
fn sorted(variables: &VarMap) -> Vec<(String, Var)> {
    let data = variables.data().lock().expect("variables");
    let mut all: Vec<(String, Var)> = data.iter().map(|(name, variable)| (name.clone(), variable.clone())).collect();
    all.sort_by(|x, y| x.0.cmp(&y.0));
    all
}
