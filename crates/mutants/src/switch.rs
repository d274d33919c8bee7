//! What asks, in the library, whether a mutant is chosen.

use anyhow::Result;
use syn::spanned::Spanned;

use crate::positions::Positions;

/// Added to the library's root. The question is put in `const fn` as well: there it is answered by `no`, until the
/// function is called at run time, which only a compiler's intrinsic can tell apart.
const SWITCH: &str = r#"
#[doc(hidden)]
#[allow(warnings)]
pub(crate) mod mutant_switch {
    extern crate std;
    use core::sync::atomic::{AtomicU32, Ordering};

    static CHOSEN: AtomicU32 = AtomicU32::new(0);

    pub(crate) const fn is(number: u32) -> bool {
        core::intrinsics::const_eval_select((number,), at_compile_time, at_run_time)
    }

    const fn at_compile_time(_: u32) -> bool {
        false
    }

    #[inline(always)]
    fn at_run_time(number: u32) -> bool {
        CHOSEN.load(Ordering::Relaxed) == number
    }

    // Before `main`, so that a question costs a load and no more.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static CHOOSE: extern "C" fn() = {
        extern "C" fn choose() {
            let chosen = std::env::var("MUTANT").ok().and_then(|number| number.parse().ok());
            CHOSEN.store(chosen.unwrap_or(0), Ordering::Relaxed);
        }
        choose
    };
}
"#;

const FEATURES: &str =
    "\n#![allow(internal_features)]\n#![feature(core_intrinsics, const_eval_select)]\n";

/// The library's root with the switch.
pub(crate) fn added_to(root: &str) -> Result<String> {
    let positions = Positions::of(root);
    let last = syn::parse_file(root)?
        .attrs
        .last()
        .map_or(0, |attribute| positions.bytes(attribute.span()).end);
    Ok(format!(
        "{}{FEATURES}{}{SWITCH}",
        &root[..last],
        &root[last..]
    ))
}
