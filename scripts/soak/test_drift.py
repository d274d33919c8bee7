"""The checks of a process and of what happened to it, with leaks and unexplained failures planted."""

import json
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import drift  # noqa: E402
import events  # noqa: E402
from journal import Journal  # noqa: E402
from side import Side, Windows  # noqa: E402

KEYSET = "00deadbeefc0ffee"
NOTE = b"\2" + bytes(31) + b"\1"


def proc_samples(code, seconds, interval=0.1):
    """Samples of a process that runs this code."""
    samples, start = [], time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE)
    try:
        time.sleep(0.3)
        while time.monotonic() - start < seconds:
            samples.append({"at": time.monotonic(), "notes": 1000, "sets": 2, **drift.sample(process.pid)})
            time.sleep(interval)
    finally:
        process.stdin.close()
        process.kill()
        process.wait()
    return samples


class Drift(unittest.TestCase):
    def judged(self, code, seconds=2.5):
        spans, drift.LEAST_SECONDS = drift.LEAST_SECONDS, 2
        self.addCleanup(setattr, drift, "LEAST_SECONDS", spans)
        return drift.judge(proc_samples(code, seconds), short=1, long=1)[0]

    def test_a_process_that_keeps_what_it_has_is_well(self):
        self.assertEqual(self.judged("import time\nwhile True: time.sleep(.02); open('/dev/null').close()"), [])

    def test_a_process_that_leaks_descriptors_is_found(self):
        findings = self.judged("import time\nkept=[]\nwhile True: time.sleep(.05); kept.append(open('/dev/null'))")
        self.assertRegex(" ".join(findings), "^files grow")

    def test_a_process_that_leaks_sockets_is_found(self):
        findings = self.judged("import time,socket\nkept=[]\nwhile True: time.sleep(.05); kept.append(socket.socket())")
        self.assertRegex(" ".join(findings), "^sockets grow")

    def test_a_process_that_leaks_memory_is_found(self):
        findings = self.judged("import time\nkept=[]\nwhile True: time.sleep(.02); kept.append(b'x' * 200_000)")
        self.assertRegex(" ".join(findings), "anonymous memory grows")

    def test_a_process_that_leaks_threads_is_found(self):
        findings = self.judged("import time,threading\nwhile True: time.sleep(.1); "
                               "threading.Thread(target=time.sleep, args=(99,), daemon=True).start()")
        self.assertRegex(" ".join(findings), "threads grow")

    def rows(self, anonymous, notes=lambda at: 1000, **more):
        return [{"at": at, "notes": notes(at), "sets": 2, "anonymous": anonymous(at), "file": 0, "files": 9,
                 "sockets": 5, "threads": 4, "maps": 70, **more} for at in range(0, 900, 5)]

    def test_one_mebibyte_a_minute_is_found_below_noise_and_spikes(self):
        def leaking(at):
            return (20 << 20) + at * (1 << 20) // 60 + (at * 7919 % 5 << 20) + (40 << 20) * (at % 100 == 0)
        self.assertRegex(" ".join(drift.judge(self.rows(leaking))[0]), "anonymous memory grows: by 1")
        self.assertEqual(drift.judge(self.rows(lambda at: leaking(at) - at * (1 << 20) // 60))[0], [])

    def test_what_is_open_for_a_moment_is_no_drift(self):
        rows = self.rows(lambda at: 20 << 20)
        for row in rows:
            row["files"] += int(row["at"] // 10) * (row["at"] % 30 > 5)
        self.assertEqual(drift.judge(rows)[0], [])
        for row in rows:
            row["files"] += int(row["at"] // 200)
        self.assertRegex(drift.judge(rows)[0][0], "files grow")

    def test_what_the_notes_need_is_allowed(self):
        rows = self.rows(lambda at: (20 << 20) + 20 * 1000 * at, lambda at: 300_000 + 1000 * at)
        self.assertEqual(drift.judge(rows)[0], [])

    def test_more_than_is_promised_is_found_in_any_life(self):
        self.assertRegex(drift.judge(self.rows(lambda at: 90 << 20)[:2])[0][0], "90 MiB of anonymous memory")

    def test_a_data_directory_that_is_too_large_is_found(self):
        rows = self.rows(lambda at: 1 << 20, data_bytes=9 << 20, data_files=9999)
        findings = drift.judge(rows)[0]
        self.assertRegex(findings[0], "9 MiB in the data directory")
        self.assertRegex(findings[1], "9999 files")

    def test_the_slope_is_that_of_most_points(self):
        points = [(x, 3 * x + 1) for x in range(50)]
        points[7] = (7, 10_000)
        self.assertAlmostEqual(drift.theil_sen(points), 3, 3)

    def test_counters_that_decrease_or_vanish_are_found(self):
        before = drift.counters('a_total{x="1"} 5\nb_bucket{le="1"} 3\nc 9\n')
        self.assertEqual(before, {'a_total{x="1"}': 5, 'b_bucket{le="1"}': 3})
        self.assertEqual(drift.counted_backwards(before, before), [])
        self.assertEqual(len(drift.counted_backwards(before, {'a_total{x="1"}': 4})), 2)

    def test_answers_of_500_are_found_in_the_metrics(self):
        self.assertEqual(drift.server_errors({'nutfilter_http_requests_total{route="x",status="503"}': 2.0}), [])
        self.assertEqual(len(drift.server_errors({'nutfilter_http_requests_total{route="x",status="500"}': 2.0})), 1)


class Explanations(unittest.TestCase):
    def side(self, log=""):
        side = Side.__new__(Side)
        side.name, side.findings, side.errors, side.explained = "test", [], [], {}
        side.aways, side.troubles = Windows(), Windows()
        journal = Journal()
        journal.keyset(KEYSET, 0)
        journal.begin_add({("spent", KEYSET): [NOTE]}, 1)
        side.mint = types.SimpleNamespace(journal=journal)
        side.found = []
        side.find = side.found.append
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        side.work = pathlib.Path(directory.name)
        (side.work / "log").write_text(log)
        return side

    def test_a_failed_request_is_explained_by_what_was_going_on_and_by_nothing_else(self):
        side = self.side()
        side.aways.spans.append([100, 105, "kill"])
        side.errors = [("error", "refused", 101, 102), ("error", "reset", 90, 100.5), ("error", "reset", 110, 111)]
        side.judge_errors()
        self.assertEqual(side.explained, {"refused (kill)": 1, "reset (kill)": 1, "reset": 1})
        self.assertEqual(len(side.found), 1)

    def line(self, level, message, at="2026-01-01T00:00:00Z"):
        return json.dumps({"timestamp": at, "level": level, "fields": {"message": message}}) + "\n"

    def test_errors_in_the_log_have_to_be_explained(self):
        side = self.side(self.line("ERROR", "refresh failed; x") + self.line("WARN", "odd"))
        self.assertEqual(side.judge_log(), {"ERROR: refresh failed": 1, "WARN: odd": 1})
        self.assertEqual(len(side.found), 1)
        side.found.clear()
        side.troubles.spans.append([1767225600 - 5, 1767225600 + 5, "stopped"])
        side.judge_log()
        self.assertEqual(side.found, [])

    def test_a_panic_a_note_and_what_is_no_line_are_found_in_the_log(self):
        side = self.side(self.line("WARN", "a handler panicked") + self.line("INFO", NOTE[1:].hex()) + "thread 'x'\n")
        side.judge_log()
        self.assertEqual(len(side.found), 3)

    def test_reading_everything_again_has_to_be_explained(self):
        side = self.side(self.line("WARN", "rereading the full database"))
        side.judge_log()
        self.assertEqual(len(side.found), 1)
        side.found.clear()
        side.troubles.spans.append([1767225600 - 9, 1767225600 - 4, "vacuum"])
        side.judge_log()
        self.assertEqual(side.found, [])

    def test_keysets_that_nobody_made_are_found(self):
        side = self.side()
        side.heard("keysets", {"listed": [KEYSET], "seen": 5})
        self.assertEqual(side.found, [])
        side.heard("keysets", {"listed": [KEYSET, "00aa"], "seen": 5})
        self.assertEqual(len(side.found), 1)


class Plans(unittest.TestCase):
    def test_a_seed_decides_the_plan(self):
        ends, others = [events.kill], [events.hangups, events.restored]
        plans = [events.plan(seed, 3600, ends, others) for seed in (1, 1, 2)]
        self.assertEqual(plans[0], plans[1])
        self.assertNotEqual(plans[0], plans[2])

    def test_an_hour_has_lives_of_more_than_ten_minutes(self):
        for offset in (0, 1):
            planned = events.plan(1, 3600, [events.kill], [events.hangups], offset)
            kills = [0] + [at for at, event in planned if event is events.kill] + [3600]
            longest = sorted(b - a for a, b in zip(kills, kills[1:]))[-3:]
            self.assertGreater(longest[0], 600)
            self.assertGreater(len(kills), 20)

    def test_a_minute_has_some_of_each(self):
        planned = events.plan(1, 60, [events.kill], [events.hangups])
        self.assertGreaterEqual(sum(event is events.kill for _, event in planned), 2)
        self.assertGreaterEqual(sum(event is events.hangups for _, event in planned), 3)


if __name__ == "__main__":
    unittest.main()
