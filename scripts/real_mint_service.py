"""nutfilter's service as a process beside a real mint: started, killed, asked, and watched all the time."""

import base64
import collections
import json
import re
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import slow_filter
from real_mint_common import Failure, environment, free_port, stop, tail

# A reading of some hundred notes takes milliseconds; this much is for machines with other things to do.
PATIENCE_SECONDS = 30

# With a data directory, from the start of the process to the first answer. Promised is one second.
SERVES_AGAIN_SECONDS = 1.0

REFRESH_SECONDS = 1
POLL_SECONDS = 0.1
ADMIN_TOKEN = "only-for-this-run-of-the-scripts"

# What the watcher saw of a filter in a round is verified this often at most.
SAMPLES = 4

_opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))


class Service:
    """`nutfilter serve` with a data directory. Its log is JSON, one file over all its lives."""

    def __init__(self, nutfilter, work, database, secrets=()):
        self.url = f"http://127.0.0.1:{free_port()}"
        self.log = work / "service.jsonl"
        self.work = work
        self.secrets = [*secrets, ADMIN_TOKEN]
        self.process = None
        self.lives = 0
        self.past = collections.Counter()  # what earlier lives had counted when they were last asked
        self.told = 0  # lines of the log that were looked at
        self.command = [
            nutfilter, "serve", "--data-dir", work / "data", "--listen", self.url.removeprefix("http://"),
            "--log-format", "json"]
        self.refresh_seconds = REFRESH_SECONDS
        self.environment = environment(work, NUTFILTER_ADMIN_TOKEN=ADMIN_TOKEN, MINT_TYPE="nutshell",
                                       **database.for_service())

    def start(self):
        """Starts it. Does not wait for anything."""
        with open(self.log, "ab") as output:
            command = [*self.command, "--refresh", str(self.refresh_seconds)]
            self.process = subprocess.Popen(command, env=self.environment, cwd=self.work,
                                            stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                                            start_new_session=True)
        self.lives += 1

    def serves_within(self, path):
        """Seconds until `path` is answered 200."""
        began = time.monotonic()
        while time.monotonic() < began + PATIENCE_SECONDS:
            if self.process.poll() is not None:
                raise Failure(f"the service ended with code {self.process.returncode}; see {self.log}:\n"
                              f"{tail(self.log)}")
            if self.get(path)[0] == 200:
                return time.monotonic() - began
            time.sleep(0.01)
        raise Failure(f"the service did not answer {path} within {PATIENCE_SECONDS} s; see {self.log}:\n"
                      f"{tail(self.log)}")

    def kill(self):
        """SIGKILL."""
        self.past += self.counters()
        self.process.kill()
        self.process.wait()

    def stop(self):
        """SIGTERM, which has to be obeyed."""
        self.past += self.counters()
        stop(self.process, "the service")
        if self.process.returncode != 0:
            raise Failure(f"the service ended with code {self.process.returncode} after SIGTERM; see {self.log}")

    def end(self):
        """However it is, it ends now."""
        if self.process and self.process.poll() is None:
            stop(self.process, "the service")

    def get(self, path, **headers):
        """(status, headers, body); status 0 if nobody is there."""
        request = urllib.request.Request(self.url + path, headers={k.replace("_", "-"): v for k, v in headers.items()})
        try:
            with _opener.open(request, timeout=10) as response:
                return response.status, response.headers, response.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers, error.read()
        except OSError:
            return 0, {}, b""

    def counters(self):
        """The counters of this life, by name and labels as they stand there."""
        status, _, body = self.get("/metrics")
        if status != 200:
            return collections.Counter()
        found = re.findall(r"^(nutfilter_\w+_total(?:\{[^}]*\})?) (\d+)", body.decode(), re.MULTILINE)
        return collections.Counter({name: int(value) for name, value in found})

    def totals(self):
        """Sums over all lives: refreshes, notes read by whole readings and as new, whole readings once more."""
        return Totals(self.past + self.counters())

    def totals_of_this_life(self):
        """The sums since it was started last."""
        return Totals(self.counters())

    def items(self):
        """How many notes the served filters have."""
        body = self.get("/metrics")[2].decode()
        return sum(float(n) for n in re.findall(r"^nutfilter_items{[^}]*} (\S+)", body, re.MULTILINE))

    def refresh(self, how, refreshes=2):
        """Asks for a refresh and waits until so many are over: with two, one began after it was asked for.

        Gives the seconds that took.
        """
        began = time.monotonic()
        before = self.totals_of_this_life().refreshes
        if how == "SIGHUP":
            self.process.send_signal(1)
        else:
            request = urllib.request.Request(f"{self.url}/admin/refresh", b"",
                                             {"Authorization": f"Bearer {ADMIN_TOKEN}"})
            with _opener.open(request, timeout=10) as response:
                if response.status != 202:
                    raise Failure(f"POST /admin/refresh was answered {response.status}")
        while self.totals_of_this_life().refreshes < before + refreshes:
            if time.monotonic() > began + PATIENCE_SECONDS:
                raise Failure(f"no refresh within {PATIENCE_SECONDS} s of {how}; see {self.log}:\n{tail(self.log)}")
            time.sleep(0.02)
        return time.monotonic() - began

    def said(self):
        """What the log got since this was last asked: [(level, message, fields)]. No secret may be in it."""
        lines = self.log.read_text().splitlines()
        new, self.told = lines[self.told:], len(lines)
        for secret in self.secrets:
            if any(secret in line for line in new):
                raise Failure(f"a secret is in {self.log}")
        said = []
        for line in new:
            try:
                entry = json.loads(line)
            except ValueError:
                raise Failure(f"a line of the log is no JSON: {line[:200]}") from None
            fields = entry.get("fields", {})
            said.append((entry.get("level", "?"), fields.get("message", ""), fields))
        return said


class Totals:
    """What the counters come to."""

    def __init__(self, counters):
        def total(name, *labels):
            return sum(value for key, value in counters.items()
                       if re.match(rf"{name}\b", key) and all(label in key for label in labels))
        self.refreshes = sum(total("nutfilter_refreshes_total", f'result="{result}"') for result in ("ok", "partial"))
        self.new = total("nutfilter_items_read_total", 'reading="new"')
        self.whole = total("nutfilter_items_read_total", 'reading="whole"')
        self.again = total("nutfilter_full_rereads_total")
        self.shrunk = total("nutfilter_shrunk_total")
        self.discarded = total("nutfilter_data_discarded_total")

    def since(self, before):
        """The difference."""
        rest = Totals({})
        for name, value in vars(self).items():
            setattr(rest, name, value - getattr(before, name))
        return rest


class Watcher(threading.Thread):
    """Asks for every filter all the time, as wallets do, and objects to what may not be.

    Once a filter was served: no answer but 200, or 304 to its own tag; no timestamp before an earlier one, nor
    after now; no fewer notes, unless `may_shrink`. While `may_be_away`, nobody need be there.
    """

    def __init__(self, service):
        super().__init__(daemon=True)
        self.service = service
        self.keysets = []
        self.may_be_away = False
        self.may_shrink = False
        self.answers = collections.Counter()
        self.last = {}     # path -> (tag, timestamp, n)
        self.samples = {}  # (kind, keyset) -> [response]
        self.objection = None
        self.ends = threading.Event()
        self._lock = threading.Lock()

    def run(self):
        try:
            while not self.ends.wait(POLL_SECONDS):
                for keyset in list(self.keysets):
                    for kind in ("spent", "issued"):
                        self.look(kind, keyset)
        except Failure as failure:
            self.objection = failure
        except Exception as error:
            self.objection = Failure(f"the watcher failed: {type(error).__name__}: {error}")

    def look(self, kind, keyset):
        path = f"/v1/filter/{kind}/{keyset}"
        last = self.last.get(path)
        away = self.may_be_away
        status, headers, body = self.service.get(path, **({"If_None_Match": last[0]} if last else {}))
        self.answers[status] += 1
        if status == 304 and last:
            return
        if status != 200:
            if last and not (away or self.may_be_away):
                raise Failure(f"{path} was answered {status} after it had been served")
            return
        response = json.loads(body)
        tag, timestamp, n = headers["ETag"], response["timestamp"], response["n"]
        if timestamp > time.time():
            raise Failure(f"{path} is dated {timestamp - time.time():.0f} s ahead")
        if last and timestamp < last[1]:
            raise Failure(f"{path} went back from {last[1]} to {timestamp}")
        if last and n < last[2] and not self.may_shrink:
            raise Failure(f"{path} went down from {last[2]} to {n} notes")
        self.last[path] = (tag, timestamp, n)
        with self._lock:
            self.samples.setdefault((kind, keyset), []).append(response)

    def forget(self):
        """Drops samples: what they hold is not what the mint says any more."""
        with self._lock:
            self.samples = {}

    def verify(self, notes):
        """Holds samples against the wallet's times: what had happened before a filter's time must be in it.

        Gives the number of samples and of notes that were held against each other.
        """
        if self.objection:
            raise self.objection
        with self._lock:
            taken, self.samples = self.samples, {}
        samples = compared = 0
        for (kind, keyset), responses in taken.items():
            times, items = ((notes["spent_at"], notes["proofs"]) if kind == "spent" else
                            (notes["signed_at"], notes["signed"]))
            known = [(times[item], item) for item in items.get(keyset, []) if item in times]
            for response in responses[-SAMPLES:]:
                due = [item for when, item in known if when <= response["timestamp"]]
                missing = set(due) - slow_filter.matches(response, due)
                if missing:
                    raise Failure(f"{kind} {keyset}: a filter of {response['timestamp']} lacks {len(missing)} of "
                                  f"{len(due)} notes that the mint had before: {sorted(missing)[:5]}")
                samples += 1
                compared += len(due)
        return samples, compared

    def end(self):
        self.ends.set()
        self.join(15)
        if self.objection and sys.exc_info()[0] is None:
            raise self.objection


def raw_equals_json(service, kind, keyset):
    """The raw form has the bytes that the JSON has in base64. (Either may be renewed in between: try again.)"""
    path = f"/v1/filter/{kind}/{keyset}"
    for _ in range(5):
        response = json.loads(service.get(path)[2])
        status, headers, raw = service.get(path, Accept="application/octet-stream")
        if status == 200 and int(headers["Nutfilter-Timestamp"]) == response["timestamp"]:
            if raw != base64.b64decode(response["content"]) or int(headers["Nutfilter-N"]) != response["n"]:
                raise Failure(f"{path}: the raw form is another filter than the JSON")
            return
    raise Failure(f"{path}: no two answers of one version")
