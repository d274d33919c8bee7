"""The record of a campaign: what is committed, what a page draws, and what people are shown.

Every field is told in docs/fuzzing.md. `check` holds a record against what is told there.
"""

import json

import corpora
from building import FUZZ, all_targets, machine_name, now, source_hash
from state import SCHEMA, SERIES_COLUMNS, SERIES_POINTS

# A slow unit is told of, and ends nothing.
TOLD_ONLY = {"slow unit"}


def make(state, directory):
    """The record, from the state and what lies in the campaign's directory."""
    everything, targets = state.all, {}
    for target in sorted(state.targets):
        targets[target] = of_target(state, target, directory)
    sessions = everything["sessions"]
    last = max((state.build(target) for target in targets), key=lambda build: build["built"])
    finds = everything["finds"]
    return {
        "schema": SCHEMA, "what": "fuzzing campaign", "written": now(), "started": everything["started"],
        "ended": sessions[-1]["ended"] if sessions else None, "sessions": sessions,
        "machine": everything["machine"], "compiler": last["compiler"], "revision": last["revision"],
        "changed": last["changed"],
        "cpu_seconds": summed(targets, "cpu_seconds"), "wall_seconds": summed(targets, "wall_seconds"),
        "executions": summed(targets, "executions"),
        "on_this_code": {name: summed({target: about["on_this_code"] for target, about in targets.items()}, name)
                         for name in ("cpu_seconds", "wall_seconds", "executions", "rounds")},
        "finds": finds,
        "finds_on_this_code": sum(entry["source"] == state.build(entry["target"])["source"]
                                  and entry["kind"] not in TOLD_ONLY for entry in finds),
        "series_columns": SERIES_COLUMNS, "targets": targets,
        "coverage": everything["coverage"] or {"missing": "not measured"},
    }


def of_target(state, target, directory):
    about, build = state.targets[target], state.build(target)
    cpu = about["cpu_seconds"]
    return {
        "source": build["source"], "binary": build["binary"],
        "cpu_seconds": round(cpu, 1), "wall_seconds": round(about["wall_seconds"], 1), "executions": about["executions"],
        "executions_per_cpu_second": round(about["executions"] / cpu) if cpu else None,
        "on_this_code": {name: rounded(state.of_this_code(target, name))
                         for name in ("cpu_seconds", "wall_seconds", "executions", "rounds")},
        "builds": [{name: rounded(value) for name, value in entry.items() if name != "charged"} for entry in about["builds"]],
        **{name: about[name] for name in ("rounds", "value_profile_rounds", "rounds_ended_by_a_find", "rounds_lost",
                                          "peak_rss_mb", "slowest_unit_seconds", "last_new_edge", "last_new_feature",
                                          "rests")},
        "merge_cpu_seconds": round(about["merge_cpu_seconds"], 1),
        "edges": build["edges"], "features": build["features"],
        "cpu_seconds_since_last_new_edge": max(0.0, round(cpu - about["cpu_seconds_at_last_new_edge"], 1)),
        "cpu_seconds_since_last_new_feature": max(0.0, round(cpu - about["cpu_seconds_at_last_new_feature"], 1)),
        "corpus": corpora.size(corpora.live(directory, target)),
        "minimised_corpus": state.all["corpora"].get(target),
        "series": about["series"],
    }


def rounded(value):
    return round(value, 1) if isinstance(value, float) else value


def summed(targets, name):
    return rounded(sum(about[name] for about in targets.values()))


def usual_path(state):
    return FUZZ / "record" / f"{state.all['started'][:10]}-{machine_name()}.json"


def write(record, path):
    """Series and pairs stay on a line of their own: the file is read in reviews too."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_text(compact(record) + "\n", encoding="utf-8")
    new.replace(path)


def compact(value, indent=0):
    """JSON with lists of plain values, and small objects, on one line."""
    flat = json.dumps(value)
    if not isinstance(value, (dict, list)) or len(flat) + indent <= 110:
        return flat
    inner = " " * (indent + 1)
    if isinstance(value, dict):
        parts = [f"{inner}{json.dumps(name)}: {compact(part, indent + 1)}" for name, part in value.items()]
        return "{\n" + ",\n".join(parts) + "\n" + " " * indent + "}"
    return "[\n" + ",\n".join(inner + compact(part, indent + 1) for part in value) + "\n" + " " * indent + "]"


# --- for people

def report(record):
    """The tables."""
    lines = [f"{record['started']} to {record['ended']}, {record['machine']['cpu']}, {record['compiler']}",
             f"revision {record['revision']}{' with changes' if record['changed'] else ''}: "
             f"{record['on_this_code']['cpu_seconds']:,.0f} s of CPU and {record['on_this_code']['executions']:,} "
             f"executions on this code, {record['cpu_seconds']:,.0f} s and {record['executions']:,} in all", ""]
    rows = [["target", "executions", "a CPU second", "CPU s", "edges", "features", "corpus", "bytes", "minimised", "bytes",
             "CPU s since new edge", "since new feature", "regions of src"]]
    by_target = record["coverage"].get("by_target", {})
    for target, about in record["targets"].items():
        small = about["minimised_corpus"] or {"files": 0, "bytes": 0}
        rows.append([target, f"{about['executions']:,}", f"{about['executions_per_cpu_second'] or 0:,}",
                     f"{about['cpu_seconds']:,.0f}", number(about["edges"]), number(about["features"]),
                     number(about["corpus"]["files"]), number(about["corpus"]["bytes"]), number(small["files"]),
                     number(small["bytes"]), f"{about['cpu_seconds_since_last_new_edge']:,.0f}",
                     f"{about['cpu_seconds_since_last_new_feature']:,.0f}",
                     share(by_target[target]["regions"]) if target in by_target else ""])
    lines += aligned(rows)
    lines += [f"{target} rests: {about['rests']}" for target, about in record["targets"].items() if about["rests"]]
    lines += ["", *coverage_lines(record["coverage"]), "", *find_lines(record)]
    return "\n".join(lines)


def coverage_lines(coverage):
    if coverage["missing"]:
        return [f"coverage: {coverage['missing']}"]
    rows = [["file", "regions", "", "lines", "", "functions", ""]]
    for path, counts in [*coverage["files"].items(), ("together", coverage["total"])]:
        rows.append([path, *(cell for name in ("regions", "lines", "functions")
                             for cell in (f"{counts[name][0]}/{counts[name][1]}", share(counts[name])))])
    return aligned(rows)


def find_lines(record):
    if not record["finds"]:
        return ["nothing found"]
    lines = []
    for entry in record["finds"]:
        now_there = record["targets"][entry["target"]]["source"] == entry["source"]
        lines += [f"{entry['target']}: {entry['kind']}, {entry['count']} times"
                  f"{'' if now_there else ', on other code than this'}: {entry['story']}", f"    {entry['reproduce']}"]
    return lines


def number(value):
    return f"{value:,}" if value is not None else ""


def share(pair):
    return f"{100 * pair[0] / pair[1]:.1f} %" if pair[1] else ""


def aligned(rows):
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:]))]).rstrip()
            for row in rows]


# --- for CI

def faults(record):
    """What is wrong with a record, in words; nothing where it is as docs/fuzzing.md tells."""
    try:
        return faults_of_shape(record)
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        return [f"of another shape than told: {error!r}"]


def others(entry, shape):
    """Names that are not there, or have values of another type."""
    return [name for name in shape if name not in entry or not isinstance(entry[name], shape[name])]


def faults_of_shape(record):
    found = []

    def need(condition, message):
        if not condition:
            found.append(message)
        return condition

    if not need(isinstance(record, dict) and record.get("schema") == SCHEMA, f"schema is not {SCHEMA}"):
        return found
    missing = others(record, TOP)
    if not need(not missing, f"missing or of another type: {', '.join(missing)}"):
        return found
    need(record["series_columns"] == SERIES_COLUMNS, "series_columns are others")
    for target, about in record["targets"].items():
        bad = others(about, TARGET)
        if not need(not bad, f"{target}: missing or of another type: {', '.join(bad)}"):
            continue
        builds = about["builds"]
        for name in ("cpu_seconds", "executions", "rounds"):
            need(abs(sum(build[name] for build in builds) - about[name]) <= 0.1 * len(builds) + 0.1,
                 f"{target}: {name} of the builds do not add up to {about[name]}")
            need(about["on_this_code"][name] <= about[name] + 0.2, f"{target}: more {name} on this code than in all")
        series_faults(target, about["series"], need)
    for name in ("cpu_seconds", "executions"):
        whole = sum(about[name] for about in record["targets"].values())
        need(abs(whole - record[name]) <= 0.2 * len(record["targets"]), f"{name} of the targets do not add up")
    for entry in record["finds"]:
        bad = others(entry, FIND)
        need(not bad, f"a find: missing or of another type: {', '.join(bad)}")
        need(entry.get("target") in record["targets"], f"a find of no target: {entry.get('target')}")
    coverage_faults(record["coverage"], need)
    return found


def series_faults(target, series, need):
    need(len(series) <= SERIES_POINTS, f"{target}: {len(series)} points in the series")
    need(all(len(point) == len(SERIES_COLUMNS) for point in series), f"{target}: a point has other columns")
    for column in (0, 1):
        values = [point[column] for point in series]
        need(values == sorted(values), f"{target}: {SERIES_COLUMNS[column]} of the series go back")


def coverage_faults(coverage, need):
    if coverage.get("missing", "") is not None:
        need(isinstance(coverage.get("missing"), str), "coverage says neither what is covered nor why not")
        return
    for path, counts in coverage["files"].items():
        need(all(0 <= reached <= there for reached, there in counts.values()), f"coverage: {path}: more than there is")


NUMBER = (int, float)
TOP = {"what": str, "written": str, "started": str, "ended": (str, type(None)), "sessions": list, "machine": dict,
       "compiler": str, "revision": (str, type(None)), "changed": (bool, type(None)), "cpu_seconds": NUMBER,
       "wall_seconds": NUMBER, "executions": int, "on_this_code": dict, "finds": list, "finds_on_this_code": int,
       "series_columns": list, "targets": dict, "coverage": dict}
TARGET = {"source": str, "binary": str, "cpu_seconds": NUMBER, "wall_seconds": NUMBER, "executions": int,
          "executions_per_cpu_second": (int, type(None)), "on_this_code": dict, "builds": list, "rounds": int,
          "value_profile_rounds": int, "rounds_ended_by_a_find": int, "rounds_lost": int, "peak_rss_mb": int,
          "slowest_unit_seconds": int, "last_new_edge": (str, type(None)), "last_new_feature": (str, type(None)),
          "rests": (str, type(None)), "merge_cpu_seconds": NUMBER, "edges": (int, type(None)),
          "features": (int, type(None)), "cpu_seconds_since_last_new_edge": NUMBER,
          "cpu_seconds_since_last_new_feature": NUMBER, "corpus": dict, "minimised_corpus": (dict, type(None)),
          "series": list}
FIND = {"target": str, "kind": str, "signature": str, "story": str, "frames": list, "count": int, "at": str,
        "cpu_seconds": NUMBER, "round": str, "seed": (int, type(None)), "revision": (str, type(None)), "source": str,
        "minimised": str, "bytes_as_found": int, "file": str, "sha1": str, "bytes": int,
        "input_base64": (str, type(None)), "reproduce": str}


def on_the_code_here(record, dependencies):
    """CPU seconds of the record on the sources of this checkout, by target; `dependencies` are cargo's `.d` files."""
    found = {}
    for target in all_targets():
        builds = record["targets"].get(target, {}).get("builds", [])
        here = source_hash(dependencies / f"{target}.d")
        found[target] = sum(build["cpu_seconds"] for build in builds if build["source"] == here)
    return found
