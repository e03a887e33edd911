//! The primitives of kernels against the standard library, bisection in f64, residuals, statistics and definitions.

#[path = "primitives/decay.rs"]
mod decay;
#[path = "primitives/dropout.rs"]
mod dropout;
#[path = "primitives/lanes.rs"]
mod lanes;
#[path = "primitives/real.rs"]
mod real;
#[path = "primitives/smooth.rs"]
mod smooth;
#[path = "primitives/solve.rs"]
mod solve;
#[path = "primitives/threshold.rs"]
mod threshold;
