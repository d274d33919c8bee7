#![no_main]
use libfuzzer_sys::fuzz_target;
use nutfilter_harness::keyset_path::Case;

fuzz_target!(|case: Case<'_>| case.check());
