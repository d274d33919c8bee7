"""nutfilter's service beside a nutshell mint, from before the first note, through what happens to both.

In each round the wallet mints, swaps and melts while the service reads the mint's database every second and
wallets ask it for filters all the time; and something happens:

    kill       the service is killed in the middle of it, and started again while the database cannot be reached
    keyset     the mint is stopped and started with another keyset
    asked      the service reads only when it is asked to: a signal, or an administrator
    pending    melts stay pending: unsigned promises
    settle     they are paid after all, while the mint was stopped
    restore    an older copy of the database is put in place, with the service running
    pending
    fail       they fail: the promises are deleted, the notes are spent elsewhere
    overtaken  as restore, but the mint then gets past the former number of notes before the service looks again
    outage     (Postgres) the database server crashes and comes back

Then a refresh is asked for, and everything that can be known is compared: every note's state as the mint says
(NUT-07) and every output's as the wallet knows, with the filters that are served; these with filters that are
built whole from the database; what was read with what had to be.
"""

import itertools
import threading
import time

import real_mint_check
import real_mint_confirm
from real_mint_common import STATES_PER_REQUEST, Failure, agree, fetch, keysets, summary, total
from real_mint_processes import Wallet
from real_mint_service import (PATIENCE_SECONDS, REFRESH_SECONDS, SERVES_AGAIN_SECONDS, Service, Watcher,
                               raw_equals_json)

EVENTS = ["kill", "keyset", "asked", "pending", "settle", "restore", "pending", "fail", "overtaken"]

# Random items for each filter of a round; there are many rounds.
FRESH = 2_000

FEWER = "the mint has fewer notes than before"
AGAIN = "rereading the full database"
FAILED = "refresh failed; what was published before goes on being served"
# What is said, and rightly, while there is no database.
AWAY = (FAILED, "the first refresh failed; there is nothing to serve yet",
        "filter not renewed; the last one is served, if there is one")


class Follow:
    """One run."""

    def __init__(self, title, args, database, mint, python):
        self.title, self.args, self.database, self.mint = title, args, database, mint
        self.directory = args.work / "check"
        self.directory.mkdir(exist_ok=True)
        self.service = Service(args.check, args.work, database, database.secrets)
        self.watcher = Watcher(self.service)
        self.python = python
        self.wallet = None
        self.lost = set()     # `B_`s that were signed, and then forgotten with the newer database
        self.untimed = []     # (from, to): what happened in between was forgotten
        self.reasons = []
        self.figures = {"verifications": 0, "samples": 0, "held": 0, "confirmed": 0}
        self.served_again = []
        self.restored = 0

    # ------------------------------------------------------------------ what happens

    def spend(self, notes=None, melts=1, **more):
        self.wallet.tell("spend", keyset=self.mint.keyset, notes=notes or self.args.notes, melts=melts, **more)
        self.watch()

    def watch(self):
        self.watcher.keysets = keysets(self.mint.url)

    def first(self):
        """The service is there before the database."""
        self.service.start()
        self.service.serves_within("/health")
        if self.service.get("/ready")[0] != 503:
            raise Failure("the service is ready without a database")
        self.mint.start()
        self.database.grant()
        self.wallet = Wallet(self.python, self.args.work, self.mint.url)
        self.service.serves_within("/ready")
        self.watch()
        self.watcher.start()
        self.spend(melts=2)

    def kill(self):
        spending = threading.Thread(target=self.attempt, args=(self.spend,))
        spending.start()
        time.sleep(1)
        self.watcher.may_be_away = True
        self.service.kill()
        spending.join()
        self.attempted()
        self.mint.stop()
        self.database.hide()
        self.service.start()
        path = next(iter(self.watcher.last))
        self.served_again.append(self.service.serves_within(path))
        self.watcher.may_be_away = False
        self.wait_for(FAILED)
        self.database.show()
        self.mint.start()
        return f"serves {self.served_again[-1]:.2f} s after it was killed and started"

    def keyset(self):
        self.mint.keyset_number += 1
        self.mint.again()
        self.watch()
        self.spend()

    def asked(self):
        """Until it is asked, it knows nothing of the newer notes; then it does, at once."""
        took = {}
        for how in ("SIGHUP", "POST /admin/refresh"):
            self.again(refresh=3600)
            self.service.serves_within("/ready")
            while self.service.totals_of_this_life().refreshes < 1:
                time.sleep(0.05)
            before = self.service.items()
            self.spend(notes=1, melts=0)
            if self.service.items() != before:
                raise Failure("the service has read the database without being asked")
            took[how] = self.service.refresh(how, refreshes=1)
            if self.service.items() <= before:
                raise Failure(f"{how} did nothing")
        self.again(refresh=REFRESH_SECONDS)
        return ", ".join(f"{how} took {seconds:.2f} s" for how, seconds in took.items())

    def again(self, refresh):
        """The service once more, reading so often."""
        self.watcher.may_be_away = True
        self.service.stop()
        self.service.refresh_seconds = refresh
        self.service.start()
        self.served_again.append(self.service.serves_within(next(iter(self.watcher.last))))
        self.watcher.may_be_away = False

    def pending(self):
        self.mint.again("PENDING")
        self.spend(melts=0, pending_melts=2)

    def settle(self):
        self.mint.again("SETTLED")
        self.wallet.tell("settle")
        self.spend()

    def fail(self):
        # The payments that are pending fail; new ones do not.
        self.mint.again("FAILED")
        self.wallet.tell("settle")
        self.spend()

    def restore(self):
        copied, signed = self.copy()
        self.spend()
        self.verify("before restore")
        how = self.put_back()
        self.mint.start()
        self.forget(copied, signed)
        self.wait_for(FEWER)
        self.spend(notes=1)
        return how

    def overtaken(self):
        copied, signed = self.copy()
        self.spend()
        self.verify("before overtaken")
        before = total(self.states()["spent"])
        self.watcher.may_be_away = True
        self.service.stop()
        how = self.put_back()
        self.mint.start()
        self.forget(copied, signed)
        self.wallet.tell("again", since=copied)
        while (after := total(self.states()["spent"])) <= before:
            self.spend()
        self.service.start()
        self.served_again.append(self.service.serves_within(next(iter(self.watcher.last))))
        self.watcher.may_be_away = False
        return f"{how}; {before} spent before, {after} when the service looked"

    def outage(self):
        """As kill -9 of the database server would be."""
        self.mint.stop()
        self.database.stop("immediate")
        self.wait_for(FAILED)
        self.database.start()
        self.mint.start()
        self.spend()

    def copy(self):
        """A copy of the database, and what was known by then."""
        self.database.copy("copy")
        return time.time(), {item for items in self.wallet.notes["signed"].values() for item in items}

    def put_back(self):
        """Restores the copy, in each way by turns; in the next cycle the other way round."""
        self.mint.stop()
        in_place = self.restored % 4 in (1, 2)
        self.restored += 1
        self.watcher.may_shrink = True
        self.watcher.verify(self.timed())
        return self.database.restore("copy", in_place)

    def forget(self, copied, signed):
        """What was signed after the copy is not known to the mint any more; and no filter need have what was then."""
        self.lost |= {item for items in self.wallet.notes["signed"].values() for item in items} - signed
        self.untimed.append((copied, time.time()))

    def attempt(self, what):
        self.error = None
        try:
            what()
        except Failure as failure:
            self.error = failure

    def attempted(self):
        if self.error:
            raise self.error

    def wait_for(self, message):
        """Waits until the log says this."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            if any(message in said for _, said, _ in self.look_at_log()):
                return
            time.sleep(0.1)
        raise Failure(f"the service did not say `{message}` within {PATIENCE_SECONDS} s; see {self.service.log}")

    def look_at_log(self):
        """What was said since, kept for the account of the round."""
        said = self.service.said()
        self.reasons += said
        return said

    # ------------------------------------------------------------------ what must hold

    def states(self):
        """What is true of every note, in the form of `states.json`."""
        notes = self.wallet.notes
        states = {"mint_url": self.mint.url, "keysets": keysets(self.mint.url), "database": self.database.for_build(),
                  "spent": {}, "unspent": {}, "pending": {},
                  "signed": {keyset: [item for item in items if item not in self.lost]
                             for keyset, items in notes["signed"].items()},
                  "unsigned": {keyset: list(items) for keyset, items in notes["unsigned"].items()}}
        for keyset, items in notes["signed"].items():
            states["unsigned"].setdefault(keyset, []).extend(item for item in items if item in self.lost)
        for keyset, ys in notes["proofs"].items():
            for batch in batches(ys):
                for answer in fetch(f"{self.mint.url}/v1/checkstate", {"Ys": batch})["states"]:
                    states[answer["state"].lower()].setdefault(keyset, []).append(answer["Y"])
        spent, signed = self.database.read()
        agree("spent", states["spent"], "NUT-07", spent)
        agree("signed", states["signed"], "the wallet", signed)
        return states

    def timed(self):
        """The wallet's notes, without the times that a restored database made untrue."""
        notes = self.wallet.notes
        for times in ("spent_at", "signed_at"):
            notes[times] = {item: when for item, when in notes[times].items()
                            if not any(first < when <= last for first, last in self.untimed)}
        return notes

    def verify(self, event):
        """Asks for a refresh and compares everything. Gives a line about it."""
        how = ("SIGHUP", "POST /admin/refresh")[self.figures["verifications"] % 2]
        self.service.refresh(how)
        states = self.states()
        counts = {}
        for kind in real_mint_check.KINDS:
            counts[kind] = real_mint_check.Counts()
            fresh = real_mint_check.fresh_items(FRESH)
            for keyset in states["keysets"]:
                real_mint_check.check_keyset(self.args.check, states, keyset, kind, fresh, self.service.url,
                                             self.directory, self.args.work / "nutfilter.log", counts[kind])
                raw_equals_json(self.service, kind, keyset)
        samples, held = self.watcher.verify(self.timed())
        self.watcher.may_shrink = False
        confirmed = self.confirm(states)
        self.figures["verifications"] += 1
        self.figures["samples"] += samples
        self.figures["held"] += held
        self.figures["confirmed"] += confirmed
        chance = sum(len(c.fresh) + len(c.others) for c in counts.values())
        return f"{summary(states)}; {chance} matches by chance; {samples} filters on the way; {how}"

    def confirm(self, states):
        """`check --confirm`, by one address for both as a proxy has it, says of every note what NUT-07 said."""
        totals = {}
        with real_mint_confirm.front(self.mint.url, self.service.url) as (url, posted):
            for keyset in states["keysets"]:
                real_mint_confirm.confirm(self.args.check, states, keyset, url, posted, self.args.work, totals, FRESH)
        return sum(totals.values()) - FRESH * len(states["keysets"])

    def readings(self, event, before):
        """Whether what was read is what had to be. Gives a line about it."""
        read = self.service.totals().since(before)
        self.look_at_log()
        said, self.reasons = self.reasons, []
        reasons = sorted({f"{fields.get('kind', '')}: {fields.get('reason', '')}" for _, message, fields in said
                          if AGAIN in message})
        restored = event in ("restore", "overtaken")
        if read.whole and event not in ("first", "restore", "overtaken", "outage"):
            raise Failure(f"{event}: {read.whole} notes were read whole, where only new ones had to be: {reasons}")
        if restored and not (read.again and reasons):
            raise Failure(f"{event}: an older database was put in place, and nothing was read again")
        if read.discarded:
            raise Failure(f"{event}: what was kept was thrown away; see {self.service.log}")
        allowed = AWAY if event in ("first", "kill", "restore", "overtaken", "outage") else ()
        errors = {f"{message}: {fields.get('error', '')}" for level, message, fields in said
                  if level == "ERROR" and message not in allowed}
        if errors:
            raise Failure(f"{event}: the service complained: {sorted(errors)}; see {self.service.log}")
        line = f"{read.refreshes} refreshes read {read.new} new, {read.whole} whole"
        return line + "".join(f" ({reason})" for reason in reasons)

    # ------------------------------------------------------------------ the run

    def run(self):
        began = time.monotonic()
        events = [*EVENTS, "outage"] if self.database.restarts else EVENTS
        rounds = ["first", *itertools.islice(itertools.cycle(events), self.args.follow - 1)]
        try:
            for number, event in enumerate(rounds, 1):
                before = self.service.totals() if event != "first" else None
                start = time.monotonic()
                happened = getattr(self, event)()
                line = self.verify(event)
                before = before or self.service.totals().since(self.service.totals())
                read = self.readings(event, before)
                print(f"{self.title}: round {number}, {event}{f' ({happened})' if happened else ''}: {line}; {read}; "
                      f"{time.monotonic() - start:.1f} s", flush=True)
            self.watcher.end()
            self.service.stop()
            if self.served_again and max(self.served_again) > SERVES_AGAIN_SECONDS:
                raise Failure(f"the service served {max(self.served_again):.2f} s after it was started again")
        finally:
            self.watcher.ends.set()
            self.service.end()
            if self.wallet:
                self.wallet.end()
            self.mint.stop()
        answers = self.watcher.answers
        totals = self.service.totals()
        print(f"{self.title}: {len(rounds)} rounds, {self.figures['verifications']} comparisons, {self.service.lives} "
              f"lives of the service, which read {totals.new} notes as new and {totals.whole} whole in "
              f"{totals.refreshes} refreshes; {answers[200]} filters and {answers[304]} times 304 on the way, of which "
              f"{self.figures['samples']} were held against {self.figures['held']} notes with their times; "
              f"{self.figures['confirmed']} answers of check --confirm; "
              f"{time.monotonic() - began:.0f} s", flush=True)


def batches(items):
    """`items` in pieces that mints accept."""
    return (items[first:first + STATES_PER_REQUEST] for first in range(0, len(items), STATES_PER_REQUEST))
