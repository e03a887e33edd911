//! Where the values of a loop lie.
//!
//! Which array a value is in, and how its entries move from row to row and from token to token, is looked up once for
//! all runs of a loop: a run is short, and to look for its operands would take longer than to compute with them.

use crate::ir::{Leaf, Role, rational::to_f64};
use crate::plan::graph::{Graph, Id, Op};
use crate::plan::schedule::{Domain, Place};
use crate::primitives::real::Real;

/// Where a loop stands, and how many entries the run has from there on.
#[derive(Clone, Copy, Debug)]
pub struct At {
    /// Of the block's.
    pub row: usize,
    /// Of all.
    pub query: usize,
    pub token: usize,
    /// The first token of the block.
    pub first: usize,
    pub length: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Array {
    Input(usize),
    Store(usize),
    Decay(usize),
    Kept,
}

/// How many entries a run of a loop has of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    One,
    /// As many as the run is long.
    Run,
    /// One per component.
    Head,
    /// One per token, of a run that has all components of every token.
    Tokens,
}

/// The entries of an array that a loop has before it: from
/// `row·per_row + query·per_query + token·per_token − first·per_first` on.
#[derive(Clone, Copy, Debug)]
pub struct Entries {
    pub array: Array,
    pub per_row: usize,
    pub per_query: usize,
    per_token: usize,
    per_first: usize,
    pub extent: Extent,
}

impl Entries {
    #[inline(always)]
    pub fn start(&self, at: &At) -> usize {
        at.row * self.per_row + at.query * self.per_query + at.token * self.per_token - at.first * self.per_first
    }

    #[inline(always)]
    pub fn length(&self, at: &At, head: usize) -> usize {
        match self.extent {
            Extent::One => 1,
            Extent::Run => at.length,
            Extent::Head => head,
            Extent::Tokens => at.length / head.max(1),
        }
    }
}

/// What a loop reads.
#[derive(Clone, Copy, Debug)]
pub enum Source<T> {
    Number(T),
    Register(usize),
    Stored(Entries),
}

/// The arrays of a pass.
#[derive(Debug)]
pub struct Sources<'p> {
    pub graph: &'p Graph,
    /// What the machine has a store for each.
    pub places: Vec<Place>,
    /// The store of every node that has one.
    pub store_of: Vec<Option<usize>>,
    pub decays: Vec<Id>,
    pub has_dropout: bool,
    pub head: usize,
    /// Entries from one row of a tile to the next.
    pub pitch: usize,
}

impl Sources<'_> {
    fn role(&self, id: Id) -> Option<Role> {
        match &self.graph[id].op {
            Op::Input(Leaf { role, .. }) => Some(*role),
            _ => None,
        }
    }

    pub fn is_visibility(&self, id: Id) -> bool {
        self.role(id) == Some(Role::Visible)
    }

    pub fn is_decay(&self, id: Id) -> bool {
        self.role(id) == Some(Role::Decay)
    }

    /// Whether a store has only the rows of a block.
    pub fn is_local(&self, store: usize) -> bool {
        matches!(self.places[store], Place::Buffer(..))
    }

    /// What is not in a register, for a loop over a domain.
    pub fn stored<T: Real>(&self, id: Id, domain: Domain) -> Source<T> {
        match &self.graph[id].op {
            Op::Number(x) => Source::Number(T::of(to_f64(x))),
            Op::Input(Leaf { role: Role::Visible, .. }) => Source::Number(T::ONE),
            Op::Input(Leaf { role: Role::Kept, .. }) if !self.has_dropout => Source::Number(T::ONE),
            _ => Source::Stored(self.entries(id, domain)),
        }
    }

    /// The numbers that the tokens of a loop over pairs and components have side by side.
    pub fn per_token<T: Real>(&self, id: Id) -> Source<T> {
        match self.stored(id, Domain::Tile) {
            Source::Stored(_) => Source::Stored(self.entries_per_token(id)),
            number => number,
        }
    }

    /// Where they lie.
    pub fn entries_per_token(&self, id: Id) -> Entries {
        Entries { extent: Extent::Tokens, ..self.entries(id, Domain::Tile) }
    }

    /// Where the entries of a stored node lie, for a loop over a domain.
    pub fn entries(&self, id: Id, domain: Domain) -> Entries {
        let array = match (self.store_of[id.index()], self.role(id)) {
            (Some(store), _) => Array::Store(store),
            (None, Some(Role::Decay)) => Array::Decay(self.decays.iter().position(|d| *d == id).unwrap_or(0)),
            (None, Some(Role::Kept)) => Array::Kept,
            (None, _) => Array::Input(id.index()),
        };
        let is_local = matches!(array, Array::Store(store) if self.is_local(store));
        let fixed = Entries { array, per_row: 0, per_query: 0, per_token: 0, per_first: 0, extent: Extent::One };
        let by_row = |entries: usize| match is_local {
            true => Entries { per_row: entries, ..fixed },
            false => Entries { per_query: entries, ..fixed },
        };
        let is_along_tokens = matches!(domain, Domain::Key | Domain::Tile);
        let of_tokens = if is_along_tokens { Extent::Run } else { Extent::One };
        match Domain::of(self.graph.axes(id)) {
            Domain::Scalar => fixed,
            Domain::Vector => Entries { extent: Extent::Head, ..fixed },
            Domain::Row => by_row(1),
            Domain::RowVector => Entries { extent: Extent::Head, ..by_row(self.head) },
            Domain::Key => Entries { per_token: 1, extent: of_tokens, ..fixed },
            Domain::KeyVector => Entries { per_token: self.head, extent: Extent::Run, ..fixed },
            Domain::Tile | Domain::Triple => {
                Entries { per_row: self.pitch, per_token: 1, per_first: 1, extent: of_tokens, ..fixed }
            }
        }
    }
}
