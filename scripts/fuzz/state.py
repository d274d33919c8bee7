"""What a campaign remembers from one run to the next: `state.json` in its directory, replaced as a whole."""

import json
import os
import pathlib

from building import machine, now

SCHEMA = 1
SERIES_COLUMNS = ["cpu_seconds", "executions", "edges", "features", "corpus_files", "build"]
SERIES_POINTS = 100


def new_target():
    return {"builds": [], "cpu_seconds": 0.0, "wall_seconds": 0.0, "executions": 0, "rounds": 0,
            "value_profile_rounds": 0, "rounds_ended_by_a_find": 0, "rounds_lost": 0, "merge_cpu_seconds": 0.0,
            "peak_rss_mb": 0, "slowest_unit_seconds": 0, "cpu_seconds_at_last_new_edge": 0.0, "last_new_edge": None,
            "cpu_seconds_at_last_new_feature": 0.0, "last_new_feature": None, "series": [], "rests": None,
            "files_after_merge": 0, "in_a_row": 0}


def new_build(described):
    return {**described, "cpu_seconds": 0.0, "wall_seconds": 0.0, "executions": 0, "rounds": 0, "charged": 0.0,
            "edges": None, "features": None}


class State:
    def __init__(self, directory):
        self.path = pathlib.Path(directory) / "state.json"
        if self.path.exists():
            self.all = json.loads(self.path.read_text(encoding="utf-8"))
            if self.all.get("schema") != SCHEMA:
                raise SystemExit(f"{self.path} is of schema {self.all.get('schema')}, not {SCHEMA}")
        else:
            self.all = {"schema": SCHEMA, "started": now(), "machine": machine(), "targets": {}, "finds": [],
                        "running": [], "sessions": [], "corpora": {}, "coverage": None}

    def save(self):
        """A reader, or a run after a power cut, sees the old state or the new one."""
        new = self.path.with_suffix(".new")
        with open(new, "w", encoding="utf-8") as file:
            json.dump(self.all, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        new.replace(self.path)

    @property
    def targets(self):
        return self.all["targets"]

    @property
    def finds(self):
        return self.all["finds"]

    def use(self, built):
        """The builds that the next rounds are of; each is the last of its target's list."""
        for target, described in built.items():
            builds = self.targets.setdefault(target, new_target())["builds"]
            same = [build for build in builds if all(build[name] == described[name] for name in ("source", "binary"))]
            if same:
                builds.remove(same[0])
                # The commit may have moved on without changing what is compiled.
                builds.append({**same[0], "revision": described["revision"], "changed": described["changed"]})
            else:
                builds.append(new_build(described))
            self.targets[target]["rests"] = None

    def build(self, target):
        return self.targets[target]["builds"][-1]

    def of_this_code(self, target, name="cpu_seconds"):
        """The sum over the builds of the sources that are there now."""
        source = self.build(target)["source"]
        return sum(build[name] for build in self.targets[target]["builds"] if build["source"] == source)

    def point(self, target, cpu_seconds, executions, corpus_files):
        """Another point of the growth. Ones that say too little more are left out, and thinned when they are many."""
        about, build = self.targets[target], self.build(target)
        if about["series"]:
            # Where two rounds of a target run at once, neither knows yet what the other has used.
            cpu_seconds = max(cpu_seconds, about["series"][-1][0])
            executions = max(executions, about["series"][-1][1])
        point = [round(cpu_seconds, 2), executions, build["edges"], build["features"], corpus_files,
                 len(about["builds"]) - 1]
        about["series"] = thinned([*about["series"], point])


def thinned(series):
    """At most 100 points, the first and the last among them, dense where growth is: at the beginning."""
    while len(series) > SERIES_POINTS:
        # The point that lies nearest to its predecessor, by the share of time and edges between them.
        last = series[-1]
        def step(index):
            time, edges = (series[index][column] - series[index - 1][column] for column in (0, 2))
            return abs(time) / (series[index][0] or 1) + abs(edges) / (last[2] or 1) * 10
        drop = min(range(1, len(series) - 1), key=step)
        series = series[:drop] + series[drop + 1:]
    return series
