"""What fuzzers say, cut where processes end."""

import unittest

from libfuzzer import Options, Said

GOOD = """INFO: Running with entropic power schedule (0xFF, 100).
INFO: Seed: 5
INFO: Loaded 1 modules   (12087 inline 8-bit counters): 12087 [0x55df8b26d850, 0x55df8b270787), 
INFO:        6 files found in fuzz/seeds/response
INFO: seed corpus: files: 6 min: 38b max: 117b total: 374b rss: 33Mb
#2\tpulse  cov: 40 ft: 41 exec/s: 0 rss: 36Mb
#7\tINITED cov: 884 ft: 1172 corp: 6/374b exec/s: 0 rss: 38Mb
#8\tNEW    cov: 950 ft: 1322 corp: 7/439b lim: 117 exec/s: 0 rss: 38Mb L: 65/117 MS: 1 ChangeBinInt-
#4096\tpulse  cov: 951 ft: 1323 corp: 8/17Kb lim: 4096 exec/s: 2048 rss: 60Mb
#18812\tDONE   cov: 1569 ft: 2880 corp: 371/1Mb lim: 4096 exec/s: 6270 rss: 88Mb
Done 18812 runs in 3 second(s)
stat::number_of_executed_units: 18812
stat::average_exec_per_sec:     6270
stat::new_units_added:          720
stat::slowest_unit_time_sec:    4
stat::peak_rss_mb:              89
"""

PANIC = """#8\tNEW    cov: 950 ft: 1322 corp: 7/439b lim: 117 exec/s: 0 rss: 38Mb L: 65/117 MS: 1 ChangeBinInt-

thread '<unnamed>' (4242) panicked at src/decode/scan.rs:120:9:
assertion failed: 17 <= 12
stack backtrace:
==4242== ERROR: libFuzzer: deadly signal
    #0 0x55e0 in __sanitizer_print_stack_trace /rustc/llvm/src/asan_stack.cpp:87:3
    #1 0x55e1 in fuzzer::PrintStackTrace() /cargo/libfuzzer/FuzzerUtil.cpp:210:38
    #2 0x7f02  (/lib/x86_64-linux-gnu/libc.so.6+0x3c04f) (BuildId: 2e)
    #3 0x55e4 in std::process::abort /rustc/lib/std/src/process.rs:2:1
    #4 0x55e5 in nutfilter::decode::scan::take::h0123456789abcdef /home/somebody/src/decode/scan.rs:120:9
SUMMARY: libFuzzer: deadly signal
MS: 1 ChangeBit-; base unit: adc83b19e793491b1c6ea0fd8b46cd9f32e592fc
0x50,0x31,
artifact_prefix='fuzz/'; Test unit written to fuzz/crash-adc83b19e793491b1c6ea0fd8b46cd9f32e592fc
Base64: UDE=
"""

TIMEOUT = """ALARM: working on the last Unit for 10 seconds
       and the timeout value is 10 (use -timeout=N to change)
artifact_prefix='new/t/'; Test unit written to new/t/timeout-adc83b19e793491b1c6ea0fd8b46cd9f32e592fc
==99== ERROR: libFuzzer: timeout after 10 seconds
    #0 0x55e0 in __sanitizer_print_stack_trace /rustc/llvm/src/asan_stack.cpp:87:3
    #1 0x55e5 in nutfilter::decode::turns /home/somebody/src/decode/mod.rs:7:1
    #2 0x55e6 in nutfilter_harness::decode::Case::check /home/somebody/crates/harness/src/decode.rs:9:1
    #3 0x55e7 in rust_fuzzer_test_input /cargo/libfuzzer-sys/src/lib.rs:2:1
SUMMARY: libFuzzer: timeout
"""

OUT_OF_MEMORY = """==7== ERROR: libFuzzer: out-of-memory (malloc(3221225472))
   To change the out-of-memory limit use -rss_limit_mb=<N>
    #0 0x55e0 in malloc /rustc/llvm/src/asan_malloc_linux.cpp:67:3
    #1 0x55e4 in alloc::alloc::alloc /rustc/lib/alloc/src/alloc.rs:2:1
    #2 0x55e5 in <nutfilter::filter::Filter>::reserve /home/somebody/src/filter.rs:7:1
SUMMARY: libFuzzer: out-of-memory
artifact_prefix='./'; Test unit written to ./oom-adc83b19e793491b1c6ea0fd8b46cd9f32e592fc
"""


def said(text, piece=None):
    one = Said()
    piece = piece or len(text) or 1
    for start in range(0, len(text), piece):
        one.read(text[start:start + piece])
    one.end()
    return one


class Lines(unittest.TestCase):
    def test_a_round_that_ends_by_itself_is_read_whole_in_pieces_of_any_length(self):
        for piece in (1, 7, 64, None):
            one = said(GOOD, piece)
            self.assertEqual((one.runs, one.edges, one.features, one.files), (18812, 1569, 2880, 371))
            self.assertEqual((one.edges_at_first, one.features_at_first, one.seed), (884, 1172, 5))
            self.assertEqual((one.peak_rss_mb, one.slowest_unit_seconds), (89, 4))
            self.assertEqual(one.artifacts, [])

    def test_a_process_killed_at_any_byte_counts_what_its_whole_lines_say(self):
        runs = {0, 2, 7, 8, 4096, 18812}
        before = 0
        for cut in range(len(GOOD)):
            one = said(GOOD[:cut])
            self.assertIn(one.runs, runs, GOOD[:cut][-40:])
            self.assertIn(one.edges, {None, 40, 884, 950, 951, 1569})
            self.assertGreaterEqual(one.runs, before)
            before = one.runs

    def test_without_statistics_the_last_line_of_progress_counts(self):
        one = said(GOOD[:GOOD.index("#18812")])
        self.assertEqual((one.runs, one.edges, one.statistics), (4096, 951, {}))

    def test_what_the_corpus_had_is_not_new(self):
        one = said(GOOD[:GOOD.index("#7")])
        self.assertEqual((one.edges, one.edges_at_first), (40, None))
        one = said(GOOD[:GOOD.index("#8")])
        self.assertEqual((one.edges, one.edges_at_first), (884, 884))

    def test_nothing_said_is_nothing_counted(self):
        one = said("")
        self.assertEqual((one.runs, one.edges, one.artifacts), (0, None, []))
        self.assertEqual(one.story(), "ended without a word")

    def test_a_first_line_without_coverage_is_read(self):
        one = said("#2\tINITED exec/s: 0 rss: 26Mb\n")
        self.assertEqual((one.runs, one.edges, one.edges_at_first, one.peak_rss_mb), (2, None, 0, 26))


class Finds(unittest.TestCase):
    def test_a_panic_is_known_by_its_place_and_words_without_their_numbers(self):
        one = said(PANIC)
        name = "crash-adc83b19e793491b1c6ea0fd8b46cd9f32e592fc"
        self.assertEqual(one.artifacts, [("crash", f"fuzz/{name}")])
        self.assertEqual(one.signature("crash"), "crash: src/decode/scan.rs:120:9: assertion failed: # <= #")
        self.assertEqual(one.signature("crash"), said(PANIC.replace("17", "4711")).signature("crash"))
        self.assertNotEqual(one.signature("crash"), said(PANIC.replace("120:9", "121:9")).signature("crash"))
        self.assertIn("assertion failed: 17 <= 12", one.story())

    def test_the_first_panic_is_the_cause(self):
        second = PANIC.replace("src/decode/scan.rs:120:9", "core/panicking.rs:1:1").replace("17", "18")
        self.assertEqual(said(PANIC + second).panic, "src/decode/scan.rs:120:9")

    def test_a_timeout_is_known_by_the_nearest_functions_of_ours(self):
        one = said(TIMEOUT)
        self.assertEqual(one.artifacts[0][0], "timeout")
        self.assertEqual(one.signature("timeout"),
                         "timeout: nutfilter::decode::turns < nutfilter_harness::decode::Case::check")

    def test_out_of_memory_is_a_kind_of_its_own(self):
        one = said(OUT_OF_MEMORY)
        self.assertEqual(one.artifacts, [("out of memory", "./oom-adc83b19e793491b1c6ea0fd8b46cd9f32e592fc")])
        self.assertEqual(one.signature("out of memory"), "out of memory: <nutfilter::filter::Filter>::reserve")

    def test_leaks_and_slow_units_are_read(self):
        for beginning, kind in (("leak", "leak"), ("slow-unit", "slow unit")):
            one = said(f"artifact_prefix='./'; Test unit written to ./{beginning}-{'ab' * 20}\n")
            self.assertEqual(one.artifacts, [(kind, f"./{beginning}-{'ab' * 20}")])

    def test_without_frames_the_summary_tells_faults_apart(self):
        one = said("SUMMARY: AddressSanitizer: heap-buffer-overflow (/tmp/decode+0x123)\n")
        other = said("SUMMARY: AddressSanitizer: stack-overflow (/tmp/decode+0x123)\n")
        self.assertNotEqual(one.signature("crash"), other.signature("crash"))

    def test_a_crash_cut_before_its_file_was_named_has_no_file(self):
        one = said(PANIC[:PANIC.index("Test unit") + 40])
        self.assertEqual(one.artifacts, [])
        self.assertEqual(one.panic, "src/decode/scan.rs:120:9")


class OptionFiles(unittest.TestCase):
    def test_flags_of_the_file_win_over_what_is_usual_and_ours_over_both(self):
        options = Options("[libfuzzer]\nmax_len = 4096\ntimeout = 3\ndict = decode.dict\n[nutfilter]\nsmall = 48\nfloor = 5\n")
        arguments = options.arguments(max_len=64, merge=1)
        self.assertIn("-timeout=3", arguments)
        self.assertIn("-max_len=64", arguments)
        self.assertNotIn("-max_len=4096", arguments)
        self.assertFalse([one for one in arguments if one.startswith("-dict")])
        self.assertEqual((options.small, options.weight, options.floor), (48, 1.0, 5))

    def test_no_file_is_what_is_usual(self):
        options = Options()
        self.assertIn("-timeout=10", options.arguments())
        self.assertEqual((options.small, options.weight, options.floor), (64, 1.0, None))


if __name__ == "__main__":
    unittest.main()
