"""The rows of a run, and an estimate of how long each takes. Runs nothing."""

from dataclasses import dataclass

from . import turns
from .workloads import in_flight

ROUNDS = 3
ROUNDS_OF_MANY = 2  # with 10,000 connections, where opening and serving them all takes most of the time
START_SECONDS = 0.4  # starting a server, checking its answers, and stopping it
# Programs that run to their end: a fixed time where the size does not matter, and otherwise a time per timer or call.
PROGRAM_SECONDS = {"live": 15, "lateness": 2, "hold": 1, "direct": 2, "read-all": 1, "write-all": 4, "copy-all": 4,
                   "echo": 3}
LEAST_SECONDS, SECONDS_PER_THING, SECONDS_PER_PROCESS = 0.5, 2e-6, 1e-3


@dataclass(frozen=True)
class Row:
    """A workload at a point, with the sides that take part."""

    workload: object
    point: dict
    sides: list
    rounds: int
    counts_calls: bool

    def preparation_seconds(self, settings):
        """The time before the first sample, which includes the turns."""
        if self.workload.kind != "closed":
            return 0
        connections = self.point["connections"]
        # At the end of a turn the server finishes what was sent: about ten microseconds per request.
        turn = turns.TURN_SECONDS + turns.AT_REST_SECONDS + in_flight(self.point) * 1e-5
        each_round = (len(self.sides) * (START_SECONDS + settings.turns * turn)
                      + turns.setting_up_seconds(len(self.sides), connections))
        return self.rounds * each_round

    def sample_seconds(self, settings):
        kind = self.workload.kind
        if kind == "closed":
            return settings.closed(self.point) + 0.1
        if kind == "open":
            return settings.open_loop + settings.warm_up + START_SECONDS + 2  # reading the log
        if kind == "idle":
            return 2 * settings.idle + settings.warm_up + START_SECONDS + self.point["connections"] * 1e-4
        if kind == "link":
            return settings.link + START_SECONDS + 1
        if self.point["service"] == "still":
            return self.point["n"] + LEAST_SECONDS
        things = self.point["n"] * self.point.get("m", 1)
        each = SECONDS_PER_PROCESS if self.point["service"] == "processes" else SECONDS_PER_THING
        seconds = PROGRAM_SECONDS.get(self.point["service"], LEAST_SECONDS + things * each)
        return seconds * (2 if kind == "simulated" else 1)

    def count_seconds(self, settings):
        return settings.counting + self.point["connections"] // 1000 + 0.5 if self.counts_calls else 0

    def seconds(self, settings):
        each = self.rounds * self.sample_seconds(settings) + self.count_seconds(settings)
        return self.preparation_seconds(settings) + len(self.sides) * each


def rounds(workload, point):
    """The number of rounds of a row if no option sets it."""
    # A constant-rate sample takes half a minute per side. The largest timer programs take many seconds and vary little.
    expensive = workload.kind in ("open", "idle") or point.get("n", 0) >= 10_000_000 or point["service"] == "still"
    if expensive:
        return 1
    return ROUNDS_OF_MANY if point.get("connections", 0) >= 10_000 else ROUNDS


def summary(rows, settings):
    """A line of text: how long the run takes, and which workloads take most of it."""
    by_name = {}
    for row in rows:
        by_name[row.workload.name] = by_name.get(row.workload.name, 0) + row.seconds(settings) / 60
    most = sorted(by_name.items(), key=lambda item: -item[1])[:8]
    return (f"about {sum(by_name.values()):.0f} minutes: "
            + ", ".join(f"{name} {minutes:.1f}" for name, minutes in most)
            + (", others less" if len(by_name) > len(most) else ""))
