"""The checks of these tests themselves: for each of them something wrong is planted, which it must find."""

import base64
import email.utils
import gzip
import http.client
import json
import os
import queue
import random
import shutil
import socket
import threading
import time
import types

import pytest

from e2e import clients, drift, events, reference_filter
from e2e.clients import START, Seen, Wrong
from e2e.journal import RECORD, Clock, Journal, Verifier, Version, builder, sha256
from e2e.scenario import Scenario, Windows
from e2e.service_under_test import Address

pytestmark = pytest.mark.quick
KEYSET = "00deadbeefc0ffee"
SPENT = ("spent", KEYSET)
PATH = f"/v1/filter/spent/{KEYSET}"


def note(i):
    return b"\2" + i.to_bytes(32, "big")


def build(records):
    """Stands for a filter: the same notes in any order give the same."""
    return b"".join(sorted(records[i:i + RECORD] for i in range(0, len(records), RECORD)))


def of(*notes):
    return sha256(build(b"".join(map(note, notes))))


# --- the journal: notes 0 to 9, one each second from 100 on; number i is there between 100 + i and 100.5 + i


@pytest.fixture
def journal():
    journal = Journal()
    journal.keyset(KEYSET, 99)
    for i in range(10):
        journal.begin_add({SPENT: [note(i)]}, 100 + i)
        journal.settle(100.5 + i)
    return journal


def check(journal, n, sha, timestamp, seen, clock=None, **options):
    verifier = Verifier(journal, clock or Clock(), build, lambda _: None, reference=None, **options)
    verifier.finish()
    return verifier.check(Version(SPENT, n, timestamp, sha, seen)) or "right"


def test_a_filter_of_its_time_is_right(journal):
    assert check(journal, 4, of(0, 1, 2, 3), 103, 105) == "right"
    assert check(journal, 4, of(0, 1, 2, 3), 104, 105) == "right"
    assert check(journal, 10, of(*range(10)), 5000, 5001) == "right"


@pytest.mark.parametrize("n, sha, timestamp, seen, finding", [
    (4, of(0, 1, 2, 3)[:-1] + "x", 103, 105, "not the filter of any"),  # one wrong byte
    (4, of(0, 1, 2, 77), 103, 105, "not the filter of any"),  # a note that is not in the database
    (4, of(0, 1, 2, 4), 103, 105, "not the filter of any"),  # a note that is missing for another one
    (4, of(0, 1, 2, 3), 105, 106, "in that state from 103"),  # denies what was there before its date
    (10, of(*range(10)), 103, 104, "before the database had so many"),
    (11, of(*range(11)), 110, 111, "no state"),
])
def test_a_wrong_filter_is_found(journal, n, sha, timestamp, seen, finding):
    assert finding in check(journal, n, sha, timestamp, seen)


def test_a_set_of_an_unknown_keyset_is_found(journal):
    journal.sets.clear()
    assert "no such set" in check(journal, 1, of(0), 100, 101)


def test_an_open_transaction_may_be_seen_or_not(journal):
    journal.begin_add({SPENT: [note(10)]}, 120)
    assert check(journal, 10, of(*range(10)), 121, 121.5) == "right"
    assert check(journal, 11, of(*range(11)), 121, 121.5) == "right"
    journal.withdraw()
    assert "no state" in check(journal, 11, of(*range(11)), 121, 121.5)


def test_after_a_restore_the_old_and_the_new_are_told_apart(journal):
    journal.begin_replace({SPENT: b"".join(map(note, range(5)))}, 120)
    journal.settle(121)
    journal.begin_add({SPENT: [note(50)]}, 130)
    journal.settle(131)
    assert check(journal, 10, of(*range(10)), 120, 125) == "right", "what was read before"
    assert check(journal, 6, of(0, 1, 2, 3, 4, 50), 130, 135) == "right"
    assert "not the filter of any" in check(journal, 6, of(*range(6)), 130, 135), "six notes of before the restore"
    assert "in that state" in check(journal, 5, of(*range(5)), 132, 135)


def test_a_stepped_clock_dates_filters_by_what_it_showed(journal):
    clock = Clock()
    clock.segments = [(0, 103.9, 0.0), (103.8, 106.0, 240.0), (106.0, float("inf"), 0.0)]
    assert check(journal, 5, of(*range(5)), 344, 105, clock) == "right", "read at 104.5 with the clock 240 s ahead"
    assert "in that state" in check(journal, 4, of(*range(4)), 345, 106, clock), "not known at 105 by that clock"
    late = check(journal, 10, of(*range(10)), 344, 112, clock)
    assert "in that state" in late, "newer notes with the date of before the clock was set right"


def test_the_reference_filter_is_asked_and_believed(journal):
    found = []
    verifier = Verifier(journal, Clock(), build, found.append, reference=lambda records: b"another")
    verifier.put(Version(SPENT, 4, 103, of(0, 1, 2, 3), 105))
    verifier.finish()
    assert verifier.by_reference == 1 and "reference filter" in found[0]


def test_a_verifier_that_breaks_says_so(journal):
    found = []
    verifier = Verifier(journal, Clock(), None, found.append)
    verifier.put(Version(SPENT, 4, 103, "", 105))
    verifier.finish()
    assert "the verifier ended" in found[0]


def test_the_reference_filter_is_the_commands(binary):
    records = b"".join(random.Random(1).randbytes(RECORD) for _ in range(500))
    assert reference_filter.build(records) == builder(binary)(records)


# --- one answer


def answer(form="json", content=b"filter", n=5, timestamp=100, **changed):
    body = json.dumps({"n": n, "p": 19, "m": 784931, "content": base64.b64encode(content).decode(),
                       "timestamp": timestamp}).encode()
    body += b" " * max(0, clients.WORTH_COMPRESSING - len(body))
    headers = {"content-type": "application/json", "last-modified": email.utils.formatdate(timestamp, usegmt=True)}
    headers["etag"] = f'"{sha256(body)}"'
    if form == "gzip":
        headers |= {"content-encoding": "gzip", "etag": f'"{sha256(body)}-gzip"'}
        body = gzip.compress(body, mtime=0)
    return form, sized(headers, body) | changed, body


def sized(headers, body):
    return headers | {"content-length": str(len(body))}


def test_all_forms_of_one_version_are_one_version():
    seen = Seen()
    assert len({seen.whole(PATH, *answer(form), START).sha for form in ("json", "gzip")}) == 1
    assert len(seen.forms) == 1


@pytest.mark.parametrize("form", ["json", "gzip"])
@pytest.mark.parametrize("place", [0, 0.5, 1])
def test_a_flipped_byte_is_found(form, place):
    _, headers, body = answer(form)
    bad = bytearray(body)
    bad[int(place * (len(body) - 1))] ^= 1
    with pytest.raises(Wrong):
        Seen().whole(PATH, form, headers, bytes(bad), START)


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda body: body + b"x"])
def test_gzip_that_is_cut_or_goes_on_is_found(damage):
    _, headers, body = answer("gzip")
    with pytest.raises(Wrong, match="cut"):
        Seen().whole(PATH, "gzip", sized(headers, damage(body)), damage(body), START)


@pytest.mark.parametrize("wanted, given, changed, finding", [
    ("json", "gzip", {}, "the coding is"), ("json", "json", {"content-type": "text/html"}, "the type is"),
    ("json", "json", {"etag": '"' + "0" * 64 + '"'}, "has the tag"),
    ("json", "json", {"last-modified": email.utils.formatdate(50, usegmt=True)}, "Last-Modified"),
    ("json", "json", {"content-length": "3"}, "Content-Length 3"),
])
def test_a_wrong_header_is_found(wanted, given, changed, finding):
    _, headers, body = answer(given, **changed)
    with pytest.raises(Wrong, match=finding):
        Seen().whole(PATH, wanted, headers, body, START)


def test_a_slow_body_that_a_kill_has_cut_is_a_failed_request():
    with socket.create_server(("127.0.0.1", 0)) as server:
        fleet = clients.Fleet(Address(server.getsockname()[1]), KEYSET, queue.Queue(), True)

        def cut():
            connection, _ = server.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n1234")
        thread = threading.Thread(target=cut)
        thread.start()
        with pytest.raises(http.client.IncompleteRead):
            clients.slowly(clients.Client(fleet, 1))
        thread.join()


def test_a_tag_of_two_versions_and_a_version_with_two_tags_are_found():
    seen = Seen()
    seen.named(PATH, "json", '"tag"', Version(SPENT, 5, 100, "a", 1))
    with pytest.raises(Wrong, match="names"):
        seen.named(PATH, "json", '"tag"', Version(SPENT, 5, 100, "b", 2))
    with pytest.raises(Wrong, match="has the tags"):
        seen.named(PATH, "json", '"other"', Version(SPENT, 5, 100, "a", 3))


def test_a_timestamp_that_goes_back_is_reported_once():
    older = []
    seen = Seen(older=lambda text, since: older.append(since))
    before = time.time()
    seen.timestamp(PATH, seen.begin(PATH), 100)
    after = time.time()
    for timestamp in (99, 99):
        seen.timestamp(PATH, seen.begin(PATH), timestamp)
    # A clock step after this time explains it, although the path was not requested during the step.
    assert len(older) == 1 and before <= older[0] <= after


def test_a_slow_answer_from_before_a_clock_step_counts_for_nothing():
    older = []
    seen = Seen(older=lambda text, since: older.append(since))
    seen.timestamp(PATH, seen.begin(PATH), 300)
    slow = seen.begin(PATH)
    seen.timestamp(PATH, seen.begin(PATH), 60)
    seen.timestamp(PATH, slow, 300)
    seen.timestamp(PATH, seen.begin(PATH), 61)
    assert len(older) == 1


def test_a_long_body_without_compression_is_found():
    headers = {"content-type": "application/json"}
    with pytest.raises(Wrong, match="the coding is None"):
        clients.decoded("gzip", headers, b" " * clients.WORTH_COMPRESSING)


def test_a_connection_cut_after_an_answer_is_reported_from_that_request():
    listener, said, closed_at, closed = socket.create_server(("127.0.0.1", 0)), queue.SimpleQueue(), [], threading.Event()
    fleet = clients.Fleet(Address(listener.getsockname()[1]), KEYSET, said, many=False)

    def serve_once():
        with listener, listener.accept()[0] as connection:
            connection.recv(1000)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + bytes(1000))
        closed_at.append(time.time())
        closed.set()

    def read_slowly(response):
        # The rest of the body is in the system's buffers, and can be read long after the service was killed.
        closed.wait(10)
        return response.read()
    threads = [threading.Thread(target=serve_once),
               threading.Thread(target=fleet.work, args=(lambda client: client.request("/", take=read_slowly), 0.1, 1))]
    for thread in threads:
        thread.start()
    what, _, begun, ended = said.get(timeout=10)
    fleet.ended.set()
    for thread in threads:
        thread.join()
    # Whatever closed it did so between these two times.
    assert what == "error" and begun <= closed_at[0] < ended


# --- drift: rows are made up, so that no load of this machine can change what is judged


def row(**more):
    return {"at": 0, "notes": 1000, "sets": 2, "anonymous": 20 << 20, "files": 9, "sockets": 5, "threads": 4} | more


def test_a_steady_process_is_fine():
    assert drift.judge([row(), row(files=12)]) == ([], {"anonymous": 20 << 20, "files": 12, "notes": 1000, "sets": 2,
                                                        "sockets": 5, "threads": 4})


@pytest.mark.parametrize("more, found", [
    ({"files": 49}, "49 files for 2 sets"), ({"threads": 41}, "41 threads"),
    ({"anonymous": 90 << 20}, "90 MiB of anonymous memory"), ({"output_bytes": 9 << 20}, "9 MiB in the output directory"),
    ({"output_files": 9999}, "9999 files in the output directory")])
def test_more_than_a_ceiling_is_found(more, found):
    assert found in drift.judge([row(), row(**more)])[0][0]


def test_what_more_notes_and_sets_need_is_allowed():
    assert drift.judge([row(anonymous=90 << 20, notes=3_000_000), row(files=49, sets=3)])[0] == []


def test_a_sample_counts_what_this_process_has(tmp_path):
    before = drift.sample(os.getpid())
    held = [open(tmp_path / "file", "wb"), socket.socket()]
    ended = threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    after = drift.sample(os.getpid(), tmp_path)
    ended.set()
    thread.join()
    assert [after[name] - before[name] for name in ("files", "sockets", "threads")] == [1, 1, 1]
    assert after["output_files"] == 1 and after["anonymous"] > 0
    for each in held:
        each.close()


def test_a_sample_of_a_directory_that_vanishes_is_no_failure(tmp_path):
    ended = threading.Event()

    def vanish():
        while not ended.is_set():
            (tmp_path / "output/v1/filter").mkdir(parents=True)
            shutil.rmtree(tmp_path / "output")
    thread = threading.Thread(target=vanish)
    thread.start()
    try:
        for _ in range(200):
            drift.sample(os.getpid(), tmp_path / "output")
    finally:
        ended.set()
        thread.join()


def test_counters_that_decrease_or_vanish_and_server_errors_are_found():
    before = drift.counters('a_total{x="1"} 5\nb_bucket{le="1"} 3\nc 9\n')
    assert before == {'a_total{x="1"}': 5, 'b_bucket{le="1"}': 3}
    assert drift.counted_backwards(before, before) == []
    assert len(drift.counted_backwards(before, {'a_total{x="1"}': 4})) == 2
    assert drift.server_errors({'nutfilter_http_requests_total{route="x",status="503"}': 2.0}) == []
    assert len(drift.server_errors({'nutfilter_http_requests_total{route="x",status="500"}': 2.0})) == 1


# --- what has to be explained


@pytest.fixture
def scenario(journal, tmp_path):
    """A scenario without a process; what it finds is in `found`."""
    scenario = Scenario.__new__(Scenario)
    scenario.errors, scenario.explained, scenario.found = [], {}, []
    scenario.away, scenario.trouble, scenario.clock_steps = Windows(), Windows(), Windows()
    scenario.find = scenario.found.append
    scenario.journal, scenario.mint, scenario.clock = journal, types.SimpleNamespace(keysets=[KEYSET], always_read_whole=False), Clock()
    scenario.log = []
    scenario.service = types.SimpleNamespace(records=lambda: scenario.log)
    scenario.verifier = types.SimpleNamespace(put=lambda version: None)
    return scenario


def test_a_failed_request_is_explained_by_what_happened_meanwhile_and_by_nothing_else(scenario):
    scenario.away.spans.append([100, 105, "kill"])
    scenario.errors = [("refused", 101, 102), ("reset", 90, 100.5), ("reset", 110, 111)]
    scenario.judge_errors()
    assert scenario.explained == {"refused (kill)": 1, "reset (kill)": 1, "reset": 1} and len(scenario.found) == 1


def test_a_timestamp_may_go_back_after_a_step_of_the_clock_only(scenario):
    scenario.away.spans.append([100, 200, "kill"])
    scenario.clock_steps.spans.append([150, 160, "step"])
    scenario.errors = [("timestamp went back: x", 140, 170), ("timestamp went back: y", 120, 120)]
    scenario.judge_errors()
    assert len(scenario.found) == 1 and "went back: y" in scenario.found[0]


@pytest.mark.parametrize("name, ended, found", [
    ("nutfilter_items_lost_total", 103, 0), ("nutfilter_whole_readings_total", 103, 0),
    ("nutfilter_items_lost_total", 97, 1), ("nutfilter_whole_readings_total", 97, 1)])
def test_a_counter_is_explained_by_anything_since_the_sample_before(scenario, name, ended, found):
    scenario.trouble.spans.append([95, ended, "output_removed"])
    life = {"begun": 90, "read_whole": 90, "samples": [{"at": 100}], "counters": {name: 1.0}}
    scenario.judge_counters(life, {name: 1.0}, 105)
    assert not scenario.found
    scenario.judge_counters(life, {name: 2.0}, 106)
    assert len(scenario.found) == found and life["counters"] == {name: 2.0}


@pytest.mark.parametrize("level, text, found", [
    ("ERROR", "refresh failed", 1), ("WARN", "odd", 0), ("WARN", "a handler panicked", 1),
    ("INFO", note(9)[1:].hex(), 1), ("NONE", "thread 'x'", 1)])
def test_the_log_is_judged(scenario, level, text, found):
    scenario.log = [(level, text, 1000, text)]
    scenario.judge_log()
    assert len(scenario.found) == found
    scenario.trouble.spans.append([995, 1005, "stopped"])
    scenario.found.clear()
    scenario.judge_log()
    assert len(scenario.found) == (0 if level == "ERROR" else found)


def test_an_unknown_keyset_in_the_list_is_found(scenario):
    scenario.heard("keysets", [KEYSET], 150)
    assert scenario.found == []
    scenario.heard("keysets", [KEYSET, "00aa"], 150)
    assert len(scenario.found) == 1


def test_a_filter_dated_ahead_is_found_unless_the_clock_was_just_set(scenario):
    now = time.time()
    scenario.heard("version", Version(SPENT, 4, int(now) + 240, "", now))
    assert "ahead of the service's clock" in scenario.found[0]
    scenario.found.clear()
    scenario.clock_steps.spans.append([now - 1, now + 1, "step"])
    scenario.heard("version", Version(SPENT, 4, int(now) + 240, "", now))
    assert scenario.found == []


def test_a_seed_decides_the_plan_and_every_event_comes():
    functions = [lambda s: None for _ in range(5)]
    plans = [events.plan(random.Random(seed), functions, 600, 20) for seed in (1, 1, 2)]
    assert plans[0] == plans[1] != plans[2]
    assert {function for _, function in plans[0]} == set(functions)
