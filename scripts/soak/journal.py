"""The truth that every served body is held against: what a mint's database had, and when.

A writer says beforehand what a transaction is going to change, and afterwards that it is there. Between the two nobody
knows, so a state of the database is known to begin within an interval. A filter dated T has to be that of a state that
was there at T or later, and not later than it was first seen: then it denies nothing that was there before T.
"""

import dataclasses
import math
import threading

RECORD = 33  # bytes of a note


@dataclasses.dataclass
class State:
    """One set's notes between two transactions: the first `length` records of an epoch."""

    epoch: int
    length: int
    before: float  # Unix time at which it cannot have been there yet
    after: float  # Unix time from which it was there; infinite while nobody knows


class History:
    """All states of one set. Notes are only added within an epoch; whatever takes some away begins another."""

    EPOCHS_KEPT = 12

    def __init__(self, now):
        self.epochs = [bytearray()]
        self.states = [State(0, 0, now, now)]

    @property
    def last(self):
        return self.states[-1]

    def records(self, state):
        notes = self.epochs[state.epoch]
        return None if notes is None else bytes(memoryview(notes)[:state.length * RECORD])

    def add(self, notes, before):
        state = State(self.last.epoch, self.last.length + len(notes), before, math.inf)
        self.epochs[state.epoch] += b"".join(notes)
        self.states.append(state)

    def replace(self, records, before):
        self.epochs.append(bytearray(records))
        if len(self.epochs) > self.EPOCHS_KEPT:
            self.epochs[len(self.epochs) - 1 - self.EPOCHS_KEPT] = None
        self.states.append(State(len(self.epochs) - 1, len(records) // RECORD, before, math.inf))

    def settle(self, after):
        self.last.after = after

    def withdraw(self):
        """The last state did not come to be."""
        gone = self.states.pop()
        if gone.epoch != self.last.epoch:
            self.epochs.pop()
        else:
            del self.epochs[gone.epoch][self.last.length * RECORD:]

    def candidates(self, n, timestamp, seen):
        """States of `n` notes that a reading may have met that began at `timestamp` and was over when `seen`."""
        found = []
        ends = math.inf
        for state in reversed(self.states):
            if ends <= timestamp:
                break
            if state.length == n and state.before <= seen:
                found.append(state)
            ends = state.after
        return found

    def why_none(self, n, timestamp, seen):
        """Why there is no candidate, for people."""
        same = [i for i, state in enumerate(self.states) if state.length == n]
        if not same:
            return f"no state of the database had {n} notes"
        i = same[-1]
        if self.states[i].before > seen:
            return (f"a filter of {n} notes was seen at {seen:.3f}, before there were so many "
                    f"({self.states[i].before:.3f})")
        ended = self.states[i + 1].after
        return (f"a filter of {n} notes is dated {timestamp}, but there were other notes from {ended:.3f} on: "
                "it denies what was there before its time")


class Journal:
    """The histories of all sets of one mint, by (kind, keyset id)."""

    def __init__(self):
        self.lock = threading.Lock()
        self.sets = {}
        self.keysets = {}  # id: Unix time before which nobody could know it
        self.open = []

    def keyset(self, keyset, now):
        with self.lock:
            self.keysets[keyset] = now
            for kind in ("spent", "issued"):
                self.sets[kind, keyset] = History(now)

    def begin_add(self, changes, now):
        """Something is going to be added: lists of notes by set. Followed by `settle` or `withdraw`."""
        with self.lock:
            for key, notes in changes.items():
                self.sets[key].add(notes, now)
            self.open = list(changes)

    def begin_replace(self, contents, now):
        """Sets are going to hold these records instead."""
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
        """The records of every set now, as a backup would have them."""
        with self.lock:
            return {key: history.records(history.last) for key, history in self.sets.items()}

    def records(self, key):
        with self.lock:
            return self.sets[key].records(self.sets[key].last)

    def candidates(self, key, n, timestamp, seen):
        """(records, state) of what may have been read, and why there is nothing if there is not."""
        with self.lock:
            history = self.sets.get(key)
            if history is None:
                return [], "no such set was ever in the database"
            states = history.candidates(n, timestamp, seen)
            found = [(history.records(state), state) for state in states]
            return found, "" if found else history.why_none(n, timestamp, seen)

    def counts(self):
        with self.lock:
            return {key: history.last.length for key, history in self.sets.items()}

    def notes(self):
        return sum(self.counts().values())
