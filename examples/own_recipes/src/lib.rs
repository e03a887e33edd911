//! Four energies nobody shipped, each a module with a kernel: `forward`, `backward`, `energy`, `energy_backward`.

#![allow(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
