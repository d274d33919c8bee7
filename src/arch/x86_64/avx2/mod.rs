//! Kernels for AVX2, a file for each subject.

mod hash;
pub(crate) mod lanes;
