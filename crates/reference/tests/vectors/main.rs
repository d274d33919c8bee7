//! Vectors that others published, and those of the Python implementation.

mod published_vectors;
mod python_vectors;
