"""The workloads: what each side has to do, and at which sizes. Only descriptions; `measurement` runs each kind."""

from dataclasses import dataclass, field

# Fewer connections show nothing more, and 10,000 take three times as long as 1,000: only `pong` has them.
CONNECTIONS = [100, 1000]
FILES = {"file4k": 4 << 10, "file1m": 1 << 20, "h2-file4k": 4 << 10, "h2-file1m": 1 << 20,
         "tls-file1m": 1 << 20, "h3-file1m": 1 << 20, "h3-loss": 1 << 20, "proxy-file1m": 1 << 20}
FILE_NAMES = {name: f"{name.rsplit('-', 1)[-1]}.bin" for name in FILES}

# Where another backend than the default one tells something. In the other workloads they do not differ: timers do not depend on
# the backend, and the costs of HTTP/2 and TLS above it are the same.
OTHER_BACKENDS = {
    **dict.fromkeys(("tcp500", "pong"), ("io_uring", "epoll")),
    **dict.fromkeys(("file4k", "file1m", "connect", "cores", "idle", "blocking", "h2-multiplexed", "tls-pong"),
                    ("io_uring",)),
}


@dataclass(frozen=True)
class Workload:
    name: str
    title: str
    kind: str  # closed, open, idle, timers, calls, toolkit or simulated
    text: str  # its description in the report
    primary: str  # the figure that is compared
    points: list = field(default_factory=list)  # the parameters of each row, as dictionaries
    quick: list = field(default_factory=list)  # the points of a quick run

    @property
    def other_backends(self):
        """The backends of Millrace that take part besides the default one."""
        return OTHER_BACKENDS.get(self.name, ())


def in_flight(point):
    """How many requests a closed loop has in flight."""
    return point["connections"] * point.get("streams", 1)


def _connections(services, counts, cores=(1,)):
    return [
        {"service": service, "connections": count, "cores": core}
        for service in services for core in cores for count in counts
    ]


def _over_tls(points, key="p256", version="1.3"):
    return [{**point, "key": key, "tls": version} for point in points]


def _tls(service, counts, keys=("p256",), versions=("1.3",), cores=(1,)):
    return [point for key in keys for version in versions for point in _over_tls(_connections([service], counts, cores), key, version)]


def _timers(work, cores=(1, 2), **sizes):
    return [{"service": work, "cores": core, **sizes} for core in cores]


def _sleepers(counts, cores=(1, 2)):
    return [
        point for n in counts for work in ("sleepers", "floor", "callbacks") for point in _timers(work, cores, n=n)
    ]


ALL = [
    Workload(
        "tcp500", "TCP, 500 bytes", "closed",
        "A server that answers whatever it reads from a TCP connection with 500 bytes. Connections are kept open. It is the "
        "workload of figures 1 and 2 of the 2018 paper on a multi-core I/O manager on libuv.",
        "cpu_us_per_request", _connections(["tcp500"], CONNECTIONS), _connections(["tcp500"], [100])),
    Workload(
        "pong", "HTTP, small answer", "closed",
        "HTTP with a body of five bytes, on connections that are kept open. The C programs only look for the ends of requests. "
        "They show the least possible cost, and are not web servers. Each server sends its own header fields.",
        "cpu_us_per_request", _connections(["pong"], [*CONNECTIONS, 10_000]), _connections(["pong"], [100])),
    Workload(
        "file4k", "HTTP, file of 4 KiB", "closed", "HTTP, a static file of 4 KiB.", "cpu_us_per_request",
        _connections(["files"], CONNECTIONS), _connections(["files"], [100])),
    Workload(
        "compress", "HTTP, a compressed file", "closed",
        "HTTP, a text of 20 KB for clients that accept gzip. Millrace has compressed it once and keeps the 3 KB in memory. nginx has a "
        "file that was compressed before (gzip_static) and keeps it open.", "cpu_us_per_request",
        _connections(["compressed"], [100])),
    Workload(
        "file1m", "HTTP, file of 1 MiB", "closed",
        "HTTP, a static file of 1 MiB. The number of requests is computed from the bytes received.", "cpu_us_per_request", _connections(["files"], [100])),
    Workload(
        "pipelined", "HTTP, 16 requests in each write", "closed",
        "As pong, with 16 requests in each write. Latencies are left out, because wrk computes them wrongly for pipelined "
        "requests.",
        "cpu_us_per_request", _connections(["pong"], [100]), _connections(["pong"], [100])),
    Workload(
        "connect", "HTTP, a connection per request", "closed",
        "As pong, with a new connection for each request (`Connection: close`).",
        "cpu_us_per_request", _connections(["close"], [100]), _connections(["close"], [100])),
    Workload(
        "cores", "TCP and HTTP on one and two cores", "closed",
        "pong with one and two cores, and tcp500 with two, 500 connections. If the machine has no further processors, the load "
        "generator shares the server's. CPU time per request stays comparable then, but requests per second measures both "
        "together.",
        "cpu_us_per_request", _connections(["tcp500"], [500], (2,)) + _connections(["pong"], [500], (1, 2))),
    Workload(
        "tail", "HTTP at a constant rate", "open",
        "As pong, under constant-rate load on 100 connections: 75 % of the rate that each server had just reached under "
        "closed load. Requests are sent on schedule, whether or not earlier ones were answered. So a pause of the server "
        "shows in every request that was due during it (no coordinated omission). h2load's timers tick once per "
        "millisecond, so requests arrive in bursts. This causes most of the median latency.",
        "latency_p99_us",
        [{"service": "pong", "connections": 100, "cores": 1, "share": 0.75}],
        [{"service": "pong", "connections": 100, "cores": 1, "share": 0.75}]),
    Workload(
        "idle", "idle connections", "idle",
        "Idle connections, each of which has been served once. The figure is the growth of the process's resident memory per "
        "connection, after a warm-up that touches what the server needs in any case. Memory in the kernel is not counted.",
        "memory_per_connection_bytes", _connections(["pong", "tcp500"], [10000]), _connections(["pong"], [1000])),
    Workload(
        "sleepers", "threads that sleep 1 ms", "timers",
        "n threads sleep 1 ms: the benchmark of the 2010 article on scalable timeouts. In `floor`, as many threads wait for an "
        "MVar (in Go, a channel) instead. In `callbacks` there are as many timers and no threads. Work that a side does "
        "once, before its first timer, is not counted.",
        "seconds", _sleepers([10_000, 100_000, 1_000_000]), _sleepers([10_000], (1,))),
    Workload(
        "timeouts", "timeouts and moved timers", "timers",
        "`timeouts`: each of 1,000 threads repeats a timeout of 10 s around one `yield`; the figure is one such call. `brief`: "
        "the same around nothing, which shows the cost of the timeout alone. `rearm`: each of 100,000 live timers is moved "
        "to 10 s from now, repeatedly; the figure is one move. `arm`: a timer of 10 s is armed and cancelled, repeatedly; "
        "the figure is both together. `deadline`: the deadline of a socket that a thread receives from is set to ten seconds "
        "from now, repeatedly; it is the cost that a deadline adds to each request. With 300 calls per thread, a good part "
        "of Millrace's time is the first use of the allocator's memory; with 3,000 it is not.",
        "us_per_call",
        _timers("timeouts", n=1000, m=300) + _timers("brief", n=1000, m=300) + _timers("brief", (1,), n=1000, m=3000) +
        _timers("rearm", n=100_000, m=10) +
        _timers("arm", n=1_000_000, m=1) + _timers("deadline", n=1_000_000, m=1),
        _timers("timeouts", (1,), n=1000, m=50) + _timers("rearm", (1,), n=10_000, m=10)),
]

ALL += [
    Workload(
        "lateness", "how late threads wake", "timers",
        "n threads sleep 1 to 100 ms, ten times each. The figure is the 99th percentile of how late they wake. Waking early "
        "is a failure. If something else occupies the processor, all threads wake late.",
        "seconds", _timers("lateness", n=100) + _timers("lateness", n=10_000), _timers("lateness", (1,), n=100)),
    Workload(
        "live", "ten million live timers", "timers",
        "Ten million live timers, which fire at random within ten seconds. The figure is the CPU time of the loop's longest "
        "poll: the longest pause that timers cause. Peak memory divided by the number of timers is the memory of a timer, "
        "including 8 bytes of the program's own list. `still` is the longest of polls that find nothing, during ten seconds: "
        "a pause that the machine itself causes, which is part of the other figure as well.",
        "seconds", _timers("live", (1,), n=10_000_000) + _timers("still", (1,), n=10), _timers("still", (1,), n=1)),
    Workload(
        "simulated", "connections on a simulated machine", "simulated",
        "n connections on a simulated machine in one process. One loop serves both ends of each, over links of a millisecond. "
        "There are 100,000 requests per second of virtual time, on the connections in order (`turn`) or at random "
        "(`random`). The figure is the CPU time of one operation; a request takes five. `idle`: connections stay silent "
        "until their deadline; the figure is one deadline, from setting it to the error. Memory is the growth of the process "
        "per connection.",
        "us_per_event",
        [point for n in (1000, 10_000, 100_000, 1_000_000) for work in ("turn", "random", "idle")
         for point in _timers(work, (1,), n=n)],
        _timers("turn", (1,), n=10_000) + _timers("idle", (1,), n=10_000)),
]

ALL += [
    Workload(
        "blocking", "C functions that block", "calls",
        "1,000 callers, each of which repeatedly calls a C function that blocks. `sleep`: usleep for a millisecond. `hold`: half "
        "a second, so that all calls are in flight at once; compare OS threads and memory there. `ask`: a question over a "
        "socket and a read that waits for the answer. One thread of the same program answers all questions, and its time is "
        "in the figure. The callers are green threads in Haskell, goroutines in Go, and POSIX threads or fibers in C. OS "
        "threads are all threads of the process. Memory for the calls is the growth of the process. Kernel memory is the "
        "growth of the machine's kernel meanwhile: stacks of OS threads, page tables and records (KernelStack, PageTables "
        "and SUnreclaim of /proc/meminfo). Both together are the memory that the calls take.",
        "us_per_call",
        _timers("sleep", (1, 2), n=1000, m=100) + _timers("hold", (1,), n=1000, m=1) + _timers("ask", (1, 2), n=1000, m=100),
        _timers("sleep", (1,), n=1000, m=20) + _timers("hold", (1,), n=1000, m=1) + _timers("ask", (1,), n=1000, m=20)),
    Workload(
        "switch", "starting and waking callers of C", "calls",
        "The cost of the callers of `blocking` themselves. `switch`: two of them wake each other in turn; the figure is one "
        "turn. `spawn`: one starts another and waits for its end. `empty`: one call of a C function that does nothing.",
        "us_per_call",
        _timers("switch", (1,), n=2, m=100_000) + _timers("spawn", (1,), n=1, m=50_000) +
        _timers("empty", (1, 2), n=1, m=50_000),
        _timers("switch", (1,), n=2, m=10_000) + _timers("spawn", (1,), n=1, m=2_000) +
        _timers("empty", (1,), n=1, m=2_000)),
]

def _streams(service, pairs, cores=(1,)):
    return [{"service": service, "connections": connections, "streams": streams, "cores": core}
            for core in cores for connections, streams in pairs]


ALL += [
    Workload(
        "h2-pong", "HTTP/2, small answer", "closed",
        "HTTP/2 with a body of five bytes, one request at a time on each connection. h2load prints no "
        "percentiles.",
        "cpu_us_per_request", _streams("h2pong", [(100, 1)]), _streams("h2pong", [(100, 1)])),
    Workload(
        "h2-multiplexed", "HTTP/2, many requests in flight", "closed",
        "As h2-pong, with 32 or 100 requests in flight on each connection. A server may allow fewer than 100, and the client obeys.",
        "cpu_us_per_request",
        _streams("h2pong", [(100, 32)], (1, 2)) + _streams("h2pong", [(256, 100)]), _streams("h2pong", [(100, 32)])),
    Workload(
        "h2-tls", "HTTP/2 over TLS, small answer", "closed",
        "As h2-pong and h2-multiplexed, over TLS. Handshakes are not in the figure.", "cpu_us_per_request",
        _over_tls(_streams("h2tls-pong", [(100, 1), (100, 32)])), _over_tls(_streams("h2tls-pong", [(100, 1)]))),
    Workload(
        "h2-file4k", "HTTP/2, file of 4 KiB", "closed",
        "HTTP/2, a static file of 4 KiB, 8 requests in flight on each connection.", "cpu_us_per_request",
        _streams("h2files", [(100, 8)])),
    Workload(
        "h2-file1m", "HTTP/2, file of 1 MiB", "closed",
        "HTTP/2, a static file of 1 MiB. The number of requests is computed from the bytes received. With many more than 40 requests in "
        "flight, a turn would only take what waits in the connections' buffers.",
        "cpu_us_per_request", _streams("h2files", [(10, 4)])),
    Workload(
        "h2-upload", "HTTP/2, upload of 1 MiB", "closed",
        "HTTP/2, a body of 1 MiB that the server reads and drops before it answers. The CPU time is that of a MiB that the "
        "client has sent. There is one upload at a time on each connection, because Warp with http2 3.0 stops for ever when there "
        "are several. nginx, h2o and nghttpd cannot take uploads by themselves.",
        "cpu_us_per_request", _streams("h2upload", [(40, 1)])),
    Workload(
        "h2-tail", "HTTP/2 at a constant rate", "open", "As tail, over HTTP/2.",
        "latency_p99_us",
        [{"service": "h2pong", "connections": 100, "streams": 1, "cores": 1, "share": 0.75}]),
    Workload(
        "h2-idle", "idle HTTP/2 connections", "idle", "As idle, over HTTP/2.",
        "memory_per_connection_bytes", [{"service": "h2pong", "connections": 10000, "streams": 1, "cores": 1}]),
]

ALL += [
    Workload(
        "tls-pong", "HTTP over TLS, small answer", "closed",
        "As pong, over TLS. Each side has its own defaults: nginx prefers AES-256 with TLS 1.3, Millrace and Go prefer AES-128.",
        "cpu_us_per_request",
        _tls("tls-pong", [100, 1000]), _tls("tls-pong", [100])),
    Workload(
        "tls-handshake", "HTTP over TLS, a full handshake per request", "closed",
        "A connection with a full handshake for each request: the client resumes nothing. The certificate's key is P-256 or "
        "RSA with 2,048 bits.",
        "cpu_us_per_request",
        _tls("tls-handshake", [50], ("p256", "rsa")) + _tls("tls-handshake", [50], cores=(2,))),
    Workload(
        "tls-reconnect", "HTTP over TLS, a resumed session per request", "closed",
        "A connection for each request, with a session that is resumed.", "cpu_us_per_request",
        _tls("tls-close", [100])),
    Workload(
        "tls-file1m", "HTTP over TLS, file of 1 MiB", "closed", "A static file of 1 MiB over TLS.", "cpu_us_per_request", _tls("tls-files", [100])),
    Workload(
        "tls-idle", "idle TLS connections", "idle",
        "Idle connections over TLS, each of which has been served once. Memory as in `idle`.", "memory_per_connection_bytes",
        _tls("tls-pong", [3000])),
]

def _loss(algorithms):
    return [{**point, "delay_ms": 25, "loss_percent": 1, "megabits": 100, "congestion": algorithm}
            for algorithm in algorithms for point in _streams("h3loss", [(1, 4)])]


ALL += [
    Workload(
        "h3-pong", "HTTP/3, small answer", "closed",
        "HTTP/3 with a body of five bytes, one request at a time on each connection. Handshakes are not in the figure.",
        "cpu_us_per_request", _streams("h3pong", [(100, 1)]), _streams("h3pong", [(20, 1)])),
    Workload(
        "h3-multiplexed", "HTTP/3, many requests in flight", "closed", "As h3-pong, with 32 requests in flight on each connection.",
        "cpu_us_per_request", _streams("h3pong", [(100, 32)]), _streams("h3pong", [(20, 32)])),
    Workload(
        "h3-file1m", "HTTP/3, file of 1 MiB", "closed",
        "HTTP/3, a static file of 1 MiB. The number of requests is computed from the bytes received. Sides whose names say so serve the same "
        "by HTTP/2 over TLS.",
        "cpu_us_per_request", _streams("h3files", [(10, 4)]), _streams("h3files", [(4, 1)])),
    Workload(
        "h3-idle", "idle HTTP/3 connections", "idle",
        "As idle, over HTTP/3, after some seconds without a packet.",
        "memory_per_connection_bytes", _streams("h3pong", [(2000, 1)])),
    Workload(
        "h3-loss", "HTTP/3 on a bad network", "link",
        "Downloads of a static file of 1 MiB over a link that drops 1 % of all packets at random, in each direction, delays each by 25 ms, so "
        "that a question and its answer take 50, and carries 100 Mbit/s. One connection, four requests in flight. Sides whose names say so "
        "speak HTTP/2 over TLS, on the same link; TCP controls congestion by CUBIC, which is what Linux does by default, or by BBR. HTTP/3 "
        "controls it by itself. The link is a program (`driver/link/link.c`): it needs no netem, but a processor that is not always busy. CPU "
        "time is that of the server for a MiB.",
        "seconds_per_mebibyte", _loss(("cubic", "bbr")), _loss(("cubic",))),
]

BEHIND = ("Behind each proxy there is an nginx of its own that answers, on other processors if there are any. Its time does not count. The "
          "connections to it are kept.")
ALL += [
    Workload(
        "proxy-pong", "a proxy, small answer", "closed",
        "Reverse proxies for HTTP, and a body of five bytes. " + BEHIND, "cpu_us_per_request",
        _connections(["proxy-pong"], CONNECTIONS), _connections(["proxy-pong"], [100])),
    Workload(
        "proxy-file1m", "a proxy, file of 1 MiB", "closed",
        "As proxy-pong, with a file of 1 MiB. The number of requests is computed from the bytes received.", "cpu_us_per_request",
        _connections(["proxy-files"], [100])),
    Workload(
        "proxy-ws", "a proxy, WebSockets", "closed",
        "Each connection is a WebSocket through the proxy: it sends a message of five bytes, and the next one when that has come back from "
        "a program in C.", "cpu_us_per_request",
        _connections(["proxy-ws"], [100])),
    Workload(
        "proxy-h2", "a proxy, HTTP/2 on one side", "closed",
        "As proxy-pong, with clients that speak HTTP/2, or with a target that does. h2load prints no percentiles. nginx cannot speak HTTP/2 with "
        "targets.", "cpu_us_per_request",
        _streams("h2proxy", [(100, 1)]) + _connections(["proxy-h2c"], [100])),
    Workload(
        "proxy-idle", "a proxy, idle connections", "idle",
        "As idle, through a proxy. There are few connections to the target, because the clients ask one after the other.",
        "memory_per_connection_bytes", _connections(["proxy-pong"], [5000])),
]


def _toolkit(work, callers, times):
    """`times` are divided among the callers."""
    return [{"service": work, "cores": 1, "n": n, "m": times // n} for n in callers]


TOOLKIT = ("read", "direct", "read-all", "write-all", "copy-all", "processes", "walk", "echo", "watch", "names")
ALL += [
    Workload(
        "file-cached", "random reads of a file in memory", "toolkit",
        "Blocks of 4 KiB at random offsets of a file of 256 MiB, which the system has in memory, are read into memory of the reader's. This many "
        "readers read at the same time; for fio it is the depth. Most of every figure is the system's copying.",
        "cpu_us_per_call", _toolkit("read", (1, 64, 256), 200_000), _toolkit("read", (64,), 50_000)),
    Workload(
        "file-direct", "random reads past the system's memory", "toolkit",
        "As file-cached, with O_DIRECT: every read goes to the disk.",
        "us_per_call", _toolkit("direct", (1, 8), 2_000) + _toolkit("direct", (64, 256), 40_000), _toolkit("direct", (64,), 6_000)),
    Workload(
        "file-whole", "reading, writing and copying a gigabyte", "toolkit",
        "A file of 1 GiB is read from its beginning, or written and synced, in pieces of 1 MiB, or copied to a new file, which is synced. The "
        "figure is a piece.",
        "cpu_us_per_call", _toolkit("read-all", (1,), 1024) + _toolkit("write-all", (1,), 1024) + _toolkit("copy-all", (1,), 1024)),
    Workload(
        "processes", "short processes", "toolkit",
        "Threads run the program `true` and wait for its end. The processor time includes that of the programs, which is most of it.",
        "us_per_call", _toolkit("processes", (1, 8), 10_000), _toolkit("processes", (8,), 200)),
    Workload(
        "walk", "walking a tree", "toolkit",
        "All names of a tree of 100,000 files in 110 directories are visited. The figure is all of it.",
        "us_per_call", _toolkit("walk", (1,), 1)),
    Workload(
        "udp", "answering packets", "toolkit",
        "UDP packets of 100 bytes are sent back to where they came from. They arrive in bursts of this many, from a process whose time does not "
        "count.",
        "cpu_us_per_call",
        [{"service": "echo", "cores": 1, "n": n, "m": 160_000} for n in (1, 32)], [{"service": "echo", "cores": 1, "n": 32, "m": 32_000}]),
    Workload(
        "watch", "noticing changes", "toolkit",
        "A file is made, and its report waited for. The figure is both together.",
        "us_per_call", _toolkit("watch", (1,), 5_000)),
    Workload(
        "names", "looking up names", "toolkit",
        "This many threads look up `localhost` at the same time.",
        "us_per_call", _toolkit("names", (1000,), 20_000), _toolkit("names", (1000,), 2_000)),
]

BY_NAME = {workload.name: workload for workload in ALL}

# The pages of the report: file name, title and the workloads on it.
SUBJECTS = {
    "tcp": ("TCP", ("tcp500",)),
    "http1": ("HTTP/1", ("pong", "pipelined", "connect", "cores", "tail", "idle")),
    "files": ("Files over HTTP/1", ("file4k", "compress", "file1m")),
    "http2": ("HTTP/2", ("h2-pong", "h2-multiplexed", "h2-tls", "h2-file4k", "h2-file1m", "h2-upload", "h2-tail", "h2-idle")),
    "http3": ("HTTP/3", ("h3-pong", "h3-multiplexed", "h3-file1m", "h3-idle", "h3-loss")),
    "tls": ("HTTP over TLS", ("tls-pong", "tls-handshake", "tls-reconnect", "tls-file1m", "tls-idle")),
    "proxy": ("Reverse proxies", ("proxy-pong", "proxy-file1m", "proxy-ws", "proxy-h2", "proxy-idle")),
    "timers": ("Timers", ("sleepers", "timeouts", "lateness", "live")),
    "calls": ("Calling C", ("blocking", "switch")),
    "toolkit": ("Files, processes, packets and names", ("file-cached", "file-direct", "file-whole", "processes", "walk", "udp", "watch", "names")),
    "simulated": ("Simulated machines", ("simulated",)),
}


def subject_of(name):
    """The page that a workload is on."""
    return next(subject for subject, (_, names) in SUBJECTS.items() if name in names)


def label(name, point):
    """The name of a row in the report and while it is measured: the workload and its point."""
    words = [name]
    if name in ("cores", "idle"):
        words.append(point["service"])
    if name == "proxy-h2":
        words.append("clients" if point["service"] == "h2proxy" else "target")
    if point["service"] in ("floor", "callbacks", "rearm", "arm", "timeouts", "brief", "sleepers", "lateness", "live", "still",
                            "deadline", "turn", "random", "idle", "sleep", "hold", "ask", "switch", "spawn", "empty", *TOOLKIT):
        size = f" × {point['m']}" if "m" in point else ""
        words.append(f"{point['service']} {point['n']:,}{size}")
    if "connections" in point:
        words.append(f"{point['connections']:,} connections")
    if point.get("streams", 1) > 1:
        words.append(f"{point['streams']} streams each")
    if "key" in point:
        words.append(f"{'P-256' if point['key'] == 'p256' else 'RSA'}, TLS {point['tls']}")
    if "congestion" in point:
        words.append(f"TCP with {point['congestion'].upper()}")
    if "share" in point:
        words.append(f"{point['share']:.0%} of the maximum".replace("%", " %"))
    if point["cores"] != 1 or "n" in point:
        words.append(f"{point['cores']} core" + "s" * (point["cores"] > 1))
    return ", ".join(words)


def select(names, connections, quick):
    """The workloads and points of a run, as (workload, points)."""
    unknown = sorted(set(names or []) - set(BY_NAME))
    if unknown:
        raise ValueError(f"there is no workload {', '.join(unknown)}; the workloads are {', '.join(BY_NAME)}")
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
    """The points with the given numbers of connections instead of their own. Points without connections stay."""
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
