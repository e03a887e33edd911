//! Prompts with their answers as examples to learn from: only the tokens of the answer count in the loss.

use super::prompt::Prompt;
use crate::data::order::shuffled;
use crate::data::{Batch, Examples};
use crate::model::random::Stream;

/// Keeps this use of a seed apart from others.
const CHOICE: u64 = 0x676c_7565_2063_686f;

/// Prompts of a task, and what the answer of every class is.
#[derive(Clone, Debug)]
pub struct Prompts {
    pub prompts: Vec<Prompt>,
    pub answers: Vec<Vec<u16>>,
    pub vocabulary: usize,
    /// What stands behind a sequence's end.
    pub padding: u16,
}

impl Examples for Prompts {
    fn count(&self) -> usize {
        self.prompts.len()
    }

    fn vocabulary(&self) -> usize {
        self.vocabulary
    }

    /// Sequences are as long as the longest of them and no longer. The last token of an answer is asked for, and not read.
    fn fill(&self, which: &[usize], batch: &mut Batch) -> Result<(), String> {
        which.iter().try_for_each(|i| self.check(*i))?;
        let rows: Vec<(&[u16], &[u16])> =
            which.iter().map(|i| &self.prompts[*i]).map(|p| (&p.tokens[..], &self.answers[p.class][..])).collect();
        let length = |(prompt, answer): &(&[u16], &[u16])| prompt.len() + answer.len() - 1;
        let longest = rows.iter().map(length).max().unwrap_or(0);
        batch.reset(rows.len(), longest, self.padding);
        let places = batch.tokens.chunks_mut(longest.max(1)).zip(batch.targets.chunks_mut(longest.max(1)));
        for ((prompt, answer), (tokens, targets)) in rows.iter().zip(places) {
            let read = prompt.iter().chain(&answer[..answer.len() - 1]);
            tokens.iter_mut().zip(read).for_each(|(place, token)| *place = *token);
            let asked = targets.iter_mut().skip(prompt.len() - 1).zip(*answer);
            asked.for_each(|(place, token)| *place = i32::from(*token));
        }
        batch.lengths = rows.iter().map(length).collect();
        if batch.lengths.iter().all(|length| *length == longest) {
            batch.lengths.clear();
        }
        Ok(())
    }
}

/// So many of `count` rows, by chance, in their order; all of them if no number is said.
pub fn chosen(count: usize, most: Option<usize>, seed: u64) -> Vec<usize> {
    let mut numbers: Vec<usize> = match most {
        Some(most) if most < count => {
            let order = shuffled(count, Stream::new(seed).stream(CHOICE));
            order[..most].iter().map(|i| *i as usize).collect()
        }
        _ => (0..count).collect(),
    };
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::loss::NONE;

    #[test]
    fn only_the_answer_counts() {
        let prompt = |tokens: &[u16], class| Prompt { tokens: tokens.to_vec(), class, is_cut: false };
        let prompts = vec![prompt(&[1, 2, 3], 0), prompt(&[4, 5], 1)];
        let prompts = Prompts { prompts, answers: vec![vec![7], vec![8, 9, 7]], vocabulary: 10, padding: 0 };
        let mut batch = Batch::default();
        prompts.fill(&[0, 1], &mut batch).expect("a batch");
        assert_eq!((batch.batch, batch.length, &batch.lengths[..]), (2, 4, &[3, 4][..]));
        assert_eq!(batch.tokens, [1, 2, 3, 0, 4, 5, 8, 9]);
        assert_eq!(batch.targets, [NONE, NONE, 7, NONE, NONE, 8, 9, 7]);
        assert!(prompts.fill(&[2], &mut batch).is_err());
    }

    #[test]
    fn a_choice_is_a_matter_of_the_seed() {
        assert_eq!(chosen(5, None, 1), [0, 1, 2, 3, 4]);
        assert_eq!(chosen(5, Some(9), 1), [0, 1, 2, 3, 4]);
        let one = chosen(1000, Some(20), 1);
        assert_eq!((one.len(), &one), (20, &chosen(1000, Some(20), 1)));
        assert_ne!(one, chosen(1000, Some(20), 2));
        assert!(one.windows(2).all(|pair| pair[0] < pair[1]));
    }
}
