#![no_main]
use libfuzzer_sys::fuzz_target;
use nutfilter_harness::resident::Case;

fuzz_target!(|case: Case<'_>| case.check());
