//! Kernels for AVX-512, a file for each subject.

mod encode;
mod hash;
pub(crate) mod lanes;
pub(crate) mod side_by_side;
mod sort;
