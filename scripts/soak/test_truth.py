"""The checks of what is served, with something planted for each to find.

    python3 -m unittest discover scripts/soak
"""

import base64
import email.utils
import gzip
import hashlib
import json
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import answers  # noqa: E402
from answers import Wrong  # noqa: E402
from journal import RECORD, Journal  # noqa: E402
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


if __name__ == "__main__":
    unittest.main()
