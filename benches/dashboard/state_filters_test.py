"""Opens docs/state-filters/index.html in headless Chromium, and compares its formulas with the record of the simulation.

python benches/dashboard/state_filters_test.py [--screenshots FOLDER]; needs what browser_test.py needs.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

from browser_test import load, run
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

DOCS = Path(__file__).resolve().parents[2] / "docs"
PAGE = DOCS / "state-filters/index.html"
RECORD = json.loads((DOCS / "state-filters-simulation.json").read_text())
# Lines of text and controls that overlap each other or leave the page.
COLLISIONS = """
const parts = [...document.querySelectorAll('h1, h2, header p, label, output, input, .bars span, .bars b, .reset, .text li, .text p')];
const boxes = parts.map((part) => [part.textContent.slice(0, 40) || part.id, part.getBoundingClientRect()]);
const faults = [];
boxes.forEach(([name, a], i) => {
  if (a.left < 0 || a.right > innerWidth + 1) faults.push(`${name} leaves the page`);
  for (const [other, b] of boxes.slice(i + 1))
    if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) faults.push(`${name} overlaps ${other}`);
});
return faults;"""
BARS = """
return [...document.querySelectorAll('.bars')].map((list) => [list.id, [...list.querySelectorAll('i > i')].map((bar) => bar.getBoundingClientRect().width)]);"""
# A follower through the last month of the record, at a time after each full hour.
FOLLOW = """
const [after, end, sync, rate, w] = arguments, times = [];
for (let now = end - 30 * 86400 + after; now <= end; now += 3600) times.push(now);
return followSegments(times, sync, rate, w).bytes;"""


def compare_with_record(browser) -> list[str]:
    """Compares the page's formulas and costs with the record, within 3 percent."""
    rows, days = {}, RECORD["days"] * 86400
    choices = {"away": days, "candidates": RECORD["lookups"], "states": 1, "b": RECORD["blocks"]["width"]}
    for segment in RECORD["segments"]:
        w = segment["width"]
        choices |= {key: RECORD[key] for key in ("rate", "sync")} | {"w": w}
        page = browser.execute_script("return compare(arguments[0])", choices)
        restore, storage, mine = segment["cold_restore"], segment["storage"], page["segments"]
        rows[f"w = {w}: restore"] = mine["download"], restore["bytes"]
        rows[f"w = {w}: matches"] = mine["matches"], restore["expected_false"]
        rows[f"w = {w}: kept"] = mine["storage"], storage["compacted"]
        rows[f"w = {w}: objects"] = mine["requests"] - 1, storage["objects"]
        one = browser.execute_script("return segmentBytes(...arguments)", RECORD["blocks"]["capacity"], w)
        rows[f"w = {w}: one block"] = one, segment["segment_of_a_block"]
        for follow in segment["follow_a_day"]:
            after = follow["seconds_after_the_hour"]
            a_day = browser.execute_script(FOLLOW, after, days, RECORD["sync"], RECORD["rate"], w)
            rows[f"w = {w}: follow {after} s after the hour"] = a_day, follow["bytes"]
        if w == 36:
            merges = sum(merge["ns_per_value"] for merge in segment["merges"])
            rows["segments: insertion"] = mine["insert"], segment["insert_ns"] + merges
            rows["segments: test"] = mine["test"], restore["validate_and_test_seconds"] * 1e9
    for name, key in (("blocks", "blocks"), ("fuse", "fuse16_per_block"), ("keyset", "per_keyset")):
        mine, theirs = page[name], RECORD[key]
        rows[f"{name}: restore"] = mine["download"], theirs["cold_restore"]["bytes"]
        rows[f"{name}: matches"] = mine["matches"], theirs["cold_restore"]["expected_false"]
        rows[f"{name}: kept"] = mine["storage"], theirs.get("storage", theirs.get("bytes"))
        if name != "fuse":
            rows[f"{name}: follow"] = mine["follow"], theirs["follow_a_day"]["bytes"]
        if name != "keyset":
            tests = RECORD["lookups"] * RECORD["events"] / RECORD["blocks"]["capacity"]
            rows[f"{name}: test"] = mine["test"], theirs["test_ns"] * tests
            rows[f"{name}: insertion"] = mine["insert"], theirs["insert_ns"]
    build = RECORD["per_keyset"]["build_seconds"] * 1e9 / (RECORD["refresh"] * RECORD["rate"])
    rows["keyset: insertion"] = page["keyset"]["insert"], build
    error = {name: abs(mine / theirs - 1) for name, (mine, theirs) in rows.items()}
    worst = max(error, key=error.get)
    print(f"{len(rows)} figures compared with the record; largest difference: {error[worst]:.2%}, {worst}")
    return [f"{name}: page and record: {rows[name]}" for name in rows if error[name] > 0.03]


def compare_proposal() -> list[str]:
    """Compares the table of docs/proposal.md with the record, within 3 percent."""
    units = {"MB": 1e6, "kB": 1e3}
    lines = [line.split("|")[1:-1] for line in (DOCS / "proposal.md").read_text().splitlines() if line.startswith("| ")]
    shown = {row[0].strip(): [cell.split() for cell in row[1:]] for row in lines}
    rows = {f"segments, w = {one['width']}": one for one in RECORD["segments"]}
    rows |= {f"draft blocks, b = {RECORD['blocks']['width']}": RECORD["blocks"]}
    faults = []
    for name, one in rows.items():
        storage, follow, restore = one["storage"], one["follow_a_day"], one["cold_restore"]
        visits = [visit["bytes"] for visit in follow] if isinstance(follow, list) else [follow["bytes"]]
        kept = storage["compacted"] if isinstance(storage, dict) else storage
        theirs = kept, restore["bytes"], restore["expected_false"], statistics.mean(visits), one["insert_ns"]
        for cell, figure in zip(shown[name], theirs, strict=True):
            mine = float(cell[0].replace(",", "")) * units.get(cell[-1], 1)
            if abs(mine / figure - 1) > 0.03:
                faults.append(f"proposal, {name}: {' '.join(cell)} is {figure} in the record")
    return faults


def check(browser, page: Path, name: str) -> list[str]:
    load(browser, page)
    faults = compare_with_record(browser) if name == "desktop-light" else []

    def expect(holds: bool, fault: str) -> None:
        if not holds:
            faults.append(f"{name}: {fault}")

    def state() -> tuple[str, list]:
        return browser.find_element(By.ID, "result").text, browser.execute_script(BARS)

    default = state()
    expect("50.4 MB as segments or 91.2 MB as Bloom blocks, with 9.18 or 106 false" in default[0], default[0])
    expect(default[0] in page.read_text(), "the page without JavaScript shows another result")
    # The defaults, then all sliders at their least, then all at their greatest.
    for key in (None, Keys.HOME, Keys.END):
        for slider in browser.find_elements(By.CSS_SELECTOR, "input[type=range]") if key else ():
            before, choice = state(), slider.get_attribute("id")
            slider.send_keys(key)
            shown = browser.find_element(By.ID, f"{choice}-value").text
            expect(shown == slider.get_attribute("aria-valuetext"), f"{choice} shows {shown}")
            expect(f"{choice}=" in browser.current_url, f"{choice} is not in the address")
            expect(state() != before, f"{choice} changes nothing")
        faults += [f"{name}: {fault}" for fault in browser.execute_script(COLLISIONS)]
        text = browser.find_element(By.TAG_NAME, "body").text
        expect(not any(word in text for word in ("NaN", "Infinity", "undefined")), f"no number after {key}")
        for chart, widths in state()[1]:
            expect(len(widths) == 4 and widths == sorted(widths), f"{chart}: {widths}")
    moved = state()
    load(browser, page, "#" + browser.current_url.partition("#")[2])
    expect(state() == moved != default, "the address does not choose")
    load(browser, page, "#rate=7&w=nonsense")
    expect(state() == default, "a wrong address is not ignored")
    return faults


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--screenshots", type=Path)
    if faults := compare_proposal():
        sys.exit("\n".join(faults))
    sys.exit(run(PAGE, check, (390, 844), parser.parse_args().screenshots))
