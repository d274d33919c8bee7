"""A headless Chromium for the tests of the page, and what it says: its console, its requests, its downloads."""

import base64
import json
import os
import pathlib
import shutil
import time

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

# Nothing but the page: no updates, no first-run pages, no calls home.
FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
         "--disable-background-networking", "--disable-component-update", "--disable-default-apps", "--hide-scrollbars"]

# What belongs to the browser and not to the page.
OWN = ("chrome:", "chrome-extension:", "devtools:", "about:", "data:")


class Browser:
    """One window. `seen` are the addresses that were asked for since the last `open`."""

    def __init__(self, downloads):
        self.downloads = pathlib.Path(downloads)
        options = Options()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome")
        for flag in FLAGS:
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        self.driver.set_script_timeout(60)
        self.tell("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(self.downloads), eventsEnabled=False)

    def close(self):
        self.driver.quit()

    def tell(self, command, **arguments):
        """A command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(command, arguments)

    def run(self, script, *arguments):
        return self.driver.execute_script(script, *arguments)

    def like(self, theme, width, height=900):
        """A system with this theme, and a window so wide; below 600 it is a phone."""
        self.tell("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": theme}])
        self.tell("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)

    def open(self, address):
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(address)

    def complaints(self):
        """Messages of the console that are warnings or worse, since they were last asked for."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self):
        """Addresses that were asked for, since they were last asked for here."""
        found = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                address = message["params"]["request"]["url"]
                if not address.startswith(OWN):
                    found.append(address)
        return found

    def screenshot(self, path):
        """The whole page, or as much of it as a picture holds."""
        size = self.tell("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": min(size["height"], 12_000), "scale": 1}
        shot = self.tell("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        pathlib.Path(path).write_bytes(base64.b64decode(shot["data"]))

    def downloaded(self, name, click, times=3, seconds=8):
        """The text of a file that a click downloads; it is taken away. While a page is laid out anew what is to be
        clicked may move away from under the mouse: whoever sees nothing come clicks once more."""
        path = self.downloads / name
        for _ in range(times):
            click()
            until = time.monotonic() + seconds
            while time.monotonic() < until:
                # An empty file of that name is there first, and what is downloaded takes its place.
                if path.exists() and (text := path.read_text(encoding="utf-8")):
                    path.unlink()
                    return text
                time.sleep(0.02)
        raise AssertionError(f"{name} was not downloaded: {os.listdir(self.downloads)}")
