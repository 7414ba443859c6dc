"""A long run: one entry under all profiles at once and among clients that come, go, stall and break.

Every second its memory, descriptors and threads are noted, and a client that asks for a sum twenty times a second notes its
latencies. With a program of GHC the pauses of its garbage collector are noted as well (GHCRTS=-S). In the end: does
anything grow, and was anything lost?
"""

import json
import os
import threading
import time
from dataclasses import dataclass, field

from driver import figures, load, machine, plot, process

from . import asking, profiles
from . import referee as referees
from .pressure import Pressure
from .trouble import Trouble

SEGMENT_SECONDS = 10  # Generators begin anew after so long, so their connections come and go as well.
CONNECTIONS = {"wrk": 8, "websocket": 8, "h2load": 4}
STREAMS = {"stream-grpc": 1, "stream-grpc-tls": 1}
PROBE_SECONDS = 0.05
SETTLING_SECONDS = 12  # After the load, connections that were broken off are closed by then.
POINTS_MAX = 240  # of a line in the plot
LONG_SECONDS = 1800  # The memory of a run that is shorter says little: buffers and pools still fill.
GROWTH = 1.15  # A later part of the run may need so much more memory than an earlier one.
DESCRIPTORS_LEFT = 40  # Pools and kept threads may hold some more than at the start.


def _descriptors(pids):
    count = 0
    for pid in pids:
        try:
            count += len(os.listdir(f"/proc/{pid}/fd"))
        except OSError:
            pass
    return count


@dataclass
class Notes:
    """What was seen, by seconds since the beginning."""

    memory: list = field(default_factory=list)  # (seconds, bytes)
    descriptors: list = field(default_factory=list)
    latencies: list = field(default_factory=list)  # (seconds, microseconds) of single requests
    segments: list = field(default_factory=list)  # (seconds, profile, figures)
    problems: list = field(default_factory=list)


class LongRun:
    def __init__(self, referee, side, seconds, cores):
        self._referee, self._side, self._seconds, self._cores = referee, side, seconds, cores
        self.notes = Notes()
        self._over = threading.Event()
        self._begin = 0.0

    def _now(self):
        return time.monotonic() - self._begin

    def _watch(self, program):
        while not self._over.wait(1):
            pids = program.pids()
            self.notes.memory.append((self._now(), process.memory_bytes(pids, "VmRSS")))
            self.notes.descriptors.append((self._now(), _descriptors(pids)))

    def _probe(self, port):
        """Asks on one connection, at a fixed pace. Requests that were due while it waited for an answer are left out."""
        due = time.monotonic()
        connection = None
        while not self._over.is_set():
            due = max(due + PROBE_SECONDS, time.monotonic())
            time.sleep(max(0.0, due - time.monotonic()))
            try:
                connection = connection or asking.socket.create_connection((asking.HOST, port), timeout=asking.PATIENCE_SECONDS)
                connection.sendall(asking.request("GET", "/baseline11?a=20&b=3"))
                answer = asking.read_answer(connection)
                if answer.text != "23":
                    self.notes.problems.append(f"the sum of 20 and 3 was {answer.text} after {self._now():.0f} s")
            except (OSError, asking.http.client.HTTPException) as error:
                self.notes.problems.append(f"the client that asks for sums failed after {self._now():.0f} s: {error!r}")
                connection = None
                continue
            self.notes.latencies.append((self._now(), (time.monotonic() - due) * 1e6))

    def _press(self, name, running):
        """The load of one profile, segment by segment."""
        profile = profiles.PROFILES[name]
        point = {"connections": CONNECTIONS[profile.generator], "streams": STREAMS.get(name, 4)}
        scratch = os.path.join(running.scratch, name)
        os.mkdir(scratch)
        pressure = Pressure(profile, point, running.doors, machine.load_processors(self._cores), scratch)
        while not self._over.is_set():
            seconds = max(1, min(SEGMENT_SECONDS, int(self._seconds - self._now())))
            try:
                found, _ = pressure.run(seconds)
                self.notes.segments.append((self._now(), name, found))
                if found["errors"]:
                    self.notes.problems.append(f"{name}: {found['errors']:.0f} errors in the segment that ended after {self._now():.0f} s")
            except load.FAILURES as error:
                self.notes.problems.append(f"{name}: {error}")
                self._over.wait(1)

    def go(self, say):
        """Runs. Returns the findings of the rules afterwards."""
        names = self._side.entry["profiles"]
        with self._referee.running(self._side, self._cores) as running:
            referees.check(running, names, brief=True)
            first = _descriptors(running.program.pids())
            self._begin = time.monotonic()
            threads = [threading.Thread(target=self._press, args=(name, running)) for name in names]
            threads.append(threading.Thread(target=self._watch, args=(running.program,)))
            if "baseline" in names:
                threads.append(threading.Thread(target=self._probe, args=(running.doors.http,)))
            trouble = Trouble(running.doors, names)
            for thread in threads:
                thread.start()
            trouble.begin()
            self._wait(running, say)
            trouble.end()
            self._over.set()
            for thread in threads:
                thread.join()
            time.sleep(SETTLING_SECONDS)
            last = _descriptors(running.program.pids())
            found = referees.check(running, names)
        self.trouble, self.descriptors = trouble, (first, last)
        return found

    def _wait(self, running, say):
        told = 0.0
        while self._now() < self._seconds:
            time.sleep(1)
            if running.program.ended():
                self.notes.problems.append(f"the entry ended after {self._now():.0f} s: {running.program.log() or 'no message'}")
                return
            if self._now() - told >= 60:
                told = self._now()
                say(f"{told / 60:.0f} min: {figures.bytes_size(self.notes.memory[-1][1])} of memory, "
                    f"{self.notes.descriptors[-1][1]} descriptors, {len(self.notes.problems)} problems")


def pauses_of(path):
    """The pauses of GHC's garbage collector, as (seconds, microseconds), from the file that -S wrote."""
    found = []
    if not os.path.exists(path):
        return found
    with open(path, encoding="utf-8", errors="replace") as file:
        for line in file:
            words = line.split()
            # Alloc, copied, live, GC user, GC elapsed, total user, total elapsed, faults, ..., (Gen: n)
            if "(Gen:" in line and len(words) > 7:
                try:
                    found.append((float(words[6]), float(words[4]) * 1e6))
                except ValueError:
                    pass
    return found


def _parts(points, count=POINTS_MAX):
    """The values of points in equal stretches of time: [(seconds of the middle, values)]."""
    if not points:
        return []
    last = max(second for second, _ in points) + 1e-9
    parts = [[] for _ in range(min(count, max(1, int(last))))]
    for second, value in points:
        parts[int(second / last * len(parts))].append(value)
    return [((index + 0.5) * last / len(parts), values) for index, values in enumerate(parts) if values]


def _line(points, choose):
    """A line of a plot: minutes, and the chosen value of each stretch. Zeros are left out, for logarithmic axes."""
    return [(round(seconds / 60, 2), chosen) for seconds, values in _parts(points) if (chosen := choose(sorted(values))) > 0]


def _share(percent):
    return lambda ordered: load.percentile(ordered, percent)


def drawing(title, run, pauses):
    """The plot of a run: memory, descriptors, latencies and pauses over time."""
    notes = run.notes
    rates = [(second, sum(value["requests"] / value["duration_us"] * 1e6 for at, _, value in notes.segments
                          if second - SEGMENT_SECONDS < at <= second)) for second, _ in notes.memory[SEGMENT_SECONDS::SEGMENT_SECONDS]]
    panels = [
        plot.Panel("Resident memory", "minutes", {"memory": [(x, y / 1e6) for x, y in _line(notes.memory, max)]}, "MB", False, False),
        plot.Panel("Descriptors", "minutes", {"descriptors": _line(notes.descriptors, max)}, "", False, False),
        plot.Panel("Latency of a request every 50 ms", "minutes", {
            "median": _line(notes.latencies, _share(50)), "p99": _line(notes.latencies, _share(99)),
            "longest": _line(notes.latencies, max)}, "µs", False, True),
        plot.Panel("Pauses of the garbage collector", "minutes", {"longest": _line(pauses, max), "median": _line(pauses, _share(50))},
                   "µs", False, True),
        plot.Panel("Requests per second, all profiles", "minutes", {"requests": _line(rates, max)}, "", False, False),
    ]
    order = ["memory", "descriptors", "median", "p99", "longest", "requests"]
    return plot.charts(panels, order, (), f"{title}, a long run: memory, descriptors, latencies and pauses over time")


def _middle(points, begin, end):
    last = points[-1][0]
    values = sorted(value for second, value in points if begin * last <= second <= end * last)
    return load.percentile(values, 50)


def verdicts(run, findings):
    """(sentence, whether it holds) for what must be true after a long run."""
    notes, (first, last) = run.notes, run.descriptors
    early, late = _middle(notes.memory, 0.25, 0.5), _middle(notes.memory, 0.75, 1)
    broken = [finding for finding in findings if finding.result == referees.BROKEN]
    asked = sum(1 for finding in findings if finding.result == referees.KEPT)
    requests = sum(found["requests"] for _, _, found in notes.segments)
    is_long = notes.memory[-1][0] >= LONG_SECONDS
    return [
        (f"memory does not grow: {figures.bytes_size(early)} in the second quarter, {figures.bytes_size(late)} in the last"
         + ("" if is_long else "; too short a run to decide"), late <= early * GROWTH or not is_long),
        (f"descriptors are given back: {first} before the load, {last} after it", last <= first + DESCRIPTORS_LEFT),
        (f"no request was lost: {requests:,.0f} answered, {len(notes.problems)} problems"
         + "".join(f"\n    {problem}" for problem in notes.problems[:10]), not notes.problems),
        (f"afterwards all rules hold: {asked} kept, {len(broken)} broken"
         + "".join(f"\n    {finding.rule.text}: {finding.detail}" for finding in broken), not broken),
        ("clients that came, went, stalled and broke off: "
         + ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in run.trouble.made.items()),
         all(run.trouble.made.values()) and "come_and_go" not in run.trouble.failures),
    ]


def write(path, run, pauses):
    """The notes as JSON."""
    with open(path, "w", encoding="utf-8") as file:
        json.dump({
            "memory_bytes": run.notes.memory, "descriptors": run.notes.descriptors, "latencies_us": run.notes.latencies,
            "segments": run.notes.segments, "pauses_us": pauses, "problems": run.notes.problems, "trouble": run.trouble.made,
        }, file)
