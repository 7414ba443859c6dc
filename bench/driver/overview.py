"""The rows of the overview: one per workload, Millrace beside the best peer. Chooses and compares; writes nothing."""

from dataclasses import dataclass

from . import estimate, figures, results
from .workloads import BY_NAME

# Millrace with the backend that the system gets without a choice. All rows show this one: choosing the best backend per row
# would flatter. Results from before 2026-11-25 have no such side; the default was io_uring then.
MILLRACE, EARLIER_MILLRACE = "millrace", "millrace-io_uring"

# In HTTP workloads these programs only look for the ends of requests. They show the cost of the kernel, and are not web
# servers.
FLOORS = {"c-epoll", "c-io_uring", "libuv"}

# The number of rows that fit on a screen.
ROWS_MAX = 15


@dataclass(frozen=True)
class Choice:
    """A row of the overview: which row of the results it shows, and the name of its figure."""
    text: str
    workload: str
    point: dict  # what a row's point must contain
    figure: str  # its name
    http: bool = False


def _closed(text, workload, connections, http=True, cores=1, service=None):
    point = {"connections": connections, "cores": cores}
    if service:
        point["service"] = service
    return Choice(text, workload, point, "CPU time per request", http)


CHOICES = [
    _closed("TCP, 500 bytes, 100 connections", "tcp500", 100, http=False),
    _closed("HTTP, small answer, 100 connections", "pong", 100),
    _closed("HTTP, small answer, 1,000 connections", "pong", 1000),
    _closed("HTTP, small answer, two cores", "cores", 500, cores=2, service="pong"),
    _closed("HTTP, 16 requests in each write", "pipelined", 100),
    _closed("HTTP, a connection per request", "connect", 100),
    _closed("HTTP, file of 4 KiB", "file4k", 100),
    _closed("HTTP, file of 1 MiB", "file1m", 100),
    _closed("HTTP/2, 32 requests in flight", "h2-multiplexed", 100),
    _closed("HTTP over TLS, small answer", "tls-pong", 100),
    Choice("HTTP at 75 % of the maximum rate", "tail", {"share": 0.75}, "99th percentile of latency", True),
    Choice("10,000 idle HTTP connections", "idle", {"service": "pong"}, "memory per connection", True),
    Choice("A million threads sleep 1 ms", "sleepers", {"service": "sleepers", "n": 1_000_000, "cores": 1}, "time"),
    Choice("A timeout around an action", "timeouts", {"service": "timeouts", "cores": 1}, "time"),
    Choice("Blocking C calls, 1,000 at once", "blocking", {"service": "sleep", "cores": 1}, "time per call"),
]
assert len(CHOICES) <= ROWS_MAX


@dataclass(frozen=True)
class Row:
    choice: Choice
    ours: float
    peer: str
    theirs: float
    ratio: dict

    def shown(self, value):
        primary = BY_NAME[self.choice.workload].primary
        show = figures.microseconds if primary.startswith("cpu_us") else figures.ALL[primary][1]
        return show(value)


def millrace(data):
    """The name of Millrace's default side in these results."""
    return MILLRACE if MILLRACE in data["peers"] else EARLIER_MILLRACE


def _sides_of(table, choice):
    for (workload, point), sides in table.items():
        if workload == choice.workload and choice.point.items() <= dict(point).items():
            return sides
    return {}


def rows(data):
    """The rows for which the results have figures."""
    table, ours = results.rows(data), {name for name, peer in data["peers"].items() if peer["ours"]}
    default = millrace(data)
    variants = {name for name in data["peers"] if name.startswith("millrace")}
    found = []
    for choice in CHOICES:
        primary = BY_NAME[choice.workload].primary
        measured = {side: results.values(rounds, primary) for side, rounds in _sides_of(table, choice).items()}
        medians = {side: estimate.median(list(values.values())) for side, values in measured.items() if values}
        peers = set(medians) - ours - variants - (FLOORS if choice.http else set())
        if default not in medians or not peers:
            continue
        best = min(peers, key=medians.get)
        found.append(Row(choice, medians[default], data["peers"][best]["title"], medians[best],
                         estimate.paired_ratio(measured[default], measured[best])))
    return found
