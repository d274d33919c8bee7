"""The mutants that a switch cannot make, built one by one by cargo-mutants."""

import json
import os
import re
import subprocess

from building import Failure, copy_to
from packages import PACKAGES

OUTCOMES = {"CaughtMutant": "caught", "MissedMutant": "lived", "Timeout": "timed out", "Unviable": "not compiled"}

TIMEOUT = 600
"""Seconds for all tests with one mutant."""


def is_wanted(schemata, mutant, results):
    """Whether one is to be built alone: it has no switch; or it has one in a `const fn` and lived, maybe because it is
    called when the library is built; or it was refused for what lies around it."""
    number = mutant["number"]
    if number in schemata.switched:
        return number in schemata.in_const_fn and results.lived(mutant["name"])
    return number not in schemata.not_compiled


def run_all(output, package, mutants, results):
    """Tries those of `mutants` that were not yet tried alone."""
    left = [mutant for mutant in mutants if not results.found.get(mutant["name"], {}).get("alone")]
    if not left:
        return
    print(f"{package}: {len(left)} one by one", flush=True)
    tree, folder = output / "tree-alone", output / "alone"
    copy_to(tree)
    folder.mkdir(exist_ok=True)
    names = "|".join(re.escape(mutant["name"]) for mutant in left)
    files = sorted({mutant["file"] for mutant in left} & set(PACKAGES[package].files))
    command = ["cargo", "mutants", "--in-place", "--package", package, *[part for file in files for part in ("--file", file)],
               "--re", f"^({names})$", "--baseline", "skip", "--timeout", str(TIMEOUT), "--output", folder, "--colors", "never"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(output / "target-alone"), "CARGO_PROFILE_MUTANTS_OPT_LEVEL": "2"}
    with open(folder / "log", "a", encoding="utf-8") as log:
        code = subprocess.run(command, cwd=tree, env=environment, stdout=log, stderr=log, check=False).returncode
    # 2: some lived, 3: some timed out; both are results.
    if code not in (0, 2, 3):
        raise Failure(f"cargo mutants ended with {code}: see {folder}/log")
    became = json.loads((folder / "mutants.out" / "outcomes.json").read_text(encoding="utf-8"))["outcomes"]
    results.add({one["scenario"]["Mutant"]["name"]: {"outcome": OUTCOMES[one["summary"]], "alone": True}
                 for one in became if isinstance(one["scenario"], dict)})
    forgotten = [mutant["name"] for mutant in left if not results.found.get(mutant["name"], {}).get("alone")]
    if forgotten:
        raise Failure(f"cargo mutants did not try {forgotten[0]}, and {len(forgotten) - 1} others")
