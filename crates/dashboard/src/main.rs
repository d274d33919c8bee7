//! The command line of `nutfilter-dashboard`.
fn main() {}
