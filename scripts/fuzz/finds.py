"""What fuzzers found: each fault kept once, made small, and with the line that shows it again."""

import base64
import hashlib
import pathlib
import shutil

from building import FUZZ, ROOT, now

CARRIED = 8192  # bytes of an input that the record itself carries; longer ones are only in fuzz/artifacts
MINIMISED_KINDS = {"crash", "out of memory"}  # a timeout or a leak shrunk costs more than it tells
MINIMISE_SECONDS = 120


def find(state, job, target, kind, path, reproduce, round_kind):
    """Takes a file that libFuzzer wrote. Returns the find where it is a new one."""
    path = pathlib.Path(path)
    signature = job.said.signature(kind) if kind != "slow unit" else "slow unit"
    build = state.build(target)
    for known in state.finds:
        if (known["target"], known["signature"], known["source"]) == (target, signature, build["source"]):
            known["count"] += 1
            path.unlink(missing_ok=True)
            return None
    content = path.read_bytes()
    kept = FUZZ / "artifacts" / target / path.name
    kept.parent.mkdir(parents=True, exist_ok=True)
    shutil.move(path, kept)
    new = {"target": target, "kind": kind, "signature": signature,
           # A record is for any checkout: paths are the repository's.
           "story": job.said.story().replace(f"{ROOT}/", "") if kind != "slow unit" else "an execution took seconds",
           "frames": job.said.frames[:12], "count": 1, "at": now(),
           "cpu_seconds": round(state.targets[target]["cpu_seconds"] + job.cpu_seconds, 1),
           "round": round_kind, "seed": job.said.seed, "revision": build["revision"], "source": build["source"],
           "minimised": "to do" if kind in MINIMISED_KINDS else "not tried", "bytes_as_found": len(content)}
    carry(new, kept, reproduce)
    state.finds.append(new)
    return new


def carry(entry, path, reproduce):
    """The file of a find, what is in it, and how it is run."""
    content = path.read_bytes()
    shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else str(path)
    entry.update(file=shown, sha1=hashlib.sha1(content).hexdigest(), bytes=len(content),
                 input_base64=base64.b64encode(content).decode() if len(content) <= CARRIED else None,
                 reproduce=f"{reproduce} {entry['target']} {shown}")


def unpack(record, say=print):
    """Writes the inputs that a record carries, so that its lines for reproducing work in any checkout."""
    for entry in record["finds"]:
        path = ROOT / entry["file"]
        if entry["input_base64"] is not None and not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(base64.b64decode(entry["input_base64"]))
        say(entry["reproduce"] if path.exists() else f"{entry['file']}: its input was too long for the record")
