//! Opens `nutfilter::internals` for the tests and benchmarks of this repository.
//!
//! `.cargo/config.toml` sets the variable. The published package does not contain this script.

fn main() {
    println!("cargo::rerun-if-env-changed=NUTFILTER_INTERNALS");
    if std::env::var("NUTFILTER_INTERNALS").is_ok_and(|value| value == "1") {
        println!("cargo::rustc-cfg=nutfilter_internals");
    }
}
