//! An axis: the range of its values, where a value stands on it, and ticks at round numbers.

/// How values are spaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scale {
    #[default]
    Linear,
    /// Only numbers above 0 have a place.
    Log,
}

impl Scale {
    /// Whether a value has a place.
    pub fn has(self, value: f64) -> bool {
        value.is_finite() && (self == Scale::Linear || value > 0.0)
    }

    fn of(self, value: f64) -> f64 {
        match self {
            Scale::Linear => value,
            Scale::Log => value.ln(),
        }
    }

    fn back(self, place: f64) -> f64 {
        match self {
            Scale::Linear => place,
            Scale::Log => place.exp().clamp(f64::MIN_POSITIVE, f64::MAX),
        }
    }
}

/// Values from `low` to `high`.
#[derive(Clone, PartialEq, Debug)]
pub struct Axis {
    scale: Scale,
    low: f64,
    high: f64,
    pub ticks: Vec<Tick>,
}

#[derive(Clone, PartialEq, Debug)]
pub struct Tick {
    pub value: f64,
    pub label: String,
}

impl Axis {
    /// An axis for these values with some room on both sides and about so many ticks.
    pub fn around(values: &[f64], scale: Scale, ticks: usize) -> Axis {
        let (low, high) = range(values, scale);
        let room = 0.05 * (scale.of(high) - scale.of(low));
        let [low, high] = [scale.of(low) - room, scale.of(high) + room].map(|place| scale.back(place));
        Axis::new(low, high, scale, ticks)
    }

    /// An axis for what grows as time goes by: from 0 if the values begin near it, with room at the end only.
    pub fn along(values: &[f64], ticks: usize) -> Axis {
        let (low, high) = range(values, Scale::Linear);
        let low = if low >= 0.0 && low < 0.2 * high { 0.0 } else { low };
        Axis::new(low, high + 0.02 * (high - low), Scale::Linear, ticks)
    }

    fn new(low: f64, high: f64, scale: Scale, ticks: usize) -> Axis {
        let ticks = match scale {
            Scale::Linear => linear_ticks(low, high, ticks),
            Scale::Log => log_ticks(low, high, ticks),
        };
        Axis { scale, low, high, ticks }
    }

    /// From 0 at the low end to 1 at the high end.
    pub fn place(&self, value: f64) -> f64 {
        let [low, high, value] = [self.low, self.high, value].map(|x| self.scale.of(x));
        (value - low) / (high - low)
    }
}

/// The least and the greatest value that have a place, never the same.
fn range(values: &[f64], scale: Scale) -> (f64, f64) {
    let values = || values.iter().copied().filter(|value| scale.has(*value));
    let (low, high) = (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    match scale {
        _ if low > high => (scale.back(0.0), scale.back(0.0) + 1.0),
        Scale::Linear if high - low <= 1e-9 * high.abs() => {
            let half = if high == 0.0 { 0.5 } else { 0.1 * high.abs() };
            (low - half, high + half)
        }
        Scale::Log if high / low <= 1.0 + 1e-9 => (low / 1.5, high * 1.5),
        _ => (low, high),
    }
}

/// Multiples of 1, 2 or 5 times a power of ten.
fn linear_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    let about = (high - low) / wanted.max(1) as f64;
    let power = 10f64.powf(about.log10().floor());
    let step = match about / power {
        x if x < 1.5 => power,
        x if x < 3.5 => 2.0 * power,
        x if x < 7.5 => 5.0 * power,
        _ => 10.0 * power,
    };
    let (first, last) = ((low / step - 1e-6).ceil() as i64, (high / step + 1e-6).floor() as i64);
    let values: Vec<f64> = (first..=last).map(|n| n as f64 * step).collect();
    let largest = values.iter().fold(0.0f64, |most, value| most.max(value.abs()));
    values.iter().map(|value| Tick { value: *value, label: label(*value, step, largest) }).collect()
}

/// Powers of ten, with numbers between them where they are few; round numbers where there are hardly any.
fn log_ticks(low: f64, high: f64, wanted: usize) -> Vec<Tick> {
    let powers = low.log10().floor() as i32..=high.log10().ceil() as i32;
    let ticks = |between: &[f64]| -> Vec<Tick> {
        let values = powers.clone().flat_map(|power| between.iter().map(move |m| m * 10f64.powi(power)));
        let inside = values.filter(|value| (low..=high).contains(value));
        inside.map(|value| Tick { value, label: label(value, value, value) }).collect()
    };
    let most = 2 * wanted;
    match (ticks(&[1.0]), ticks(&[1.0, 2.0, 5.0])) {
        (_, more) if (4..=most).contains(&more.len()) => more,
        (tens, _) if tens.len() >= 4 => every(tens, most),
        _ => linear_ticks(low, high, wanted),
    }
}

/// Every so many, so that there are not too many.
fn every(ticks: Vec<Tick>, most: usize) -> Vec<Tick> {
    let step = ticks.len().div_ceil(most.max(1));
    ticks.into_iter().step_by(step).collect()
}

/// A multiple of `step` with as many digits as it needs; thousands and millions by letter.
fn label(value: f64, step: f64, largest: f64) -> String {
    let units = [(1e9, "G"), (1e6, "M"), (1e3, "k")];
    // Four digits are read as they are.
    let found = units.into_iter().find(|(unit, _)| largest >= *unit && largest >= 1e4);
    if value == 0.0 {
        return "0".to_string();
    }
    if !(1e-3..1e13).contains(&largest) {
        let power = largest.log10().floor();
        let (mantissa, step) = (value / 10f64.powf(power), step / 10f64.powf(power));
        return minus(&format!("{mantissa:.*}e{power}", decimals(step)));
    }
    let (unit, letter) = found.unwrap_or((1.0, ""));
    minus(&format!("{:.*}{letter}", decimals(step / unit), value / unit))
}

/// Digits after the point that tell multiples of `step` apart.
fn decimals(step: f64) -> usize {
    let is_whole = |x: f64| x > 0.5 && (x - x.round()).abs() < 1e-6;
    (0..12).find(|digits| is_whole(step * 10f64.powi(*digits))).unwrap_or(0) as usize
}

fn minus(text: &str) -> String {
    text.replace('-', "−")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(axis: &Axis, expected: &[&str]) {
        let labels: Vec<&str> = axis.ticks.iter().map(|tick| tick.label.as_str()).collect();
        assert_eq!(labels, expected);
        assert!(axis.ticks.iter().all(|tick| (-1e-6..=1.0 + 1e-6).contains(&axis.place(tick.value))));
    }

    #[test]
    fn ticks_are_round_numbers() {
        check(&Axis::along(&[10.0, 1000.0], 5), &["0", "200", "400", "600", "800", "1000"]);
        check(&Axis::along(&[500.0, 50_000.0], 5), &["0", "10k", "20k", "30k", "40k", "50k"]);
        check(&Axis::along(&[1e5, 3e6], 6), &["0", "0.5M", "1.0M", "1.5M", "2.0M", "2.5M", "3.0M"]);
        check(&Axis::around(&[3.41, 3.58], Scale::Linear, 4), &["3.45", "3.50", "3.55"]);
        check(&Axis::around(&[-1.0, 1.0], Scale::Linear, 4), &["−1.0", "−0.5", "0", "0.5", "1.0"]);
        check(&Axis::around(&[1e-5, 3e-4], Scale::Linear, 4), &["0", "1e−4", "2e−4", "3e−4"]);
    }

    #[test]
    fn log_ticks_are_dense_enough() {
        check(&Axis::around(&[0.5, 40.0], Scale::Log, 5), &["0.5", "1", "2", "5", "10", "20"]);
        check(&Axis::around(&[1e-4, 3e3], Scale::Log, 4), &["1e−4", "0.001", "0.01", "0.1", "1", "10", "100", "1000"]);
        check(&Axis::around(&[3.0, 4.0], Scale::Log, 5), &["3.0", "3.2", "3.4", "3.6", "3.8", "4.0"]);
    }

    #[test]
    fn any_values_give_an_axis() {
        for values in [&[][..], &[0.0], &[5.0, 5.0], &[f64::NAN, f64::INFINITY], &[-3.0], &[1e300, 1e-300]] {
            for scale in [Scale::Linear, Scale::Log] {
                let axis = Axis::around(values, scale, 5);
                assert!(axis.low < axis.high && !axis.ticks.is_empty(), "{values:?} {axis:?}");
            }
        }
    }
}
