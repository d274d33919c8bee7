"""Each check of the soak, with something planted for it to find.

    python3 -m unittest discover scripts/soak
"""

import base64
import email.utils
import gzip
import hashlib
import http.server
import json
import pathlib
import subprocess
import sys
import tempfile
import threading
import time
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import answers  # noqa: E402
import drift  # noqa: E402
import events  # noqa: E402
import fetching  # noqa: E402
from answers import Wrong  # noqa: E402
from journal import RECORD, Journal  # noqa: E402
from side import Side, Windows  # noqa: E402
from verify import Verifier  # noqa: E402

KEYSET = "00deadbeefc0ffee"
SPENT = ("spent", KEYSET)
PATH = f"/v1/filter/spent/{KEYSET}"


def note(i):
    return b"\2" + i.to_bytes(32, "big")


def build(records):
    """Stands for a filter: whatever has the same notes in any order is the same."""
    notes = sorted(records[i:i + RECORD] for i in range(0, len(records), RECORD))
    return hashlib.sha256(b"".join(notes)).hexdigest()


def of(*notes):
    return build(b"".join(map(note, notes)))


class AJournal(unittest.TestCase):
    """Notes 0 to 9, one each second from 100 on: number i is there between 100 + i and 100.5 + i."""

    def setUp(self):
        self.journal = Journal()
        self.journal.keyset(KEYSET, 99)
        for i in range(10):
            self.journal.begin_add({SPENT: [note(i)]}, 100 + i)
            self.journal.settle(100.5 + i)
        self.found = []
        self.verifier = Verifier(self.journal, build, findings=self.found.append)

    def check(self, n, sha, timestamp, seen):
        return self.verifier.check({"key": SPENT, "n": n, "sha": sha, "timestamp": timestamp, "seen": seen})

    def test_a_filter_of_its_time_is_right(self):
        self.assertIsNone(self.check(4, of(0, 1, 2, 3), 103, 105))
        self.assertIsNone(self.check(4, of(0, 1, 2, 3), 104, 105))
        self.assertIsNone(self.check(10, of(*range(10)), 5000, 5001))

    def test_one_wrong_byte_is_found(self):
        wrong = of(0, 1, 2, 3)[:-1] + "x"
        self.assertIn("one wrong body", self.check(4, wrong, 103, 105))

    def test_a_note_that_is_not_in_the_database_is_found(self):
        self.assertIn("one wrong body", self.check(4, of(0, 1, 2, 77), 103, 105))

    def test_a_note_that_is_missing_for_another_is_found(self):
        self.assertIn("one wrong body", self.check(4, of(0, 1, 2, 4), 103, 105))

    def test_a_filter_that_denies_what_was_there_before_its_time_is_found(self):
        self.assertIn("denies", self.check(4, of(0, 1, 2, 3), 105, 106))

    def test_a_filter_of_notes_that_are_not_there_yet_is_found(self):
        self.assertIn("before there were so many", self.check(10, of(*range(10)), 103, 104))

    def test_a_number_that_never_was_is_found(self):
        self.assertIn("no state", self.check(11, of(*range(11)), 110, 111))

    def test_a_set_of_no_keyset_is_found(self):
        self.journal.sets.clear()
        self.assertIn("no such set", self.check(1, of(0), 100, 101))

    def test_a_transaction_of_which_nobody_knows_yet_may_be_there_or_not(self):
        self.journal.begin_add({SPENT: [note(10)]}, 120)
        self.assertIsNone(self.check(10, of(*range(10)), 121, 121.5))
        self.assertIsNone(self.check(11, of(*range(11)), 121, 121.5))
        self.journal.withdraw()
        self.assertIn("no state", self.check(11, of(*range(11)), 121, 121.5))
        self.assertEqual(self.journal.counts()[SPENT], 10)

    def test_after_a_restore_the_old_and_the_new_are_told_apart(self):
        self.journal.begin_replace({SPENT: b"".join(map(note, range(5)))}, 120)
        self.journal.settle(121)
        self.journal.begin_add({SPENT: [note(50)]}, 130)
        self.journal.settle(131)
        self.assertIsNone(self.check(10, of(*range(10)), 120, 125), "what was read before")
        self.assertIsNone(self.check(6, of(0, 1, 2, 3, 4, 50), 130, 135))
        self.assertIn("one wrong body", self.check(6, of(*range(6)), 130, 135), "six notes of before the restore")
        self.assertIn("denies", self.check(5, of(*range(5)), 132, 135))

    def test_a_withdrawn_replacement_leaves_what_was(self):
        self.journal.begin_replace({SPENT: b""}, 120)
        self.journal.withdraw()
        self.assertIsNone(self.check(10, of(*range(10)), 125, 126))

    def test_the_second_implementation_is_asked_and_believed(self):
        self.verifier.second = lambda records: "another"
        self.verifier.start()
        self.verifier.put({"key": SPENT, "n": 4, "sha": of(0, 1, 2, 3), "timestamp": 103, "seen": 105})
        self.verifier.finish()
        self.assertEqual(self.verifier.sampled, 1)
        self.assertIn("Python implementation", self.found[0])

    def test_a_verifier_that_breaks_says_so(self):
        self.verifier.build = None
        self.verifier.start()
        self.verifier.put({"key": SPENT, "n": 4, "sha": "", "timestamp": 103, "seen": 105})
        self.verifier.finish()
        self.assertIn("the verifier ended", self.found[0])


class AnAnswer(unittest.TestCase):
    def setUp(self):
        self.seen = answers.Seen()

    def answer(self, form="json", content=b"filter", n=5, timestamp=100, **changed):
        body = json.dumps({"n": n, "p": 19, "m": 784931, "content": base64.b64encode(content).decode(),
                           "timestamp": timestamp}).encode()
        body += b" " * max(0, answers.WORTH_COMPRESSING - len(body))
        headers = {"content-type": "application/json", "last-modified": email.utils.formatdate(timestamp, usegmt=True)}
        if form == "raw":
            body = content
            headers |= {"content-type": "application/octet-stream", "nutfilter-n": str(n), "nutfilter-p": "19",
                        "nutfilter-m": "784931", "nutfilter-timestamp": str(timestamp)}
        if form == "gzip":
            body = gzip.compress(body, mtime=0)
            headers["content-encoding"] = "gzip"
        headers |= {"etag": '"' + hashlib.sha256(body).hexdigest() + '"', "content-length": str(len(body))}
        headers |= changed
        return form, headers, body

    def whole(self, form, headers, body, floor=0):
        return self.seen.whole(PATH, form, headers, body, floor)

    def test_all_forms_of_one_version_are_one_version(self):
        versions = {form: self.whole(*self.answer(form)) for form in ("json", "gzip", "raw")}
        self.assertEqual(len({version.sha for version in versions.values()}), 1)
        self.assertEqual(len(self.seen.forms), 1)

    def test_a_flipped_byte_is_found_in_every_form(self):
        for form in ("json", "gzip", "raw"):
            _, headers, body = self.answer(form)
            for place in (0, len(body) // 2, len(body) - 1):
                bad = bytearray(body)
                bad[place] ^= 1
                with self.subTest(form=form, place=place), self.assertRaises(Wrong):
                    self.whole(form, headers, bytes(bad))

    def test_gzip_that_is_cut_or_goes_on_is_found(self):
        _, headers, body = self.answer("gzip")
        for bad in (body[:-1], body + b"x"):
            headers |= {"etag": '"' + hashlib.sha256(bad).hexdigest() + '"', "content-length": str(len(bad))}
            with self.assertRaisesRegex(Wrong, "cut"):
                self.whole("gzip", headers, bad)

    def test_zstd_is_read_and_garbage_is_not(self):
        decoder = answers.zstd()
        if decoder is None:
            self.skipTest("no libzstd here")
        # A frame of one raw block, by the format's document: magic, single segment, size, block header.
        frame = b"\x28\xb5\x2f\xfd\x20\x05" + (1 | 5 << 3).to_bytes(3, "little") + b"hello"
        self.assertEqual(decoder.decompress(frame), b"hello")
        with self.assertRaisesRegex(Wrong, "not zstd"):
            decoder.decompress(frame[:-1])

    def test_another_form_than_was_asked_for_is_found(self):
        with self.assertRaisesRegex(Wrong, "the coding is"):
            self.whole("zstd", *self.answer("gzip")[1:])
        with self.assertRaisesRegex(Wrong, "the type is"):
            self.whole("raw", *self.answer("json")[1:])

    def test_a_coding_that_is_missing_is_noticed(self):
        _, headers, body = self.answer("json")
        self.whole("gzip", headers, body)
        self.assertTrue(answers.lacks_coding("gzip", headers, body))
        self.assertFalse(answers.lacks_coding("gzip", headers, body[:1000]))
        self.assertFalse(answers.lacks_coding("json", headers, body))

    def test_a_tag_of_something_else_is_found(self):
        with self.assertRaisesRegex(Wrong, "has the tag"):
            self.whole(*self.answer(etag='"' + "0" * 64 + '"'))

    def test_a_tag_that_names_two_versions_is_found(self):
        one, two = (answers.Version(5, 100, sha) for sha in "ab")
        self.seen.named(PATH, "json", '"tag"', one, 1)
        with self.assertRaisesRegex(Wrong, "names"):
            self.seen.named(PATH, "json", '"tag"', two, 2)

    def test_a_version_with_two_tags_is_found(self):
        self.whole(*self.answer())
        form, headers, body = self.answer()
        body += b" "
        headers |= {"etag": '"' + hashlib.sha256(body).hexdigest() + '"', "content-length": str(len(body))}
        with self.assertRaisesRegex(Wrong, "has the tags"):
            self.whole(form, headers, body)

    def test_a_timestamp_that_decreases_is_found(self):
        self.whole(*self.answer(timestamp=100))
        floor = self.seen.begin(PATH)
        with self.assertRaisesRegex(Wrong, "is dated 99"):
            self.whole(*self.answer(timestamp=99), floor=floor)

    def test_a_date_that_is_not_the_timestamp_is_found(self):
        with self.assertRaisesRegex(Wrong, "Last-Modified"):
            self.whole(*self.answer(**{"last-modified": email.utils.formatdate(50, usegmt=True)}))

    def test_a_wrong_length_is_found(self):
        with self.assertRaisesRegex(Wrong, "says that it has"):
            self.whole(*self.answer(**{"content-length": "3"}))


class Planted(http.server.BaseHTTPRequestHandler):
    """A service that answers what the test has put there."""

    protocol_version = "HTTP/1.1"
    answer = staticmethod(lambda handler: (200, {}, b""))

    def do_GET(self):
        status, headers, body = type(self).answer(self)
        self.send_response_only(status)
        for name, value in {"content-length": str(len(body)), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_):
        pass


def plant(answer):
    Planted.answer = staticmethod(answer)


class Clients(unittest.TestCase):
    BODY = bytes(range(256)) * 20

    def setUp(self):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Planted)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.said = []
        with tempfile.TemporaryDirectory() as work:
            config = {"port": self.server.server_address[1], "keysets": [KEYSET], "work": work}
            self.fleet = fetching.Fleet(config, lambda what, **fields: self.said.append((what, fields)))
        self.client = fetching.Client(self.fleet, 1)
        self.addCleanup(self.client.drop)

    def raw(self, body=BODY):
        return {"content-type": "application/octet-stream", "etag": '"' + hashlib.sha256(body).hexdigest() + '"',
                "nutfilter-n": "5", "nutfilter-p": "19", "nutfilter-m": "784931", "nutfilter-timestamp": "100",
                "last-modified": email.utils.formatdate(100, usegmt=True)}

    def ranged(self, shift=0):
        """Answers ranges of the raw body, whatever form is asked for."""
        def answer(handler):
            start, end = handler.headers["range"].removeprefix("bytes=").split("-")
            start, end = int(start), int(end or len(self.BODY) - 1)
            piece = self.BODY[start + shift * (start > 0):end + 1]
            piece += self.BODY[:end + 1 - start - len(piece)]
            return 206, {**self.raw(), "content-range": f"bytes {start}-{end}/{len(self.BODY)}"}, piece
        return answer

    def only_raw(self):
        forms, fetching.FORMS = fetching.FORMS, {"raw": fetching.FORMS["raw"]}
        self.addCleanup(setattr, fetching, "FORMS", forms)

    def test_a_version_is_told_once(self):
        plant(lambda handler: (200, self.raw(), self.BODY))
        for _ in range(3):
            self.client.whole("raw")
        self.assertEqual(len(self.said), len({tuple(fields["key"]) for _, fields in self.said}))
        self.assertEqual({what for what, _ in self.said}, {"version"})

    def test_ranges_are_put_together_and_held_against_the_tag(self):
        self.only_raw()
        plant(self.ranged())
        fetching.ranges(self.client)
        self.assertEqual(self.fleet.counts["ranges"], 1)
        plant(self.ranged(shift=1))
        with self.assertRaisesRegex(Wrong, "has the tag"):
            fetching.ranges(self.client)

    def test_a_304_with_another_date_or_tag_is_found(self):
        def answer(changed):
            def planted(handler):
                if handler.headers["if-none-match"]:
                    return 304, {**self.raw(), **changed}, b""
                return 200, self.raw(), self.BODY
            return planted
        plant(answer({}))
        fetching.revalidate(self.client)
        plant(answer({"etag": '"other"'}))
        with self.assertRaisesRegex(Wrong, "304"):
            fetching.revalidate(self.client)
        plant(answer({"last-modified": email.utils.formatdate(50, usegmt=True)}))
        with self.assertRaises(Wrong):
            fetching.revalidate(self.client)

    def test_a_500_is_wrong_and_a_503_is_an_error_to_be_explained(self):
        plant(lambda handler: (500, {}, b""))
        with self.assertRaisesRegex(Wrong, "answered 500"):
            self.client.whole("raw")
        plant(lambda handler: (503, {}, b""))
        with self.assertRaises(ConnectionError):
            self.client.whole("raw")


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
    def judged(self, code, seconds=3):
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
        return [{"at": at, "notes": notes(at), "sets": 2, "anonymous": anonymous(at), "file": 0, "files": 9, "sockets": 5,
                 "threads": 4, "maps": 70, **more} for at in range(0, 900, 5)]

    def test_one_mebibyte_a_minute_is_found_below_noise_and_spikes(self):
        def leaking(at):
            return (20 << 20) + at * (1 << 20) // 60 + (at * 7919 % 5 << 20) + (40 << 20) * (at % 100 == 0)
        self.assertRegex(" ".join(drift.judge(self.rows(leaking))[0]), "anonymous memory grows: by 1")
        self.assertEqual(drift.judge(self.rows(lambda at: leaking(at) - at * (1 << 20) // 60))[0], [])

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
        journal.begin_add({SPENT: [note(1)]}, 1)
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
        side = self.side(self.line("WARN", "a handler panicked") + self.line("INFO", note(1)[1:].hex()) + "thread 'x'\n")
        side.judge_log()
        self.assertEqual(len(side.found), 3)

    def test_reading_everything_again_has_to_be_explained(self):
        side = self.side(self.line("WARN", "everything of this kind is read again"))
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
