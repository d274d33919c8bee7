"""Wallets that follow a service's state filters while things happen to it: nothing is missed, nothing accused without cause.

One wallet for each kind and format looks every few seconds, with `--audit` where it is possible, and keeps its bookmark.
A look may fail only while the service is away, or because its data directory is another one: then the wallet has to say
so, or nothing was lost, and it begins a new bookmark. At the end one asks two services in turn, which have different
sequences, and has to report that.
"""

import contextlib
import json
import shutil
import socket
import subprocess
import threading
import time

from e2e.service_under_test import expect, wait_until

PAUSE = 8
VISITS = [("proof_state", "segments"), ("blind_signature", "segments"), ("blind_signature", "blocks")]
NOTES = {"proof_state": "spent", "blind_signature": "issued"}
REPORTED = ("has restarted", "does not descend", "has changed", "another SHA-256", "lacks bits", "were moved", "not the union")


def follow(binary, url, kind, form, bookmark, candidates, *, audit=True):
    """One look; returns the exit code, the matches, and what was said."""
    audit = ["--audit"] if audit and form == "segments" else []
    command = [binary, "follow", "--once", "--mint", url, "--kind", kind, "--format", form, "--data-dir", bookmark,
               *audit, candidates]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=120, check=False)
    matches = {line.split("\t")[1] for line in done.stdout.splitlines()}
    return done.returncode, matches, done.stderr.strip()


class Followers:
    def __init__(self, scenario, binary):
        self.scenario, self.binary, self.url = scenario, binary, scenario.service.address.url()
        self.work = scenario.work / "followers"
        self.work.mkdir()
        self.known, self.bookmarks = {}, dict.fromkeys(VISITS, 0)
        self.found = {visit: set() for visit in VISITS}
        self.due = {visit: set() for visit in VISITS}
        self.counts = {"looks": 0, "while away": 0, "reported another sequence": 0, "with matches": 0}
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run, daemon=True)

    def candidates(self, kind):
        """Every point of this kind that the wallet has made, in a file."""
        notes = self.scenario.mint.wallet.notes
        group = notes["proofs"] if kind == "proof_state" else notes["signed"]
        points = {point for points in group.values() for point in points}
        path = self.work / f"{kind}.hex"
        path.write_text("".join(f"{point}\n" for point in sorted(points)))
        return path, points

    def held(self, kind):
        return {point for (of, _), points in self.scenario.mint.held().items() if of == NOTES[kind] for point in points}

    def bookmark(self, visit):
        return self.work / "-".join([*visit, str(self.bookmarks[visit])])

    def look(self, visit):
        """One look of one wallet; what is wrong is a finding of the scenario."""
        begun = time.time()
        file, points = self.candidates(visit[0])
        code, matches, said = follow(self.binary, self.url, *visit, self.bookmark(visit), file)
        self.counts["looks"] += 1
        if code in (0, 1):
            self.counts["with matches"] += code == 0
            self.found[visit] |= matches
            # What is spent only after this look has to be in a later one.
            self.due[visit] |= points - self.held(visit[0])
        elif self.scenario.away.explains(begun, time.time()) or (
                "HTTP 503" in said and self.scenario.trouble.explains(begun, time.time())):
            self.counts["while away"] += 1
        elif self.scenario.sequences > self.known.get(visit, 0) and any(word in said for word in REPORTED):
            self.known[visit] = self.scenario.sequences
            self.bookmarks[visit] += 1
            self.counts["reported another sequence"] += 1
            print(f"follower {'/'.join(visit)} reported: {said}", flush=True)
        else:
            self.scenario.find(f"follower {'/'.join(visit)}: exit code {code}: {said}")

    def run(self):
        while not self.ended.is_set():
            for visit in VISITS:
                try:
                    self.look(visit)
                except (OSError, json.JSONDecodeError) as error:
                    # The wallet's list is being written.
                    print(f"a look was left out: {error!r}", flush=True)
                except Exception as error:
                    self.scenario.find(f"follower {'/'.join(visit)}: {error!r}")
            self.ended.wait(PAUSE)

    def finish(self):
        """Everything that the mint holds now is found by wallets without a bookmark, and what was due by the others."""
        self.ended.set()
        self.thread.join(300)
        for visit in VISITS:
            kind = visit[0]
            file, points = self.candidates(kind)
            held = self.held(kind) & points

            def all_found(visit=visit, held=held, file=file):
                shutil.rmtree(self.work / "new", ignore_errors=True)
                code, matches, said = follow(self.binary, self.url, *visit, self.work / "new", file)
                expect(code in (0, 1), f"follower {visit} without a bookmark: {said}")
                return held <= matches
            try:
                wait_until(all_found, 90, f"{len(held)} events of {visit} published", 2)
                self.look(visit)
                missed = (self.due[visit] & held) - self.found[visit]
                expect(not missed, f"{len(missed)} of {len(self.due[visit] & held)} were missed with a bookmark")
            except Exception as error:
                self.scenario.find(f"follower {'/'.join(visit)}: {error}")
            self.counts["/".join(visit)] = f"{len(held)} of {len(held)}, {len(self.due[visit] & held)} due"
        return self.counts


class Balancer:
    """One address for two services: connections go to each in turn."""

    def __init__(self, *ports):
        self.ports, self.turn = ports, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.ports[self.turn % len(self.ports)]))
                self.turn += 1
                for ends in ((client, server), (server, client)):
                    threading.Thread(target=copy, args=ends, daemon=True).start()


def copy(source, target):
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


def behind_a_balancer(followers, replica):
    """Looks at two services in turn: the other sequence is reported, filters of keysets are not affected."""
    balancer = Balancer(followers.scenario.service.address.port, replica.address.port)
    file, _ = followers.candidates("proof_state")
    keyset, reported = followers.scenario.key[1], 0
    for _ in range(6):
        code, _, said = follow(followers.binary, balancer.url, "proof_state", "segments", followers.work / "balanced", file)
        expect(code in (0, 1) or any(word in said for word in [*REPORTED, "listed but not served"]), f"two services: {said}")
        reported += code == 2
        check = [followers.binary, "check", "--mint", balancer.url, "--keyset", keyset, "--cache",
                 followers.work / "balanced.cache", "--count", file]
        done = subprocess.run(list(map(str, check)), capture_output=True, text=True, check=False)
        expect(done.returncode in (0, 1), f"check through two services: {done.stderr}")
    expect(reported, "nothing was reported although two services have different sequences")
    return {"reported": reported, "of": 6}
