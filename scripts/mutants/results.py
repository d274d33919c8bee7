"""What became of each mutant, by its name, in a file that is whole at any moment."""

import json
import threading

from building import Failure, code


class Results:
    def __init__(self, output):
        self.path = output / "results.json"
        self.lock = threading.Lock()
        self.of = {"code": code(), "found": {}}
        if self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))
            if before["code"] != self.of["code"]:
                raise Failure(f"{self.path} is of other sources: take another folder, or remove it")
            self.of = before

    @property
    def found(self):
        return self.of["found"]

    def lived(self, name):
        return self.found.get(name, {}).get("outcome") == "lived"

    def is_under_way(self, name):
        return self.found.get(name, {}).get("outcome") == "under way"

    def add(self, new):
        with self.lock:
            self.found.update(new)
            self.path.parent.mkdir(parents=True, exist_ok=True)
            being_written = self.path.with_suffix(".new")
            being_written.write_text(json.dumps(self.of, indent=1) + "\n", encoding="utf-8")
            being_written.replace(self.path)
