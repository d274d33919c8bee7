"""The page in a real browser.

    python3 scripts/dashboard/browser_test.py [--page docs/dashboard/index.html] [--screenshots FOLDER]

Needs Chromium with its driver (Debian: chromium, chromium-driver) and what requirements.txt names. Every check is also
shown a page that was broken on purpose, and must find that.
"""

import argparse
import csv
import functools
import http.server
import io
import pathlib
import re
import sys
import tempfile
import threading

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from browser import Browser

HERE = pathlib.Path(__file__).resolve().parent
CHECKS = (HERE / "checks.js").read_text(encoding="utf-8")
DESK, PHONE = 1200, 360
THEMES = ("light", "dark")


def need(condition, message):
    if not condition:
        raise AssertionError(message)


class Served(http.server.ThreadingHTTPServer):
    """The page's folder on loopback; remembers what was asked for."""

    def __init__(self, folder):
        self.asked = []
        super().__init__(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def address(self, name):
        return f"http://127.0.0.1:{self.server_address[1]}/{name}"


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        super().do_GET()

    def log_message(self, *_):
        pass


class Page:
    """The page in a browser, and the checks: each raises an AssertionError that says what is wrong."""

    def __init__(self, browser, path):
        self.browser, self.path = browser, pathlib.Path(path).resolve()

    def open(self, theme="light", width=DESK):
        self.browser.like(theme, width)
        self.browser.open(self.path.as_uri())

    def ask(self, *question):
        return self.browser.run(CHECKS, *question)

    def find(self, selector):
        return self.browser.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys):
        for key in keys:
            self.browser.driver.switch_to.active_element.send_keys(key)

    # --- the checks

    def quiet(self):
        """From disk and served: nothing in the console, and no request but the one for the page."""
        server = Served(self.path.parent)
        try:
            for address in (self.path.as_uri(), server.address(self.path.name)):
                self.browser.like("light", DESK)
                self.browser.open(address)
                self.ask("figures")
                complaints = self.browser.complaints()
                need(not complaints, f"the console says {complaints[:3]}")
                requests = self.browser.requests()
                need(requests == [address], f"asked for {requests[:5]}")
            need(server.asked == [f"/{self.path.name}"], f"the server was asked for {server.asked}")
        finally:
            server.shutdown()

    def drawn(self):
        """Every chart is there, with nothing on top of anything else, in both themes, on a desk and on a phone."""
        for theme in THEMES:
            for width in (DESK, PHONE):
                self.open(theme, width)
                faults = self.ask("faults")
                need(not faults, f"{theme}, {width}: {len(faults)} faults, {faults[:4]}")

    def fits(self):
        """No page is wider than its window."""
        for width in (PHONE, 480, 719, 720, DESK):
            self.open(width=width)
            for details in self.browser.driver.find_elements(By.CSS_SELECTOR, "details"):
                self.browser.run("arguments[0].open = true", details)
            need(self.ask("wide") <= 0, f"{self.ask('wide')} pixels too wide at {width}")

    def themes(self):
        """The system's theme is taken, and the button turns it, by mouse and by keyboard."""
        seen = {}
        for theme in THEMES:
            self.open(theme)
            seen[theme] = self.ask("colours")
        need(seen["light"] != seen["dark"], "both themes look alike")
        for name in ("background", "text", "line"):
            need(seen["light"][name] != seen["dark"][name], f"the {name} is the same in both themes")
        for theme, other in (THEMES, THEMES[::-1]):
            self.open(theme)
            self.find("#theme").click()
            need(self.ask("colours") == seen[other], f"the button does not turn {theme}")
            self.press(Keys.ENTER)
            need(self.ask("colours") == seen[theme], f"the button does not turn {theme} back")
            need(self.find("#theme").text.lower() == other, "the button says the wrong theme")

    def selection(self):
        """Buttons of a legend hide their series in charts and table, by mouse and by keyboard, and show them again."""
        self.open()
        figure = next(name for name in self.ask("seen") if self.find(f"[id='{name}']").find_elements(By.CSS_SELECTOR, ".legend"))
        buttons = self.find(f"[id='{figure}']").find_elements(By.CSS_SELECTOR, ".legend button")
        need(len(buttons) >= 2, "a legend has too few series")

        def expect(place, visible, how):
            for i, series in enumerate(self.ask("series", figure)):
                on = visible if i == place else True
                need(series["drawn"] >= 2 and series["rows"] >= 1, f"{series['key']} is not in chart and table: {series}")
                need(series["pressed"] == str(on).lower(), f"{how}: {series}")
                need(series["drawnVisible"] == (series["drawn"] if on else 0), f"{how}: the chart: {series}")
                need(series["rowsVisible"] == (series["rows"] if on else 0), f"{how}: the table: {series}")

        expect(0, True, "at first")
        buttons[1].click()
        expect(1, False, "after a click")
        buttons[1].click()
        expect(1, True, "after two clicks")
        # With Tab, as somebody without a mouse goes.
        self.browser.run("arguments[0].focus()", buttons[0])
        self.press(Keys.TAB)
        active = self.browser.driver.switch_to.active_element
        need(active == buttons[1], f"Tab goes to {active.get_attribute('outerHTML')[:80]}, not to the next button")
        need(self.browser.run("return getComputedStyle(arguments[0]).outlineStyle", active) != "none", "the focus is not seen")
        self.press(Keys.SPACE)
        expect(1, False, "after Space")
        self.press(Keys.ENTER)
        expect(1, True, "after Enter")

    def picking(self):
        """Each picker changes what is seen, by mouse and by keyboard, and one figure of its section is seen."""
        self.open()
        sections = self.browser.driver.find_elements(By.CSS_SELECTOR, ".picked")
        sections = [section for section in sections if section.find_elements(By.CSS_SELECTOR, "select")]
        need(sections, "there is nothing to pick from")
        for section in sections:
            name = section.get_attribute("id")

            def seen():
                return [figure for figure in self.ask("seen") if self.find(f"#{name}").find_elements(By.ID, figure)]

            need(len(seen()) == 1, f"{name}: {len(seen())} figures are seen at once")
            pickers = section.find_elements(By.CSS_SELECTOR, "select")
            shown = [picker for picker in pickers if picker.is_displayed()]
            need(shown, f"{name}: no picker is seen")
            for picker in shown:
                select = Select(picker)
                if len(select.options) < 2:
                    continue
                before = seen()
                select.select_by_index(len(select.options) - 1)
                need(seen() != before and len(seen()) == 1, f"{name}: a choice shows {seen()} after {before}")
                before = seen()
                self.browser.run("arguments[0].focus()", picker)
                self.press(Keys.ARROW_UP)
                need(seen() != before and len(seen()) == 1, f"{name}: a key shows {seen()} after {before}")

    def downloads(self):
        """Each CSV is downloaded, and has the lines and columns of its table."""
        self.open()
        figures = self.ask("figures")
        need(len(figures) >= 5, f"{len(figures)} figures")
        for figure in figures:
            # A real click each: of downloads that nobody clicked for, Chromium takes ten.
            self.ask("pick", figure["id"])
            text = self.browser.downloaded(figure["file"], self.find(f"[id='{figure['id']}'] a.csv").click)
            lines = list(csv.reader(io.StringIO(text)))
            need(len(lines) == 1 + figure["rows"], f"{figure['file']}: {len(lines)} lines for {figure['rows']} rows")
            need({len(line) for line in lines} == {figure["columns"]}, f"{figure['file']}: other columns than its table")
        need(not self.browser.complaints(), "the console says something of a download")

    def without_script(self):
        """Without scripts everything is there to see, and nothing to press that does nothing."""
        self.browser.tell("Emulation.setScriptExecutionDisabled", value=True)
        try:
            self.open()
            figures = self.browser.driver.find_elements(By.CSS_SELECTOR, "figure")
            need(figures and all(figure.is_displayed() for figure in figures), "a figure is not seen without a script")
            for pressed in self.browser.driver.find_elements(By.CSS_SELECTOR, "button, select"):
                need(not (pressed.is_displayed() and pressed.is_enabled()), "something can be pressed without a script")
        finally:
            self.browser.tell("Emulation.setScriptExecutionDisabled", value=False)

    CHECKS = (quiet, drawn, fits, themes, selection, picking, downloads, without_script)


def line_with(text, pattern):
    """The first match, which must be there to be broken."""
    found = re.search(pattern, text, re.DOTALL)
    need(found, f"nothing to break: {pattern}")
    return found.group(0)


# A page broken on purpose: the check that must find it, what it is, what is done to the text, and what must be said.
BROKEN = [
    ("quiet", "loads a picture from elsewhere", lambda text: text.replace(
        "<main>", '<main><img alt="" src="http://127.0.0.1:9/spy.png">', 1), "the console says"),
    ("quiet", "asks its server for more", lambda text: text.replace(
        "img-src data:", "img-src * data:", 1).replace("<main>", '<main><img alt="" src="?more">', 1), "asked for"),
    ("quiet", "has an error in its script", lambda text: text.replace(
        '"use strict";', '"use strict"; nothing.there();', 1), "nothing is not defined"),
    ("drawn", "has a label on another", lambda text: re.sub(
        r'(<text x=")[^"]*(" y=")[^"]*(" text-anchor="middle">1m)', r"\g<1>60\g<2>100\g<3>", text), "lie on one another"),
    ("drawn", "has a chart that is not shown", lambda text: text.replace(
        ".narrow{display:block}", ".narrow{display:none}", 1), "0 charts are seen"),
    ("fits", "is too wide for a phone", lambda text: text.replace(".scroll{overflow:auto;", ".scroll{", 1), "too wide at 360"),
    ("themes", "has one colour for both themes", lambda text: text.replace("--text:#ececec", "--text:#1a1a1a"), "the text is the same"),
    ("themes", "has a button that does nothing", lambda text: text.replace(
        'toggle.addEventListener("click"', 'toggle.addEventListener("dblclick"', 1), "does not turn light"),
    ("selection", "does not hide rows of tables", lambda text: re.sub(r'<tr data-series="[^"]*"', "<tr", text), "not in chart and table"),
    ("selection", "has buttons that no key reaches", lambda text: text.replace(
        'button type="button" disabled', 'button type="button" tabindex="-1" disabled'), "not to the next button"),
    ("picking", "shows all figures at once", lambda text: text.replace(
        "figure.hidden =", "figure.ignored =", 1), "are seen at once"),
    ("downloads", "has a table of another length than its CSV", lambda text: text.replace(
        line_with(text, r"<tbody>.*?</tr>"), "<tbody>", 1), "lines for"),
    ("without_script", "shows nothing without its script", lambda text: text.replace(
        ".pickers{", ":root:not(.with-script) figure{display:none}.pickers{", 1), "not seen without a script"),
]


def breaks(browser, path, folder):
    """Shows each check a page that it must refuse; names those that do not."""
    text, blind = path.read_text(encoding="utf-8"), []
    for name, how, change, expected in BROKEN:
        broken = pathlib.Path(folder) / "broken.html"
        changed = change(text)
        need(changed != text, f"the page cannot be broken so that it {how}")
        broken.write_text(changed, encoding="utf-8")
        try:
            getattr(Page(browser, broken), name)()
        except AssertionError as error:
            if expected in str(error):
                print(f"found a page that {how}")
            else:
                blind.append(f"{name} says of a page that {how}: {error}")
        else:
            blind.append(f"{name} takes a page that {how}")
    return blind


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", type=pathlib.Path, default=HERE.parents[1] / "docs/dashboard/index.html")
    parser.add_argument("--screenshots", type=pathlib.Path, help="where to put pictures of the page")
    options = parser.parse_args()
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        browser = Browser(folder)
        try:
            page = Page(browser, options.page)
            for check in Page.CHECKS:
                try:
                    check(page)
                    print(f"right: {check.__doc__}")
                except AssertionError as error:
                    failures.append(f"{check.__name__}: {error}")
            if options.screenshots:
                options.screenshots.mkdir(parents=True, exist_ok=True)
                for theme in THEMES:
                    for width in (DESK, PHONE):
                        page.open(theme, width)
                        browser.screenshot(options.screenshots / f"{theme}-{width}.png")
            failures += breaks(browser, options.page, folder)
        finally:
            browser.close()
    for failure in failures:
        print(f"WRONG: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
