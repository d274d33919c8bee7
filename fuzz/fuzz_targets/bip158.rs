#![no_main]
use libfuzzer_sys::fuzz_target;
use nutfilter_harness::bip158::Case;

fuzz_target!(|case: Case<'_>| case.check());
