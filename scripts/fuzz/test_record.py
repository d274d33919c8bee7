"""The record: what it sums, what the checker sees, and how a campaign's memory outlives it."""

import copy
import json
import pathlib
import tempfile
import unittest

import finds
import record
from libfuzzer import Said
from state import SERIES_POINTS, State, thinned

BUILT = {"source": "s1", "binary": "b1", "compiler": "rustc 1", "revision": "r1", "changed": False, "built": "2026-01-01"}


def campaign(folder):
    """A state with a target that ran on two builds, found a thing, and grew."""
    state = State(folder)
    state.use({"decode": dict(BUILT)})
    run(state, 10.0, 1000, 50)
    state.use({"decode": {**BUILT, "source": "s2", "binary": "b2", "built": "2026-01-02"}})
    run(state, 5.0, 700, 60)
    state.all["sessions"].append({"started": "a", "ended": "b", "ended_by": "budget", "cores": 1, "revision": "r1"})
    return state


def run(state, cpu, executions, edges):
    about, build = state.targets["decode"], state.build("decode")
    for place in (about, build):
        place["cpu_seconds"] += cpu
        place["wall_seconds"] += cpu
        place["executions"] += executions
        place["rounds"] += 1
    build["edges"] = build["features"] = edges
    state.point("decode", about["cpu_seconds"], about["executions"], 3)


class Folder(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.folder = pathlib.Path(kept.name)
        self.addCleanup(kept.cleanup)


class Records(Folder):
    def test_what_ran_on_older_code_is_told_apart(self):
        made = record.make(campaign(self.folder), self.folder)
        self.assertEqual((made["cpu_seconds"], made["executions"]), (15.0, 1700))
        self.assertEqual((made["on_this_code"]["cpu_seconds"], made["on_this_code"]["executions"]), (5.0, 700))
        self.assertEqual(record.faults(made), [])

    def test_going_back_to_older_code_counts_what_ran_on_it(self):
        state = campaign(self.folder)
        state.use({"decode": dict(BUILT)})
        self.assertEqual(state.of_this_code("decode"), 10.0)
        self.assertEqual(len(state.targets["decode"]["builds"]), 2)

    def test_another_program_of_the_same_sources_is_the_same_code(self):
        state = campaign(self.folder)
        state.use({"decode": {**BUILT, "source": "s2", "binary": "b3"}})
        self.assertEqual(state.of_this_code("decode"), 5.0)

    def test_a_record_written_is_the_record_read(self):
        made = record.make(campaign(self.folder), self.folder)
        path = self.folder / "record" / "one.json"
        record.write(made, path)
        self.assertEqual(json.loads(path.read_text()), made)
        self.assertIn("decode", record.report(made))

    def test_the_checker_sees_what_is_missing_or_does_not_add_up(self):
        made = record.make(campaign(self.folder), self.folder)
        for change in (
            lambda one: one.update(schema=2),
            lambda one: one.pop("machine"),
            lambda one: one.update(executions=one["executions"] + 5),
            lambda one: one["targets"]["decode"].update(cpu_seconds=99.0),
            lambda one: one["targets"]["decode"].pop("edges"),
            lambda one: one["targets"]["decode"]["series"].reverse(),
            lambda one: one["targets"]["decode"]["series"].extend([one["targets"]["decode"]["series"][-1]] * 200),
            lambda one: one["finds"].append({"target": "decode"}),
            lambda one: one.update(coverage={}),
            lambda one: one.update(coverage={"missing": None, "files": {"src/a.rs": {"lines": [3, 2]}}}),
        ):
            changed = copy.deepcopy(made)
            change(changed)
            self.assertNotEqual(record.faults(changed), [], json.dumps(changed)[:200])

    def test_no_json_document_makes_the_checker_fall_over(self):
        for value in (None, [], 1, "x", {}, {"schema": 1}):
            self.assertNotEqual(record.faults(value), [])


class Memory(Folder):
    def test_a_state_is_read_again_as_it_was(self):
        state = campaign(self.folder)
        state.save()
        self.assertEqual(State(self.folder).all, state.all)

    def test_half_a_new_state_does_not_hide_the_old_one(self):
        state = campaign(self.folder)
        state.save()
        (self.folder / "state.new").write_text('{"schema": 1, "tar')
        self.assertEqual(State(self.folder).all, state.all)

    def test_two_rounds_of_a_target_at_once_do_not_turn_its_series_back(self):
        state = campaign(self.folder)
        state.point("decode", 30.0, 5000, 3)
        state.point("decode", 20.0, 4000, 4)
        self.assertEqual(state.targets["decode"]["series"][-1][:2], [30.0, 5000])
        self.assertEqual(record.faults(record.make(state, self.folder)), [])

    def test_a_series_keeps_its_ends_and_at_most_a_hundred_points(self):
        series = []
        for second in range(1, 2000):
            series = thinned([*series, [second, second * 10, min(second, 300), 1, 1, 0]])
        self.assertEqual(len(series), SERIES_POINTS)
        self.assertEqual((series[0][0], series[-1][0]), (1, 1999))
        self.assertEqual(series, sorted(series))


class Finds(Folder):
    def setUp(self):
        super().setUp()
        before = finds.FUZZ
        finds.FUZZ = self.folder / "fuzz"
        self.addCleanup(setattr, finds, "FUZZ", before)

    def found(self, state, place, content):
        path = self.folder / "crash-1"
        path.write_bytes(content)
        job = type("Job", (), {"said": Said(), "cpu_seconds": 1.0})()
        job.said.read(f"thread 'x' (1) panicked at {place}:\nwords {len(content)}\n")
        return finds.find(state, job, "decode", "crash", path, "cargo fuzz run", "plain")

    def test_the_same_fault_is_kept_once_and_counted(self):
        state = campaign(self.folder)
        self.assertIsNotNone(self.found(state, "src/a.rs:1:1", b"ab"))
        self.assertIsNone(self.found(state, "src/a.rs:1:1", b"abc"))
        self.assertIsNotNone(self.found(state, "src/a.rs:2:1", b"abc"))
        self.assertEqual([entry["count"] for entry in state.finds], [2, 1])
        made = record.make(state, self.folder)
        self.assertEqual((record.faults(made), made["finds_on_this_code"]), ([], 2))

    def test_a_fault_of_older_code_that_is_back_is_found_again(self):
        state = campaign(self.folder)
        self.found(state, "src/a.rs:1:1", b"ab")
        state.use({"decode": {**BUILT, "source": "s3", "binary": "b4"}})
        self.assertIsNotNone(self.found(state, "src/a.rs:1:1", b"ab"))
        self.assertEqual(record.make(state, self.folder)["finds_on_this_code"], 1)

    def test_an_input_can_be_had_from_the_record_alone(self):
        state = campaign(self.folder)
        entry = self.found(state, "src/a.rs:1:1", b"\x00\xff")
        pathlib.Path(entry["file"]).unlink()
        finds.unpack(record.make(state, self.folder), say=lambda _: None)
        self.assertEqual(pathlib.Path(entry["file"]).read_bytes(), b"\x00\xff")


if __name__ == "__main__":
    unittest.main()
