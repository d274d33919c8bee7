//! Gives the shared library a name for the loader, which cargo-c does by itself.

fn main() {
    let is_linux = std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux");
    if is_linux && std::env::var_os("CARGO_FEATURE_CAPI").is_none() {
        println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libnutfilter_c.so.0");
    }
}
