//! Kernels for AVX-512, a file for each subject.

mod encode;
mod hash;
pub(crate) mod lanes;
mod side_by_side;
mod sort;
