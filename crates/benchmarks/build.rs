//! What a record says of the build: known to the build script alone.

use std::process::Command;

fn main() {
    let variable = |name: &str| std::env::var(name).unwrap_or_default();
    let version = Command::new(variable("RUSTC")).arg("--version").output();
    let version = version.map_or_else(
        |error| format!("unknown: {error}"),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    );
    println!("cargo::rustc-env=BUILT_WITH={version}");
    println!("cargo::rustc-env=BUILT_FOR={}", variable("TARGET"));
    println!("cargo::rustc-env=BUILT_OPT_LEVEL={}", variable("OPT_LEVEL"));
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    println!("cargo::rustc-env=BUILT_WITH_FLAGS={flags}");
    println!("cargo::rerun-if-changed=build.rs");
}
