"""Workloads: what is asked of the sides, at which sizes. Pure description; `measurement` knows how each kind is run."""

from dataclasses import dataclass, field

CONNECTIONS = [10, 100, 1000, 10000]
FILES = {"file4k": 4 << 10, "file1m": 1 << 20, "file100m": 100 << 20}
FILE_NAMES = {name: f"{name}.bin" for name in FILES}


@dataclass(frozen=True)
class Workload:
    name: str
    kind: str  # closed, open, idle, timers, calls or simulated
    text: str  # for the report
    primary: str  # the figure that the ratios are about
    points: list = field(default_factory=list)  # parameters of each row: dictionaries
    quick: list = field(default_factory=list)  # the points of a quick run


def _connections(services, counts, cores=(1,)):
    return [
        {"service": service, "connections": count, "cores": core}
        for service in services for core in cores for count in counts
    ]


def _timers(work, cores=(1, 2), **sizes):
    return [{"service": work, "cores": core, **sizes} for core in cores]


def _sleepers(counts, cores=(1, 2)):
    return [
        point for n in counts for work in ("sleepers", "floor", "callbacks") for point in _timers(work, cores, n=n)
    ]


ALL = [
    Workload(
        "tcp500", "closed",
        "500 bytes to any read over plain TCP, connections kept alive. The workload of figures 1 and 2 of the 2018 "
        "paper on a multi-core I/O manager on libuv.",
        "cpu_us_per_request", _connections(["tcp500"], CONNECTIONS), _connections(["tcp500"], [100])),
    Workload(
        "pong", "closed",
        "HTTP, five-byte body, connections kept alive. The C programs only look for the ends of requests: they are "
        "the floor, not web servers. The answers differ in their header fields, as each server sends its own.",
        "cpu_us_per_request", _connections(["pong"], CONNECTIONS), _connections(["pong"], [100])),
    Workload(
        "file4k", "closed", "HTTP, a static file of 4 KiB.", "cpu_us_per_request",
        _connections(["files"], CONNECTIONS), _connections(["files"], [100])),
    Workload(
        "file1m", "closed", "HTTP, a static file of 1 MiB. Requests are counted by the bytes received.",
        "cpu_us_per_request", _connections(["files"], CONNECTIONS)),
    Workload(
        "file100m", "closed",
        "HTTP, a static file of 100 MiB. Requests are counted by the bytes received. Up to 100 connections: with "
        "more, one answer would take longer than a sample.",
        "cpu_us_per_request", _connections(["files"], [10, 100])),
    Workload(
        "pipelined", "closed",
        "pong, with 16 requests in each write. No latencies: wrk's are wrong when requests are pipelined.",
        "cpu_us_per_request", _connections(["pong"], [100, 1000]), _connections(["pong"], [100])),
    Workload(
        "connect", "closed", "pong, with a new connection for each request (Connection: close).",
        "cpu_us_per_request", _connections(["close"], [100, 1000]), _connections(["close"], [100])),
    Workload(
        "cores", "closed",
        "tcp500 and pong with one and two cores, 500 connections. Where the machine has no processors left over, "
        "the load generator shares the server's: CPU time per request stays comparable, requests per second then "
        "measures both together.",
        "cpu_us_per_request", _connections(["tcp500", "pong"], [500], (1, 2))),
    Workload(
        "tail", "open",
        "pong under constant-rate load on 100 connections, at 50 and 75 % of what each server reached under closed "
        "load just before. Requests leave on schedule whether or not earlier ones were answered, so a stall shows "
        "in every request that fell due during it (no coordinated omission). h2load's timers tick once per "
        "millisecond: arrivals come in bursts, which is where most of the median comes from.",
        "latency_p99_us",
        [{"service": "pong", "connections": 100, "cores": 1, "share": share} for share in (0.5, 0.75)],
        [{"service": "pong", "connections": 100, "cores": 1, "share": 0.5}]),
    Workload(
        "idle", "idle",
        "Idle keep-alive connections that have each been served once: growth of the process's resident memory per "
        "connection, after a warm-up that touches what the server needs anyway. Memory in the kernel is not counted.",
        "memory_per_connection_bytes", _connections(["pong", "tcp500"], [10000]), _connections(["pong"], [1000])),
    Workload(
        "sleepers", "timers",
        "n threads sleep 1 ms (the benchmark of the 2010 article on scalable timeouts). `floor` is as many threads "
        "waiting on an MVar (in Go, a channel) instead; `callbacks` is as many timers without threads. What a side starts "
        "once, before its first timer, is not counted.",
        "seconds", _sleepers([10_000, 20_000, 100_000, 1_000_000]), _sleepers([10_000], (1,))),
    Workload(
        "timeouts", "timers",
        "`timeouts`: 1,000 threads put a timeout of 10 s around yielding once, over and over; the figure is one such "
        "call. `brief`: the same around nothing, which is what the timeout alone costs. `rearm`: 100,000 live timers of "
        "10 s are all re-armed, over and over; the figure is one re-arming. `arm`: a timer of 10 s is armed and cancelled, "
        "over and over; the figure is both together. `deadline`: the deadline of a socket that a thread receives from is set "
        "to ten seconds from now, over and over: what a server adds to each request that gives it a deadline. With 300 calls "
        "per thread a good part of our time is the first touch of the allocator's memory; with 3,000 it is not.",
        "us_per_call",
        _timers("timeouts", n=1000, m=300) + _timers("brief", n=1000, m=300) + _timers("brief", (1,), n=1000, m=3000) +
        _timers("rearm", n=100_000, m=10) +
        _timers("arm", n=1_000_000, m=1) + _timers("deadline", n=1_000_000, m=1),
        _timers("timeouts", (1,), n=1000, m=50) + _timers("rearm", (1,), n=10_000, m=10)),
]

ALL += [
    Workload(
        "lateness", "timers",
        "n threads sleep 1 to 100 ms, ten times each. The figure is by how much the latest one in a hundred wakes late; "
        "waking early would be a failure. A processor that something else occupies makes everybody late.",
        "seconds", _timers("lateness", n=100) + _timers("lateness", n=10_000), _timers("lateness", (1,), n=100)),
    Workload(
        "live", "timers",
        "Ten million live timers, which fire at random within ten seconds. The figure is the longest single poll of the "
        "loop, in CPU time of its thread: what the wheel can hold up. Peak memory divided by their number is what a timer "
        "takes, 8 bytes of it the program's own list. `still` is the same of polls that find nothing, for ten seconds: what "
        "the machine itself holds up, which is in the other figure too.",
        "seconds", _timers("live", (1,), n=10_000_000) + _timers("still", (1,), n=10), _timers("still", (1,), n=1)),
    Workload(
        "simulated", "simulated",
        "n connections in one process, on a simulated machine: both ends of each, served by one loop, over links of a "
        "millisecond. 100,000 requests come in a second of virtual time, on one connection after the other (`turn`) or on "
        "connections drawn at random (`random`); the figure is the CPU time of one operation, of which a request takes "
        "five. `idle`: connections that say nothing until their deadline passes; the figure is one deadline, from setting "
        "it to the error. Memory is what the process grows by, over connections.",
        "us_per_event",
        [point for n in (1000, 10_000, 100_000, 1_000_000) for work in ("turn", "random", "idle")
         for point in _timers(work, (1,), n=n)],
        _timers("turn", (1,), n=10_000) + _timers("idle", (1,), n=10_000)),
]

ALL += [
    Workload(
        "blocking", "calls",
        "1,000 callers, each of which calls a C function that blocks, over and over. `sleep`: a millisecond of usleep. `hold`: "
        "half a second, so that all calls are in flight at once; look at threads and memory there. `ask`: a question over a "
        "socket, with a plain read that waits for the answer; a thread of the same program answers all of them, and its "
        "time is in the figure. From Haskell the callers are green threads, in Go goroutines; in C they are "
        "POSIX threads or fibers. OS threads are all of the process, with the one that answers. Memory for the calls is what "
        "the process grew by. Kernel memory is what the machine's kernel grew by while it ran: the stacks of OS threads, page "
        "tables and records (KernelStack, PageTables and SUnreclaim of /proc/meminfo). Their sum is what the machine loses.",
        "us_per_call",
        _timers("sleep", (1, 2), n=1000, m=100) + _timers("hold", (1,), n=1000, m=1) + _timers("ask", (1, 2), n=1000, m=100),
        _timers("sleep", (1,), n=1000, m=20) + _timers("hold", (1,), n=1000, m=1) + _timers("ask", (1,), n=1000, m=20)),
    Workload(
        "switch", "calls",
        "What the callers of `blocking` cost by themselves. `switch`: two of them take turns; the figure is one turn. `spawn`: "
        "one starts another and waits for its end. `empty`: the round trip of a call of a C function that does nothing.",
        "us_per_call",
        _timers("switch", (1,), n=2, m=100_000) + _timers("spawn", (1,), n=1, m=50_000) +
        _timers("empty", (1, 2), n=1, m=50_000),
        _timers("switch", (1,), n=2, m=10_000) + _timers("spawn", (1,), n=1, m=2_000) +
        _timers("empty", (1,), n=1, m=2_000)),
]

BY_NAME = {workload.name: workload for workload in ALL}


def label(name, point):
    """A row in words, for progress and report: the workload and its point."""
    words = [name]
    if name in ("cores", "idle"):
        words.append(point["service"])
    if point["service"] in ("floor", "callbacks", "rearm", "arm", "timeouts", "brief", "sleepers", "lateness", "live", "still",
                            "deadline", "turn", "random", "idle", "sleep", "hold", "ask", "switch", "spawn", "empty"):
        size = f" × {point['m']}" if "m" in point else ""
        words.append(f"{point['service']} {point['n']:,}{size}")
    if "connections" in point:
        words.append(f"{point['connections']:,} connections")
    if "share" in point:
        words.append(f"{point['share']:.0%} of the maximum".replace("%", " %"))
    if point["cores"] != 1 or "n" in point:
        words.append(f"{point['cores']} core" + "s" * (point["cores"] > 1))
    return ", ".join(words)


def select(names, connections, quick):
    """The workloads and points of a run, as (workload, points)."""
    unknown = sorted(set(names or []) - set(BY_NAME))
    if unknown:
        raise ValueError(f"no such workload: {', '.join(unknown)} (there are {', '.join(BY_NAME)})")
    chosen = []
    for workload in ALL:
        if names is not None and workload.name not in names:
            continue
        points = list(workload.quick) if quick else list(workload.points)
        if quick and names is not None and not points:
            points = list(workload.points[:1])
        if connections is not None:
            points = _with_connections(points, connections)
        if points:
            chosen.append((workload, points))
    return chosen


def _with_connections(points, connections):
    """The points at the connection counts asked for, instead of their own; points without connections stay."""
    result = []
    for point in points:
        if "connections" not in point:
            result.append(point)
            continue
        for count in connections:
            changed = {**point, "connections": count}
            if changed not in result:
                result.append(changed)
    return result
