//! Named axes: which directions a value extends in.
//!
//! An axis is a *space* (how long it is) and an *index* (which copy of that space). Index 0 is the free axis of a
//! result, the one a reader would leave unwritten; binders (`sum`, `smoothmax`) use indices from 1 up, so a factor
//! that carries the result's axis can always be moved under a binder without capture. There is one query axis.

use std::fmt;

/// A kind of axis; its length is a size symbol of the language.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Space {
    /// The token being moved (`t`); as many as there are queries.
    Query,
    /// Attended tokens (`n`), of which each query sees its own visible subset.
    Token,
    /// Components inside one head (`e`), `d_h` long.
    Head,
    /// Components of the model's token (`c`), `d` long.
    Model,
}

impl Space {
    pub const ALL: [Space; 4] = [Space::Query, Space::Token, Space::Head, Space::Model];

    fn letter(self) -> char {
        match self {
            Space::Query => 't',
            Space::Token => 'n',
            Space::Head => 'e',
            Space::Model => 'c',
        }
    }

    /// What a person calls the axis in a message.
    pub fn describe(self) -> &'static str {
        match self {
            Space::Query => "queries",
            Space::Token => "attended tokens",
            Space::Head => "components",
            Space::Model => "model components",
        }
    }
}

/// One named axis.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Axis {
    pub space: Space,
    pub index: u8,
}

/// Highest index an axis may have; terms with more axes of one space at once do not occur.
const MAX_INDEX: u8 = 15;

impl Axis {
    pub const T: Axis = Axis::new(Space::Query, 0);
    pub const N: Axis = Axis::new(Space::Token, 0);
    pub const E: Axis = Axis::new(Space::Head, 0);
    pub const C: Axis = Axis::new(Space::Model, 0);

    pub const fn new(space: Space, index: u8) -> Axis {
        Axis { space, index }
    }

    fn bit(self) -> u64 {
        debug_assert!(self.index <= MAX_INDEX);
        1 << (self.space as u64 * 16 + self.index as u64)
    }

    /// Parses what `Display` prints.
    pub fn parse(text: &str) -> Option<Axis> {
        let mut chars = text.chars();
        let letter = chars.next()?;
        let space = Space::ALL.into_iter().find(|s| s.letter() == letter)?;
        let rest = chars.as_str();
        let index = if rest.is_empty() { 0 } else { rest.parse().ok()? };
        (index <= MAX_INDEX).then_some(Axis { space, index })
    }
}

impl fmt::Display for Axis {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.index {
            0 => write!(f, "{}", self.space.letter()),
            i => write!(f, "{}{i}", self.space.letter()),
        }
    }
}

/// A set of axes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct AxisSet(u64);

impl AxisSet {
    pub const EMPTY: AxisSet = AxisSet(0);

    pub fn of(axes: &[Axis]) -> AxisSet {
        axes.iter().fold(AxisSet::EMPTY, |set, &a| set.with(a))
    }
    pub fn contains(self, axis: Axis) -> bool {
        self.0 & axis.bit() != 0
    }
    pub fn with(self, axis: Axis) -> AxisSet {
        AxisSet(self.0 | axis.bit())
    }
    pub fn without(self, axis: Axis) -> AxisSet {
        AxisSet(self.0 & !axis.bit())
    }
    pub fn union(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 | other.0)
    }
    pub fn intersection(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & other.0)
    }
    pub fn minus(self, other: AxisSet) -> AxisSet {
        AxisSet(self.0 & !other.0)
    }
    pub fn is_subset(self, other: AxisSet) -> bool {
        self.0 & !other.0 == 0
    }
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
    pub fn has_space(self, space: Space) -> bool {
        self.iter().any(|a| a.space == space)
    }
    /// The members in order: queries, tokens, head components, model components.
    pub fn iter(self) -> impl Iterator<Item = Axis> {
        Space::ALL
            .into_iter()
            .flat_map(|space| (0..=MAX_INDEX).map(move |index| Axis { space, index }))
            .filter(move |a| self.contains(*a))
    }
    /// The smallest bound index (≥ 1) of `space` that is not in the set.
    pub fn fresh(self, space: Space) -> Axis {
        (1..=MAX_INDEX)
            .map(|index| Axis { space, index })
            .find(|a| !self.contains(*a))
            .expect("fewer than fifteen axes of one space are in scope")
    }
}

impl fmt::Display for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        let names: Vec<String> = self.iter().map(|a| a.to_string()).collect();
        write!(f, "[{}]", names.join(","))
    }
}
