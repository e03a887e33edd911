//! Where single precision has a hard time: inputs from a thousandth to ten thousand, and awkward places.

use crate::point::Point;
use crate::random::Random;
use std::fmt;

/// How large the tokens of a point are, and what is special about them.
#[derive(Clone, Copy, Debug)]
pub struct Spot {
    scale: f64,
    place: Place,
}

/// What is special about a point, beside its scale.
#[derive(Clone, Copy, Debug)]
enum Place {
    Ordinary,
    AllTokensEqual,
    OneHugeToken,
    ZeroQuery,
    ZeroTokens,
}

const PLACES: [Place; 8] = [
    Place::Ordinary,
    Place::Ordinary,
    Place::Ordinary,
    Place::Ordinary,
    Place::AllTokensEqual,
    Place::OneHugeToken,
    Place::ZeroQuery,
    Place::ZeroTokens,
];

const SCALES: [f64; 8] = [1e-3, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e3, 1e4];

impl Spot {
    pub fn draw(random: &mut Random) -> Spot {
        Spot { scale: random.pick(&SCALES), place: random.pick(&PLACES) }
    }

    pub fn put(self, point: &mut Point) {
        let width = point.sizes.head;
        [&mut point.q, &mut point.k, &mut point.v].into_iter().flatten().for_each(|x| *x *= self.scale);
        match self.place {
            Place::Ordinary => {}
            Place::AllTokensEqual => [&mut point.k, &mut point.v].into_iter().for_each(|x| make_equal(x, width)),
            Place::OneHugeToken => make_huge(&mut point.k, width),
            Place::ZeroQuery => point.q.fill(0.0),
            Place::ZeroTokens => point.k.fill(0.0),
        }
    }
}

impl fmt::Display for Spot {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "scale {:e}, {:?}", self.scale, self.place)
    }
}

fn make_equal(tokens: &mut [f64], width: usize) {
    let first = tokens[..width].to_vec();
    tokens.chunks_exact_mut(width).for_each(|token| token.copy_from_slice(&first));
}

/// The last token a hundred times as large.
fn make_huge(tokens: &mut [f64], width: usize) {
    let last = tokens.len() - width;
    tokens[last..].iter_mut().for_each(|x| *x *= 100.0);
}
