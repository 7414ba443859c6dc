"""One run of the benchmark, from building the sides to the report. Decides what a failure means."""

import math
import os
import shutil
import sys

from . import figures, load, machine, measurement, plan, releases, report, results, rounds, workloads
from .contest import Contest
from .peers import Workshop
from .progress import Progress


class Session:
    """One run of the benchmark in the directory `bench`. The arena's run is a subclass with other workloads and sides."""

    catalogue = workloads  # what has the workloads, selects from them and labels their rows

    def __init__(self, bench, options):
        self.options = options
        self.root = os.path.dirname(bench)
        self.directory = bench
        self.build = os.path.join(bench, "build")
        self.progress = Progress()
        self.workshop = self._new_workshop()
        self.settings = self._new_settings()
        self.bench = self._new_bench()
        self.counter = measurement.system_call_counter()
        self.passed = self.failed = 0
        facts = machine.facts(self.root)
        self.data = results.new(facts, {
            "workloads": options.workload, "peers": options.peers, "backends": options.backends,
            "connections": options.conns, "rounds": options.rounds or plan.ROUNDS, "seconds": options.seconds,
            "uninterrupted_seconds": self.settings.uninterrupted,
            "quick": options.quick, "open_loop_seconds": self.settings.open_loop,
            "system_call_counter": self.counter.name if self.counter else "none: neither perf nor strace works here",
        })
        # Unless a file is named, only a run of everything is written to bench/results.
        directory = os.path.join(bench if options.whole else self.build, "results")
        self.path = os.path.abspath(options.into) if options.into else results.path_for(directory, facts)
        self.facts = facts
        if options.into and os.path.exists(self.path):
            self.data = results.continued(results.read(self.path), facts, options.takes_whole_workloads)

    def _new_workshop(self):
        return Workshop(self.directory, self.build, self.options.quick)

    def _new_settings(self):
        return measurement.Settings(self.options.seconds, self.options.quick)

    def _new_bench(self):
        return measurement.Bench(self.workshop, self.settings)

    # -- preparation

    def _wanted(self, names):
        return [] if names == ["none"] else names

    def _sides(self):
        sides = self.workshop.sides(self._wanted(self.options.peers), self._wanted(self.options.backends))
        if self.options.estimate:
            return [side for side in sides if self.workshop.missing(side.peer) is None]
        ready = []
        for side in sides:
            reason = self.workshop.prepare(side.peer, self.progress.say)
            if reason is not None:
                self._skip(side.peer, reason, ours=side.ours)
                continue
            reason = self.workshop.probe(side)
            if reason is None:
                ready.append(side)
            else:
                self._skip(side.name, reason)
        if self.options.quick and not any(side.ours for side in ready) and any(side.ours for side in sides):
            self._fail("no side of Millrace itself can run; the lines above say why")
        return ready

    def _fail(self, reason):
        self.failed += 1
        self.progress.complain(f"FAILED {reason}")

    def _skip(self, name, reason, workload=None, ours=False):
        """Leaves a peer out, with a reason that the report repeats. A quick run fails if it is Millrace."""
        entry = {"peer": name, "reason": reason, "workload": workload}
        if entry in self.data["skipped"]:
            return
        self.data["skipped"].append(entry)
        text = f"left out: {name}" + (f" in {workload}" if workload else "") + f": {reason}"
        if self.options.quick and ours:
            self._fail(text)
        else:
            self.progress.say(text)

    def _takes_part(self, side, workload, point):
        if self.options.quick and not self.options.peers and workload.name not in side.entry.get("quick", [workload.name]):
            return False
        if not side.offers(point["service"], point["cores"]):
            return False
        if not self._is_wanted(side, workload):
            return False
        if self.options.estimate:
            return True
        command = self.workshop.command(
            side, point["service"], cores=point["cores"], port=0, files="", state="",
            certificate="", key="", path="", target=0, address="", n=0, m=0)
        if isinstance(command, str):
            self._skip(side.peer, command, workload.name, side.ours)
            return False
        return True

    def _is_wanted(self, side, workload):
        """Whether the side tells something in this workload. What an option names takes part in any case."""
        if workload.name not in side.entry.get("workloads", [workload.name]) and side.peer not in (self.options.peers or []):
            return False
        return self.options.backends is not None or not side.backend or side.backend in workload.other_backends

    def _plan(self, sides):
        rows = []
        for workload, points in self.catalogue.select(self.options.workload, self.options.conns, self.options.quick):
            for point in points:
                if self.options.cores and point["cores"] not in self.options.cores:
                    continue
                if self.options.releases and point not in releases.POINTS[workload.name]:
                    continue
                if point["cores"] > len(machine.processors()):
                    self._skip("every side", f"this machine has fewer than {point['cores']} processors", workload.name)
                    continue
                chosen = [side for side in sides if self._takes_part(side, workload, point)]
                if chosen:
                    rows.append(plan.Row(
                        workload, point, chosen, self.options.rounds or plan.rounds(workload, point),
                        self._counts_calls(workload, point)))
        return rows

    def _counts_calls(self, workload, point):
        if self.options.quick and workload.name != "pong":
            return False
        return bool(self.counter) and workload.kind == "closed" and point["cores"] == 1

    # -- measuring

    def _failure(self, side, workload, point, reason):
        self.data["failures"].append(
            {"workload": workload.name, "point": point, "side": side.name, "reason": reason})
        self._fail(f"{self.catalogue.label(workload.name, point)}, {side.name}: {reason}")

    def _attempt(self, side, workload, point, measure):
        """The figures, or None after recording the failure."""
        try:
            found = measure()
        except load.FAILURES as error:
            self._failure(side, workload, point, str(error))
            return None
        wrong = [name for name, value in found.items() if isinstance(value, (int, float)) and not math.isfinite(value)]
        if wrong:
            self._failure(side, workload, point, f"{wrong[0]} is not a finite number")
            return None
        if self.options.quick and found.get("errors"):
            self._failure(side, workload, point, f"{found['errors']:.0f} errors")
            return None
        self.passed += 1
        return found

    def _row(self, row):
        workload, point = row.workload, row.point
        if workload.kind == "closed":
            with Contest(self.bench, workload, point) as contest:
                contest.begin(row.sides, row.rounds)
                self.progress.step(
                    f"{self.catalogue.label(workload.name, point)}: turns", row.preparation_seconds(self.settings))
                failed_sides = self._samples(row, contest.sample)
                if row.counts_calls:
                    self._count_calls(row, contest, failed_sides)
        else:
            self._samples(row, lambda side, _number: self.bench.sample(side, workload, point))
        results.write(self.data, self.path)

    def _samples(self, row, sample):
        """Measures every side in every round. Returns the names of the sides that failed."""
        workload, point = row.workload, row.point
        expected = row.sample_seconds(self.settings)
        failed_sides = set()
        for number, side in rounds.turns(row.sides, row.rounds):
            title = f"{self.catalogue.label(workload.name, point)}, round {number + 1}: {side.name}"
            found = None
            if side.name not in failed_sides:
                found = self._attempt(side, workload, point, lambda s=side, n=number: sample(s, n))
            if found is None:
                # A side that failed once would probably fail in every round, which takes up to minutes each.
                failed_sides.add(side.name)
                self.progress.step(f"{title}: no figure", expected)
                continue
            self.data["samples"].append({
                "workload": workload.name, "point": point, "side": side.name, "round": number, "figures": found,
                "environment": side.environment(point["cores"])})
            self.progress.step(f"{title}: {self._summary(workload, found)}", expected)
        return failed_sides

    def _count_calls(self, row, contest, failed_sides):
        for side in row.sides:
            title = f"{self.catalogue.label(row.workload.name, row.point)}, system calls: {side.name}"
            text = "no figure"
            found = None
            if side.name not in failed_sides:
                found = self._attempt(
                    side, row.workload, row.point, lambda s=side: contest.system_calls(s, self.counter))
            if found is not None:
                self.data["system_calls"].append({
                    "workload": row.workload.name, "point": row.point, "side": side.name,
                    "system_calls_per_request": found["system_calls_per_request"]})
                text = f"{figures.number(found['system_calls_per_request'])} per request"
            self.progress.step(f"{title}: {text}", row.count_seconds(self.settings))

    @staticmethod
    def _summary(workload, found):
        words = []
        for name in (workload.primary, "requests_per_second", "latency_p99_us"):
            if name in found:
                heading, show = figures.ALL[name]
                words.append(f"{heading} {show(found[name])}")
        if found.get("errors"):
            words.append(f"{found['errors']:.0f} ERRORS")
        return ", ".join(dict.fromkeys(words))

    # -- the whole run

    def _note_peers(self, sides):
        for side in sides:
            self.data["peers"][side.name] = {
                "peer": side.peer, "title": side.title(), "language": side.entry["language"], "ours": side.ours,
                "version": self.workshop.versions[side.peer], "tuning": side.entry["tuning"],
            }

    def _write_report(self):
        if self.options.whole:
            directory = os.path.join(self.root, "docs")
        else:
            directory = os.path.join(self.build, "report")
        return report.make(self.path, self.directory, directory)

    def go(self):
        machine.raise_descriptor_limit()
        tools = [tool for tool in ("wrk", "h2load", "taskset") if not shutil.which(tool)]
        if tools:
            print(f"bench/run: cannot generate load without {' and '.join(tools)}: install wrk, nghttp2-client and util-linux "
                  "(names of Debian)", file=sys.stderr)
            return 2
        # Reject wrong names before anything is built.
        self.catalogue.select(self.options.workload, self.options.conns, self.options.quick)
        sides = self._sides()
        rows = self._plan(sides)
        if not rows:
            print("bench/run: nothing to measure: none of the chosen sides runs one of the chosen workloads (bench/run --list "
                  "shows both)", file=sys.stderr)
            return 2
        self.progress.say(plan.summary(rows, self.settings))
        if self.options.estimate:
            return 0
        self._note_peers([side for side in sides if any(side in row.sides for row in rows)])
        self.progress.start(sum(row.seconds(self.settings) for row in rows))
        results.note_later(self.data, {row.workload.name for row in rows}, self.facts)
        results.without_rows(self.data, {results.key_of({"workload": row.workload.name, "point": row.point})
                                         for row in rows})
        for row in rows:
            self._row(row)
        document = self._write_report()
        self.passed += 1
        self.progress.say(f"results: {self.workshop.shown(self.path)}")
        self.progress.say(f"report:  {self.workshop.shown(document)}")
        self.progress.say(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed else 0
