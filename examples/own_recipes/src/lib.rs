//! Four energies nobody shipped, each a module with a kernel: `forward`, `backward`, `energy`.

#![allow(unsafe_code)]

include!(concat!(env!("OUT_DIR"), "/recipes.rs"));
