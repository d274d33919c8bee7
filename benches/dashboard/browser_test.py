"""Opens the page in headless Chromium: python benches/dashboard/browser_test.py [PAGE]

Needs benches/dashboard/requirements-test.txt and Debian's chromium and chromium-driver.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "target/dashboard/index.html"
CHARTS = ["check", "build", "lookup", "size"]
# Texts of a chart that overlap or leave the chart.
COLLISIONS = """
const faults = [];
for (const chart of document.querySelectorAll('.chart')) {
  const outer = chart.getBoundingClientRect();
  const texts = [...chart.querySelectorAll('svg text')].filter((text) => text.textContent.trim() && text.getClientRects().length);
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  boxes.forEach(([name, a], i) => {
    if (a.left < outer.left - 1 || a.right > outer.right + 1) faults.push(`${chart.id}: ${name} leaves the chart`);
    for (const [other, b] of boxes.slice(i + 1))
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2) faults.push(`${chart.id}: ${name} overlaps ${other}`);
  });
}
return faults;"""
# Vega draws bars in the order of the data; what counts is their place and length.
BARS = """
const bars = [...document.querySelectorAll(`#chart-${arguments[0]} .mark-rect.role-mark path`)].map((bar) => bar.getBoundingClientRect());
return bars.sort((a, b) => a.top - b.top).map((bar) => bar.width);"""
# Smallest WCAG contrast of a text to the background.
CONTRAST = """
const channel = (value) => (value /= 255) <= 0.03928 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
const light = (color) => { const [r, g, b] = color.match(/[\\d.]+/g).map(Number); return 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b); };
const back = light(getComputedStyle(document.body).backgroundColor);
const contrast = (color) => { const other = light(color); return (Math.max(back, other) + 0.05) / (Math.min(back, other) + 0.05); };
const texts = [...document.querySelectorAll('.chart svg text')].map((text) => getComputedStyle(text).fill);
const prose = [...document.querySelectorAll('p, td, h1, h2, dt, label, li, em, output')].map((text) => getComputedStyle(text).color);
return Math.min(...[...texts, ...prose].map(contrast));"""


def driver(dark: bool, width: int, height: int) -> webdriver.Chrome:
    options = webdriver.ChromeOptions()
    for argument in ("headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "hide-scrollbars"):
        options.add_argument(f"--{argument}")
    for argument in ("disable-background-networking", "disable-component-update", "disable-sync"):
        options.add_argument(f"--{argument}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService("/usr/bin/chromedriver"))
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    return browser


def load(browser: webdriver.Chrome, page: Path, fragment: str = "") -> None:
    browser.get("about:blank")
    browser.get(page.as_uri() + fragment)
    WebDriverWait(browser, 60).until(lambda browser: browser.execute_script("return document.body.dataset.ready"))


def check_any_page(browser: webdriver.Chrome, name: str, width: int) -> list[str]:
    """Checks contrast, dark mode, width, the console and the network, after everything else was done."""
    contrast = browser.execute_script(CONTRAST)
    background = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    overflow = browser.execute_script("return document.documentElement.scrollWidth") - width
    errors = [entry["message"] for entry in browser.get_log("browser") if entry["level"] == "SEVERE"]
    requests = [
        entry["message"] for entry in browser.get_log("performance") if "Network.requestWillBeSent" in entry["message"]
    ]
    faults = {
        f"text contrast {contrast:.1f}": contrast < 4.5,
        f"background {background}": (background == "rgb(255, 255, 255)") == name.endswith("dark"),
        f"the page is {overflow} pixels too wide": overflow > 0,
        f"console: {errors}": errors,
        "the page uses the network": any('"url":"http' in request for request in requests),
    }
    return [f"{name}: {fault}" for fault, holds in faults.items() if holds]


def run(page: Path, check, phone: tuple[int, int]) -> int:
    """Opens the page in each kind of browser, and prints what is wrong with it there."""
    faults = []
    for name, dark, width, height in (
        ("desktop-light", False, 1400, 900),
        ("desktop-dark", True, 1400, 900),
        ("phone", False, *phone),
        ("phone-dark", True, *phone),
    ):
        browser = driver(dark, width, height)
        try:
            faults += check(browser, page, name) + check_any_page(browser, name, width)
        finally:
            browser.quit()
    print("\n".join(faults) or "the page works: light and dark, desktop and phone")
    return bool(faults)


def check(browser: webdriver.Chrome, page: Path, name: str) -> list[str]:
    """What is wrong with the page in this browser."""
    faults = []

    def expect(holds: bool, fault: str) -> None:
        if not holds:
            faults.append(f"{name}: {fault}")

    load(browser, page)
    for chart in CHARTS:
        widths = browser.execute_script(BARS, chart)
        expect(len(widths) >= 4, f"{chart}: {len(widths)} bars")
        expect(widths == sorted(widths), f"{chart}: bars are not sorted: {widths}")
    browser.find_element(By.CSS_SELECTOR, "#rates summary").send_keys(Keys.ENTER)
    WebDriverWait(browser, 20).until(lambda browser: browser.find_elements(By.CSS_SELECTOR, "#chart-rates svg"))
    faults += [f"{name}: {fault}" for fault in browser.execute_script(COLLISIONS)]
    if "desktop" in name:
        bottom = browser.execute_script(
            "return document.querySelector('#chart-check svg').getBoundingClientRect().bottom"
        )
        expect(bottom <= 900, f"the first chart ends at {bottom}")

    hero = browser.find_element(By.CSS_SELECTOR, "[data-text=hero]")
    first = hero.text
    radio = browser.find_element(By.CSS_SELECTOR, "input[name=cpu]:checked")
    radio.send_keys(Keys.ARROW_RIGHT)
    second = hero.text
    expect(second != first, "the arrow key did not change the CPU code")
    expect("cpu=" in browser.current_url, "the choice is not in the address")
    def shown(part: str) -> list[str]:
        return [element.text for element in browser.find_elements(By.CSS_SELECTOR, part) if element.is_displayed()]

    texts, machine = shown("[data-text]"), shown("dl")
    expect(len(machine) == 1, f"{len(machine)} machines are shown")
    if len(browser.find_elements(By.NAME, "machine")) > 1:
        browser.find_element(By.CSS_SELECTOR, "input[name=machine]:checked").send_keys(Keys.ARROW_RIGHT)
        expect(shown("[data-text]") != texts, "the CPU did not change the texts")
        expect(shown("dl") != machine, "the CPU did not change the machine")
    load(browser, page, "#cpu=portable&size=10m")
    linked = browser.find_element(By.CSS_SELECTOR, "[data-text=hero]").text
    expect(linked not in (first, second), "the address does not choose")
    expect("10 million" in browser.find_element(By.CSS_SELECTOR, "[data-text=against]").text, "size of the link")
    load(browser, page, "#cpu=nonsense&size=7")
    expect(browser.find_element(By.CSS_SELECTOR, "[data-text=hero]").text == first, "a wrong address is not ignored")
    return faults


def two_records_of_a_cpu() -> list[str]:
    """What is wrong when a folder has two records of one CPU: both must be named."""
    record = next((ROOT / "benches/record").glob("*.json"))
    with tempfile.TemporaryDirectory() as folder:
        for name in ("one.json", "two.json"):
            shutil.copy(record, Path(folder) / name)
        command = [sys.executable, "-m", "benches.dashboard", "--records", folder, "readme", "--check"]
        run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    refused = run.returncode == 1 and "one.json" in run.stderr and "two.json" in run.stderr
    return [] if refused else [f"two records of one CPU: {run.stdout}{run.stderr}"]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("page", nargs="?", type=Path, default=PAGE)
    arguments = parser.parse_args()
    if faults := two_records_of_a_cpu():
        sys.exit("\n".join(faults))
    return run(arguments.page.resolve(), check, (360, 780))


if __name__ == "__main__":
    sys.exit(main())
