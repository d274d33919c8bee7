"""The pure-Python reference of the repository, and its vectors."""

import base64
import json
import sys
from pathlib import Path


VECTORS = Path(__file__).resolve().parents[3] / "tests" / "vectors"


# The reference imports its neighbour.
sys.path.insert(0, str(VECTORS))

import make_vectors as reference  # noqa: E402


def vectors(name):
    return json.loads((VECTORS / name).read_text())


def malformed():
    """The rows of malformed.json with their bytes."""
    file = vectors("malformed.json")
    for row in file["rows"]:
        given = base64.b64decode(file["filters"][row["of"]]) if "of" in row else bytes.fromhex(row["hex"]) * row.get("times", 1)
        given = given[:row.get("len")] + bytes(row.get("zeros", 0))
        for length in range(len(given)) if row.get("cuts") else [len(given)]:
            yield row, given[:length]


def points(count, seed=1):
    """Items of 33 bytes."""
    return reference.generate_items(count, seed)


def keyword(profile, key_hex):
    """The arguments for a profile by the name that it has in the vectors."""
    if profile == "bip158":
        return {"profile": "siphash", "key": bytes.fromhex(key_hex)}
    return {"profile": profile}
