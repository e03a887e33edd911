//! Instructions: what a model reads of a row, and the words it may answer with.
//!
//! Instruction, sentences and answer are turned into tokens each on its own, so that a long sentence can be cut without
//! a change to the rest, and a model is asked about exactly the tokens it learned to say.

use super::columns::Row;
use super::task::Task;
use crate::data::Tokenizer;

/// The instruction of a task; `{1}` and `{2}` are the sentences.
pub fn template(task: Task) -> &'static str {
    match task {
        Task::Rte => "Does the premise entail the hypothesis?\nPremise: {1}\nHypothesis: {2}\nAnswer:",
        Task::Mrpc => "Do both sentences mean the same?\nFirst: {1}\nSecond: {2}\nAnswer:",
        Task::Cola => "Is the sentence grammatical?\nSentence: {1}\nAnswer:",
        Task::Sst2 => "Is the review positive or negative?\nReview: {1}\nAnswer:",
        Task::Qnli => "Does the sentence answer the question?\nQuestion: {1}\nSentence: {2}\nAnswer:",
        Task::Qqp => "Do both questions ask the same?\nFirst: {1}\nSecond: {2}\nAnswer:",
        Task::Mnli => "Does the premise entail the hypothesis?\nPremise: {1}\nHypothesis: {2}\nAnswer:",
    }
}

/// The answers, by class.
pub fn label_words(task: Task) -> &'static [&'static str] {
    match task {
        Task::Rte | Task::Qnli => &[" yes", " no"],
        Task::Mrpc | Task::Cola | Task::Qqp => &[" no", " yes"],
        Task::Sst2 => &[" negative", " positive"],
        Task::Mnli => &[" yes", " maybe", " no"],
    }
}

/// A sentence is left at least so many tokens.
const LEAST: usize = 4;

/// Turns rows of a task into tokens that fit a window.
pub struct Prompter<'a> {
    tokenizer: &'a Tokenizer,
    /// The instruction, in pieces between which the sentences stand.
    pieces: Vec<Vec<u16>>,
    answers: Vec<Vec<u16>>,
    /// Tokens that the sentences may have together.
    room: usize,
}

/// A row as tokens, without its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub tokens: Vec<u16>,
    pub class: usize,
    /// Whether a sentence was cut.
    pub is_cut: bool,
}

impl<'a> Prompter<'a> {
    /// An error if the window is too small for the instruction, or the tokenizer cannot tell the answers apart.
    pub fn new(task: Task, tokenizer: &'a Tokenizer, window: usize) -> Result<Prompter<'a>, String> {
        let encode = |text: &str| tokenizer.encode(text);
        let pieces: Vec<Vec<u16>> = pieces(template(task)).into_iter().map(encode).collect::<Result<_, _>>()?;
        let words = label_words(task);
        let answers: Vec<Vec<u16>> = words.iter().map(|word| encode(word)).collect::<Result<_, _>>()?;
        for (i, answer) in answers.iter().enumerate() {
            if answer.is_empty() || answers[..i].contains(answer) {
                let words = words.join("`, `");
                return Err(format!("{}: the tokenizer cannot tell the answers `{words}` apart", task.name()));
            }
        }
        let fixed = pieces.iter().map(Vec::len).sum::<usize>() + answers.iter().map(Vec::len).max().unwrap_or(0);
        let needed = fixed + LEAST * (pieces.len() - 1);
        match window.checked_sub(fixed).filter(|_| needed <= window) {
            Some(room) => Ok(Prompter { tokenizer, pieces, answers, room }),
            None => Err(format!(
                "a window of {window} tokens is too small for {}: its instruction and answer alone have {fixed} tokens, \
                 so that at least {needed} are needed",
                task.name()
            )),
        }
    }

    /// The tokens of the answers, by class.
    pub fn answers(&self) -> &[Vec<u16>] {
        &self.answers
    }

    /// What the model reads before it answers.
    pub fn prompt(&self, row: &Row) -> Result<Prompt, String> {
        let encode = |text: &String| self.tokenizer.encode(&format!(" {text}"));
        let mut sentences: Vec<Vec<u16>> = row.sentences.iter().map(encode).collect::<Result<_, _>>()?;
        let is_cut = cut(&mut sentences, self.room);
        let mut tokens = Vec::new();
        for (i, piece) in self.pieces.iter().enumerate() {
            tokens.extend_from_slice(piece);
            tokens.extend(sentences.get(i).into_iter().flatten());
        }
        Ok(Prompt { tokens, class: row.class, is_cut })
    }
}

/// The instruction around the sentences. The space in front of a sentence goes with the sentence, as its first word
/// is one token with it.
fn pieces(template: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = template;
    for place in [" {1}", " {2}"] {
        if let Some((before, after)) = rest.split_once(place) {
            pieces.push(before);
            rest = after;
        }
    }
    pieces.push(rest);
    pieces
}

/// Takes tokens from the end of the longest sentence until all fit. Whether any was taken.
fn cut(sentences: &mut [Vec<u16>], room: usize) -> bool {
    let mut length: usize = sentences.iter().map(Vec::len).sum();
    let is_cut = length > room;
    while length > room {
        // Of equally long ones the last.
        let Some(longest) = sentences.iter_mut().max_by_key(|sentence| sentence.len()) else { return is_cut };
        longest.pop();
        length -= 1;
    }
    is_cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::glue::columns::classes;

    fn row(first: &str, second: &str) -> Row {
        Row { sentences: vec![first.to_string(), second.to_string()], class: 1 }
    }

    #[test]
    fn a_prompt_reads_as_it_is_written() {
        let tokenizer = Tokenizer::gpt2();
        let prompter = Prompter::new(Task::Rte, &tokenizer, 256).expect("room");
        let prompt = prompter.prompt(&row("It rains.", "It is wet.")).expect("tokens");
        let wanted = "Does the premise entail the hypothesis?\nPremise: It rains.\nHypothesis: It is wet.\nAnswer:";
        assert_eq!(tokenizer.decode(&prompt.tokens), wanted);
        assert_eq!(prompt.tokens, tokenizer.encode(wanted).expect("tokens"), "pieces join as the whole is cut");
        assert!(!prompt.is_cut);
    }

    #[test]
    fn the_longest_sentence_is_cut_and_nothing_else() {
        let tokenizer = Tokenizer::bytes();
        let whole = template(Task::Mnli).len() - "{1}{2}".len() + " maybe".len();
        let prompter = Prompter::new(Task::Mnli, &tokenizer, whole + 20).expect("room");
        let prompt = prompter.prompt(&row("abcdefghijklmnopqrstuvwxyz", "short")).expect("tokens");
        assert!(prompt.is_cut);
        let wanted =
            "Does the premise entail the hypothesis?\nPremise: abcdefghijklmno\nHypothesis: short\nAnswer:".to_string();
        assert_eq!(tokenizer.decode(&prompt.tokens), wanted);
        assert_eq!(prompt.tokens.len() + " maybe".len(), whole + 20);
    }

    #[test]
    fn a_small_window_is_refused_with_the_size_that_would_do() {
        let tokenizer = Tokenizer::gpt2();
        let error = |window| Prompter::new(Task::Qqp, &tokenizer, window).map(|_| ()).expect_err("too small");
        let needed: usize = (error(5).split_whitespace().filter_map(|word| word.parse().ok()).max()).expect("a number");
        assert!(Prompter::new(Task::Qqp, &tokenizer, needed).is_ok());
        assert!(error(needed - 1).contains("QQP"));
    }

    #[test]
    fn every_class_has_an_answer_of_its_own() {
        for task in Task::all() {
            assert_eq!(label_words(task).len(), classes(task).len());
            for tokenizer in [Tokenizer::gpt2(), Tokenizer::bytes()] {
                assert!(Prompter::new(task, &tokenizer, 256).is_ok());
            }
        }
    }
}
