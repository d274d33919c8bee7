"""Fails if two Rust files, or two types, have one name: a search for it should find one place. Tests and examples are left out."""

import collections
import pathlib
import re
import subprocess
import sys

# Folders that mirror others keep the names of what they mirror: the kernels of each SIMD level, the wrappers of the bindings, the reference,
# and the cases of fuzz targets, which have the names of what they test.
MIRRORS = ["src/arch/x86_64/avx2", "src/arch/x86_64/avx512", "src/arch/aarch64", "bindings/python", "bindings/c", "crates/reference",
           "crates/harness", "fuzz"]
# Each crate has its root, each fuzz target its `Case`, and the documentation tests of each crate their `Readme`.
EXPECTED = {"mod.rs", "lib.rs", "main.rs", "build.rs", "error.rs", "Case", "Readme"}
# One for each platform, and with and without a feature.
EXPECTED |= {"Socket", "PostgresUrl"}

places = collections.defaultdict(list)
for path in map(pathlib.Path, subprocess.check_output(["git", "ls-files", "*.rs"], text=True).split()):
    if not {"tests", "tests.rs", "examples"}.intersection(path.parts):
        room = next((mirror for mirror in MIRRORS if path.is_relative_to(mirror)), "")
        types = re.findall(r"^ *(?:pub(?:\([\w: ]+\))? )?(?:struct|enum|trait|union) (\w+)|^(?:pub(?:\([\w: ]+\))? )?type (\w+)",
                           path.read_text(), re.M)
        for name in [path.name, *("".join(pair) for pair in types)]:
            places[room, name].append(str(path))
errors = [f"{name} is in {', '.join(paths)}" for (_, name), paths in places.items() if len(paths) > 1 and name not in EXPECTED]
sys.exit("\n".join(errors) or 0)
