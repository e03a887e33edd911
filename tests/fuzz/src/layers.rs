//! Recipes as layers of candle: many in one crate, by the kernel and by tensor operations, with the gradients of all variables,
//! beside the layer the evaluator makes of them.

use crate::compare::{self, Arrays, differs};
use crate::compiled::{TOLERANCE, VAGUE};
use crate::crates::{self, Crate};
use crate::emitted::{Emitted, emitted};
use crate::evaluate::Limits;
use crate::failure::Failure;
use crate::judge::ROUNDING;
use crate::layer::{self, LayerPoint, Sight};
use crate::meaning::Meaning;
use crate::point::Sizes;
use crate::random::Random;
use crate::tally::Tally;
use crate::tape::Rounding;
use crate::tree::{Recipe, Statement};
use crate::words::{OTHER_END, Reading, Words};
use energyc::pipeline::Target;

/// One sequence of four tokens, two heads of two components.
const SIZES: Sizes = Sizes { queries: 4, tokens: 4, head: 2, model: 4, heads: 2 };
const DRAWS: usize = 6;
const REPETITIONS: usize = 2;

/// A recipe with its layer.
struct Subject<'a> {
    number: usize,
    recipe: &'a Recipe,
    meaning: Meaning,
    source: String,
    has_states: bool,
}

/// What a layer is run on, and what is right.
struct Case {
    point: LayerPoint,
    expected: Arrays,
    movement: Arrays,
}

/// Looks at recipes all at once; what is wrong with each.
pub fn look(recipes: &[(Recipe, u64)], tally: &mut Tally) -> Vec<Option<Failure>> {
    let mut failures: Vec<Option<Failure>> = recipes.iter().map(|_| None).collect();
    let mut subjects = vec![];
    for (number, (recipe, _)) in recipes.iter().enumerate() {
        match subject(number, recipe, tally) {
            Ok(subject) => subjects.extend(subject),
            Err(failure) => failures[number] = Some(failure),
        }
    }
    let mut cases: Vec<Option<Case>> = vec![];
    for subject in &subjects {
        let mut random = Random::new(recipes[subject.number].1);
        cases.push(case(subject, &mut random, tally));
    }
    let sources: Vec<String> = subjects.iter().map(|subject| subject.source.clone()).collect();
    let names: Vec<Vec<String>> = cases.iter().map(|case| variables(case.as_ref())).collect();
    let main = |left: &[usize]| program(left, &subjects, &names);
    let needed = sources.first().map_or(String::new(), |source| dependencies(source));
    if sources.is_empty() {
        return failures;
    }
    let built = crates::build(&Crate { name: "fuzz-layers", dependencies: &needed, modules: &sources, main: &main });
    for (i, detail) in &built.refused {
        let failure = Failure::Refused { engine: "candle".to_string(), detail: detail.clone() };
        failures[subjects[*i].number] = Some(failure);
    }
    let runs: Vec<usize> =
        (0..subjects.len()).filter(|i| !built.refused.contains_key(i) && cases[*i].is_some()).collect();
    let mut words = Words::default();
    words.number(runs.len());
    for i in &runs {
        if let Some(case) = &cases[*i] {
            write(&mut words, *i, case);
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    words.write(&input);
    let mut command = std::process::Command::new(&built.program);
    command.arg(&input).arg(&output).env("RUST_MIN_STACK", (64 << 20).to_string());
    let run = command.output().expect("layers run");
    let mut reading = Reading::open(&output);
    for i in runs {
        let (subject, Some(case)) = (&subjects[i], &cases[i]) else { continue };
        let failure = match read(&mut reading, &names[i]) {
            None => {
                let said = String::from_utf8_lossy(&run.stderr);
                let how = format!("the layers' program ends with {}: {}", run.status, said.trim());
                failures[subject.number].get_or_insert(Failure::Crash { how });
                break;
            }
            Some(Err(failure)) => Some(failure),
            Some(Ok(paths)) => check(subject, case, &paths, tally),
        };
        if let Some(failure) = failure {
            failures[subject.number].get_or_insert(failure);
        }
    }
    failures
}

/// A recipe's layer; nothing where there is none to have.
fn subject<'a>(number: usize, recipe: &'a Recipe, tally: &mut Tally) -> Result<Option<Subject<'a>>, Failure> {
    let Some(Emitted { meaning, source, .. }) = emitted(recipe, Target::Candle, tally)? else { return Ok(None) };
    let has_states = recipe.optimizer.body.iter().any(|statement| matches!(statement, Statement::State(..)));
    Ok(Some(Subject { number, recipe, meaning, source, has_states }))
}

/// The crates an emitted file says it needs.
fn dependencies(source: &str) -> String {
    let lines = source.lines().skip_while(|line| *line != "//! ```toml").skip(1);
    lines.take_while(|line| *line != "//! ```").map(|line| line.trim_start_matches("//! ").to_string() + "\n").collect()
}

fn case(subject: &Subject, random: &mut Random, tally: &mut Tally) -> Option<Case> {
    for _ in 0..DRAWS {
        let point = LayerPoint::draw(&subject.meaning, SIZES, random).rounded();
        let with = |rounding| layer::evaluate(subject.recipe, &subject.meaning, &point, Limits::SINGLE, rounding);
        let mut repeated = vec![];
        let mut attempt = || {
            let expected = with(None)?;
            for _ in 0..REPETITIONS {
                repeated.push(with(Some(Rounding::new(ROUNDING, random)))?);
            }
            Ok(expected)
        };
        match attempt() {
            Err(skip) => {
                let skip: crate::evaluate::Skip = skip;
                tally.skip(&format!("{skip:?}"));
            }
            Ok(expected) => {
                let movement = compare::movement(&expected, &repeated);
                if compare::is_vague(&expected, &movement, TOLERANCE, VAGUE) {
                    tally.skip("IllConditioned");
                    continue;
                }
                return Some(Case { point, expected, movement });
            }
        }
    }
    None
}

/// The names of a case's variables, in order.
fn variables(case: Option<&Case>) -> Vec<String> {
    case.map_or(vec![], |case| case.point.variables.keys().cloned().collect())
}

fn write(words: &mut Words, i: usize, case: &Case) {
    let LayerPoint { sizes, sight, z, c, variables } = &case.point;
    let sight = match sight {
        Sight::Causal => 0,
        Sight::Full => 1,
        Sight::Window => 2,
    };
    for number in [i, sizes.tokens, sizes.model, sizes.heads, sight] {
        words.number(number);
    }
    for values in variables.values().chain([z, c]) {
        words.array(values.iter().copied());
    }
}

/// The layers' program.
fn program(left: &[usize], subjects: &[Subject], names: &[Vec<String>]) -> String {
    let arms: String = left.iter().map(|i| format!("            {i} => run_{i}(&mut input),\n")).collect();
    let runs: String = left.iter().map(|i| runner(*i, subjects[*i].has_states, &names[*i])).collect();
    format!(
        "{OTHER_END}
use candle_core::{{DType, Device, Tensor, Var}};
use candle_nn::{{VarBuilder, VarMap}};

/// What a layer is given: tokens, variables by their possible names, and the weights of the loss.
#[allow(dead_code)]
struct Given {{
    tokens: usize,
    d: usize,
    heads: usize,
    sight: usize,
    variables: Vec<(Vec<&'static str>, Vec<f32>)>,
    z: Vec<f32>,
    c: Vec<f32>,
}}

#[allow(dead_code)]
fn numbers(x: &Tensor) -> candle_core::Result<Vec<f32>> {{
    x.flatten_all()?.to_vec1()
}}

/// Puts the given numbers into the variables of a layer; the variables in the order they were given.
#[allow(dead_code)]
fn set(map: &VarMap, given: &Given) -> candle_core::Result<Vec<Option<Var>>> {{
    let data = map.data().lock().expect(\"variables\");
    let mut known = 0;
    let mut all = vec![];
    for (names, values) in &given.variables {{
        let variable = names.iter().find_map(|name| data.get(*name)).cloned();
        if let Some(variable) = &variable {{
            known += 1;
            variable.set(&Tensor::from_vec(values.clone(), variable.shape(), &Device::Cpu)?)?;
        }}
        all.push(variable);
    }}
    if known != data.len() {{
        candle_core::bail!(\"the layer has variables nobody knows: {{:?}}\", data.keys().collect::<Vec<_>>())
    }}
    Ok(all)
}}
{runs}
fn main() {{
    // What is not optimized needs room on the stack.
    let work = std::thread::Builder::new().stack_size(256 << 20).spawn(run_all);
    work.expect(\"a thread\").join().expect(\"no panic\");
}}

fn run_all() {{
    std::panic::set_hook(Box::new(|_| {{}}));
    let paths: Vec<String> = std::env::args().collect();
    let (mut input, mut output) = (Reading::open(&paths[1]), Words::default());
    for _ in 0..input.number() {{
        let result = match input.number() {{
{arms}            _ => Err(\"no such module\".to_string()),
        }};
        put(&mut output, result);
        output.write(&paths[2]);
    }}
}}
"
    )
}

/// What a layer may call a variable: names of recipes that meet its own have a `_` more.
fn possible_names(variable: &str) -> Vec<String> {
    match (variable.strip_prefix(layer::NUMBER), variable.split_once('.')) {
        (Some(number), _) if layer::MATRICES.contains(&number) => vec![format!("{number}_")],
        (Some(number), _) => vec![format!("{number}_"), number.to_string()],
        (None, Some((gate, part))) => {
            vec![format!("gate_{gate}.{part}"), format!("gate_{gate}_.{part}"), format!("{gate}.{part}")]
        }
        (None, None) => vec![variable.to_string()],
    }
}

/// What runs a layer: y, force, ∂z and the gradients of all variables, by the kernel and by tensor operations.
fn runner(i: usize, has_states: bool, names: &[String]) -> String {
    let variables: String = names
        .iter()
        .map(|name| {
            let known = possible_names(name);
            format!("        (vec!{known:?}, input.array()),\n")
        })
        .collect();
    let moved = match has_states {
        true => {
            "{
            use m::Stateful as _;
            let state = layer.start(&z)?;
            let (now, state) = layer.step(&z, &state, context)?;
            layer.step(&now, &state, context)?.0
        }"
        }
        false => "layer.forward_with(&z, context)?",
    };
    format!(
        "
#[allow(warnings)]
fn run_{i}(input: &mut Reading) -> Result<Vec<Vec<f32>>, String> {{
    let [tokens, d, heads, sight] = std::array::from_fn(|_| input.number());
    let variables = vec![
{variables}    ];
    let given = Given {{ tokens, d, heads, sight, variables, z: input.array(), c: input.array() }};
    caught(move || layer_{i}(&given).unwrap_or_else(|error| panic!(\"{{error}}\")))
}}

#[allow(warnings)]
fn layer_{i}(given: &Given) -> candle_core::Result<Vec<Vec<f32>>> {{
    use m{i} as m;
    let map = VarMap::new();
    let config = m::Config {{ d_model: given.d, heads: given.heads }};
    let layer = m::Layer::new(&config, VarBuilder::from_varmap(&map, DType::F32, &Device::Cpu))?;
    let layer = match given.sight {{
        1 => layer.with_mask(m::Mask::Full),
        2 => layer.with_mask(m::Mask::Window(2)),
        _ => layer,
    }};
    let variables = set(&map, given)?;
    let shape = (1, given.tokens, given.d);
    let z = Var::from_tensor(&Tensor::from_vec(given.z.clone(), shape, &Device::Cpu)?)?;
    let c = Tensor::from_vec(given.c.clone(), shape, &Device::Cpu)?;
    let context = &m::Context::default();
    let mut all = vec![];
    for layer in [layer.clone(), layer.clone().with_tensor_ops()] {{
        let force = layer.force(&z, context)?;
        let y = {moved};
        let loss = (&y * &c)?.sum_all()?;
        let gradients = loss.backward()?;
        all.push(numbers(&y)?);
        all.push(numbers(&force)?);
        let of = |variable: &Var| match gradients.get(variable) {{
            Some(gradient) => numbers(gradient),
            None => Ok(vec![0.0; variable.elem_count()]),
        }};
        all.push(of(&z)?);
        for variable in &variables {{
            all.push(variable.as_ref().map_or(Ok(vec![]), of)?);
        }}
    }}
    Ok(all)
}}
"
    )
}

/// What both paths returned.
fn read(reading: &mut Reading, names: &[String]) -> Option<Result<Vec<(&'static str, Arrays)>, Failure>> {
    if reading.number()? == 0 {
        let message = reading.text()?;
        let location = "an emitted layer".to_string();
        return Some(Err(Failure::Panic { stage: "candle".to_string(), message, location }));
    }
    let mut paths = vec![];
    for path in ["candle", "candle by tensor operations"] {
        let mut arrays = Arrays::new();
        let fixed = ["y", "force", "∂z"].map(str::to_string);
        for name in fixed.into_iter().chain(names.iter().map(|name| format!("∂{name}"))) {
            let values = reading.array()?;
            // A layer leaves out what it does not use.
            if !values.is_empty() {
                arrays.insert(name, values);
            }
        }
        paths.push((path, arrays));
    }
    Some(Ok(paths))
}

fn check(subject: &Subject, case: &Case, paths: &[(&'static str, Arrays)], tally: &mut Tally) -> Option<Failure> {
    if subject.meaning.radius_of_query.is_some() {
        // Only the compiler's way of writing the energy says what is along q.
        tally.skip("a direction along a query of fixed length");
        let [(_, first), (_, second)] = paths else { return None };
        return differs(first, &case.movement, second, TOLERANCE).map(|difference| Failure::Wrong {
            engine: "candle against its tensor operations".to_string(),
            detail: difference.describe(),
            output: difference.name,
        });
    }
    for (path, got) in paths {
        if let Some(difference) = differs(&case.expected, &case.movement, got, TOLERANCE) {
            let detail = format!("{}\n    sight {:?}", difference.describe(), case.point.sight);
            return Some(Failure::Wrong { engine: path.to_string(), output: difference.name, detail });
        }
    }
    tally.compared += 1;
    None
}
