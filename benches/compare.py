"""Compares the rows of two builds of `nutfilter-peers`, in turns, by their fastest samples: another program on the machine only makes rows slower.

python3 benches/compare.py target/release/nutfilter-peers target/consumer/nutfilter-peers --only sort/ decode/fold
"""

import argparse
import json
import subprocess


def measure(binary: str, args: argparse.Namespace) -> dict[str, float]:
    """The fastest sample of each row in one run."""
    only = [word for name in args.only for word in ("--only", name)]
    command = [binary, "--sizes", args.size, "--seconds", str(args.seconds), *only]
    rows = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)["rows"]
    return {f"{row['name']} x{row.get('threads', 1)}": row["minimum"] for row in rows}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("binaries", nargs=2)
    parser.add_argument("--only", nargs="+", default=[])
    parser.add_argument("--size", default="1m")
    parser.add_argument("--seconds", type=float, default=0.2)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    rounds = [[], []]
    for number in range(args.rounds):
        for which in ([0, 1], [1, 0])[number % 2]:
            rounds[which].append(measure(args.binaries[which], args))
    for row in rounds[0][0]:
        first, second = (min(one[row] for one in runs) for runs in rounds)
        print(f"{row:56} {first:14.3f} {second:14.3f} {second / first:6.2f}")


if __name__ == "__main__":
    main()
