"""The oracle: what the mint's database held, and when. Every filter that is served is compared with it.

A synthetic mint announces each transaction before and after it runs; a real mint is watched through a log that
triggers write. Either way a state of the database is known to begin within an interval of time. A filter dated T must
be exactly the filter of a state that existed at T or later, and not later than the filter was first seen: then it
denies nothing that was in the database at T.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
import queue
import subprocess
import threading
import time

from e2e import reference_filter

RECORD = reference_filter.POINT_BYTES
KINDS = ("spent", "issued")
hash_of = functools.cache(reference_filter.hash64)


class Clock:
    """The clock of the service, which a test may step, against the clock of this machine."""

    SETTLES = 0.1  # seconds until a step is seen by every thread

    def __init__(self):
        self.segments = [(0.0, math.inf, 0.0)]  # from, until (machine's time), offset

    @property
    def offset(self):
        return self.segments[-1][2]

    def now(self):
        """The time by the service's clock."""
        return time.time() + self.offset

    def step(self, offset, apply):
        """Sets the offset; `apply` does so for the service."""
        begin = time.time()
        apply()
        start, _, old = self.segments[-1]
        self.segments[-1] = (start, time.time() + self.SETTLES, old)
        self.segments.append((begin, math.inf, offset))

    def reading_times(self, timestamp, seen):
        """Intervals of the machine's time in which a reading that is dated `timestamp` may have taken place."""
        for start, end, offset in self.segments:
            low, high = max(start, timestamp - offset), min(end, seen)
            if low <= high:
                yield low, high


@dataclasses.dataclass
class State:
    """The notes of one set between two transactions: the first `length` records of an epoch."""

    epoch: int
    length: int
    n: int  # distinct hashes: what the filter counts
    before: float  # the state cannot have existed before this time
    after: float  # the state existed from this time on; infinite while that is unknown


class History:
    """All states of one set. Within an epoch notes are only added; a removal begins a new epoch."""

    EPOCHS_KEPT = 12

    def __init__(self, now):
        self.epochs = [bytearray()]
        self.states = [State(0, 0, 0, now, now)]
        self.hashes = set()  # those of the last state

    @property
    def last(self):
        return self.states[-1]

    def records(self, state):
        notes = self.epochs[state.epoch]
        return None if notes is None else bytes(memoryview(notes)[:state.length * RECORD])

    def distinct(self, state):
        """The records of a state, but of those with equal hashes only the first."""
        records = self.records(state)
        if records is None or state.n == state.length:
            return records
        return b"".join({hash_of(note): note for note in reversed(each(records))}.values())

    def add(self, notes, before):
        self.epochs[self.last.epoch] += b"".join(notes)
        self.hashes.update(map(hash_of, notes))
        self.states.append(State(self.last.epoch, self.last.length + len(notes), len(self.hashes), before, math.inf))

    def replace(self, records, before):
        self.epochs.append(bytearray(records))
        self.hashes = set(map(hash_of, each(records)))
        if len(self.epochs) > self.EPOCHS_KEPT:
            self.epochs[len(self.epochs) - 1 - self.EPOCHS_KEPT] = None
        self.states.append(State(len(self.epochs) - 1, len(records) // RECORD, len(self.hashes), before, math.inf))

    def settle(self, after):
        for state in reversed(self.states):
            if state.after != math.inf:
                break
            state.after = after

    def withdraw(self):
        """The last state did not come into existence."""
        gone = self.states.pop()
        if gone.epoch != self.last.epoch:
            self.epochs.pop()
        else:
            del self.epochs[gone.epoch][self.last.length * RECORD:]
        self.hashes = set(map(hash_of, each(self.records(self.last))))

    def candidates(self, n, reading_times):
        """States of `n` distinct notes that existed in one of these intervals."""
        found, ends = [], math.inf
        earliest = min((low for low, _ in reading_times), default=math.inf)
        for state in reversed(self.states):
            if ends <= earliest:
                break
            if state.n == n and any(state.before <= high and low < ends for low, high in reading_times):
                found.append(state)
            ends = state.after
        return found

    def why_none(self, n, timestamp, seen):
        """Why there is no candidate, for the report."""
        same = [i for i, state in enumerate(self.states) if state.n == n]
        if not same:
            return f"no state of the database had {n} notes"
        i = same[-1]
        if self.states[i].before > seen:
            return f"a filter of {n} notes was seen at {seen:.3f}, before the database had so many"
        ended = self.states[i + 1].after if i + 1 < len(self.states) else math.inf
        return (f"a filter of {n} notes is dated {timestamp}, but the database was in that state from "
                f"{self.states[i].before:.3f} to {ended:.3f}")


def each(records):
    """The notes of a string of records."""
    return [records[i:i + RECORD] for i in range(0, len(records), RECORD)]


class Journal:
    """The histories of all sets of one mint, by (kind, keyset id)."""

    def __init__(self, watched=False):
        self.lock = threading.Lock()
        self.sets = {}
        self.keysets = {}  # id: time before which it cannot have been listed
        self.open = []
        # A watched database is known until it was last looked at; another one is known beforehand.
        self.known_until = 0.0 if watched else math.inf

    def keyset(self, keyset, now):
        with self.lock:
            self.add_keyset(keyset, now)

    def add_keyset(self, keyset, now):
        if keyset not in self.keysets:
            self.keysets[keyset] = now
            self.sets.update({(kind, keyset): History(now) for kind in KINDS})

    def begin_add(self, changes, now):
        """Lists of notes by set are about to be added. Followed by `settle` or `withdraw`."""
        with self.lock:
            for key, notes in changes.items():
                self.sets[key].add(notes, now)
            self.open = list(changes)

    def begin_replace(self, contents, now):
        """Sets are about to hold these records instead."""
        with self.lock:
            for key, records in contents.items():
                self.sets[key].replace(records, now)
            self.open = list(contents)

    def settle(self, now):
        with self.lock:
            for key in self.open:
                self.sets[key].settle(now)
            self.open = []

    def withdraw(self):
        with self.lock:
            for key in self.open:
                self.sets[key].withdraw()
            self.open = []

    def contents(self):
        """The records of every set now, as a backup has them."""
        with self.lock:
            return {key: history.records(history.last) for key, history in self.sets.items()}

    def records(self, key):
        with self.lock:
            return self.sets[key].records(self.sets[key].last)

    def candidates(self, key, n, timestamp, seen, clock):
        """(records of what may have been read, why there is nothing)."""
        with self.lock:
            history = self.sets.get(key)
            if history is None:
                return [], "no such set was ever in the database"
            states = history.candidates(n, list(clock.reading_times(timestamp, seen)))
            found = [history.distinct(state) for state in states]
            return found, "" if found else history.why_none(n, timestamp, seen)

    def counts(self):
        with self.lock:
            return {key: history.last.length for key, history in self.sets.items()}

    def notes(self):
        return sum(self.counts().values())


@dataclasses.dataclass(frozen=True)
class Version:
    """One filter that a client saw: content and date."""

    key: tuple  # (kind, keyset)
    n: int
    timestamp: int
    sha: str  # SHA-256 of the filter's bytes
    seen: float


def sha256(octets):
    return hashlib.sha256(octets).hexdigest()


def builder(binary):
    """A function that builds the filter of records with `nutfilter build`, which knows neither databases nor increments."""
    def build(records):
        if not records:
            return b""
        done = subprocess.run([binary, "--quiet", "build", "-", "--record-bytes", str(RECORD),
                               "--format", "raw"], input=records, capture_output=True, check=False,
                              env={"RAYON_NUM_THREADS": "1"})
        if done.returncode:
            raise RuntimeError(f"nutfilter build: {done.stderr.decode(errors='replace')}")
        return done.stdout
    return build


class Verifier:
    """Compares each version with the journal, on a thread of its own; a sample also with the reference filter."""

    SAMPLE_NOTES = 3000  # a larger filter takes the reference too long

    def __init__(self, journal, clock, build, find, reference=reference_filter.build):
        self.journal, self.clock, self.build, self.find = journal, clock, build, find
        self.reference = reference
        self.queue = queue.Queue()
        self.given = self.verified = self.notes = self.by_reference = 0
        self.sample_at = 1
        self.thread = threading.Thread(target=self.guard, daemon=True)
        self.thread.start()

    def put(self, version):
        self.given += 1
        self.queue.put(version)

    def finish(self):
        """Waits until everything is verified."""
        self.queue.put(None)
        self.thread.join()

    def guard(self):
        try:
            while (version := self.queue.get()) is not None:
                while self.journal.known_until < version.seen:
                    time.sleep(0.02)
                wrong = self.check(version)
                if wrong:
                    self.find(wrong)
                self.verified += 1
                self.notes += version.n
        except Exception as error:  # a check that does not run is as bad as one that fails
            self.find(f"the verifier ended: {error!r}")

    def check(self, version):
        """What is wrong with a version, or None."""
        name = (f"{'/'.join(version.key)}: {version.n} notes, dated {version.timestamp}, seen {version.seen:.3f}, "
                f"content {version.sha[:16]}")
        found, why = self.journal.candidates(version.key, version.n, version.timestamp, version.seen, self.clock)
        if not found:
            return f"wrong filter ({name}): {why}"
        for records in found:
            if records is None:
                return f"not verified ({name}): the journal no longer has that state"
            if sha256(self.build(records)) == version.sha:
                return self.sampled(name, version, records)
        return f"wrong filter ({name}): it is not the filter of any of the {len(found)} states that it may be of"

    def sampled(self, name, version, records):
        """The same by the reference for the 1st, 2nd, 4th, ... version."""
        if self.reference and 0 < version.n <= self.SAMPLE_NOTES and self.verified + 1 >= self.sample_at:
            self.sample_at = max(self.sample_at * 2, self.verified + 1)
            self.by_reference += 1
            if sha256(self.reference(records)) != version.sha:
                return f"wrong filter ({name}): the reference filter of these notes is another one"
        return None


def batches(items, size):
    """Consecutive lists of at most `size` items."""
    items = iter(items)
    while batch := list(itertools.islice(items, size)):
        yield batch
