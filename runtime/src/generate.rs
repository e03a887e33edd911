//! Text from a model, token by token: with what earlier positions left behind, or from the start every time.

use crate::model::random::Stream;
use crate::model::{Cache, Gpt, Input, Tape};

/// How the next token is chosen from the logits.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sampling {
    /// Logits are divided by it; 0 takes the most likely token.
    pub temperature: f64,
    /// Only so many of the most likely tokens are chosen from; 0 means all.
    pub most: usize,
    pub seed: u64,
}

/// A sequence that grows.
pub struct Writer<'a> {
    gpt: &'a Gpt,
    weights: &'a [f32],
    sampling: Sampling,
    /// Everything so far.
    pub tokens: Vec<u16>,
    /// Where the part begins that the model still sees.
    first: usize,
    cache: Option<Cache>,
    tape: Tape,
}

impl<'a> Writer<'a> {
    /// A sequence that begins with a prompt of at least one token.
    pub fn new(
        gpt: &'a Gpt,
        weights: &'a [f32],
        prompt: &[u16],
        sampling: Sampling,
        caches: bool,
    ) -> Result<Writer<'a>, String> {
        if let Some(token) = prompt.iter().find(|token| usize::from(**token) >= gpt.config.vocabulary) {
            return Err(format!("the prompt has token {token}; the model knows {}", gpt.config.vocabulary));
        }
        if prompt.is_empty() {
            return Err("the prompt has no token".to_string());
        }
        let first = prompt.len().saturating_sub(gpt.config.window);
        let cache = caches.then(Cache::default);
        Ok(Writer { gpt, weights, sampling, tokens: prompt.to_vec(), first, cache, tape: Tape::default() })
    }

    /// Adds a token and tells which.
    ///
    /// When the window is full, the model goes on with the second half of what it sees: positions are counted from the
    /// beginning of the window, so nothing that was left behind can be used again.
    pub fn next_token(&mut self) -> u16 {
        let window = self.gpt.config.window;
        if self.tokens.len() - self.first > window {
            self.first = self.tokens.len() - window.div_ceil(2);
            self.cache = self.cache.as_ref().map(|_| Cache::default());
        }
        let logits = self.logits();
        let token = choose(&logits, &self.sampling, self.tokens.len() as u64);
        self.tokens.push(token);
        token
    }

    /// The logits of what comes next.
    fn logits(&mut self) -> Vec<f32> {
        let seen = &self.tokens[self.first..];
        let new = &seen[self.cache.as_ref().map_or(0, Cache::len)..];
        let input = Input { batch: 1, length: new.len(), tokens: new, lengths: None, documents: None };
        match &mut self.cache {
            Some(cache) => self.gpt.forward_next(self.weights, &input, cache, &mut self.tape),
            None => self.gpt.forward(self.weights, &input, None, &mut self.tape),
        }
        self.gpt.logits(self.weights, new.len() - 1..new.len(), &self.tape)
    }
}

/// A token with the probability softmax(logits/temperature), among the most likely ones.
fn choose(logits: &[f32], sampling: &Sampling, place: u64) -> u16 {
    let mut order: Vec<usize> = (0..logits.len()).collect();
    order.sort_by(|a, b| logits[*b].total_cmp(&logits[*a]));
    let largest = order.first().map_or(0.0, |i| logits[*i]);
    if sampling.temperature <= 0.0 {
        return order.first().map_or(0, |i| *i as u16);
    }
    if sampling.most > 0 {
        order.truncate(sampling.most);
    }
    let weight = |i: &usize| (f64::from(logits[*i] - largest) / sampling.temperature).exp();
    let total: f64 = order.iter().map(weight).sum();
    let mut left = Stream::new(sampling.seed).uniform(place) * total;
    for i in &order {
        left -= weight(i);
        if left < 0.0 {
            return *i as u16;
        }
    }
    order.last().map_or(0, |i| *i as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_come_as_often_as_they_are_likely() {
        let logits = [0.0, 1.0f32.ln() + 1.0, f32::NEG_INFINITY, -1.0];
        let sampling = Sampling { temperature: 1.0, most: 2, seed: 3 };
        let chosen: Vec<u16> = (0..20_000).map(|i| choose(&logits, &sampling, i)).collect();
        let share = chosen.iter().filter(|t| **t == 1).count() as f64 / 20_000.0;
        let wanted = 1f64.exp() / (1.0 + 1f64.exp());
        assert!((share - wanted).abs() < 0.01, "{share} {wanted}");
        assert!(chosen.iter().all(|t| *t < 2));
        assert_eq!(choose(&logits, &Sampling { temperature: 0.0, most: 0, seed: 0 }, 0), 1);
    }
}
