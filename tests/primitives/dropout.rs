//! The statistics of the dropout mask: the rate, and no visible dependence between tokens, rows, heads or seeds.

use energyc::primitives::dropout::Dropout;

const TOKENS: u32 = 2048;

fn row(mask: &Dropout, head: u32, row: u32) -> Vec<f64> {
    let key = mask.row_key(head, row);
    (0..TOKENS).map(|token| f64::from(u8::from(mask.keeps(key, token)))).collect()
}

/// The correlation of two 0/1 sequences in units of its standard deviation under independence.
fn z_score(a: impl Iterator<Item = f64>, b: impl Iterator<Item = f64>, keep: f64) -> f64 {
    let (sum, n) = a.zip(b).fold((0.0, 0.0), |(s, n), (x, y)| (s + (x - keep) * (y - keep), n + 1.0_f64));
    sum / (keep * (1.0 - keep) * n.sqrt())
}

#[test]
fn factors_and_the_rate() {
    for rate in [0.0, 0.01, 0.1, 0.25, 0.5, 0.9, 0.999] {
        for seed in [0, 1, 2, u64::MAX, 0x1234_5678_9abc_def0] {
            let mask = Dropout::new(seed, rate);
            let (mut dropped, mut sum, mut n) = (0.0, 0.0, 0.0);
            for head in 0..4 {
                for row in 0..64 {
                    for token in 0..TOKENS {
                        let f = mask.factor(head, row, token);
                        assert!(f == 0.0 || f == mask.scale);
                        assert_eq!(f != 0.0, mask.keeps(mask.row_key(head, row), token));
                        dropped += f64::from(u8::from(f == 0.0));
                        sum += f64::from(f);
                        n += 1.0;
                    }
                }
            }
            let deviation = (rate * (1.0 - rate) / n).sqrt();
            assert!((dropped / n - rate).abs() <= 4.5 * deviation, "rate {rate}, seed {seed}: {}", dropped / n);
            assert!((sum / n - 1.0).abs() <= 4.5 * deviation / (1.0 - rate) + 1e-6);
        }
    }
    assert!((0..100_000).all(|t| Dropout::new(5, 0.0).factor(0, 0, t) == 1.0));
}

#[test]
fn rows_heads_and_seeds_are_independent() {
    for rate in [0.1, 0.5] {
        let keep = 1.0 - rate;
        let masks = [Dropout::new(0, rate), Dropout::new(1, rate), Dropout::new(1 << 32, rate)];
        let rows: Vec<Vec<f64>> =
            masks.iter().flat_map(|m| (0..6).flat_map(move |h| (0..24).map(move |r| row(m, h, r)))).collect();
        let (mut squares, mut worst, mut pairs) = (0.0, 0.0_f64, 0.0);
        for i in 0..rows.len() {
            for j in 0..i {
                let z = z_score(rows[i].iter().copied(), rows[j].iter().copied(), keep);
                squares += z * z;
                worst = worst.max(z.abs());
                pairs += 1.0;
            }
        }
        println!("rate {rate}: {pairs} pairs, mean z^2 {}, worst |z| {worst}", squares / pairs);
        assert!((squares / pairs - 1.0).abs() < 0.03 && worst < 6.0);
    }
}

#[test]
fn tokens_of_a_row_are_independent() {
    let mask = Dropout::new(99, 0.3);
    for lag in [1, 2, 3, 4, 7, 8, 16, 32, 64, 128, 256, 512] {
        let (mut squares, mut mean, mut n) = (0.0, 0.0, 0.0);
        for r in 0..256 {
            let values = row(&mask, 3, r);
            let z = z_score(values.iter().copied(), values[lag..].iter().copied(), 0.7);
            squares += z * z;
            mean += z;
            n += 1.0_f64;
        }
        let (spread, mean) = (squares / n, mean / n * n.sqrt());
        println!("lag {lag}: mean z^2 {spread:.3}, mean z {mean:.2}");
        assert!((spread - 1.0).abs() < 0.4 && mean.abs() < 4.5, "lag {lag}");
    }
    // The same column of consecutive rows, and of consecutive heads.
    for token in [0, 1, 1000] {
        let column = |shift: u32| (0..20_000).map(move |r| f64::from(mask.factor(0, r + shift, token) * 0.7).round());
        let heads = |shift: u32| (0..20_000).map(move |h| f64::from(mask.factor(h + shift, 5, token) * 0.7).round());
        assert!(z_score(column(0), column(1), 0.7).abs() < 4.5);
        assert!(z_score(heads(0), heads(1), 0.7).abs() < 4.5);
    }
}

#[test]
fn row_sums_are_binomial() {
    // The number of kept tokens per row has the spread of independent draws: neither too even nor too uneven.
    let mask = Dropout::new(4242, 0.4);
    let (mut squares, rows) = (0.0, 4000);
    for r in 0..rows {
        let kept: f64 = row(&mask, 1, r).iter().sum();
        let n = f64::from(TOKENS);
        squares += (kept - 0.6 * n).powi(2) / (n * 0.24);
    }
    let spread = squares / f64::from(rows);
    println!("spread of row sums: {spread}");
    assert!((spread - 1.0).abs() < 0.1);
}

#[test]
fn keys_do_not_collide_early() {
    let mask = Dropout::new(17, 0.1);
    let mut keys: Vec<u32> = (0..64).flat_map(|h| (0..512).map(move |r| mask.row_key(h, r))).collect();
    keys.sort_unstable();
    keys.dedup();
    // 32768 keys: 0.125 collisions expected.
    assert!(keys.len() >= 32768 - 2);
}

#[test]
#[should_panic]
fn a_rate_of_1_is_refused() {
    Dropout::new(0, 1.0);
}
