//! The learning rate: it rises linearly from 0 and falls linearly back to 0.

/// The rate of step `step`, counted from 1, of `steps` steps with `warmup` steps of rising.
pub fn rate(highest: f64, step: u64, warmup: u64, steps: u64) -> f64 {
    let share = if step <= warmup {
        step as f64 / warmup.max(1) as f64
    } else {
        (steps + 1).saturating_sub(step) as f64 / (steps - warmup.min(steps)).max(1) as f64
    };
    highest * share.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::rate;

    #[test]
    fn the_rate_rises_and_falls() {
        let rates: Vec<f64> = (1..=10).map(|step| rate(1.0, step, 4, 10)).collect();
        assert_eq!(rates[..4], [0.25, 0.5, 0.75, 1.0]);
        assert_eq!(rates[4], 1.0);
        assert!(rates[4..].windows(2).all(|pair| pair[1] < pair[0]));
        assert!((rates[9] - 1.0 / 6.0).abs() < 1e-12);
        assert_eq!(rate(1.0, 1, 0, 1), 1.0);
        assert_eq!(rate(1.0, 12, 4, 10), 0.0);
    }
}
