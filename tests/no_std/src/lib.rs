//! Proof that the library needs no `std`: a panic handler can be defined once only, and `std` has one, so
//! this compiles only as long as nothing below links it. Built by `.ci/run`; it is not meant to run.

#![no_std]

pub use nutfilter::{Filter, FilterResponse, SortedHashes};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo<'_>) -> ! {
    loop {}
}
