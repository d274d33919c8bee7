"""Corpora: where inputs come from, how they are minimised, and the zips that are committed."""

import hashlib
import heapq
import pathlib
import re
import shutil
import tempfile
import zipfile

from building import FUZZ, Failure, all_targets
from jobs import run_bounded
from libfuzzer import Options

LIMIT = 5_000_000  # bytes of all zips together: what the repository carries
ENTRY_BYTES = 156  # what a zip spends on each: two headers, and the name twice
CUT_SECONDS = 600


def options(target):
    path = FUZZ / "options" / f"{target}.options"
    return Options(path.read_text(encoding="utf-8") if path.exists() else "")


def dictionary(target):
    path = FUZZ / "dictionaries" / f"{target}.dict"
    return [f"-dict={path}"] if path.exists() else []


def name_of(content):
    return hashlib.sha1(content).hexdigest()


def seeds(target):
    folder = FUZZ / "seeds" / target
    return [path.read_bytes() for path in sorted(folder.iterdir())] if folder.is_dir() else []


def committed(target):
    path = FUZZ / "corpora" / f"{target}.zip"
    if not path.exists():
        return []
    with zipfile.ZipFile(path) as archive:
        return [archive.read(name) for name in archive.namelist()]


def live(directory, target):
    """The folder that fuzzers read and write."""
    return pathlib.Path(directory) / "corpus" / target


def prepare(directory, target):
    """The live folder with all seeds and committed inputs in it, as far as they are not there."""
    folder = live(directory, target)
    old, merged = folder.with_suffix(".old"), folder.with_suffix(".merged")
    if old.exists() and not folder.exists():  # killed between two renames
        old.rename(folder)
    for rest in (old, merged):
        shutil.rmtree(rest, ignore_errors=True)
    folder.mkdir(parents=True, exist_ok=True)
    for content in seeds(target) + committed(target):
        path = folder / name_of(content)
        if not path.exists():
            path.write_bytes(content)


def take(directory, target):
    """What was merged takes the live folder's place."""
    folder = live(directory, target)
    old, merged = folder.with_suffix(".old"), folder.with_suffix(".merged")
    shutil.rmtree(old, ignore_errors=True)
    folder.rename(old)
    merged.rename(folder)
    shutil.rmtree(old, ignore_errors=True)


def size(folder):
    """How many files, and how many bytes."""
    sizes = [path.stat().st_size for path in folder.iterdir() if path.is_file()] if folder.is_dir() else []
    return {"files": len(sizes), "bytes": sum(sizes)}


# --- the smallest set of inputs that still has every feature

def features_of(binary, target, folders, environment, seconds=CUT_SECONDS):
    """The features of each input of the folders, as libFuzzer's merge writes them into its control file.

    `-set_cover_merge` is the form of it that writes all features of each input, and not only the new ones. Inputs that
    crash are left out by it. Hash values of comparisons (`-use_value_profile`) are no features here.
    """
    with tempfile.TemporaryDirectory(prefix="nutfilter-merge-") as work:
        control, empty = pathlib.Path(work) / "control", pathlib.Path(work) / "out"
        empty.mkdir()
        command = [str(binary), "-set_cover_merge=1", f"-merge_control_file={control}", f"-artifact_prefix={work}/",
                   *options(target).arguments(), str(empty), *map(str, folders)]
        code, said, _ = run_bounded(command, environment, seconds)
        if code is None:
            raise Failure(f"{target}: merging took more than {seconds} s")
        if code or not control.exists():
            raise Failure(f"{target}: merging failed: {said[-600:]}")
        return parse_control(control.read_text(encoding="utf-8"))


def parse_control(text):
    """`{path: features}` of a merge's control file; inputs whose run did not end have none."""
    lines = text.split("\n")
    count = int(lines[0])
    names = lines[2:2 + count]
    found = {}
    for line in lines[2 + count:]:
        if part := re.match(r"FT (\d+)((?: \d+)*)$", line):
            found[pathlib.Path(names[int(part[1])])] = frozenset(map(int, part[2].split()))
    return found


def cover(features, already=frozenset()):
    """Inputs that together have every feature, few in bytes: each time the one with most new features a byte."""
    missing = set().union(*features.values()) - already if features else set()
    sizes = {path: path.stat().st_size + ENTRY_BYTES for path in features}
    heap = [(-len(has & missing) / sizes[path], sizes[path], path) for path, has in features.items()]
    heapq.heapify(heap)
    chosen = []
    while missing and heap:
        _, length, path = heapq.heappop(heap)
        gain = len(features[path] & missing) / length
        if not gain:
            continue
        if heap and gain < -heap[0][0]:
            heapq.heappush(heap, (-gain, length, path))
            continue
        chosen.append(path)
        missing -= features[path]
    return without_needless(chosen, features, already)


def without_needless(chosen, features, already):
    """Takes out, largest first, inputs whose features others have by now."""
    holders = {}
    for path in chosen:
        for feature in features[path]:
            holders[feature] = holders.get(feature, 0) + 1
    kept = set(chosen)
    for path in sorted(chosen, key=lambda path: -path.stat().st_size):
        if all(feature in already or holders[feature] > 1 for feature in features[path]):
            kept.discard(path)
            for feature in features[path]:
                holders[feature] -= 1
    return [path for path in chosen if path in kept]


def minimise(directory, target, binary, environment):
    """Writes `minimised/<target>`: with the seeds, every feature that the live corpus has. Returns its size."""
    directory = pathlib.Path(directory)
    folder, new = directory / "minimised" / target, directory / "minimised" / f"{target}.new"
    shutil.rmtree(new, ignore_errors=True)
    new.mkdir(parents=True)
    given = FUZZ / "seeds" / target
    folders = ([given] if given.is_dir() else []) + [live(directory, target)]
    features = features_of(binary, target, folders, environment)
    # Seeds are replayed beside the corpus; what they reach needs no second input.
    ours = {path: has for path, has in features.items() if path.parent != given}
    already = frozenset().union(*(has for path, has in features.items() if path.parent == given))
    for path in cover(ours, already):
        content = path.read_bytes()
        (new / name_of(content)).write_bytes(content)
    shutil.rmtree(folder, ignore_errors=True)
    new.rename(folder)
    return {**size(folder), "features": len(frozenset().union(*features.values())) if features else 0}


# --- the zips

def write_zip(path, contents):
    """The same bytes for the same inputs: sorted names, one date, one system. Returns its length."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    with zipfile.ZipFile(new, "w") as archive:
        for name, content in sorted((name_of(content), content) for content in set(contents)):
            entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
            archive.writestr(entry, content, compresslevel=9)
    new.replace(path)
    return path.stat().st_size


def write_corpora(directory, targets, binaries, environment, limit=LIMIT, say=print):
    """The zips of all these targets from their minimised folders, at most `limit` bytes with the others' together."""
    folder = FUZZ / "corpora"
    others = sum(path.stat().st_size for path in folder.glob("*.zip") if path.stem not in targets)
    sizes = {}
    for target in targets:
        inputs = pathlib.Path(directory) / "minimised" / target
        contents = [path.read_bytes() for path in inputs.iterdir()]
        if set(contents) != set(committed(target)):
            write_zip(folder / f"{target}.zip", contents)
        sizes[target] = (folder / f"{target}.zip").stat().st_size
    if others > limit:
        raise Failure(f"the zips of other targets have {others:,} bytes already")
    while others + sum(sizes.values()) > limit:
        target = max(sizes, key=sizes.get)
        sizes[target] = shrink(directory, target, binaries / target, environment, say)
    for target in targets:
        say(f"{target}: {len(committed(target))} inputs, {sizes[target]:,} bytes")
    say(f"together {others + sum(sizes.values()):,} bytes of at most {limit:,}")


def shrink(directory, target, binary, environment, say):
    """Drops the tenth of a target's bytes that adds least: fewest features of its own a byte."""
    inputs = pathlib.Path(directory) / "minimised" / target
    features = features_of(binary, target, [inputs], environment)
    holders = {}
    for has in features.values():
        for feature in has:
            holders[feature] = holders.get(feature, 0) + 1
    own = {path: sum(holders[feature] == 1 for feature in has) for path, has in features.items()}
    costs = {path: path.stat().st_size + ENTRY_BYTES for path in own}
    enough, dropped, lost = sum(costs.values()) / 10, 0, 0
    for path in sorted(own, key=lambda path: own[path] / costs[path]):
        if dropped >= enough:
            break
        dropped, lost = dropped + costs[path], lost + own[path]
        path.unlink()
    say(f"{target}: {dropped:,} bytes dropped to fit, which alone had {lost} features")
    return write_zip(FUZZ / "corpora" / f"{target}.zip", [path.read_bytes() for path in inputs.iterdir()])


def pack(folder):
    """What a farm wants beside each program: seeds and corpus in one zip, dictionary, options."""
    for target in all_targets():
        contents = seeds(target) + committed(target)
        if contents:
            write_zip(folder / f"{target}_seed_corpus.zip", contents)
        for kind, ending in (("dictionaries", "dict"), ("options", "options")):
            source = FUZZ / kind / f"{target}.{ending}"
            if source.exists():
                shutil.copyfile(source, folder / source.name)
