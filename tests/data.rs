//! Data as a user prepares it and as a training run sees it: every reader and tokenizer, what is wrong with files, both
//! views of a corpus, the order of examples and the generated task.

mod binary;

use binary::{Run, command, run_in};
use energy_runtime::data::meta::Meta;
use energy_runtime::data::recall::{FILLER, Shape};
use energy_runtime::data::{Batch, Corpus, Examples, Order, Packed, Recall, Tokenizer, Truncated};
use energy_runtime::model::loss::NONE;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

// ---- files ----

fn folder() -> TempDir {
    tempfile::tempdir().expect("a folder")
}

fn write(folder: &TempDir, name: &str, content: impl AsRef<[u8]>) {
    fs::write(folder.path().join(name), content).expect("written");
}

fn packed(content: &str) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(content.as_bytes()).expect("memory");
    encoder.finish().expect("memory")
}

fn jsonl(texts: &[&str]) -> String {
    texts.iter().map(|text| format!("{}\n", serde_json::json!({ "id": 7, "text": text }))).collect()
}

/// `prepare` with these arguments; the folder is `out`.
fn prepare(folder: &TempDir, args: &[&str]) -> Run {
    run_in(folder.path(), &[&["prepare", "--output", "out"], args].concat())
}

/// It fails and leaves nothing behind.
#[track_caller]
fn refused(folder: &TempDir, args: &[&str]) -> Run {
    let before = names(folder.path());
    let run = prepare(folder, args).exits(1);
    assert_eq!(names(folder.path()), before);
    run
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect()
}

/// All documents of `out` as text, each with what ends it.
fn texts(folder: &TempDir) -> Vec<String> {
    let out = folder.path().join("out");
    let corpus = Corpus::open(&out).expect("a corpus");
    corpus.verify().expect("whole");
    let tokenizer = Tokenizer::of_prepared(&out).expect("a tokenizer");
    let tokens = |i| corpus.tokens(corpus.document(i)).expect("tokens").collect::<Vec<_>>();
    (0..corpus.documents()).map(|i| tokenizer.decode(&tokens(i))).collect()
}

fn ended(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| format!("{text}<|endoftext|>")).collect()
}

const TEXTS: [&str; 4] =
    ["The quick brown fox.", "Zürich, 日本 and 🦀.\n\n  An indented line.", "<|endoftext|> is text here", "x"];

// ---- readers and tokenizers ----

#[test]
fn every_reader_and_every_tokenizer_gives_the_texts_back() {
    let folder = folder();
    write(&folder, "a.jsonl", jsonl(&TEXTS[..3]) + "\n\n" + &jsonl(&TEXTS[3..]));
    write(&folder, "b.jsonl.gz", packed(&jsonl(&TEXTS)));
    for tokenizer in ["gpt2", "bytes"] {
        for input in ["a.jsonl", "b.jsonl.gz"] {
            prepare(&folder, &[input, "--tokenizer", tokenizer, "--force"]).exits(0).prints("out: 4 documents, ");
            assert_eq!(texts(&folder), ended(&TEXTS), "{input} {tokenizer}");
        }
    }
    write(&folder, "c.txt", "one\ntwo\r\n\nthree");
    prepare(&folder, &["c.txt", "--force"]).exits(0).prints("1 document, ");
    assert_eq!(texts(&folder), ended(&["one\ntwo\r\n\nthree"]));
    prepare(&folder, &["c.txt", "--lines", "--force"]).exits(0).prints("3 documents (1 empty left out), ");
    assert_eq!(texts(&folder), ended(&["one", "two", "three"]));
    write(&folder, "d.txt.gz", packed("packed"));
    prepare(&folder, &["c.txt", "d.txt.gz", "--force"]).exits(0).prints("2 documents, ");
    assert_eq!(texts(&folder), ended(&["one\ntwo\r\n\nthree", "packed"]));
    let meta = Meta::read(&folder.path().join("out")).expect("a description");
    assert_eq!(meta.sources, ["c.txt", "d.txt.gz"]);
}

#[test]
fn counts_are_printed_and_stored() {
    let folder = folder();
    write(&folder, "a.jsonl", jsonl(&["hello world", "", "Hello, world!"]));
    let run = prepare(&folder, &["a.jsonl"]).exits(0);
    let run = run.prints("2 documents (1 empty left out), 8 tokens, 4.0 tokens/document, vocabulary 50257, ");
    run.prints("40 bytes, ");
    let meta = Meta::read(&folder.path().join("out")).expect("a description");
    assert_eq!((meta.documents, meta.tokens, meta.empty, meta.end_of_text), (2, 8, 1, 50256));
    let corpus = Corpus::open(&folder.path().join("out")).expect("a corpus");
    let tokens: Vec<u16> = corpus.tokens(0..8).expect("tokens").collect();
    assert_eq!(tokens, [31373, 995, 50256, 15496, 11, 995, 0, 50256]);
    run_in(folder.path(), &["prepare", "--check", "out"]).exits(0).prints("8 tokens");
}

#[test]
fn a_limit_stops_early() {
    let folder = folder();
    write(&folder, "a.jsonl", jsonl(&["", "one", "two"]));
    write(&folder, "b.jsonl", jsonl(&["three", "four"]));
    prepare(&folder, &["a.jsonl", "b.jsonl", "--limit", "3"]).exits(0).prints("3 documents");
    assert_eq!(texts(&folder), ended(&["one", "two", "three"]));
    prepare(&folder, &["a.jsonl", "--limit", "0", "--force"]).exits(2);
}

#[test]
fn a_field_can_have_any_name() {
    let folder = folder();
    write(&folder, "a.jsonl", "{\"body\": \"one\"}\n{\"body\": null}\n");
    prepare(&folder, &["a.jsonl", "--field", "body"]).exits(0).prints("1 document (1 empty");
    assert_eq!(texts(&folder), ended(&["one"]));
}

/// More than two pieces, with lines, runs of blanks and a line that is longer than a piece.
fn long_text() -> String {
    let mut text: String = (0..60_000u64).map(|i| format!("Line {i}: naïve — {}\n", i * i)).collect();
    text.push_str(&" ".repeat(5000));
    text.push_str(&"word, ".repeat(250_000));
    text + "\n\n\nend\n"
}

#[test]
fn a_large_text_is_cut_where_tokens_end() {
    let folder = folder();
    let text = long_text();
    assert!(text.len() > 3 << 20);
    write(&folder, "a.txt", &text);
    write(&folder, "b.jsonl", jsonl(&[&text]));
    prepare(&folder, &["a.txt"]).exits(0).prints("1 document, ");
    let tokens = fs::read(folder.path().join("out/tokens.bin")).expect("tokens");
    assert_eq!(texts(&folder), ended(&[&text]));
    prepare(&folder, &["b.jsonl", "--force"]).exits(0);
    assert!(tokens == fs::read(folder.path().join("out/tokens.bin")).expect("tokens"));
    // As the tokenizer has it without any cut.
    let whole = tiktoken_rs::r50k_base_singleton().encode_ordinary(&text);
    let whole: Vec<u8> = whole.into_iter().chain([50256]).flat_map(|token| (token as u16).to_le_bytes()).collect();
    assert!(tokens == whole);
}

#[test]
fn endless_blanks_and_words_are_encoded() {
    let tokenizer = Tokenizer::gpt2();
    for text in [" ".repeat(3_000_000), "a".repeat(600_000), "\u{3000}\n".repeat(300_000)] {
        assert!(tokenizer.decode(&tokenizer.encode(&text).expect("tokens")) == text);
    }
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = folder();
    let texts: Vec<String> = (0..3000).map(|i| format!("Document {i} says {}.", "so ".repeat(i % 50))).collect();
    write(&folder, "a.jsonl.gz", packed(&jsonl(&texts.iter().map(String::as_str).collect::<Vec<_>>())));
    for threads in ["1", "2", "5"] {
        let args = ["prepare", "a.jsonl.gz", "--output", threads];
        let output = command(folder.path(), &args).env("RAYON_NUM_THREADS", threads).output();
        Run::from(output.expect("it starts")).exits(0).prints("3000 documents");
    }
    for file in ["tokens.bin", "index.bin", "meta.json"] {
        let read = |threads: &str| fs::read(folder.path().join(threads).join(file)).expect("a file");
        assert!(read("1") == read("2") && read("1") == read("5"), "{file}");
    }
}

#[test]
fn a_tokenizer_is_learned_and_used() {
    let folder = folder();
    let text = "the cat sat on the mat, and the other cat sat on the other mat. ".repeat(20);
    write(&folder, "a.jsonl", jsonl(&[&text, TEXTS[1]]));
    let train = |output: &str, vocabulary: &str, threads: &str| {
        let args = ["tokenizer", "--vocabulary", vocabulary, "--output", output, "a.jsonl"];
        let output = command(folder.path(), &args).env("RAYON_NUM_THREADS", threads).output();
        Run::from(output.expect("it starts"))
    };
    train("t.json", "270", "1").exits(0).prints("t.json: 270 entries");
    train("again.json", "270", "3").exits(0);
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).expect("text");
    assert_eq!(read("t.json"), read("again.json"));
    train("large.json", "5000", "2").exits(0).prints("entries");
    train("no.json", "256", "2").exits(1).says("257 to 65536");
    assert!(!folder.path().join("no.json").exists());

    let tokenizer = Tokenizer::from_json(&read("t.json")).expect("a tokenizer");
    assert_eq!((tokenizer.vocabulary(), tokenizer.name()), (270, "tokenizer.json"));
    let tokens = tokenizer.encode(&text).expect("tokens");
    assert!(tokens.len() * 2 < text.len(), "{} tokens", tokens.len());
    for text in TEXTS {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text).expect("tokens")), text);
    }
    prepare(&folder, &["a.jsonl", "--tokenizer", "t.json"]).exits(0).prints("vocabulary 270");
    assert_eq!(texts(&folder), ended(&[&text, TEXTS[1]]));
    assert_eq!(read("out/tokenizer.json"), read("t.json"));
    write(&folder, "out/tokenizer.json", read("t.json").replace("Ġthe", "Ġeht"));
    run_in(folder.path(), &["prepare", "--check", "out"]).exits(1).says("the checksum of tokenizer.json is wrong");
}

#[test]
fn a_tokenizer_survives_a_file() {
    let folder = folder();
    write(&folder, "a.txt", "some text, some more text");
    run_in(folder.path(), &["tokenizer", "--vocabulary", "260", "--output", "t.json", "a.txt"]).exits(0);
    let learned = Tokenizer::named(&folder.path().join("t.json").to_string_lossy()).expect("a tokenizer");
    for tokenizer in [Tokenizer::gpt2(), Tokenizer::bytes(), learned] {
        let stored = tokenizer.to_file_contents().expect("text");
        let again = Tokenizer::from_file_contents(&stored).expect("a tokenizer");
        assert_eq!(again.name(), tokenizer.name());
        assert_eq!((again.vocabulary(), again.end_of_text()), (tokenizer.vocabulary(), tokenizer.end_of_text()));
        assert_eq!(again.encode(TEXTS[1]), tokenizer.encode(TEXTS[1]));
        // What is no token, and half a character.
        assert_eq!(again.decode(&[60_000]), "\u{fffd}");
        let half = &again.encode("🦀").expect("tokens")[..1];
        assert_eq!(again.decode(half), "\u{fffd}");
    }
    assert!(Tokenizer::from_file_contents("{\"kind\":\"morse\"}").is_err());
}

// ---- parquet ----

#[cfg(feature = "parquet")]
mod columns {
    use super::*;
    use parquet::basic::{Compression, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, Int64Type};
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::SerializedFileWriter;
    use parquet::schema::parser::parse_message_type;

    /// A column of numbers and one of texts, in row groups.
    fn file(groups: &[&[Option<&[u8]>]], compression: Compression, required: bool) -> Vec<u8> {
        let kind = if required { "REQUIRED" } else { "OPTIONAL" };
        let schema = format!("message m {{ REQUIRED INT64 id; {kind} BYTE_ARRAY text (UTF8); }}");
        let schema = Arc::new(parse_message_type(&schema).expect("a schema"));
        let properties = WriterProperties::builder().set_compression(compression).set_data_page_size_limit(200);
        let mut writer = SerializedFileWriter::new(Vec::new(), schema, Arc::new(properties.build())).expect("a writer");
        for group in groups {
            let mut rows = writer.next_row_group().expect("a row group");
            let numbers: Vec<i64> = (0..group.len() as i64).collect();
            let mut column = rows.next_column().expect("written").expect("a column");
            column.typed::<Int64Type>().write_batch(&numbers, None, None).expect("written");
            column.close().expect("closed");
            let levels: Vec<i16> = group.iter().map(|text| i16::from(text.is_some())).collect();
            let texts: Vec<ByteArray> = group.iter().flatten().map(|text| text.to_vec().into()).collect();
            let mut column = rows.next_column().expect("written").expect("a column");
            let levels = (!required).then_some(&levels[..]);
            column.typed::<ByteArrayType>().write_batch(&texts, levels, None).expect("written");
            column.close().expect("closed");
            rows.close().expect("closed");
        }
        writer.into_inner().expect("a file")
    }

    #[test]
    fn every_compression_gives_the_texts_back() {
        let many: Vec<String> = (0..500).map(|i| format!("Row {i} is {}", "long ".repeat(i % 7))).collect();
        let many: Vec<Option<&[u8]>> = many.iter().map(|text| Some(text.as_bytes())).collect();
        let few: Vec<Option<&[u8]>> = TEXTS.iter().map(|text| Some(text.as_bytes())).collect();
        let expected: Vec<&str> =
            many.iter().chain(&few).flatten().map(|bytes| std::str::from_utf8(bytes).expect("text")).collect();
        let zstd = Compression::ZSTD(ZstdLevel::default());
        for compression in [Compression::UNCOMPRESSED, Compression::SNAPPY, zstd, Compression::GZIP(Default::default())]
        {
            for required in [true, false] {
                let folder = folder();
                write(&folder, "a.parquet", file(&[&many, &few], compression, required));
                prepare(&folder, &["a.parquet"]).exits(0).prints("504 documents, ");
                assert_eq!(texts(&folder), ended(&expected), "{compression} {required}");
            }
        }
    }

    #[test]
    fn rows_without_a_text_are_empty_documents() {
        let folder = folder();
        let rows: [Option<&[u8]>; 5] = [Some(b"one"), None, Some(b"two"), Some(b""), Some(b"three")];
        write(&folder, "a.parquet", file(&[&rows], Compression::SNAPPY, false));
        prepare(&folder, &["a.parquet"]).exits(0).prints("3 documents (2 empty");
        assert_eq!(texts(&folder), ended(&["one", "two", "three"]));
    }

    #[test]
    fn wrong_files_are_refused() {
        let folder = folder();
        let good = file(&[&[Some(b"one")]], Compression::SNAPPY, true);
        write(&folder, "a.parquet", &good);
        refused(&folder, &["a.parquet", "--field", "body"])
            .says("a.parquet: there is no column `body`, only `id`, `text`");
        refused(&folder, &["a.parquet", "--field", "id"]).says("a.parquet: the column `id` holds no texts");
        write(&folder, "b.parquet", &good[..good.len() - 20]);
        refused(&folder, &["b.parquet"]).says("cannot read `b.parquet`");
        write(&folder, "c.parquet", "text");
        refused(&folder, &["c.parquet"]).says("cannot read `c.parquet`");
        write(&folder, "d.parquet", file(&[&[Some(b"one"), Some(b"\xff")]], Compression::SNAPPY, true));
        refused(&folder, &["d.parquet"]).says("d.parquet: row 2 is not UTF-8");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_the_feature_parquet_is_refused() {
    let folder = folder();
    write(&folder, "a.parquet", "");
    refused(&folder, &["a.parquet"]).says("its feature `parquet`");
}

// ---- what is wrong with files ----

#[test]
fn wrong_inputs_are_named_and_nothing_is_written() {
    let folder = folder();
    let say = |args: &[&str], text: &str| {
        refused(&folder, args).says(text);
    };
    say(&["missing.jsonl"], "cannot read `missing.jsonl`");
    write(&folder, "a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"\n");
    say(&["a.jsonl"], "a.jsonl:2: this is no JSON");
    write(&folder, "b.jsonl", "{\"text\": \"one\"}\n\n{\"body\": \"two\"}\n");
    say(&["b.jsonl"], "b.jsonl:3: there is no field `text`");
    write(&folder, "c.jsonl", "{\"text\": 3}\n");
    say(&["c.jsonl"], "c.jsonl:1: the field `text` is no text");
    write(&folder, "d.jsonl", "[1]\n");
    say(&["d.jsonl"], "d.jsonl:1: this is no JSON object");
    write(&folder, "e.jsonl", b"{\"text\": \"one\"}\n{\"text\": \"\xff\"}\n");
    say(&["e.jsonl"], "e.jsonl:2: this is not UTF-8");
    let whole = packed(&jsonl(&TEXTS));
    write(&folder, "f.jsonl.gz", &whole[..whole.len() / 2]);
    say(&["f.jsonl.gz"], "cannot read `f.jsonl.gz`: it ends too early");
    write(&folder, "g.jsonl.gz", jsonl(&TEXTS));
    say(&["g.jsonl.gz"], "cannot read `g.jsonl.gz`");
    write(&folder, "h.txt", b"good \xff bad");
    say(&["h.txt"], "h.txt: this is not UTF-8 from byte 5 on");
    write(&folder, "i.txt", "cut off ä".as_bytes().split_last().expect("bytes").1);
    say(&["i.txt"], "i.txt: this is not UTF-8 from byte 8 on");
    write(&folder, "j.txt", b"good\nb\xffd\n");
    say(&["j.txt", "--lines"], "j.txt:2: this is not UTF-8");
    for empty in ["k.txt", "k.jsonl"] {
        write(&folder, empty, "");
        say(&[empty], "there is no document in the input");
    }
    write(&folder, "l.csv", "a,b");
    write(&folder, "good.txt", "good");
    say(&["good.txt", "l.csv"], "l.csv: the name says nothing about the format");
    fs::create_dir(folder.path().join("m.txt")).expect("a folder");
    say(&["m.txt"], "`m.txt` is no file");
    say(&["good.txt", "--tokenizer", "none.json"], "cannot read the tokenizer `none.json`");
    say(&["good.txt", "--tokenizer", "l.csv"], "l.csv: this is no tokenizer");
    let args = ["tokenizer", "--vocabulary", "300", "--output", "t.json", "good.txt", "a.jsonl"];
    run_in(folder.path(), &args).exits(1).says("a.jsonl:2: this is no JSON");
    assert!(!folder.path().join("t.json").exists());
    run_in(folder.path(), &["prepare", "good.txt"]).exits(2).says("--output");
    run_in(folder.path(), &["prepare", "--output", "out"]).exits(2);
}

/// A word-level tokenizer of so many entries.
fn words(count: usize, end: &str) -> String {
    let entry = |i: usize| (if i == 0 { end.to_string() } else { format!("w{i}") }, i);
    let vocabulary: BTreeMap<String, usize> = (0..count).map(entry).collect();
    serde_json::json!({
        "version": "1.0", "truncation": { "direction": "Right", "max_length": 2, "strategy": "LongestFirst", "stride": 0 },
        "padding": null, "added_tokens": [], "normalizer": null, "pre_tokenizer": { "type": "Whitespace" },
        "post_processor": null, "decoder": null,
        "model": { "type": "WordLevel", "vocab": vocabulary, "unk_token": end }
    })
    .to_string()
}

#[test]
fn a_vocabulary_must_fit_16_bits_and_end_texts() {
    let large = Tokenizer::from_json(&words(65537, "</s>")).expect_err("too large");
    assert!(large.contains("65537 entries is too large"), "{large}");
    let endless = Tokenizer::from_json(&words(10, "w0")).expect_err("no end");
    assert!(endless.contains("no token ends a text"), "{endless}");
    let most = Tokenizer::from_json(&words(65536, "</s>")).expect("a tokenizer");
    assert_eq!((most.vocabulary(), most.end_of_text()), (65536, 0));
    // The file asks for two tokens at most; documents are longer.
    assert_eq!(most.encode("w3 w65535 w1"), Ok(vec![3, 65535, 1]));
}

#[test]
fn a_folder_is_replaced_only_if_that_is_said_and_it_is_ours() {
    let folder = folder();
    write(&folder, "a.txt", "one");
    write(&folder, "b.txt", "two");
    prepare(&folder, &["a.txt"]).exits(0);
    refused(&folder, &["b.txt"]).says("`out` exists already; --force replaces it");
    assert_eq!(texts(&folder), ended(&["one"]));
    prepare(&folder, &["b.txt", "--force"]).exits(0);
    assert_eq!(texts(&folder), ended(&["two"]));
    refused(&folder, &["c.txt", "--force"]);
    assert_eq!(texts(&folder), ended(&["two"]));
    write(&folder, "out/thesis.tex", "mine");
    refused(&folder, &["a.txt", "--force"]).says("`thesis.tex` in it was made by others");
    assert_eq!(names(folder.path()), BTreeSet::from(["a.txt", "b.txt", "out"].map(String::from)));
    let run = run_in(folder.path(), &["prepare", "a.txt", "--force", "--output", "b.txt"]).exits(1);
    run.says("`b.txt` exists and is no folder");
    run_in(folder.path(), &["prepare", "a.txt", "--output", "new/out"]).exits(1).says("cannot write");
}

#[test]
fn a_killed_run_leaves_no_folder_and_the_next_one_cleans_up() {
    let folder = folder();
    let text = "It was a bright cold day in April, and the clocks were striking thirteen. ".repeat(400);
    let line = jsonl(&[&text]);
    write(&folder, "a.jsonl", line.repeat(3000));
    let args = ["prepare", "a.jsonl", "--output", "out"];
    let mut child = command(folder.path(), &args).spawn().expect("it starts");
    let partial = folder.path().join(".out.partial/tokens.bin");
    let start = Instant::now();
    while !fs::metadata(&partial).is_ok_and(|found| found.len() > 0) {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is written");
        std::thread::sleep(Duration::from_millis(2));
    }
    // While it runs, nobody else writes there.
    prepare(&folder, &["a.jsonl"]).exits(1).says("another run is writing `out`");
    child.kill().expect("killed");
    child.wait().expect("ended");
    assert_eq!(names(folder.path()), BTreeSet::from(["a.jsonl", ".out.partial"].map(String::from)));
    write(&folder, "b.jsonl", jsonl(&["short"]));
    prepare(&folder, &["b.jsonl"]).exits(0);
    assert_eq!(texts(&folder), ended(&["short"]));
    assert_eq!(names(folder.path()), BTreeSet::from(["a.jsonl", "b.jsonl", "out"].map(String::from)));
    assert_eq!(
        names(&folder.path().join("out")),
        BTreeSet::from(["tokens.bin", "index.bin", "meta.json"].map(String::from))
    );
}

// ---- damaged folders ----

#[track_caller]
fn damaged(file: &str, change: impl FnOnce(Vec<u8>) -> Vec<u8>, expected: &str) {
    let folder = folder();
    write(&folder, "a.jsonl", jsonl(&["one two three", "four five six"]));
    prepare(&folder, &["a.jsonl", "--tokenizer", "bytes"]).exits(0);
    let path = folder.path().join("out").join(file);
    let content = change(fs::read(&path).expect("a file"));
    fs::write(&path, content).expect("written");
    run_in(folder.path(), &["prepare", "--check", "out"]).exits(1).says(expected);
}

fn places(places: &[u64]) -> Vec<u8> {
    places.iter().flat_map(|place| place.to_le_bytes()).collect()
}

#[test]
fn damaged_folders_are_refused() {
    let shorter = |mut bytes: Vec<u8>| {
        bytes.pop();
        bytes
    };
    let flipped = |mut bytes: Vec<u8>| {
        bytes[6] ^= 1;
        bytes
    };
    damaged("tokens.bin", shorter, "`out` is damaged: tokens.bin has 55 bytes and not 56");
    damaged("tokens.bin", |_| Vec::new(), "tokens.bin has 0 bytes and not 56");
    damaged("tokens.bin", flipped, "`out` is damaged: the checksum of tokens.bin is wrong; prepare it again");
    damaged("index.bin", shorter, "index.bin has 23 bytes and not 24");
    for wrong in [[0, 14, 29], [1, 14, 28], [0, 0, 28], [0, 1, 28], [0, 30, 28], [0, u64::MAX, 28], [0, 27, 28]] {
        damaged("index.bin", |_| places(&wrong), "documents in index.bin do not follow one another");
    }
    damaged("index.bin", |_| places(&[0, 13, 28]), "the checksum of index.bin is wrong");
    let meta = |from: &'static str, to: &'static str| {
        move |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            assert!(text.contains(from), "{text}");
            text.replace(from, to).into_bytes()
        }
    };
    damaged("meta.json", meta("energyrun tokens", "other"), "`out` was not made by `energyrun prepare`");
    damaged("meta.json", meta("\"version\": 1", "\"version\": 2"), "has version 2 of the format and not 1");
    damaged(
        "meta.json",
        meta("\"tokens\": 28", "\"tokens\": 18446744073709551615"),
        "is damaged: tokens.bin has 56 bytes",
    );
    damaged("meta.json", meta("\"documents\": 2", "\"documents\": 18446744073709551615"), "index.bin has 24 bytes");
    damaged("meta.json", meta("\"vocabulary\": 257", "\"vocabulary\": 70000"), "it claims a vocabulary of 70000");
    damaged("meta.json", meta("\"vocabulary\": 257", "\"vocabulary\": 200"), "with 256 at the end of texts");
    damaged("meta.json", meta("\"documents\": 2,", ""), "missing field `documents`");
    damaged("meta.json", |_| b"{".to_vec(), "was not made by");
    let folder = folder();
    run_in(folder.path(), &["prepare", "--check", "none"]).exits(1).says("there is no folder `none`");
    run_in(folder.path(), &["prepare", "--check", "."]).exits(1).says("was not made by `energyrun prepare`");
}

#[test]
fn a_token_outside_of_the_vocabulary_is_an_error_and_no_panic() {
    let (folder, _) = corpus(&["abc", "de"]);
    let out = folder.path().join("out");
    let mut bytes = fs::read(out.join("tokens.bin")).expect("tokens");
    bytes[3] = 0xff;
    fs::write(out.join("tokens.bin"), bytes).expect("written");
    let corpus = Arc::new(Corpus::open(&out).expect("a corpus"));
    let wrong = Truncated::new(corpus, 8).expect("a view").fill(&[0], &mut Batch::default()).expect_err("foreign");
    assert!(wrong.contains("is no token of a vocabulary of 257"), "{wrong}");
}

// ---- views ----

/// A corpus of bytes, and where it is.
fn corpus(texts: &[&str]) -> (TempDir, Arc<Corpus>) {
    let folder = folder();
    write(&folder, "a.jsonl", jsonl(texts));
    prepare(&folder, &["a.jsonl", "--tokenizer", "bytes"]).exits(0);
    let corpus = Corpus::open(&folder.path().join("out")).expect("a corpus");
    (folder, Arc::new(corpus))
}

/// The token that ends a text of bytes.
const END: u16 = 256;

/// Letters as tokens, `.` for the one that ends a text.
fn tokens(text: &str) -> Vec<u16> {
    text.bytes().map(|byte| if byte == b'.' { END } else { u16::from(byte) }).collect()
}

/// The same with `-` where nothing is asked for.
fn targets(text: &str) -> Vec<i32> {
    text.bytes().zip(tokens(text)).map(|(byte, token)| if byte == b'-' { NONE } else { i32::from(token) }).collect()
}

#[test]
fn truncated_examples_are_the_beginnings_of_documents() {
    let (_folder, corpus) = corpus(&["abcdefg", "hi", "klm", "nopq"]);
    let examples = Truncated::new(corpus.clone(), 4).expect("a view");
    assert_eq!((examples.count(), examples.vocabulary()), (4, 257));
    let mut batch = Batch::default();
    examples.fill(&[2, 0, 1, 3], &mut batch).expect("a batch");
    assert_eq!((batch.batch, batch.length), (4, 4));
    assert_eq!(batch.tokens, tokens("klm.abcdhi..nopq"));
    assert_eq!(batch.targets, targets("lm.-bcdei.--opq."));
    assert_eq!(batch.lengths, [4, 4, 3, 4]);
    assert!(batch.documents.is_empty());
    assert_eq!(batch.counted(), 13);
    // Nothing of the last batch stays; no lengths are needed if all are there.
    examples.fill(&[0], &mut batch).expect("a batch");
    assert_eq!((batch.tokens, batch.targets, batch.lengths), (tokens("abcd"), targets("bcde"), vec![]));
    assert!(examples.fill(&[4], &mut Batch::default()).is_err());
    assert!(Truncated::new(corpus, 0).is_err());
}

#[test]
fn packed_examples_are_windows_over_all_documents() {
    // ab.cdefg.h.ij. in windows of 5: ab.cd efg.h .ij.
    let (_folder, corpus) = corpus(&["ab", "cdefg", "h", "ij"]);
    let examples = Packed::new(corpus.clone(), 5).expect("a view");
    assert_eq!(examples.count(), 3);
    let mut batch = Batch::default();
    examples.fill(&[0, 1, 2], &mut batch).expect("a batch");
    assert_eq!((batch.batch, batch.length), (3, 5));
    assert_eq!(batch.tokens, tokens("ab.cdefg.h.ij.."));
    assert_eq!(batch.targets, targets("b.-defg.-.-j.--"));
    assert_eq!(batch.lengths, [5, 5, 4]);
    assert_eq!(batch.documents, [0, 0, 0, 1, 1, 0, 0, 0, 0, 1, 0, 1, 1, 1, 2]);
    examples.fill(&[1], &mut batch).expect("a batch");
    assert_eq!((batch.targets, batch.lengths), (targets("fg.-."), vec![]));
    assert!(examples.fill(&[3], &mut Batch::default()).is_err());
    // The last token alone needs no window; a window may be longer than everything.
    assert_eq!(Packed::new(corpus.clone(), 13).expect("a view").count(), 1);
    assert_eq!(Packed::new(corpus.clone(), 100).expect("a view").count(), 1);
    let mut batch = Batch::default();
    Packed::new(corpus, 100).expect("a view").fill(&[0], &mut batch).expect("a batch");
    assert_eq!((batch.lengths[0], batch.counted()), (14, 10));
}

#[test]
fn every_window_asks_for_every_token_but_the_first_ones() {
    let texts: Vec<String> = (1..40).map(|i| "x".repeat(i * 7 % 23 + 1)).collect();
    let (_folder, corpus) = corpus(&texts.iter().map(String::as_str).collect::<Vec<_>>());
    for window in 1..30 {
        let examples = Packed::new(corpus.clone(), window).expect("a view");
        let mut batch = Batch::default();
        examples.fill(&(0..examples.count()).collect::<Vec<_>>(), &mut batch).expect("a batch");
        assert_eq!(batch.counted(), corpus.len() - corpus.documents(), "{window}");
    }
}

// ---- order ----

#[test]
fn an_epoch_visits_every_example_once_and_any_position_can_be_asked_for() {
    for count in [1, 2, 7, 1000] {
        let order = Order::new(count, 5).expect("examples");
        let epochs: Vec<Vec<usize>> =
            (0..3u64).map(|epoch| (0..count as u64).map(|i| order.at(epoch * count as u64 + i)).collect()).collect();
        for (epoch, visited) in epochs.iter().enumerate() {
            assert_eq!(visited.iter().copied().collect::<BTreeSet<_>>(), (0..count).collect());
            assert_eq!(order.epoch_of((epoch * count) as u64), epoch as u64);
        }
        // Backwards, by another that knows nothing of the first.
        let again = Order::new(count, 5).expect("examples");
        for position in (0..3 * count as u64).rev() {
            let (epoch, i) = (position as usize / count, position as usize % count);
            assert_eq!(again.at(position), epochs[epoch][i]);
        }
    }
    let visits = |seed: u64, from: u64| {
        let order = Order::new(1000, seed).expect("examples");
        (from..from + 1000).map(|i| order.at(i)).collect::<Vec<_>>()
    };
    assert_ne!(visits(5, 0), visits(5, 1000));
    assert_ne!(visits(5, 0), visits(6, 0));
    assert_ne!(visits(5, 0), (0..1000).collect::<Vec<_>>());
    assert!(Order::new(0, 1).is_err());
}

#[test]
fn all_orders_are_equally_likely() {
    let mut seen = BTreeMap::new();
    for seed in 0..6000 {
        let order = Order::new(3, seed).expect("examples");
        *seen.entry([order.at(0), order.at(1), order.at(2)]).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), 6);
    assert!(seen.values().all(|times| (880..1120).contains(times)), "{seen:?}");
}

// ---- recall ----

#[test]
fn recall_asks_for_the_values_of_keys() {
    let shape = Shape { pairs: 5, queries: 3, length: 20, vocabulary: 41 };
    let recall = Recall::new(shape, 100, 3).expect("a task");
    assert_eq!((recall.count(), recall.vocabulary()), (100, 41));
    let mut batch = Batch::default();
    recall.fill(&(0..100).collect::<Vec<_>>(), &mut batch).expect("a batch");
    let mut places = BTreeSet::new();
    for (tokens, targets) in batch.tokens.chunks(20).zip(batch.targets.chunks(20)) {
        let pairs: BTreeMap<u16, u16> = tokens[..10].chunks(2).map(|pair| (pair[0], pair[1])).collect();
        assert_eq!(pairs.len(), 5, "keys differ");
        assert!(pairs.keys().all(|key| (1..=20).contains(key)) && pairs.values().all(|value| (21..41).contains(value)));
        assert!(targets[..10].iter().all(|target| *target == NONE));
        let mut asked = BTreeSet::new();
        for (n, (token, target)) in tokens.iter().zip(targets).enumerate().skip(10) {
            match *token {
                FILLER => assert_eq!(*target, NONE),
                key => {
                    assert_eq!(*target, i32::from(pairs[&key]));
                    assert!(asked.insert(key), "asked twice");
                    places.insert(n);
                }
            }
        }
        assert_eq!(asked.len(), 3);
    }
    assert_eq!(places, (10..20).collect(), "queries are everywhere");
    assert_eq!(batch.counted(), 300);
    assert!(recall.fill(&[100], &mut Batch::default()).is_err());
}

#[test]
fn recall_is_a_function_of_the_seed_and_the_number() {
    let recall = |seed| Recall::new(Shape::default(), 1000, seed).expect("a task");
    let example = |seed, which: &[usize], i: usize| {
        let mut batch = Batch::default();
        recall(seed).fill(which, &mut batch).expect("a batch");
        batch.tokens[i * batch.length..][..batch.length].to_vec()
    };
    assert_eq!(example(1, &[3, 8, 999], 1), example(1, &[8], 0));
    assert_ne!(example(1, &[8], 0), example(1, &[9], 0));
    assert_ne!(example(1, &[8], 0), example(2, &[8], 0));
}

#[test]
fn impossible_recall_is_refused() {
    let refuse = |change: fn(&mut Shape), expected: &str| {
        let mut shape = Shape::default();
        change(&mut shape);
        let wrong = Recall::new(shape, 10, 1).expect_err("impossible");
        assert!(wrong.contains(expected), "{wrong}");
    };
    refuse(|shape| shape.pairs = 0, "at least one pair");
    refuse(|shape| shape.queries = 0, "one query");
    refuse(|shape| shape.queries = 9, "9 queries are too many for 8");
    refuse(|shape| shape.length = 23, "need 24 positions and not 23");
    refuse(|shape| shape.vocabulary = 16, "a vocabulary of 17 to 65536 tokens and not 16");
    refuse(|shape| shape.vocabulary = 0, "not 0");
    refuse(|shape| shape.vocabulary = 65537, "not 65537");
    refuse(|shape| shape.pairs = usize::MAX, "need");
    for shape in [Shape { vocabulary: 17, ..Shape::default() }, Shape { length: 24, ..Shape::default() }] {
        let recall = Recall::new(shape, 1, 1).expect("a task");
        let mut batch = Batch::default();
        recall.fill(&[0], &mut batch).expect("a batch");
        assert_eq!(batch.counted(), 8);
    }
}
