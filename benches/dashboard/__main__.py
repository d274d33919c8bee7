"""python -m benches.dashboard page | readme [--check]"""

import argparse
import json
import sys
from pathlib import Path

from . import readme, records

ROOT = Path(__file__).resolve().parents[2]
SPACE = ROOT / "benches/record/space/2026-11-27.json"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches.dashboard")
    parser.add_argument("--records", type=Path, default=ROOT / "benches/record", help="folder of records")
    commands = parser.add_subparsers(dest="command", required=True)
    page = commands.add_parser("page", help="write the page (needs benches/dashboard/requirements.txt)")
    page.add_argument("--output", type=Path, default=ROOT / "target/dashboard/index.html")
    table = commands.add_parser("readme", help="write the README's table")
    table.add_argument("--check", action="store_true", help="only check that it is up to date")
    arguments = parser.parse_args()
    cpus = records.read(arguments.records)
    if arguments.command == "readme":
        return readme.update(ROOT / "README.md", cpus, arguments.check)
    from . import page as page_module  # Altair is needed for the page only.

    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    arguments.output.write_text(page_module.html([cpu for cpu in cpus if not cpu.native], json.loads(SPACE.read_text())["rows"]))
    print(arguments.output)
    return 0


sys.exit(main())
