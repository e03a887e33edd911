//! Written in a moment.
