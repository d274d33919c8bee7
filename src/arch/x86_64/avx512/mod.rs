//! Kernels for AVX-512, a file for each subject.

mod lookup;

pub(crate) use lookup::{ABSENT, FOUND};
