"""Follows the state filters of a service through kills: what is sealed never changes, and every event is there."""

import hashlib
import json
import subprocess

from e2e.service_under_test import expect, exchange

KINDS = {"spent": ("proof_state", ["--state", "SPENT"]), "issued": ("blind_signature", [])}
OPTIONS = ["--state-filters", "blind_signature,proof_state", "--block-width", "9", "--open-interval", "1"]


class Follower:
    """Remembers every sealed object, and compares it each time."""

    def __init__(self, binary, address, work):
        self.binary, self.address, self.work = binary, address, work
        self.sealed, self.numbers = {}, {}

    def get(self, path):
        answer = exchange(self.address.connect(), f"/v1/filters/{path}")
        expect(answer.status == 200, f"{path} answered {answer.status}")
        if "immutable" in answer.headers["cache-control"]:
            before = self.sealed.setdefault(path, answer.body)
            expect(before == answer.body, f"{path} changed")
        return answer.body

    def manifest(self, kind):
        body = self.get(f"manifest/{kind}")
        manifest = json.loads(body)
        number, before = manifest["number"], self.numbers.get(kind, -1)
        expect(number >= before, f"{kind}: manifest {number} after {before}")
        previous = None
        for old in range(max(before, 0), number + 1):
            chained = self.get(f"manifests/{kind}/{old}")
            expect(previous in (None, json.loads(chained)["previous"]), f"{kind}: manifest {old} breaks the chain")
            previous = hashlib.sha256(chained).hexdigest()
        self.numbers[kind] = number
        return manifest

    def look(self):
        """Reads everything; returns the segments and the blocks of each kind."""
        segments, blocks = {}, []
        for kind, _ in KINDS.values():
            listed = self.manifest(kind)["segments"]
            segments[kind] = [self.get(f"segments/{kind}/{one['start']}-{one['end']}") for one in listed]
            for body, one in zip(segments[kind], listed, strict=True):
                expect(hashlib.sha256(body).hexdigest() == one["sha256"], f"{kind}: a segment is not as listed")
        listed = json.loads(self.get("info/blind_signature"))["blocks"]
        blocks = [self.get(f"blocks/blind_signature/{height}") for height in range(len(listed))]
        return segments, blocks

    def run(self, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True, cwd=self.work)
        expect(done.returncode in (0, 1), f"{arguments}: {done.stderr}")
        return done.stdout

    def check(self, held):
        """Whether exactly these events are published; `held` has points in hex by kind of note and keyset."""
        segments, blocks = self.look()
        for note, (kind, state) in KINDS.items():
            items, elements = self.work / f"{kind}.items", self.work / f"{kind}.elements"
            items.write_text("".join(f"{point}\n" for (of, _), points in held.items() if of == note for point in points))
            elements.write_text(self.run("element", "--kind", kind, *state, items))
            parts = [self.work / f"{kind}.{number}" for number in range(len(segments[kind]))]
            for part, body in zip(parts, segments[kind], strict=True):
                part.write_bytes(body)
            merged, built = self.work / f"{kind}.merged", self.work / f"{kind}.built"
            self.run("segment", "merge", *parts, "-o", merged)
            self.run("segment", "build", "--width", "36", elements, "-o", built)
            if merged.read_bytes() != built.read_bytes():
                return False
        found = set()
        for height, body in enumerate(blocks):
            block = self.work / f"block.{height}"
            block.write_bytes(body)
            answers = self.run("block", "check", block, elements).split()
            found |= {line for line, answer in enumerate(answers) if answer == "maybe"}
        return len(found) == len(elements.read_text().split())
