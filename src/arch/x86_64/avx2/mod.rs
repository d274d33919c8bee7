//! Kernels for AVX2, a file for each subject.

pub(crate) mod lanes;
