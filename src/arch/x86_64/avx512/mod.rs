//! Kernels for AVX-512, a file for each subject.

pub(crate) mod lanes;
mod step;
