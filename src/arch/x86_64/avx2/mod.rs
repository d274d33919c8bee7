//! Kernels for AVX2, a file for each subject.

mod encode;
mod hash;
pub(crate) mod lanes;
mod side_by_side;
