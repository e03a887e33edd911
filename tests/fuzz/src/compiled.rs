//! Recipes as emitted kernels: many in one crate, built and run on inputs from a file, in single precision, beside the
//! evaluator at the same rounded inputs: inputs of all sizes and awkward places, and the measure of [`crate::judge`].

use crate::catching::catching;
use crate::compare::{Arrays, Tolerance};
use crate::crates::{self, Crate};
use crate::emitted::{Emitted, emitted};
use crate::failure::Failure;
use crate::judge::{Expected, ROUNDING, Verdict};
use crate::meaning::Meaning;
use crate::point::Point;
use crate::random::Random;
use crate::samples::{self, LARGE, Mask, SMALL};
use crate::single;
use crate::sphere;
use crate::spot::Spot;
use crate::tally::Tally;
use crate::tree::Recipe;
use crate::words::{OTHER_END, Reading, Words};
use energyc::kernel::{Field, Interface, interface};
use energyc::pipeline::Target;

/// What layers are allowed, whose weights are at random.
pub const TOLERANCE: Tolerance = Tolerance { relative: 512.0 * ROUNDING, absolute: 1e-6, movement: 64.0 };
/// A tolerance above this share of an array's largest entry would not see much.
pub const VAGUE: f64 = 0.05;
const DRAWS: usize = 4;

/// A recipe with its kernel.
struct Subject {
    /// Which of the recipes.
    number: usize,
    meaning: Meaning,
    structural: Vec<String>,
    face: Interface,
    source: String,
}

/// One call of a kernel: points by batch and head.
struct Call {
    batch: usize,
    heads: usize,
    points: Vec<(Point, Spot)>,
    expected: Vec<Expected>,
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
    let sources: Vec<String> = subjects.iter().map(|subject| subject.source.clone()).collect();
    let main = |left: &[usize]| program(left, &subjects);
    let what =
        Crate { name: "fuzz-kernels", dependencies: energyc::kernel::DEPENDENCIES, modules: &sources, main: &main };
    let built = crates::build(&what);
    for (i, detail) in &built.refused {
        let failure = Failure::Refused { engine: "compiled".to_string(), detail: detail.clone() };
        failures[subjects[*i].number] = Some(failure);
    }
    let mut words = Words::default();
    let mut calls: Vec<(usize, Call)> = vec![];
    for (i, subject) in subjects.iter().enumerate().filter(|(i, _)| !built.refused.contains_key(i)) {
        let mut random = Random::new(recipes[subject.number].1);
        for (shape, batch, heads) in shapes(&mut random) {
            if let Some(call) = call(subject, shape, (batch, heads), &mut random, tally) {
                write(&mut words, i, subject, &call);
                calls.push((i, call));
            }
        }
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    words.write(&input);
    // What is not optimized needs room on the stack.
    let mut command = std::process::Command::new(&built.program);
    command.arg(&input).arg(&output).env("RUST_MIN_STACK", (64 << 20).to_string());
    let run = command.output().expect("kernels run");
    let mut reading = Reading::open(&output);
    for (i, call) in &calls {
        let subject = &subjects[*i];
        let failure = match read(&mut reading, subject, call) {
            None => {
                let said = String::from_utf8_lossy(&run.stderr);
                let how = format!("the kernels' program ends with {}: {}", run.status, said.trim());
                failures[subject.number].get_or_insert(Failure::Crash { how });
                break;
            }
            Some(Err(failure)) => Some(failure),
            Some(Ok(heads)) => check(subject, call, &heads, tally),
        };
        if let Some(failure) = failure {
            failures[subject.number].get_or_insert(failure);
        }
    }
    failures
}

/// A recipe's kernel; nothing where there is none to have.
fn subject(number: usize, recipe: &Recipe, tally: &mut Tally) -> Result<Option<Subject>, Failure> {
    let Some(Emitted { compiled, meaning, source }) = emitted(recipe, Target::Cpu, tally)? else { return Ok(None) };
    let face = catching("emit", || interface(&compiled.plan))?;
    let structural = compiled.recipe.structural.iter().map(|(name, _)| name.clone()).collect();
    Ok(Some(Subject { number, meaning, structural, face, source }))
}

/// ((queries, tokens, d_h), batch, heads).
fn shapes(random: &mut Random) -> Vec<((usize, usize, usize), usize, usize)> {
    let mut all = vec![(SMALL[0], 1, 1), (SMALL[1], 2, 2), (SMALL[2 + random.below(SMALL.len() - 2)], 1, 3)];
    if random.one_in(5) {
        all.push((LARGE, 1, 1));
    }
    all
}

/// Points that can be compared at; nothing where too many draws were in vain.
fn call(
    subject: &Subject,
    shape: (usize, usize, usize),
    (batch, heads): (usize, usize),
    random: &mut Random,
    tally: &mut Tally,
) -> Option<Call> {
    let mask = random.pick(&Mask::ALL);
    let mut points: Vec<(Point, Spot)> = vec![];
    let mut expected = vec![];
    for i in 0..batch * heads {
        let mut found = None;
        for _ in 0..DRAWS {
            let mut point = samples::draw(&subject.meaning, shape, mask, random);
            point.sizes.heads = heads;
            point.sizes.model = heads * shape.2;
            samples::set_numbers(&subject.meaning, &mut point, random);
            // A mask belongs to a sequence, a number to a head.
            if let Some((first, _)) = (i % heads > 0).then(|| &points[i - i % heads]) {
                point.visible = first.visible.clone();
            }
            if let Some((same_head, _)) = i.checked_sub(heads).map(|j| &points[j]) {
                point.numbers = same_head.numbers.clone();
                point.vectors = same_head.vectors.clone();
            }
            let spot = Spot::draw(random);
            spot.put(&mut point);
            let point = point.rounded();
            match single::expected(&subject.meaning, &point, random) {
                Ok(arrays) => {
                    found = Some(((point, spot), arrays));
                    break;
                }
                Err(skip) => tally.skip(&format!("{skip:?}")),
            }
        }
        let (place, arrays) = found?;
        points.push(place);
        expected.push(arrays);
    }
    Some(Call { batch, heads, points, expected })
}

/// The kernels' program.
fn program(left: &[usize], subjects: &[Subject]) -> String {
    let arms: String = left.iter().map(|i| format!("            {i} => run_{i}(&mut input),\n")).collect();
    let runs: String = left.iter().map(|i| runner(*i, &subjects[*i])).collect();
    format!(
        "{OTHER_END}
fn intervals(input: &mut Reading, batch: usize, queries: usize) -> Vec<Vec<std::ops::Range<usize>>> {{
    let interval = |input: &mut Reading| {{ let start = input.number(); start..input.number() }};
    (0..batch).map(|_| (0..queries).map(|_| interval(input)).collect()).collect()
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

/// What calls a kernel: all inputs in the order of its fields, then the cotangents.
fn runner(i: usize, subject: &Subject) -> String {
    let fields: Vec<&String> = subject.face.inputs.iter().map(|(field, _)| field).collect();
    let reads: String = (0..fields.len()).map(|j| format!("    let input_{j} = input.array();\n")).collect();
    let lent: String = fields.iter().enumerate().map(|(j, field)| format!("{field}: &input_{j}, ")).collect();
    let Interface { gradients, energy_gradients, .. } = &subject.face;
    let taken = |from: &str, fields: &[Field]| -> String {
        fields.iter().map(|gradient| format!("{from}.{}.clone(), ", gradient.field)).collect()
    };
    let of_direction = taken("gradients", gradients);
    let of_energy = taken("energy_gradients", energy_gradients);
    let run = |fields: &[Field], call: &'static str| if fields.is_empty() { "" } else { call };
    let backward = run(gradients, "m::backward(&size, &visible, &inputs, &g, &saved, &mut gradients);");
    let energy_backward =
        run(energy_gradients, "m::energy_backward(&size, &visible, &inputs, &u, &mut energy_gradients);");
    format!(
        "
#[allow(warnings)]
fn run_{i}(input: &mut Reading) -> Result<Vec<Vec<f32>>, String> {{
    use m{i} as m;
    let [batch, heads, queries, tokens, head] = std::array::from_fn(|_| input.number());
    let size = m::Size {{ batch, heads, queries, tokens, head }};
    let seen = intervals(input, batch, queries);
{reads}    let (g, u) = (input.array(), input.array());
    caught(move || {{
        let visible: Vec<m::Visible> = seen.into_iter().map(|v| m::Visible::new(v, tokens)).collect();
        let inputs = m::Inputs {{ {lent}dropout: None }};
        let mut saved = m::Saved::default();
        let mut out = vec![0.0; batch * heads * queries * head];
        m::forward(&size, &visible, &inputs, &mut saved, &mut out);
        let mut energy = vec![0.0; batch * heads * queries];
        m::energy(&size, &visible, &inputs, &mut energy);
        let mut gradients = m::Gradients::new(&size);
        {backward}
        let mut energy_gradients = m::EnergyGradients::new(&size);
        {energy_backward}
        vec![out, energy, {of_direction}{of_energy}]
    }})
}}
"
    )
}

fn write(words: &mut Words, i: usize, subject: &Subject, call: &Call) {
    // The number of calls comes first.
    if words.0.is_empty() {
        words.number(0);
    }
    words.0[0] += 1;
    let first = &call.points[0].0;
    let sizes = first.sizes;
    for number in [i, call.batch, call.heads, sizes.queries, sizes.tokens, sizes.head] {
        words.number(number);
    }
    for (point, _) in call.points.iter().step_by(call.heads) {
        for interval in &point.visible {
            words.number(interval.start);
            words.number(interval.end);
        }
    }
    for (_, name) in &subject.face.inputs {
        match name.as_str() {
            "q" | "k" | "v" => words.array(call.points.iter().flat_map(|(p, _)| match name.as_str() {
                "q" => p.q.clone(),
                "k" => p.k.clone(),
                _ => p.v.clone(),
            })),
            _ if first.gates.contains_key(name) => {
                words.array(call.points.iter().flat_map(|(p, _)| p.gates[name].clone()))
            }
            _ if first.query_gates.contains_key(name) => {
                words.array(call.points.iter().flat_map(|(p, _)| p.query_gates[name].clone()));
            }
            _ if first.vectors.contains_key(name) => {
                words.array(call.points[..call.heads].iter().flat_map(|(p, _)| p.vectors[name].clone()));
            }
            _ if first.decays.contains_key(name) => {
                words.array(call.points.iter().flat_map(|(p, _)| p.decays[name].clone()));
            }
            _ => words.array(call.points[..call.heads].iter().map(|(p, _)| p.numbers[name])),
        }
    }
    words.array(call.points.iter().flat_map(|(p, _)| p.g.clone()));
    words.array(call.points.iter().flat_map(|(p, _)| p.u.clone()));
}

/// What a call returned, by batch and head.
fn read(reading: &mut Reading, subject: &Subject, call: &Call) -> Option<Result<Vec<Arrays>, Failure>> {
    let count = reading.number()?;
    if count == 0 {
        let message = reading.text()?;
        let place = "an emitted kernel".to_string();
        return Some(Err(Failure::Panic { stage: "compiled".to_string(), message, location: place }));
    }
    let mut heads: Vec<Arrays> = call.points.iter().map(|_| Arrays::new()).collect();
    let of_direction = subject.face.gradients.iter().map(|gradient| format!("∂{}", gradient.name));
    let of_energy = subject.face.energy_gradients.iter().map(|gradient| format!("energy ∂{}", gradient.name));
    for name in ["out".to_string(), "energy".to_string()].into_iter().chain(of_direction).chain(of_energy) {
        let array = reading.array()?;
        let length = array.len() / heads.len();
        for (head, part) in heads.iter_mut().zip(array.chunks(length.max(1))) {
            head.insert(name.clone(), part.to_vec());
        }
    }
    Some(Ok(heads))
}

/// Compares the gradients the kernel has; those of numbers that are not learned it has not.
fn check(subject: &Subject, call: &Call, heads: &[Arrays], tally: &mut Tally) -> Option<Failure> {
    for (((point, spot), expected), got) in call.points.iter().zip(&call.expected).zip(heads) {
        let is_learned = |name: &str| {
            let parameter = subject.meaning.parameters.iter().find(|p| p.name == name);
            parameter.is_none_or(|p| !matches!(p.value, crate::tree::Value::Fixed(_)))
                && !subject.structural.iter().any(|other| other == name)
        };
        let expected = expected.of_arrays(|name| name.split_once('∂').is_none_or(|(_, input)| is_learned(input)));
        let (is_finite, difference) = match expected.judge(got) {
            Verdict::Kept => {
                tally.compared += 1;
                continue;
            }
            Verdict::Vague => {
                tally.skip("IllConditioned");
                continue;
            }
            Verdict::Broken { is_finite, difference } => (is_finite, difference),
        };
        let is_along_query = subject.meaning.radius_of_query.is_some()
            && (difference.name == "out" || difference.name.starts_with('∂'))
            && sphere::tangential_gap(point, &expected.arrays, got) < 1e-3;
        if is_along_query {
            tally.skip("a direction along a query of fixed length");
            continue;
        }
        let sizes = point.sizes;
        let place = format!(
            "{} queries, N = {}, d_h = {}, batch {}, H = {}, {:?}, {:?}, {spot}",
            sizes.queries,
            sizes.tokens,
            sizes.head,
            call.batch,
            call.heads,
            point.visible.first(),
            point.numbers
        );
        let engine = if is_finite { "compiled" } else { "compiled, not finite" }.to_string();
        let detail = format!("{}\n    at {place}", difference.describe());
        return Some(Failure::Wrong { engine, output: difference.name, detail });
    }
    None
}
