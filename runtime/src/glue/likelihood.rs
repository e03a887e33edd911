//! How likely every answer is after a prompt: log p(answer | prompt) = Σ_j log p(token j | prompt, tokens before j).

use crate::data::Batch;
use crate::model::{Gpt, Tape};

/// The answers a model chooses from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answers {
    tokens: Vec<Vec<u16>>,
    /// What is read behind a prompt, so that every answer but its last token stands behind it once.
    read: Vec<Vec<u16>>,
    /// Behind which of these an answer is asked for.
    place: Vec<usize>,
}

impl Answers {
    /// Answers of one token each need the prompt alone, whatever their number: a token depends on those before it only.
    pub fn new(tokens: &[Vec<u16>]) -> Answers {
        let before: Vec<&[u16]> = tokens.iter().map(|answer| &answer[..answer.len().saturating_sub(1)]).collect();
        let is_inside = |own: &[u16]| before.iter().any(|other| other.len() > own.len() && other.starts_with(own));
        let mut read: Vec<Vec<u16>> = Vec::new();
        for own in before.iter().filter(|own| !is_inside(own)) {
            if !read.iter().any(|other| other == own) {
                read.push(own.to_vec());
            }
        }
        let place = |own: &&[u16]| read.iter().position(|other| other.starts_with(own)).unwrap_or(0);
        let place = before.iter().map(place).collect();
        Answers { tokens: tokens.to_vec(), read, place }
    }
}

/// log p of every answer after every prompt.
pub fn log_likelihoods(
    (gpt, weights): (&Gpt, &[f32]),
    prompts: &[&[u16]],
    answers: &Answers,
    padding: u16,
    tape: &mut Tape,
) -> Vec<Vec<f64>> {
    let sequences: Vec<(usize, usize)> =
        (0..prompts.len()).flat_map(|prompt| (0..answers.read.len()).map(move |read| (prompt, read))).collect();
    let tokens = |(prompt, read): &(usize, usize)| [prompts[*prompt], &answers.read[*read][..]].concat();
    let tokens: Vec<Vec<u16>> = sequences.iter().map(tokens).collect();
    let batch = padded(&tokens, padding);
    gpt.forward(weights, &batch.input(), None, tape);
    let mut found = vec![vec![0.0; answers.tokens.len()]; prompts.len()];
    for (i, (prompt, read)) in sequences.iter().enumerate() {
        let first = i * batch.length + prompts[*prompt].len() - 1;
        let logits = gpt.logits(weights, first..first + answers.read[*read].len() + 1, tape);
        let rows: Vec<&[f32]> = logits.chunks_exact(gpt.config.vocabulary).collect();
        let norms: Vec<f64> = rows.iter().map(|row| log_sum_exp(row)).collect();
        for (class, answer) in answers.tokens.iter().enumerate().filter(|(class, _)| answers.place[*class] == *read) {
            let of_token = |(j, token): (usize, &u16)| f64::from(rows[j][usize::from(*token)]) - norms[j];
            found[*prompt][class] = answer.iter().enumerate().map(of_token).sum();
        }
    }
    found
}

/// The sequences as a batch in which nothing counts.
fn padded(sequences: &[Vec<u16>], padding: u16) -> Batch {
    let mut batch = Batch::default();
    let longest = sequences.iter().map(Vec::len).max().unwrap_or(0);
    batch.reset(sequences.len(), longest, padding);
    let rows = batch.tokens.chunks_mut(longest.max(1));
    rows.zip(sequences).for_each(|(row, tokens)| row[..tokens.len()].copy_from_slice(tokens));
    if sequences.iter().any(|tokens| tokens.len() < longest) {
        batch.lengths = sequences.iter().map(Vec::len).collect();
    }
    batch
}

fn log_sum_exp(row: &[f32]) -> f64 {
    let largest = f64::from(row.iter().copied().fold(f32::NEG_INFINITY, f32::max));
    largest + row.iter().map(|x| (f64::from(*x) - largest).exp()).sum::<f64>().ln()
}

/// The most likely class; of equally likely ones the first.
pub fn most_likely(likelihoods: &[f64]) -> usize {
    let better = |best: usize, class: usize| if likelihoods[class] > likelihoods[best] { class } else { best };
    (0..likelihoods.len()).fold(0, better)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_are_shared_where_they_can_be() {
        let single = Answers::new(&[vec![3], vec![4], vec![5]]);
        assert_eq!((single.read, single.place), (vec![vec![]], vec![0, 0, 0]));
        let mixed = Answers::new(&[vec![3], vec![4, 5, 6], vec![4, 7], vec![8, 9]]);
        assert_eq!((mixed.read, mixed.place), (vec![vec![4, 5], vec![8]], vec![0, 0, 0, 1]));
    }

    #[test]
    fn the_first_of_equals_is_taken() {
        assert_eq!(most_likely(&[-2.0, -1.0, -1.0]), 1);
        assert_eq!(most_likely(&[f64::NAN, -1.0]), 0);
    }
}
