#![no_main]
use libfuzzer_sys::fuzz_target;
use nutfilter_harness::wallet_files::Case;

fuzz_target!(|case: Case<'_>| case.check());
