//! GLUE as a user has it: every published form of the files, what is wrong with them, models that learn a task they can
//! learn, results that survive a kill and are never mistaken for others, and the table at the end.

mod binary;

use binary::{Run, command, run_in};
use energy_runtime::compiler::pipeline;
use energy_runtime::data::{Batch, Examples, Tokenizer};
use energy_runtime::glue::columns::Row;
use energy_runtime::glue::likelihood::{Answers, log_likelihoods};
use energy_runtime::glue::measure::{accuracy, deviation, f1, majority, matthews, mean};
use energy_runtime::glue::prompt::{Prompter, label_words};
use energy_runtime::glue::prompts::Prompts;
use energy_runtime::glue::{Plan, Score, Survey, Task, run, survey, table};
use energy_runtime::model::loss::NONE;
use energy_runtime::model::{Config, Gpt, Input, Tape};
use energy_runtime::train::checkpoint::{self, Manifest};
use energy_runtime::train::settings::Settings;
use energy_runtime::train::trainer::Trainer;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

/// A file, with the folders it is in.
fn write(folder: &Path, name: &str, content: impl AsRef<[u8]>) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("made");
    fs::write(path, content).expect("written");
}

// ---- numbers ----

#[track_caller]
fn is_close(found: f64, wanted: f64) {
    assert!((found - wanted).abs() < 1e-12, "{found} and not {wanted}");
}

#[test]
fn measures_are_those_computed_by_hand() {
    // TP = 3, FN = 1, FP = 2, TN = 4.
    let truth = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0];
    let guess = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0];
    is_close(accuracy(&truth, &guess), 0.7);
    is_close(majority(&truth), 0.6);
    is_close(f1(&truth, &guess), 6.0 / 9.0);
    is_close(matthews(&truth, &guess), 10.0 / (5.0f64 * 4.0 * 6.0 * 5.0).sqrt());
    is_close(matthews(&truth, &truth), 1.0);
    is_close(matthews(&truth, &truth.map(|class| 1 - class)), -1.0);
    is_close(matthews(&truth, &[1; 10]), 0.0);
    is_close(f1(&[0, 0], &[0, 0]), 0.0);
    is_close(majority(&[2, 0, 2, 1]), 0.5);
    is_close(mean(&[1.0, 2.0, 6.0]), 3.0);
    is_close(deviation(&[1.0, 2.0, 6.0]).expect("three"), 7f64.sqrt());
    assert_eq!(deviation(&[1.0]), None);
}

// ---- files ----

fn row(sentences: &[&str], class: usize) -> Row {
    Row { sentences: sentences.iter().map(|text| text.to_string()).collect(), class }
}

/// The rows of a task, of which training and dev sets are the same file.
#[track_caller]
fn rows_of(task: Task, files: &[(&str, &[u8])]) -> Vec<Row> {
    let folder = folder();
    files.iter().for_each(|(name, content)| write(folder.path(), name, content));
    let found = survey(folder.path(), &[task]).expect("a survey");
    let found = found.of(task).expect("the task");
    assert!(found.is_usable() && found.missing.is_empty(), "{found:?}");
    assert_eq!(found.dev.len(), task.splits().len());
    let train = found.train.as_ref().expect("training rows");
    assert_eq!(train.bad.count, 0, "{:?}", train.bad);
    found.dev.iter().for_each(|part| assert_eq!(part.rows, train.rows));
    train.rows.clone()
}

#[test]
fn every_published_tsv_is_read() {
    let rte = "index\tsentence1\tsentence2\tlabel\n0\tA \"quote.\tIt is.\tnot_entailment\n1\tB\"\tC\tentailment\n";
    let wanted = [row(&["A \"quote.", "It is."], 1), row(&["B\"", "C"], 0)];
    let forms = [
        rte.to_string(),
        rte.trim_end().to_string(),
        rte.replace('\n', "\r\n"),
        format!("\u{feff}{rte}"),
        format!("{rte}\n\n"),
        "label\tsentence2\tindex\tsentence1\n1\tIt is.\t0\tA \"quote.\n0\tC\t1\tB\"".to_string(),
    ];
    for form in &forms {
        let files = [("RTE/train.tsv", form.as_bytes()), ("RTE/dev.tsv", form.as_bytes())];
        assert_eq!(rows_of(Task::Rte, &files), wanted, "{form:?}");
    }

    let mrpc =
        "\u{feff}Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t7\t8\tHe said \" so .\tSo \" he said .".as_bytes();
    let wanted = [row(&["He said \" so .", "So \" he said ."], 1)];
    assert_eq!(rows_of(Task::Mrpc, &[("MRPC/train.tsv", mrpc), ("MRPC/dev.tsv", mrpc)]), wanted);

    let cola = b"gj04\t1\t\tThe label is a sentence.\ngj04\t0\t*\tThe the.";
    let wanted = [row(&["The label is a sentence."], 1), row(&["The the."], 0)];
    assert_eq!(rows_of(Task::Cola, &[("CoLA/train.tsv", cola), ("CoLA/dev.tsv", cola)]), wanted);
    let cola = b"sentence\tlabel\nThe label is a sentence.\t1\nThe the.\t0\n";
    assert_eq!(rows_of(Task::Cola, &[("cola/train.tsv", cola), ("cola/dev.tsv", cola)]), wanted);

    let sst = b"sentence\tlabel\nhide new secretions \t0\n";
    assert_eq!(
        rows_of(Task::Sst2, &[("SST-2/train.tsv", sst), ("SST-2/dev.tsv", sst)]),
        [row(&["hide new secretions"], 0)]
    );

    let qnli = b"index\tquestion\tsentence\tlabel\n0\tWhen?\tThen.\tentailment\n";
    assert_eq!(rows_of(Task::Qnli, &[("QNLI/train.tsv", qnli), ("QNLI/dev.tsv", qnli)]), [row(&["When?", "Then."], 0)]);

    let qqp = b"id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n9\t1\t2\tWhy?\tWhat for?\t1\n";
    assert_eq!(rows_of(Task::Qqp, &[("QQP/train.tsv", qqp), ("QQP/dev.tsv", qqp)]), [row(&["Why?", "What for?"], 1)]);
}

#[test]
fn mnli_is_read_with_4_12_and_16_columns() {
    let few = "index\tsentence1\tsentence2\tgold_label\n0\tA\tB\tneutral\n";
    let between =
        "promptID\tpairID\tgenre\tsentence1_binary_parse\tsentence2_binary_parse\tsentence1_parse\tsentence2_parse";
    let train = format!(
        "index\t{between}\tsentence1\tsentence2\tlabel1\tgold_label\n0{}\tA\tB\tcontradiction\tneutral\n",
        "\tx".repeat(7)
    );
    let labels = "label1\tlabel2\tlabel3\tlabel4\tlabel5";
    let dev = format!(
        "index\t{between}\tsentence1\tsentence2\t{labels}\tgold_label\n0{}\tA\tB{}\tneutral\n",
        "\tx".repeat(7),
        "\tcontradiction".repeat(5)
    );
    assert_eq!(
        (train.lines().next().map(|l| l.split('\t').count()), dev.lines().next().map(|l| l.split('\t').count())),
        (Some(12), Some(16))
    );
    for (train, dev) in [(few, few), (&train, &dev), (few, &dev)] {
        let files = [
            ("MNLI/train_10k.tsv", train.as_bytes()),
            ("MNLI/dev_matched.tsv", dev.as_bytes()),
            ("MNLI/dev_mismatched.tsv", dev.as_bytes()),
        ];
        assert_eq!(rows_of(Task::Mnli, &files), [row(&["A", "B"], 1)]);
    }
}

fn packed(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn objects_are_read_packed_or_not() {
    let lines = "{\"premise\":\"A\\tb\",\"hypothesis\":\"C\",\"label\":2,\"idx\":0}\n{\"sentence1\":\"D\",\"sentence2\":\"E\",\"gold_label\":\"entailment\"}";
    let wanted = [row(&["A\tb", "C"], 2), row(&["D", "E"], 0)];
    let files = [
        ("mnli/train.jsonl", lines.as_bytes()),
        ("mnli/validation_matched.jsonl", lines.as_bytes()),
        ("mnli/dev_mismatched.jsonl.gz", &packed(lines)),
    ];
    assert_eq!(rows_of(Task::Mnli, &files), wanted);
}

#[cfg(feature = "parquet")]
#[test]
fn the_hubs_tables_are_read_part_by_part() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int32Type, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;
    use std::sync::Arc;

    let file = |questions: [&str; 2], label: i64| {
        let schema = "message m { OPTIONAL BYTE_ARRAY question1 (UTF8); OPTIONAL BYTE_ARRAY question2 (UTF8); \
                      OPTIONAL INT64 label; OPTIONAL INT32 idx; }";
        let schema = Arc::new(parse_message_type(schema).expect("a schema"));
        let properties = Arc::new(WriterProperties::builder().build());
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, properties).expect("a writer");
        let mut rows = writer.next_row_group().expect("a row group");
        for question in questions {
            let mut column = rows.next_column().expect("written").expect("a column");
            let texts = [ByteArray::from(question)];
            column.typed::<ByteArrayType>().write_batch(&texts, Some(&[1]), None).expect("written");
            column.close().expect("closed");
        }
        let mut column = rows.next_column().expect("written").expect("a column");
        column.typed::<Int64Type>().write_batch(&[label], Some(&[1]), None).expect("written");
        column.close().expect("closed");
        let mut column = rows.next_column().expect("written").expect("a column");
        column.typed::<Int32Type>().write_batch(&[0], Some(&[1]), None).expect("written");
        column.close().expect("closed");
        rows.close().expect("closed");
        writer.into_inner().expect("a file")
    };
    let (one, two) = (file(["Why?", "What for?"], 1), file(["Who?", "When?"], 0));
    let folder = folder();
    write(folder.path(), "qqp/train-00000-of-00002.parquet", &one);
    let error = survey(folder.path(), &[Task::Qqp]).expect_err("half of it");
    assert!(error.contains("1 of its 2 parts"), "{error}");
    write(folder.path(), "qqp/train-00001-of-00002.parquet", &two);
    write(folder.path(), "qqp/validation-00000-of-00001.parquet", &one);
    write(folder.path(), "qqp/test-00000-of-00001.parquet", file(["a", "b"], -1));
    let found = survey(folder.path(), &[Task::Qqp]).expect("a survey");
    let found = found.of(Task::Qqp).expect("the task");
    let wanted = [row(&["Why?", "What for?"], 1), row(&["Who?", "When?"], 0)];
    assert_eq!(found.train.as_ref().expect("rows").rows, wanted);
    assert_eq!(found.dev[0].rows, wanted[..1]);
    write(folder.path(), "qqp/validation-00000-of-00001.parquet", file(["a", "b"], -1));
    let error = survey(folder.path(), &[Task::Qqp]).expect_err("no labels");
    assert!(error.contains("row 1: the label `-1`"), "{error}");
}

#[test]
fn bad_rows_are_counted_and_named_by_line() {
    let folder = folder();
    let mut train = b"sentence\tlabel\ngood\t1\nno label\ngood\t2\nbad\t0\tmore\n\xff\t1\n\t1\nbad\t0".to_vec();
    write(folder.path(), "SST-2/train.tsv", &train);
    write(folder.path(), "SST-2/dev.jsonl", "{\"sentence\":\"good\",\"label\":1}\n{\"sentence\":3}\n[]\n");
    let found = survey(folder.path(), &[Task::Sst2]).expect("a survey");
    let summary = found.summary();
    let task = found.of(Task::Sst2).expect("the task");
    let part = task.train.as_ref().expect("rows");
    assert_eq!((part.rows.len(), part.bad.count, task.bad_rows("dev")), (2, 5, 7));
    let path = folder.path().join("SST-2/train.tsv").display().to_string();
    assert_eq!(
        part.bad.first,
        [
            format!("{path}:3: 1 column instead of 2"),
            format!("{path}:4: the label `2` is none of negative, positive, 0, 1"),
            format!("{path}:5: 3 columns instead of 2"),
        ]
    );
    assert!(
        summary.contains("SST-2: 5 rows of train are skipped\n") && summary.contains("  and 2 more\n"),
        "{summary}"
    );
    assert!(summary.contains("dev.jsonl:3: this is no JSON object"), "{summary}");

    train = b"text\tlabel\ngood\t1\n".to_vec();
    write(folder.path(), "SST-2/train.tsv", &train);
    let error = survey(folder.path(), &[Task::Sst2]).expect_err("no such column");
    assert!(error.contains("train.tsv:1: there is no `sentence`, only `text`, `label`"), "{error}");
}

#[test]
fn what_is_missing_is_said_and_never_made_up() {
    let folder = folder();
    assert!(survey(&folder.path().join("no"), &[Task::Rte]).expect_err("no folder").contains("there is no folder"));
    let error = survey(folder.path(), &[Task::Rte, Task::Qqp]).expect_err("nothing");
    assert!(error.contains("RTE: there is no folder `RTE`") && error.contains("QQP: "), "{error}");
    let sst = b"sentence\tlabel\ngood\t1\n";
    write(folder.path(), "SST-2/train_small.tsv", sst);
    write(folder.path(), "SST-2/train_large.tsv", sst);
    write(folder.path(), "SST-2/dev.tsv", sst);
    write(folder.path(), "QNLI/dev.tsv", "index\tquestion\tsentence\tlabel\n0\tA\tB\tentailment\n");
    let mnli = "index\tsentence1\tsentence2\tgold_label\n0\tA\tB\tneutral\n";
    write(folder.path(), "MNLI/train.tsv", mnli);
    write(folder.path(), "MNLI/dev_matched.tsv", mnli);
    let found = survey(folder.path(), &Task::all()).expect("some tasks");
    let is_usable = |task| found.of(task).expect("asked for").is_usable();
    assert_eq!(Task::all().map(is_usable), [false, false, false, true, false, false, true]);
    let summary = found.summary();
    assert!(summary.contains("QNLI is left out: there is no training file in"), "{summary}");
    assert!(summary.contains("MNLI: there is no mismatched file in"), "{summary}");
    assert!(summary.contains("train_large.tsv` is read, and not `"), "{summary}");
}

// ---- models ----

/// The recipe models have unless something else is said, as text.
fn recipe() -> String {
    let name = Settings::default().recipe.list()[0].clone();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../recipes").join(format!("{name}.recipe"));
    fs::read_to_string(path).expect("a shipped recipe")
}

fn tiny(window: usize, tokenizer: &Tokenizer) -> Gpt {
    let vocabulary = tokenizer.vocabulary();
    let sizes = (1, 2, 8);
    let config = Config {
        layers: sizes.0,
        heads: sizes.1,
        head: sizes.2,
        window,
        vocabulary,
        dropout: 0.0,
        feed_forward: true,
        deviation: 0.1,
    };
    Gpt::new(&config, &[pipeline::front(&recipe()).0.expect("a recipe")]).expect("a model")
}

/// A checkpoint of a model that has learned nothing.
fn checkpoint(folder: &Path, window: usize, tokenizer: Option<&Tokenizer>, seed: u64) -> PathBuf {
    let gpt = tiny(window, tokenizer.unwrap_or(&Tokenizer::bytes()));
    let contents = tokenizer.map(|tokenizer| tokenizer.to_file_contents().expect("contents"));
    let settings = Settings::default().to_toml();
    let manifest = Manifest::new(gpt.config.clone(), settings, vec![recipe()], "none".to_string(), contents);
    checkpoint::write(folder, &manifest, &gpt.layout, &gpt.layout.start(seed), None, 1).expect("a checkpoint")
}

/// Reviews whose first letter says everything, two thirds of them positive.
fn reviews(folder: &Path) {
    let lines = |from: usize, to: usize| -> String {
        let line = |i: usize| if i.is_multiple_of(3) { format!("zz {i}\t0\n") } else { format!("aa {i}\t1\n") };
        std::iter::once("sentence\tlabel\n".to_string()).chain((from..to).map(line)).collect()
    };
    write(folder, "SST-2/train.tsv", lines(0, 60));
    write(folder, "SST-2/dev.tsv", lines(60, 90));
}

/// Pairs that mean the same if they are the same letter; the model need not learn it.
fn pairs(folder: &Path) {
    let lines: String = (0..9).map(|i| format!("{}\t{i}\t{i}\ta{i}\tb{i}\n", i % 2)).collect();
    let lines = format!("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n{lines}");
    write(folder, "MRPC/train.tsv", &lines);
    write(folder, "MRPC/dev.tsv", &lines);
}

fn plan(tasks: &[Task], seeds: u64) -> Plan {
    Plan { tasks: tasks.to_vec(), seeds: (1..=seeds).collect(), batch: 6, learning_rate: 5e-3, ..Plan::default() }
}

#[test]
fn only_the_tokens_of_the_answer_count() {
    let tokenizer = Tokenizer::bytes();
    let prompter = Prompter::new(Task::Mnli, &tokenizer, 200).expect("room");
    let prompts = [row(&["It rains.", "It is wet."], 0), row(&["A", "B"], 1), row(&["C", "D"], 2)];
    let prompts: Vec<_> = prompts.iter().map(|row| prompter.prompt(row).expect("tokens")).collect();
    let examples = Prompts {
        prompts,
        answers: prompter.answers().to_vec(),
        vocabulary: tokenizer.vocabulary(),
        padding: tokenizer.end_of_text(),
    };
    let mut batch = Batch::default();
    examples.fill(&[0, 1, 2], &mut batch).expect("a batch");
    for (targets, word) in batch.targets.chunks(batch.length).zip(label_words(Task::Mnli)) {
        let counted: Vec<u16> = targets.iter().filter(|target| **target != NONE).map(|target| *target as u16).collect();
        assert_eq!(tokenizer.decode(&counted), **word);
    }
    let gpt = tiny(200, &tokenizer);
    let settings = Settings::default().with("train.batch=3").expect("a setting");
    let mut trainer = Trainer::new(settings, gpt, Box::new(examples)).expect("a trainer");
    assert_eq!(trainer.next_step().expect("a step").loss.count, " yes maybe no".len());
}

#[test]
fn likelihoods_are_those_of_every_answer_alone() {
    let tokenizer = Tokenizer::bytes();
    let gpt = tiny(64, &tokenizer);
    let weights = gpt.layout.start(5);
    let prompts: [&[u16]; 3] = [&[65, 66, 67, 68], &[70], &[71, 72]];
    let answers = [vec![32, 121], vec![32, 121, 101], vec![40], vec![41, 42, 43], vec![32]];
    let mut tape = Tape::default();
    let found = log_likelihoods((&gpt, &weights), &prompts, &Answers::new(&answers), 0, &mut tape);
    for (prompt, found) in prompts.iter().zip(&found) {
        for (answer, found) in answers.iter().zip(found) {
            let all = [prompt, &answer[..]].concat();
            let tokens = &all[..all.len() - 1];
            let targets: Vec<i32> =
                (1..all.len()).map(|i| if i < prompt.len() { NONE } else { i32::from(all[i]) }).collect();
            let input = Input { batch: 1, length: tokens.len(), tokens, lengths: None, documents: None };
            gpt.forward(&weights, &input, None, &mut tape);
            let wanted = -gpt.loss(&weights, &targets, &mut tape, None).sum;
            assert!((found - wanted).abs() < 1e-4, "{prompt:?} {answer:?}: {found} and not {wanted}");
        }
    }
}

/// Batches are as long as their longest sequence, so that their shape changes from step to step.
#[test]
fn how_long_a_batch_is_changes_nothing() {
    let tokenizer = Tokenizer::bytes();
    let prompter = Prompter::new(Task::Sst2, &tokenizer, 128).expect("room");
    let rows = [row(&["a"], 0), row(&["a longer one"], 1), row(&["the longest of the three reviews"], 0)];
    let prompts: Vec<_> = rows.iter().map(|row| prompter.prompt(row).expect("tokens")).collect();
    let answers = prompter.answers().to_vec();
    let examples = Prompts { prompts, answers, vocabulary: tokenizer.vocabulary(), padding: 0 };
    let losses = |window: Option<usize>| -> Vec<f64> {
        let settings = Settings::default().with("train.steps=6").and_then(|s| s.with("train.learning_rate=1e-2"));
        let mut trainer =
            Trainer::new(settings.expect("settings"), tiny(128, &tokenizer), Box::new(examples.clone())).expect("one");
        let step = |which: &[usize]| {
            let mut batch = Batch::default();
            examples.fill(which, &mut batch).expect("a batch");
            trainer
                .step_on(vec![window.map_or(batch.clone(), |window| wider(&batch, window))])
                .expect("a step")
                .loss
                .mean()
        };
        [&[2, 0][..], &[0], &[1, 0], &[2], &[0, 1, 2], &[0]].into_iter().map(step).collect()
    };
    for (narrow, wide) in losses(None).iter().zip(losses(Some(128))) {
        assert!((narrow - wide).abs() < 1e-4, "{narrow} and not {wide}");
    }
}

/// The same batch with more padding.
fn wider(batch: &Batch, length: usize) -> Batch {
    let mut wide = Batch::default();
    wide.reset(batch.batch, length, 1);
    for i in 0..batch.batch {
        let (own, place) = (i * batch.length..(i + 1) * batch.length, i * length..i * length + batch.length);
        wide.tokens[place.clone()].copy_from_slice(&batch.tokens[own.clone()]);
        wide.targets[place].copy_from_slice(&batch.targets[own]);
    }
    wide.lengths = if batch.lengths.is_empty() { vec![batch.length; batch.batch] } else { batch.lengths.clone() };
    wide
}

#[test]
fn a_tiny_model_learns_a_task_that_can_be_learned() {
    let folder = folder();
    reviews(folder.path());
    let model = checkpoint(folder.path(), 96, Some(&Tokenizer::bytes()), 1);
    let found = survey(folder.path(), &[Task::Sst2]).expect("a survey");
    let plan = Plan { epochs: Some(40), learning_rate: 1e-2, ..plan(&[Task::Sst2], 1) };
    let scores = run(&model, &found, &folder.path().join("out"), &plan).expect("scores");
    let [score] = &scores[..] else { panic!("{scores:?}") };
    assert_eq!((score.rows, score.train_rows, score.epochs, score.steps), (30, 60, 40, 400));
    is_close(score.majority, 2.0 / 3.0);
    assert!(score.accuracy > 0.95, "{score:?}");
    assert_eq!((score.cut, score.train_cut, score.bad_rows), (0, 0, 0));
}

#[test]
fn rows_can_be_fewer_and_long_ones_are_cut_and_counted() {
    let folder = folder();
    let long = "very ".repeat(40);
    let lines: String = (0..20).map(|i| format!("{}good {i}\t{}\n", if i < 5 { &long } else { "" }, i % 2)).collect();
    write(folder.path(), "SST-2/train.tsv", format!("sentence\tlabel\n{lines}"));
    write(folder.path(), "SST-2/dev.tsv", format!("sentence\tlabel\n{lines}"));
    let model = checkpoint(folder.path(), 80, Some(&Tokenizer::bytes()), 1);
    let found = survey(folder.path(), &[Task::Sst2]).expect("a survey");
    let plan = Plan { epochs: Some(1), ..plan(&[Task::Sst2], 1) };
    let all = run(&model, &found, &folder.path().join("all"), &plan).expect("scores");
    assert_eq!((all[0].cut, all[0].train_cut, all[0].rows, all[0].steps), (5, 5, 20, 4));
    let few = Plan { rows: Some(7), valid_rows: Some(4), ..plan };
    let few = run(&model, &found, &folder.path().join("few"), &few).expect("scores");
    assert_eq!((few[0].rows, few[0].train_rows, few[0].steps), (4, 7, 2));
    let text = table(&[("one".to_string(), all)], &found).text();
    assert!(text.contains("one: 5 of 20 training rows and 5 of 20 dev rows of SST-2 were cut"), "{text}");
}

// ---- results ----

fn timeless(mut scores: Vec<Score>) -> Vec<Score> {
    scores.iter_mut().for_each(|score| score.seconds = 0.0);
    scores
}

#[test]
fn a_run_goes_on_to_the_same_table_and_refuses_other_settings() {
    let folder = folder();
    reviews(folder.path());
    pairs(folder.path());
    let model = checkpoint(&folder.path().join("a"), 96, Some(&Tokenizer::bytes()), 1);
    let other = checkpoint(&folder.path().join("b"), 96, Some(&Tokenizer::bytes()), 2);
    let tasks = [Task::Sst2, Task::Mrpc];
    let found = survey(folder.path(), &tasks).expect("a survey");
    let plan = Plan { epochs: Some(1), ..plan(&tasks, 2) };
    let out = folder.path().join("out");
    let whole = run(&model, &found, &out, &plan).expect("scores");
    assert_eq!(
        whole.iter().map(|score| (score.task, score.seed)).collect::<Vec<_>>(),
        [(Task::Sst2, 1), (Task::Sst2, 2), (Task::Mrpc, 1), (Task::Mrpc, 2)]
    );
    let result = out.join("sst2-seed-2.json");
    let kept = fs::read_to_string(&result).expect("a result");
    let again = run(&model, &found, &out, &plan).expect("nothing to do");
    assert_eq!(again, whole, "read back bit by bit, with the time it took then");

    fs::remove_file(&result).expect("removed");
    let again = run(&model, &found, &out, &plan).expect("one to do");
    assert_eq!(timeless(again.clone()), timeless(whole.clone()));
    let print = |scores: Vec<Score>| table(&[("model".to_string(), scores)], &found).text();
    assert_eq!(print(again), print(whole));

    let refused = |checkpoint: &Path, found: &Survey, plan: &Plan, text: &str| {
        let error = run(checkpoint, found, &out, plan).expect_err(text).to_string();
        assert!(error.contains("is the result of another") && error.contains(text), "{error}");
    };
    refused(&model, &found, &Plan { batch: 5, ..plan.clone() }, "batch: 6 and not 5");
    refused(&model, &found, &Plan { learning_rate: 0.1, ..plan.clone() }, "learning_rate: 0.005 and not 0.1");
    refused(&model, &found, &Plan { rows: Some(3), ..plan.clone() }, "train_rows: 60 and not 3");
    refused(&model, &found, &Plan { epochs: None, ..plan.clone() }, "epochs: 1 and not 5");
    refused(&other, &found, &plan, "checkpoint: ");
    write(folder.path(), "SST-2/dev.tsv", "sentence\tlabel\naa 1\t1\n");
    let changed = survey(folder.path(), &tasks).expect("a survey");
    refused(&model, &changed, &plan, "dev_data: ");
    fs::write(&result, &kept[..kept.len() / 2]).expect("written");
    assert!(run(&model, &found, &out, &plan).expect_err("half a file").to_string().contains("or damaged"));
}

/// A score with these numbers.
fn score(task: Task, split: &str, seed: u64, accuracy: f64) -> Score {
    Score {
        task,
        split: split.to_string(),
        seed,
        accuracy,
        matthews: (task == Task::Cola).then_some(0.25),
        f1: (task == Task::Mrpc).then_some(0.8),
        majority: 0.5,
        loss: 1.0,
        rows: 10,
        train_rows: 20,
        bad_rows: 0,
        cut: 0,
        train_cut: 0,
        epochs: 1,
        steps: 2,
        seconds: 3.0,
    }
}

#[test]
fn the_table_has_every_task_in_four_formats() {
    let folder = folder();
    pairs(folder.path());
    let cola = b"gj04\t1\t\tOne.\n";
    write(folder.path(), "CoLA/train.tsv", cola);
    write(folder.path(), "CoLA/dev.tsv", cola);
    let found = survey(folder.path(), &[Task::Mrpc, Task::Cola, Task::Mnli]).expect("a survey");
    let column = |name: &str, accuracies: [f64; 3]| {
        let of = |task| accuracies.iter().zip(1..).map(move |(x, seed)| score(task, "dev", seed, *x));
        (name.to_string(), of(Task::Mrpc).chain(of(Task::Cola)).collect::<Vec<Score>>())
    };
    let made = table(&[column("a_b", [0.5, 0.6, 0.7]), column("c", [0.25, 0.25, 0.25])], &found);
    let text = made.text();
    let line = |name: &str| {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no {name} in {text}"));
        line.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).map(str::to_string).collect::<Vec<_>>()
    };
    assert_eq!(line("task"), ["task", "training rows", "dev rows", "majority", "a_b", "c"]);
    assert_eq!(line("MRPC "), ["MRPC", "20", "10", "50.00", "60.00 ± 10.00", "25.00 ± 0.00"]);
    assert_eq!(line("MRPC, F1")[4..], ["80.00 ± 0.00", "80.00 ± 0.00"]);
    assert_eq!(line("CoLA, Matthews")[4], "25.00 ± 0.00");
    assert_eq!(line("MNLI-M "), ["MNLI-M", "–", "–", "–", "absent", "absent"]);
    assert_eq!(line("MNLI-MM")[4], "absent");
    assert_eq!(line("Average of 2"), ["Average of 2", "–", "–", "50.00", "60.00", "25.00"]);
    assert!(text.contains("over 3 seeds") && text.contains("MNLI is absent: there is no folder"), "{text}");

    let markdown = made.markdown();
    assert!(markdown.starts_with("| task ") && markdown.contains("| 60.00 ± 10.00 |"), "{markdown}");
    let latex = made.latex();
    assert!(latex.contains("\\begin{tabular}{lrrrcc}\n") && latex.contains("& a\\_b & c \\\\\n"), "{latex}");
    assert!(latex.contains("MRPC & 20 & 10 & 50.00 & $60.00 {\\scriptstyle \\pm10.00}$ & "), "{latex}");
    let json: serde_json::Value = serde_json::from_str(&made.json()).expect("JSON");
    assert_eq!(json["rows"][0]["cells"][0]["mean"], 0.6);
    assert_eq!(json["rows"][4]["absent"].as_str().map(|why| why.contains("no folder")), Some(true));
    assert_eq!(json["scores"]["c"].as_array().map(Vec::len), Some(6));

    let single = table(&[("a".to_string(), vec![score(Task::Cola, "dev", 1, 0.5)])], &found).text();
    assert!(single.contains("one seed") && !single.contains('±'), "{single}");
}

// ---- the command ----

fn glue(folder: &TempDir, args: &[&str]) -> Run {
    run_in(folder.path(), &[&["glue", "--data", "."], args].concat())
}

#[test]
fn what_is_wrong_is_said_before_any_work() {
    let folder = folder();
    reviews(folder.path());
    checkpoint(&folder.path().join("good"), 96, Some(&Tokenizer::bytes()), 1);
    checkpoint(&folder.path().join("small"), 20, Some(&Tokenizer::bytes()), 1);
    checkpoint(&folder.path().join("mute"), 96, None, 1);
    let good = ["--checkpoint", "good"];
    let with = |args: &[&'static str]| glue(&folder, &[&good, args].concat());
    with(&["--tasks", "sts2"]).exits(2).says("did you mean `sst2`?");
    with(&["--tasks", "squad"]).exits(2).says("there is no task `squad`");
    with(&["--seeds", "0"]).exits(2);
    with(&["--rows", "0"]).exits(2).says("the number of rows is 0");
    with(&["--learning-rate", "-1"]).exits(2);
    with(&["--tasks", "rte,qnli"]).exits(1).says("there is no folder `RTE`").says("QNLI");
    glue(&folder, &["--checkpoint", "none"]).exits(1).says("there is no `none`");
    glue(&folder, &["--checkpoint", "SST-2"]).exits(1).says("there is no checkpoint in `SST-2`");
    glue(&folder, &["--checkpoint", "mute"]).exits(1).says("was not trained on text: it has no tokenizer");
    let small = glue(&folder, &["--checkpoint", "good", "--checkpoint", "small"]).exits(1);
    small.says("a window of 20 tokens is too small for SST-2");
    glue(&folder, &["--checkpoint", "good", "--checkpoint", "good"]).exits(1).says("two checkpoints are `good`");
    run_in(folder.path(), &["glue", "--checkpoint", "good", "--data", "none"])
        .exits(1)
        .says("there is no folder `none`");
    assert!(!folder.path().join("runs").exists());
}

#[test]
fn a_killed_run_goes_on_and_ends_with_the_same_table() {
    let folder = folder();
    reviews(folder.path());
    pairs(folder.path());
    checkpoint(&folder.path().join("model"), 96, Some(&Tokenizer::bytes()), 1);
    let args = ["--checkpoint", "model", "--tasks", "mrpc,sst2,rte", "--seeds", "2", "--epochs", "2", "--threads", "1"];
    let to = |output: &'static str| [&args[..], &["--output", output]].concat();
    let whole = glue(&folder, &to("whole")).exits(0).says("RTE is left out").says("MRPC, seed 2 (3 of 4)");
    let absent = whole.out.lines().find(|line| line.starts_with("RTE "));
    assert!(absent.is_some_and(|line| line.ends_with("absent")), "{}", whole.out);

    let arguments = [&["glue", "--data", "."], &to("killed")[..]].concat();
    let mut process =
        command(folder.path(), &arguments).stderr(std::process::Stdio::null()).spawn().expect("it starts");
    let results = || {
        let entries = fs::read_dir(folder.path().join("killed")).into_iter().flatten().flatten();
        let inner = entries.flat_map(|entry| fs::read_dir(entry.path()).into_iter().flatten().flatten());
        inner.filter(|entry| entry.path().extension().is_some_and(|e| e == "json")).count()
    };
    let start = Instant::now();
    while results() < 1 && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    process.kill().expect("killed");
    process.wait().expect("gone");
    assert!(results() >= 1);
    let ended = glue(&folder, &to("killed")).exits(0).says("done before");
    assert_eq!(ended.out, whole.out);
    glue(&folder, &[&to("killed")[..], &["--batch", "3"]].concat()).exits(1).says("batch: 16 and not 3");
    let json = glue(&folder, &[&to("killed")[..], &["--format", "json"]].concat()).exits(0).prints("\"majority\"");
    assert!(serde_json::from_str::<serde_json::Value>(&json.out).is_ok(), "{}", json.out);
}

#[cfg(unix)]
#[test]
fn an_interrupt_stops_at_once_and_says_how_to_go_on() {
    let folder = folder();
    reviews(folder.path());
    checkpoint(&folder.path().join("model"), 96, Some(&Tokenizer::bytes()), 1);
    let args = ["glue", "--data", ".", "--checkpoint", "model", "--tasks", "sst2", "--epochs", "100000"];
    let piped = std::process::Stdio::piped;
    let process = command(folder.path(), &args).stdout(piped()).stderr(piped()).spawn().expect("it starts");
    let start = Instant::now();
    while !folder.path().join("runs/glue").exists() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let sent = std::process::Command::new("kill").args(["-INT", &process.id().to_string()]).status();
    assert!(sent.expect("a signal").success());
    let ended = Run::from(process.wait_with_output().expect("it ends"));
    ended.exits(0).says("stopped in SST-2, seed 1; 0 of 3 results are in").says("the same command goes on");
}
