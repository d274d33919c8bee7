//! Kernels for AVX-512, a file for each subject.
