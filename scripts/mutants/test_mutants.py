"""Unit tests: what is made of the compiler's words, of the tests' words, and of the page."""

import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import record
import results
from building import Failure, blamed, copy_to, tracked
from packages import PACKAGES
from running import Stage, Tests, failed, outcome, split, times_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def span(start, end, primary=True, file="src/a.rs"):
    return {"file_name": file, "byte_start": start, "byte_end": end, "is_primary": primary}


def error(*spans, children=()):
    return {"spans": list(spans), "children": [{"spans": list(child)} for child in children]}


class Blame(unittest.TestCase):
    places = [
        {"start": 0, "end": 100, "mutants": [1, 2], "own": False},
        {"start": 10, "end": 30, "mutants": [1], "own": True},
        {"start": 40, "end": 60, "mutants": [2], "own": True},
    ]

    def blamed(self, error):
        return blamed(error, lambda span: self.places if span["file_name"] == "src/a.rs" else [])

    def test_the_narrowest_place_around_what_is_named(self):
        self.assertEqual(self.blamed(error(span(12, 15))), {1: True})
        self.assertEqual(self.blamed(error(span(40, 60))), {2: True})
        self.assertEqual(self.blamed(error(span(31, 35))), {1: False, 2: False})

    def test_what_is_first_named_comes_before_the_rest(self):
        self.assertEqual(self.blamed(error(span(41, 45, primary=False), span(12, 15))), {1: True})
        self.assertEqual(self.blamed(error(span(200, 210), span(41, 45, primary=False))), {2: True})
        self.assertEqual(self.blamed(error(span(0, 9, file="src/b.rs"), children=[[span(41, 45)]])), {2: True})

    def test_all_in_what_is_named_where_nothing_is_around_it(self):
        self.assertEqual(self.blamed(error(span(5, 300))), {1: False, 2: False})
        self.assertEqual(self.blamed(error(span(35, 300))), {2: False})
        self.assertEqual(self.blamed(error(span(300, 310))), {})


SAID = """
running 3 tests
test bits::one ... ok <0.020s>
test bits::two - should panic ... ok <0.350s>
test bits::three ... FAILED <2.000s>
"""


class Running(unittest.TestCase):
    def test_times_and_bands(self):
        times = times_of(SAID)
        self.assertEqual(times, {"bits::one": 0.02, "bits::two": 0.35, "bits::three": 2.0})
        bands = [["a"], ["bits::one"], ["b", "bits::two"], ["bits::three"]]
        self.assertEqual(list(split({**times, "a": 0.01, "b": 0.2})), bands)

    def test_who_failed(self):
        self.assertEqual(failed(SAID), "bits::three")
        self.assertEqual(failed("no test, but\nan abort\n"), "no test, but\nan abort")

    def test_how_it_ended(self):
        self.assertEqual([outcome(code) for code in (0, 101, -signal.SIGABRT)], ["lived", "caught", "caught"])
        self.assertEqual([outcome(code) for code in (-signal.SIGXCPU, -signal.SIGKILL)], ["timed out"] * 2)

    def stage(self, script, cpu=5, wall=60):
        stage = Stage("/bin/true", "/", [], 1, 0)
        stage.command, stage.cpu, stage.wall = ["/bin/sh", "-c", script], cpu, wall
        return stage

    def test_the_mutant_is_in_the_environment(self):
        self.assertEqual(self.stage('test "$MUTANT" = 17').run(17)[0], "lived")
        self.assertEqual(self.stage('test "$MUTANT" = 17').run(18)[0], "caught")

    def test_a_loop_without_an_end_and_one_that_waits_are_ended_with_all_they_started(self):
        self.assertEqual(self.stage("while :; do :; done", cpu=1).run(1)[0], "timed out")
        with tempfile.TemporaryDirectory() as folder:
            alive = pathlib.Path(folder) / "alive"
            became, _ = self.stage(f"(sleep 3; touch {alive}) & sleep 60", wall=1).run(1)
            self.assertEqual(became, "timed out")
            subprocess.run(["sleep", "4"], check=True)
            self.assertFalse(alive.exists())

    def test_each_has_a_folder_for_its_files_which_goes_with_it(self):
        _, said = self.stage("touch $TMPDIR/left; echo $TMPDIR").run(1)
        self.assertFalse(pathlib.Path(said.strip()).exists())


class Order(unittest.TestCase):
    def test_who_noticed_a_files_last_mutant_is_tried_first(self):
        tests = object.__new__(Tests)
        tests.noticed, tests.lock, tests.lived = collections.defaultdict(list), threading.Lock(), "lived"
        tests.directory, tests.times = "/", {"/bin/sh": {f"test{i}": 0.1 for i in range(9)}}
        tried = []

        class Planted(Stage):
            def run(self, number):
                tried.append(self.tests[0])
                return ("caught", f"test {self.tests[0]} ... FAILED <1.000s>") if self.tests[0] == f"test{number}" else ("lived", "")

        with unittest.mock.patch("running.Stage", Planted):
            tests.stages = [Planted("/bin/sh", "/", [f"test{i}"], 1, 0.1) for i in range(9)]
            self.assertEqual(tests.outcome(8, "a"), {"outcome": "caught", "by": "test8"})
            self.assertEqual(tried, [f"test{i}" for i in range(9)])
            tried.clear()
            self.assertEqual(tests.outcome(8, "a")["by"], "test8")
            self.assertEqual(tests.outcome(2, "b")["by"], "test2")
            self.assertEqual(tried, ["test8", "test0", "test1", "test2"])
            for number in (0, 1, 2, 3):
                tests.outcome(number, "a")
            tried.clear()
            self.assertEqual(tests.outcome(99, "a"), {"outcome": "lived"})
            self.assertEqual(tried[:5], ["test3", "test2", "test1", "test0", "test0"])


class Record(unittest.TestCase):
    found = {
        "src/a.rs:7:9: replace f -> u8 with 0": {"outcome": "caught", "by": "t"},
        "src/a.rs:9:1: replace | with ^ in g": {"outcome": "lived"},
        "src/a.rs:8:1: replace | with ^ in g": {"outcome": "lived"},
        "src/b.rs:1:1: delete ! in h": {"outcome": "timed out"},
        "src/b.rs:2:1: replace + with - in h": {"outcome": "not compiled"},
    }

    def setUp(self):
        self.record = {"files": record.by_file(self.found)}

    def page(self, *rows):
        return f"{record.table(self.record)}\n\n| file | change | why |\n|---|---|---|\n" + "".join(f"{row}\n" for row in rows)

    def test_the_table(self):
        table = record.table(self.record)
        self.assertIn("| `src/a.rs` | 3 | 1 | 0 | 0 | 2 |", table)
        self.assertIn("| `src/b.rs` | 2 | 0 | 1 | 1 | 0 |", table)
        self.assertIn("| all | 5 | 1 | 1 | 1 | 2 |", table)
        self.assertEqual([line for _, line, _ in record.lived(self.record)], [8, 9])

    def test_every_survivor_has_a_reason_and_nothing_else_has_one(self):
        right = "| `src/a.rs` | `replace ¦ with ^ in g` | equal |"
        self.assertEqual(record.faults(self.record, self.page(right)), [])
        self.assertEqual(len(record.faults(self.record, self.page())), 1)
        other = "| `src/b.rs` | `delete ! in h`, `delete - in h` | no |"
        self.assertEqual(len(record.faults(self.record, self.page(right, other))), 2)
        # A row without a reason is none.
        self.assertEqual(len(record.faults(self.record, self.page(right.replace("equal ", "")))), 1)

    def test_the_page_has_the_table(self):
        right = "| `src/a.rs` | `replace ¦ with ^ in g` | equal |"
        page = self.page(right).replace("| all | 5 |", "| all | 6 |")
        self.assertEqual(len(record.faults(self.record, page)), 1)


class Results(unittest.TestCase):
    def test_results_of_other_sources_are_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            results.Results(folder).add({"a": {"outcome": "lived"}})
            self.assertTrue(results.Results(folder).lived("a"))
            path = folder / "results.json"
            path.write_text(json.dumps({**json.loads(path.read_text()), "code": "0"}))
            with self.assertRaises(Failure):
                results.Results(folder)


class Tree(unittest.TestCase):
    def test_every_file_that_is_mutated_is_there(self):
        for package in PACKAGES.values():
            for file in [package.root, *package.files]:
                self.assertTrue((ROOT / file).is_file(), file)

    def test_a_copy_is_as_the_repository_and_keeps_what_is_to_be_kept(self):
        with tempfile.TemporaryDirectory() as folder:
            tree = pathlib.Path(folder)
            copy_to(tree)
            (tree / "src" / "old.rs").write_text("")
            (tree / "src" / "lib.rs").write_text("changed")
            (tree / "src" / "rice.rs").write_text("changed")
            copy_to(tree, {"src/rice.rs"})
            self.assertEqual((tree / "src" / "rice.rs").read_text(), "changed")
            self.assertEqual((tree / "src" / "lib.rs").read_bytes(), (ROOT / "src" / "lib.rs").read_bytes())
            self.assertEqual({str(path.relative_to(tree)) for path in tree.rglob("*") if path.is_file()}, set(tracked()))


if __name__ == "__main__":
    unittest.main()
