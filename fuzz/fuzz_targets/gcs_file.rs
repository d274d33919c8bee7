#![no_main]
use libfuzzer_sys::fuzz_target;
use nutfilter_harness::gcs_file::Case;

fuzz_target!(|case: Case<'_>| case.check());
