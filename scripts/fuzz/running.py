"""A campaign: rounds of all targets in turns, until the fuzzers have used the CPU time that was asked for."""

import contextlib
import signal
import time

import corpora
import finds
from building import binaries, now
from jobs import Job, end_left_over, environment

POLL_SECONDS = 0.25
SHORTEST_ROUND = 5
LONGEST_ROUND = 300
VALUE_PROFILE_EVERY = 3  # rounds: comparisons' operands as features too; slower, and finds other ways in
# CPU seconds a target has to have for that: the programs with traced comparisons are built first.
LEAST_FOR_VALUE_PROFILE = 120
GROWTH_BEFORE_MERGE = 1.5
# A round that a fault ends at once counts for so many seconds when turns are given: others get theirs.
CHARGE_OF_A_FIND = 10
TIMES_UNTIL_REST = 10


class Campaign:
    def __init__(self, state, directory, compiler, targets, seconds, cores, round_seconds=None, say=print):
        self.state, self.directory, self.compiler = state, directory, compiler
        self.targets, self.cores, self.say = targets, cores, say
        self.budget = seconds * cores
        self.options = {target: corpora.options(target) for target in targets}
        # Four rounds or more for each target, so that none waits for the end, and a few seconds to load a corpus.
        share = self.budget / len(targets)
        self.round_seconds = round_seconds or min(LONGEST_ROUND, max(SHORTEST_ROUND, share / 4))
        self.environment = environment(compiler.llvm)
        self.jobs, self.waiting, self.at_once = [], [], dict.fromkeys(targets, 0)
        self.interrupted, self.merging = None, set()
        self.traced = share >= LEAST_FOR_VALUE_PROFILE

    # --- the loop

    def run(self):
        """Until the time is used, or a signal."""
        self.take_up()
        with self.signals():
            session = {"started": now(), "ended": None, "ended_by": None, "cores": self.cores,
                       "revision": self.state.build(self.targets[0])["revision"]}
            self.state.all["sessions"].append(session)
            saved = 0.0
            while True:
                if self.fill():
                    # Who takes up a killed campaign has to know what ran.
                    self.save()
                if not self.jobs:
                    break
                time.sleep(POLL_SECONDS)
                ended = [job for job in self.jobs if job.poll()]
                for job in ended:
                    self.jobs.remove(job)
                    job.on_end(job)
                if self.interrupted:
                    break
                if ended or time.monotonic() - saved > 10:
                    self.save()
                    saved = time.monotonic()
            self.stop()
            session.update(ended=now(), ended_by=self.interrupted or ("budget" if self.left() <= 0 else "nothing to run"))
            self.save()

    def take_up(self):
        """What a killed campaign left: its processes, its logs, and what it had found in its last rounds."""
        folder = self.directory / "binaries"
        end_left_over({entry["pid"] for entry in self.state.all["running"]}, folder)
        for entry in self.state.all["running"]:
            if entry["what"] == "round":
                self.state.targets[entry["target"]]["rounds_lost"] += 1
        self.state.all["running"] = []
        for name in ("logs", "new"):
            (self.directory / name).mkdir(parents=True, exist_ok=True)
        for target in self.targets:
            corpora.prepare(self.directory, target)
            (self.directory / "new" / target).mkdir(exist_ok=True)
            self.take_up_artifacts(target)
        for entry in self.state.finds:
            if entry["minimised"] == "to do" and entry["target"] in self.targets:
                self.waiting.append(lambda entry=entry: self.minimise_find(entry))
        self.save()

    def take_up_artifacts(self, target):
        """Inputs that a lost round wrote are run again, as its log may not say what they did."""
        for path in sorted((self.directory / "new" / target).iterdir()):
            self.waiting.append(lambda path=path: self.run_again(target, path))

    def fill(self):
        """Starts what there is room for: what finds need first, then rounds. Returns whether anything was started."""
        before = list(self.jobs)
        while len(self.jobs) < self.cores:
            if self.waiting:
                self.waiting.pop(0)()
                continue
            running = sum(job.cpu_seconds for job in self.jobs if job.what == "round")
            left = self.left() - running
            target = self.next_target()
            if target is None or left <= 0.5:
                # Rounds that run may use what is left.
                break
            self.start_round(target, min(self.round_seconds, max(SHORTEST_ROUND, left / self.cores)))
        return self.jobs != before

    def left(self):
        """CPU seconds still to be used on the code as it is now."""
        return self.budget - sum(self.state.of_this_code(target) for target in self.targets)

    def next_target(self):
        """Whose share is the least used. One target has one fuzzer, unless there are more cores than targets."""
        awake = [target for target in self.targets
                 if not self.state.targets[target]["rests"] and target not in self.merging]
        if not awake:
            return None
        most = -(-self.cores // len(awake))
        free = [target for target in awake if self.at_once[target] < most]
        def used(target):
            spent = self.state.of_this_code(target) + self.state.of_this_code(target, "charged")
            return (spent + self.at_once[target] * self.round_seconds) / self.options[target].weight
        return min(free, key=used) if free else None

    def start(self, what, target, arguments, on_end, on_poll=None, seconds=None, about=None, traced=False):
        log = self.directory / "logs" / f"{target}-{what.replace(' ', '-')}-{time.time_ns()}.log"
        command = [str(binaries(self.directory, traced) / target), *arguments]
        job = Job(what, target, command, log, self.environment, on_poll, on_end, seconds)
        job.about = about
        self.jobs.append(job)
        return job

    def stop(self):
        """Ends what runs, and counts it."""
        for job in self.jobs:
            job.stop()
        while self.jobs:
            time.sleep(0.05)
            for job in [job for job in self.jobs if job.poll()]:
                self.jobs.remove(job)
                job.on_end(job)

    def save(self):
        self.state.all["running"] = [{"pid": job.pid, "what": job.what, "target": job.target} for job in self.jobs]
        self.state.save()

    @contextlib.contextmanager
    def signals(self):
        def interrupt(number, _):
            self.interrupted = signal.Signals(number).name
        before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    # --- a round

    def start_round(self, target, seconds):
        about = self.state.targets[target]
        profiled = self.traced and (about["rounds"] + 1) % VALUE_PROFILE_EVERY == 0
        kind = "value profile" if profiled else "plain"
        options = self.options[target].arguments(
            max_total_time=max(1, round(seconds)), print_final_stats=1, artifact_prefix=f"{self.directory}/new/{target}/",
            use_value_profile=int(profiled))
        arguments = [*options, *corpora.dictionary(target), str(corpora.live(self.directory, target))]
        self.at_once[target] += 1
        # A fuzzer that does not end by itself is ended: twice its time, as machines are shared.
        self.start("round", target, arguments, self.round_ended, self.round_goes_on, 2 * seconds + 60, {"kind": kind},
                   profiled)

    def round_goes_on(self, job):
        """What is new is dated by the CPU time of the target, to a quarter of a second."""
        said, about, build = job.said, self.state.targets[job.target], self.state.build(job.target)
        if said.edges_at_first is None:
            return
        spent = about["cpu_seconds"] + job.cpu_seconds
        grown = False
        for name, plain in (("edge", True), ("feature", job.about["kind"] == "plain")):
            known, first, now_has = build[f"{name}s"], getattr(said, f"{name}s_at_first"), getattr(said, f"{name}s")
            if not plain or now_has is None or first is None:
                continue
            base = max(known or 0, first)
            if now_has > base:
                about[f"cpu_seconds_at_last_new_{name}"], about[f"last_new_{name}"] = round(spent, 2), now()
            grown = grown or now_has > (known or 0)
            build[f"{name}s"] = max(base, now_has)
        if grown:
            self.state.point(job.target, spent, about["executions"] + said.runs, said.files)

    def round_ended(self, job):
        target, said = job.target, job.said
        about, build = self.state.targets[target], self.state.build(target)
        self.at_once[target] -= 1
        for place in (about, build):
            place["cpu_seconds"] += job.cpu_seconds
            place["wall_seconds"] += job.wall_seconds
            place["executions"] += said.runs
            place["rounds"] += 1
        about["value_profile_rounds"] += job.about["kind"] == "value profile"
        for name in ("peak_rss_mb", "slowest_unit_seconds"):
            about[name] = max(about[name], getattr(said, name))
        files = corpora.size(corpora.live(self.directory, target))["files"]
        self.state.point(target, about["cpu_seconds"], about["executions"], files)
        self.take_finds(job)
        said_so = "" if not said.artifacts else f"; {', '.join(kind for kind, _ in said.artifacts)}"
        self.say(f"{target}: {said.runs:,} executions in {job.cpu_seconds:.0f} s of CPU ({job.about['kind']}), "
                 f"{build['edges']} edges, {files} inputs{said_so}; {max(0, self.left()):,.0f} s to go")
        self.ended_oddly(job)
        if not job.stopped and files > GROWTH_BEFORE_MERGE * max(about["files_after_merge"], 200):
            self.waiting.append(lambda: self.merge(target))

    def take_finds(self, job):
        target, about, build = job.target, self.state.targets[job.target], self.state.build(job.target)
        for kind, path in job.said.artifacts:
            with contextlib.suppress(FileNotFoundError):
                new = finds.find(self.state, job, target, kind, path, self.compiler.reproduce, job.about["kind"])
                if new:
                    self.say(f"{target}: {kind}: {new['story']}\n    {new['reproduce']}")
                if new and new["minimised"] == "to do":
                    self.waiting.append(lambda new=new: self.minimise_find(new))
                # An input of the corpus that fails would end each round while it is read.
                if kind != "slow unit":
                    self.set_aside(target, path)
        ended = any(kind != "slow unit" for kind, _ in job.said.artifacts)
        about["rounds_ended_by_a_find"] += ended
        if ended:
            build["charged"] += max(0.0, CHARGE_OF_A_FIND - job.cpu_seconds)

    def set_aside(self, target, path):
        """By its name: artifacts and inputs both have the SHA-1 of their content."""
        name = str(path).rpartition("-")[2]
        (corpora.live(self.directory, target) / name).unlink(missing_ok=True)

    def ended_oddly(self, job):
        """A target that fails again and again, at once, is left out of the turns; the record says so."""
        about = self.state.targets[job.target]
        failed = job.code not in (0, 72) and not job.stopped
        quick = job.cpu_seconds < CHARGE_OF_A_FIND
        about["in_a_row"] = about["in_a_row"] + 1 if failed and quick else 0
        if failed and not job.said.artifacts:
            tail = job.log.read_text(encoding="utf-8", errors="replace")[-600:]
            self.say(f"{job.target}: ended with code {job.code} and no input:\n{tail}")
        if about["in_a_row"] >= TIMES_UNTIL_REST:
            about["rests"] = f"{TIMES_UNTIL_REST} rounds in a row ended at once: {job.said.story()}"
            self.say(f"{job.target} rests: {about['rests']}")
        if not failed:
            job.log.unlink(missing_ok=True)

    # --- between rounds

    def merge(self, target):
        """The live corpus without what adds nothing, comparisons' operands counted: other rounds build on them."""
        if self.at_once[target] or target in self.merging:
            return  # its fuzzer writes there; the next round asks again
        folder = corpora.live(self.directory, target)
        merged = folder.with_suffix(".merged")
        merged.mkdir(exist_ok=True)
        arguments = [*self.options[target].arguments(merge=1, use_value_profile=int(self.traced),
                                                     artifact_prefix=f"{self.directory}/logs/"),
                     str(merged), str(folder)]
        self.merging.add(target)  # no round of it meanwhile: what it wrote would be lost
        self.start("merge", target, arguments, self.merge_ended, seconds=600, traced=self.traced)

    def merge_ended(self, job):
        target, about = job.target, self.state.targets[job.target]
        self.merging.discard(target)
        about["merge_cpu_seconds"] += job.cpu_seconds
        before = corpora.size(corpora.live(self.directory, target))["files"]
        if job.code == 0 and not job.stopped:
            corpora.take(self.directory, target)
            job.log.unlink(missing_ok=True)
            about["files_after_merge"] = corpora.size(corpora.live(self.directory, target))["files"]
            self.say(f"{target}: {before} inputs merged to {about['files_after_merge']}")
        else:
            about["files_after_merge"] = before  # not again at once
            if not job.stopped:
                self.say(f"{target}: merging failed: {job.log}")

    def minimise_find(self, entry):
        """A smaller input, bounded in time; taken only if it fails in the same place."""
        target = entry["target"]
        found = finds.ROOT / entry["file"]
        smaller = self.directory / "new" / f"{target}-smaller"
        smaller.unlink(missing_ok=True)
        arguments = [*self.options[target].arguments(minimize_crash=1, max_total_time=20), *corpora.dictionary(target),
                     f"-exact_artifact_path={smaller}", str(found)]
        self.start("minimise", target, arguments, self.find_minimised, seconds=finds.MINIMISE_SECONDS,
                   about={"entry": entry, "smaller": smaller})

    def find_minimised(self, job):
        entry, smaller = job.about["entry"], job.about["smaller"]
        if self.interrupted:
            return  # still to do
        if not smaller.exists() or smaller.stat().st_size >= entry["bytes"]:
            entry["minimised"] = "not any smaller"
            return
        arguments = [*self.options[job.target].arguments(artifact_prefix=f"{self.directory}/logs/"), str(smaller)]
        self.start("verify", job.target, arguments, self.smaller_verified, seconds=60, about=job.about)

    def smaller_verified(self, job):
        entry, smaller = job.about["entry"], job.about["smaller"]
        if self.interrupted:
            return
        entry["minimised"] = "smaller ones fail elsewhere"
        if job.said.signature(entry["kind"]) == entry["signature"]:
            path = finds.ROOT / entry["file"]
            path = path.with_name(f"minimised-{path.name.rpartition('-')[2]}")
            smaller.replace(path)
            finds.carry(entry, path, self.compiler.reproduce)
            entry["minimised"] = "yes"
            self.say(f"{job.target}: {entry['bytes_as_found']} bytes minimised to {entry['bytes']}\n    {entry['reproduce']}")

    def run_again(self, target, path):
        """An input of a round that was lost."""
        arguments = [*self.options[target].arguments(artifact_prefix=f"{self.directory}/logs/"), str(path)]
        self.start("again", target, arguments, self.ran_again, seconds=60, about={"path": path, "kind": "plain"})

    def ran_again(self, job):
        path = job.about["path"]
        if self.interrupted or not path.exists():
            return
        kind = finds.KINDS_OF_FILES.get(path.name.rpartition("-")[0])
        if kind is None or (job.code == 0 and kind != "slow unit"):
            path.unlink()
            return
        new = finds.find(self.state, job, job.target, kind, path, self.compiler.reproduce, "lost")
        if new and new["minimised"] == "to do":
            self.waiting.append(lambda: self.minimise_find(new))
