"""Takes one sample of one side at one point of a workload, and counts system calls in a separate run.

A sample is a dictionary of figures, whose names contain their units. When a sample fails, the exceptions of the modules
below pass through, and `session` decides what they mean. For closed loops this module has the parts, and `contest`
combines them.
"""

import atexit
import contextlib
import gzip
import os
import random
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse
from dataclasses import dataclass

from . import answers, links, load, machine, process, sockets, targets, tls, turns
from .load import LoadError
from .process import ServerError
from .workloads import FILES, FILE_NAMES, in_flight

WARM_UP_CONNECTIONS = 50
PIPELINE_DEPTH = 16
UPLOAD = "h2-file1m"
BYTES_COUNTED_FROM = 1 << 20  # From this size on requests are counted by bytes, because an answer may span samples.


FILE_SERVICES = ("files", "h2files", "h2tls-files", "tls-files", "proxy-files", "h3files", "h3loss", "h2loss")


def is_http2(point):
    return point["service"].startswith("h2")


def is_http3(point):
    return point["service"].startswith("h3")


def point_of(side, point):
    """The point as this side serves it: over HTTP/2 and TLS, in a row of HTTP/3, if it is there for the comparison."""
    service = side.instead(point["service"])
    return point if service == point["service"] else {**point, "service": service, "key": "p256", "tls": "1.3"}


def is_websocket(point):
    return point["service"] == "proxy-ws"


class Settings:
    """Durations, in seconds unless the name says otherwise."""

    def __init__(self, seconds, quick):
        self.quick = quick
        self.turns = max(2, round(seconds / turns.TURN_SECONDS))  # number of turns of each side in a round
        self.uninterrupted = max(1, int(seconds))  # wrk takes only whole seconds
        self.warm_up = 0 if quick else 1
        self.counting = 1
        self.open_loop = 2 if quick else 30
        self.idle = 1 if quick else 2
        self.timer_limit = 20 if quick else 240
        self.link = 3 if quick else 10
        self.start_limit = 15

    def closed(self, point):
        """Setting up thousands of connections takes a second or two, so samples with that many are longer."""
        many = 1000 if "key" in point else 10_000  # with TLS each takes a handshake
        return self.uninterrupted * 3 if point["connections"] >= many and not self.quick else self.uninterrupted

# What requests have besides the usual fields, by service.
FIELDS = {"close": ("Connection: close",), "tls-close": ("Connection: close",), "compressed": ("Accept-Encoding: gzip",)}
TEXT_NAME = "text.html"


class Files:
    """The directory of static files. They are written when first needed, and are the same on every machine."""

    def __init__(self, directory):
        self.directory = directory

    def provide(self, name):
        """The name and the bytes of a workload's file."""
        path = os.path.join(self.directory, FILE_NAMES[name])
        content = random.Random(1).randbytes(1 << 20) * (FILES[name] >> 20) or random.Random(1).randbytes(FILES[name])
        if not os.path.exists(path) or os.path.getsize(path) != len(content):
            os.makedirs(self.directory, exist_ok=True)
            with open(path + ".new", "wb") as file:
                file.write(content)
            os.replace(path + ".new", path)
        return FILE_NAMES[name], content

    def provide_text(self):
        """A text in two folders: plain, and stored with one that was compressed before."""
        content = "".join(f"{number} is a number, and {number * number} its square\n" for number in range(500)).encode()
        for folder, files in [("plain", {"": content}), ("stored", {"": content, ".gz": gzip.compress(content, 6)})]:
            os.makedirs(os.path.join(self.directory, folder), exist_ok=True)
            for ending, data in files.items():
                path = os.path.join(self.directory, folder, TEXT_NAME + ending)
                if not os.path.exists(path):
                    with open(path, "wb") as file:
                        file.write(data)
        return TEXT_NAME, content


class Material:
    """What the workloads of files work on: files of 256 MiB and 1 GiB, a tree of 100,000 files, and a new directory. Each is made when first
    needed. The large ones are removed at the driver's end."""

    BLOCKS_BYTES, WHOLE_BYTES, DIRECTORIES, NAMES_EACH = 256 << 20, 1 << 30, 100, 1000

    def __init__(self, directory):
        self.directory = directory

    @contextlib.contextmanager
    def provided(self, service):
        """The path on which a service works. What it writes is removed afterwards."""
        os.makedirs(self.directory, exist_ok=True)
        if service in ("read", "direct"):
            yield self._file("blocks", self.BLOCKS_BYTES)
        elif service in ("read-all", "copy-all"):
            path = self._file("whole", self.WHOLE_BYTES)
            try:
                yield path
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(path + ".copy")
        elif service == "walk":
            yield self._tree()
        else:
            with tempfile.TemporaryDirectory(prefix="new-", dir=self.directory) as new:
                yield os.path.join(new, "written") if service == "write-all" else new

    def _file(self, name, size):
        """A file of random bytes, which the system has in memory."""
        path = os.path.join(self.directory, name)
        if not os.path.exists(path):
            atexit.register(os.remove, path)
            with open(path, "wb") as file:
                for _ in range(size >> 20):
                    file.write(os.urandom(1 << 20))
                file.flush()
                os.fsync(file.fileno())
        with open(path, "rb") as file:
            while file.read(1 << 20):
                pass
        return path

    def _tree(self):
        root = os.path.join(self.directory, "tree")
        if not os.path.exists(root):
            atexit.register(shutil.rmtree, root, True)
            for i in range(self.DIRECTORIES):
                directory = os.path.join(root, str(i // 10), str(i))
                os.makedirs(directory)
                for name in range(self.NAMES_EACH):
                    with open(os.path.join(directory, f"f{name}"), "wb"):
                        pass
        return root


@dataclass(frozen=True)
class Server:
    """A running server that has given the right answer."""

    program: process.Program
    port: int
    url: str
    command: str  # as the report shows it
    bytes_per_request: float = 0  # those by which a generator's requests are counted; 0: the generator's figures tell
    opening_bytes: int = 0  # over TLS, what a client has received before the server has finished the handshake

    @contextlib.contextmanager
    def watched(self):
        """Reports the end of the server as the failure if it ends while the block runs."""
        try:
            yield
        except LoadError as error:
            if self.program.ended():
                raise self._ended() from error
            raise
        if self.program.ended():
            raise self._ended()

    def _ended(self):
        return ServerError(f"the server ended during the run: {self.program.log() or 'no message'}")


class Bench:
    """Takes samples."""

    CLOSING = ("close", "tls-close", "tls-handshake")  # services with a connection for each request

    def __init__(self, workshop, settings):
        self.workshop = workshop
        self.settings = settings
        self.files = Files(os.path.join(workshop.build, "files"))
        self.material = Material(os.path.join(workshop.build, "material"))
        self.credentials = tls.Credentials(os.path.join(workshop.build, "credentials"))
        self.maxima = {}  # (side, connections) -> requests per second under closed load, for the open loop
        os.makedirs(self.files.directory, exist_ok=True)

    # -- servers

    def _command(self, side, point, **values):
        if "key" in point or is_http3(point):
            values["certificate"], values["key"] = self.credentials.provide(point.get("key", "p256"))
        words = self.workshop.command(side, point["service"], cores=point["cores"], **values)
        if isinstance(words, str):
            raise ServerError(words)
        return process.pinned(machine.server_processors(point["cores"]), words)

    @contextlib.contextmanager
    def serving(self, side, workload, point):
        """Starts a server, checks its answer, yields it as a Server, and stops it."""
        file = (self.files.provide(workload.name) if point["service"] in FILE_SERVICES else
                self.files.provide_text() if point["service"] == "compressed" else None)
        with tempfile.TemporaryDirectory(prefix="bench-") as state, targets.running(
                point["service"], self.workshop.bench, self.files.directory, state, machine.load_processors(point["cores"])) as target:
            port = load.free_port()
            command = self._command(side, point, port=port, files=self.files.directory, state=state, target=target)
            program = process.Program(
                command, self.workshop.bench, side.environment(point["cores"]), os.path.join(state, "log"))
            try:
                load.wait_until_listening(
                    port, program, self.settings.start_limit, load.has_datagram_socket if is_http3(point) else load.accepts_connections)
                path, shown = "/" + (file[0] if file else ""), self.workshop.shown(" ".join(command))
                url = f"{'https' if 'key' in point or is_http3(point) else 'http'}://127.0.0.1:{port}{path}"
                if "key" in point and not is_http2(point):
                    size = tls.check(port, point["tls"], path, file[1] if file else answers.PONG_BODY, point["service"])
                else:
                    answers.check(point["service"], port, file)
                    size = self._bytes_per_request(point, url)
                yield Server(program, port, url, shown, size, tls.opening_bytes(port) if "key" in point else 0)
            finally:
                program.stop()

    def _bytes_per_request(self, point, url):
        if point["service"] == "h2upload":
            return FILES[UPLOAD]
        if is_http3(point):
            return FILES["h3-file1m"] if point["service"] == "h3files" else len(answers.PONG_BODY)
        if is_http2(point) and "key" in point:
            return load.h2load_bytes_per_request(lambda requests: self._h2load_command(point, url, None, requests), point["connections"])
        return 0

    def _with_server(self, side, workload, point, use):
        """The figures of `use(server)` for a new server after its warm-up."""
        with self.serving(side, workload, point) as server, server.watched():
            self._warm_up(workload, point, server)
            return {**use(server), "command": server.command}

    def _warm_up(self, workload, point, server):
        seconds = self.settings.warm_up
        if seconds:
            connections = min(WARM_UP_CONNECTIONS, point["connections"])
            self._closed_loop(workload, {**point, "connections": connections}, server.url, seconds)

    def paused(self, workload, point, url):
        """A generator of closed load that can be paused."""
        if is_http2(point):
            generator = load.PausedUpload if point["service"] == "h2upload" else load.PausedH2load
            return generator(lambda seconds: self._h2load_command(point, url, seconds), self._h2load_command(point, url, None),
                             in_flight(point))
        if is_http3(point):
            counter = self._counter()
            return load.PausedHttp3(self._http3_command(point, url, load.PausedCommand.SECONDS, counter), counter)
        if point["service"] == "tls-handshake":
            return load.PausedAb(url, point["connections"], machine.load_processors(point["cores"]), point["tls"])
        if is_websocket(point):
            return load.PausedCommand(self._websocket_command(point, url, load.PausedCommand.SECONDS))
        return load.PausedWrk(*self.wrk_arguments(workload, point, url), self._environment(point))

    def unserved(self, point, server, generator=None):
        """How many connections of the server's clients it has not served yet, as far as that can be told."""
        if is_http3(point):
            return max(0, point["connections"] - generator.served())
        served = None if point["service"] in self.CLOSING else sockets.served(
            urllib.parse.urlsplit(server.url).port, server.opening_bytes)
        return 0 if served is None else max(0, point["connections"] - served)

    def _environment(self, point):
        return self.credentials.environment(point["tls"]) if "tls" in point else []

    def _h2load_arguments(self, point, url):
        body = os.path.join(self.files.directory, self.files.provide(UPLOAD)[0]) if point["service"] == "h2upload" else None
        return url, point["connections"], point["streams"], machine.load_processors(point["cores"]), body

    def _h2load_command(self, point, url, seconds, requests=load.PausedH2load.REQUESTS):
        url, connections, streams, processors, body = self._h2load_arguments(point, url)
        return load.h2load_closed_command(url, connections, streams, seconds, processors, body, requests)

    def _closed_command(self, workload, point, url, seconds):
        if is_http2(point):
            return self._h2load_command(point, url, seconds)
        if is_http3(point):
            return self._http3_command(point, url, seconds, self._counter())
        if point["service"] == "tls-handshake":
            return load.ab_command(url, point["connections"], seconds, machine.load_processors(point["cores"]), point["tls"])
        if is_websocket(point):
            return self._websocket_command(point, url, seconds)
        return self._wrk_command(workload, point, url, seconds)

    def _closed_loop(self, workload, point, url, seconds):
        """The figures of an uninterrupted closed loop, and its command."""
        command = self._closed_command(workload, point, url, seconds)
        generator = load.h2load_closed if is_http2(point) else load.ab if point["service"] == "tls-handshake" else load.wrk
        return generator(command, seconds), command

    @staticmethod
    def _counter():
        """The name of a new file in which a generator of HTTP/3 load counts."""
        return os.path.join(tempfile.mkdtemp(prefix="bench-"), "counter")

    @staticmethod
    def _http3_command(point, url, seconds, counter):
        return process.pinned(machine.load_processors(point["cores"]),
                              load.http3_words(url, point["connections"], point["streams"], seconds, counter))

    @staticmethod
    def _websocket_command(point, url, seconds):
        return process.pinned(machine.load_processors(point["cores"]),
                              load.websocket_words(urllib.parse.urlsplit(url).port, point["connections"], seconds))

    def wrk_arguments(self, workload, point, url):
        """The arguments of load.PausedWrk: address, connections, processors, pipelining depth, further fields."""
        return (url, point["connections"], machine.load_processors(point["cores"]),
                PIPELINE_DEPTH if workload.name == "pipelined" else 1, FIELDS.get(point["service"], ()))

    def _wrk_command(self, workload, point, url, seconds):
        url, connections, processors, depth, fields = self.wrk_arguments(workload, point, url)
        return self._environment(point) + load.wrk_command(url, connections, seconds, processors, depth, fields)

    @staticmethod
    def requests(workload, figures):
        """The number of requests in the figures of a closed loop."""
        size = FILES.get(workload.name, 0)
        return figures["bytes"] / size if size >= BYTES_COUNTED_FROM else figures["requests"]

    # -- kinds of workload

    def sample(self, side, workload, point):
        """One sample, according to the kind of workload. `contest` takes those of closed loops."""
        if workload.kind == "timers":
            return self._timers(side, point)
        if workload.kind == "calls":
            return self._calls(side, point)
        if workload.kind == "toolkit":
            return self._toolkit(side, point)
        if workload.kind == "simulated":
            return self._simulated(side, point)
        if workload.kind == "link":
            return self._link(side, workload, point_of(side, point))
        if workload.kind == "open":
            self._find_maximum(side, workload, point)
        use = {"open": self._open, "idle": self._idle}[workload.kind]
        return self._with_server(side, workload, point, lambda server: use(side, point, server))

    def _costs(self, program, before, requests):
        user, system = process.cpu_seconds(program.pids())
        user, system = user - before[0], system - before[1]
        return {
            "cpu_us_per_request": (user + system) * 1e6 / requests,
            "user_us_per_request": user * 1e6 / requests,
            "system_us_per_request": system * 1e6 / requests,
            "peak_memory_bytes": process.memory_bytes(program.pids(), "VmHWM"),
        }

    def uninterrupted(self, side, workload, point, server):
        """Throughput and latencies under closed load."""
        figures, command = load.until_answered(
            lambda seconds: self._closed_loop(workload, point, server.url, seconds), self.settings.closed(point), in_flight(point),
            lambda found: self.requests(workload, found))
        requests = self.requests(workload, figures)
        if requests <= 0:
            raise LoadError("no request was answered")
        figures["requests_per_second"] = requests * 1e6 / figures["duration_us"]
        figures["peak_memory_bytes"] = process.memory_bytes(server.program.pids(), "VmHWM")
        figures["command"] = server.command
        figures["load_command"] = self.workshop.shown(" ".join(command))
        if workload.name == "pipelined":
            # wrk's correction for coordinated omission computes nonsense for pipelined requests.
            figures = {name: value for name, value in figures.items() if not name.startswith("latency_")}
        if self.settings.quick and workload.name == "pong":
            self.maxima[side.name, point["connections"]] = figures["requests_per_second"]
        return figures

    def _find_maximum(self, side, workload, point):
        """Measures the maximum rate under closed load, once per run. A quick run uses the figure of the pong workload."""
        key = (side.name, point["connections"])
        if key not in self.maxima:
            figures = self._with_server(
                side, workload, point, lambda server: self.uninterrupted(side, workload, point, server))
            self.maxima[key] = figures["requests_per_second"]

    def _open(self, side, point, server):
        seconds = self.settings.open_loop
        rate = self.maxima[side.name, point["connections"]] * point["share"]
        log_path = server.program.log_path + ".requests"
        command = load.h2load_command(
            server.url, point["connections"], rate, seconds, machine.load_processors(point["cores"]), log_path, is_http2(point))
        before = process.cpu_seconds(server.program.pids())
        figures = load.h2load(command, point["connections"], rate, seconds, log_path)
        figures.update(self._costs(server.program, before, figures["requests"]))
        figures["requests_per_second"] = figures["requests"] / seconds
        figures["scheduled_per_second"] = rate
        figures["load_command"] = self.workshop.shown(" ".join(command)).replace(log_path, "LOG")
        if figures["unanswered_share"] > 0.01:
            figures["doubt"] = f"{figures['unanswered_share']:.1%} of the scheduled requests were not answered in time"
        return figures

    def _idle(self, _side, point, server):
        program = server.program
        time.sleep(self.settings.idle)
        before = process.memory_bytes(program.pids(), "VmRSS")
        idle = load.IdleHttp3Connections if is_http3(point) else load.IdleHttp2Connections if is_http2(point) else tls.IdleConnections if "key" in point else load.IdleConnections
        connections = idle(server.port, point["connections"])
        try:
            time.sleep(self.settings.idle)
            after = process.memory_bytes(program.pids(), "VmRSS")
            closed = connections.closed_by_server()
        finally:
            connections.close()
        return {
            "memory_per_connection_bytes": (after - before) / point["connections"],
            "memory_before_bytes": before, "memory_after_bytes": after, "errors": closed,
            "peak_memory_bytes": process.memory_bytes(program.pids(), "VmHWM"),
        }

    def _link(self, side, workload, point):
        """Throughput over a link that delays and drops packets. The server and the generator are in the link's network namespace."""
        name, content = self.files.provide(workload.name)
        seconds = self.settings.link
        with tempfile.TemporaryDirectory(prefix="bench-") as state, links.made(links.Kind(
                point["delay_ms"], point["loss_percent"], point["megabits"], point["congestion"])) as link:
            command = self._command(side, point, port=links.PORT, address=links.SERVER, files=self.files.directory, state=state)
            program = process.Program(
                link.inside(command), self.workshop.bench, side.environment(point["cores"]), os.path.join(state, "log"))
            try:
                links.check(link, program, "/" + name, content, self.settings.start_limit, ["--http3-only"] if is_http3(point) else [])
                url = f"https://{links.SERVER_SEEN}:{links.PORT}/{name}"
                generator = (self._h2load_command(point, url, seconds) if is_http2(point) else
                             self._http3_command(point, url, seconds, self._counter()))
                before = process.cpu_seconds(program.pids())
                output = load.run(link.inside(generator), seconds).stdout
                figures = load.h2load_closed_figures(output, seconds) if is_http2(point) else load.wrk_figures(output)
                user, system = process.cpu_seconds(program.pids())
                peak = process.memory_bytes(program.pids(), "VmHWM")
            finally:
                program.stop()
        mebibytes = figures["bytes"] / (1 << 20)
        if not mebibytes:
            raise LoadError("nothing came over the link")
        return {
            "seconds_per_mebibyte": figures["duration_us"] / 1e6 / mebibytes,
            "megabits_per_second": figures["bytes"] * 8 / figures["duration_us"],
            "cpu_us_per_request": (user + system - sum(before)) * 1e6 / mebibytes, "errors": figures["errors"],
            "peak_memory_bytes": peak, "command": self.workshop.shown(" ".join(command)),
            "load_command": self.workshop.shown(" ".join(generator)),
        }

    def _run(self, side, point, count, **values):
        """Runs a program that prints `count` numbers, the first of them a time. Returns the numbers, the run and the command."""
        command = self._command(side, point, n=point["n"], m=point.get("m", 1), **values)
        run = process.run_measured(
            command, self.workshop.bench, side.environment(point["cores"]), self.settings.timer_limit)
        try:
            numbers = [float(word) for word in run.output.strip().split("\n")[-1].split()]
        except ValueError:
            numbers = []
        if len(numbers) != count:
            raise ServerError(f"the program should print {count} number{'s' * (count > 1)}, but printed: "
                              f"{run.output.strip()[-200:]}")
        if numbers[0] <= 0:
            raise ServerError(f"the program printed a time of {numbers[0]} s, which cannot be")
        return numbers, run, self.workshop.shown(" ".join(command))

    def _calls(self, side, point):
        (seconds, memory_before), run, command = self._run(side, point, 2)
        calls = point["n"] * point["m"]
        figures = {
            "us_per_call": seconds * 1e6 / calls, "calls_per_second": calls / seconds, "errors": 0,
            "cpu_us_per_call": run.cpu_seconds * 1e6 / calls, "command": command,
        }
        if run.peak_threads:
            figures["peak_threads"] = run.peak_threads
        if run.peak_memory_bytes > memory_before:
            figures["memory_growth_bytes"] = run.peak_memory_bytes - memory_before
        if run.peak_kernel_memory_bytes:
            figures["kernel_memory_bytes"] = run.peak_kernel_memory_bytes
        return figures

    def _toolkit(self, side, point):
        """Work on files, packets and processes. The program itself measures the processor time of the work."""
        with self.material.provided(point["service"]) as path:
            (seconds, cpu_seconds), run, command = self._run(side, point, 2, path=path)
        calls = point["n"] * point["m"] if point["service"] != "echo" else point["m"]
        figures = {
            "us_per_call": seconds * 1e6 / calls, "calls_per_second": calls / seconds, "errors": 0,
            "cpu_us_per_call": cpu_seconds * 1e6 / calls, "command": command,
        }
        if run.peak_threads:
            figures["peak_threads"] = run.peak_threads
        if run.peak_memory_bytes:
            figures["peak_memory_bytes"] = run.peak_memory_bytes
        return figures

    def _timers(self, side, point):
        (seconds,), run, command = self._run(side, point, 1)
        figures = {"seconds": seconds, "cpu_seconds": run.cpu_seconds, "errors": 0, "command": command}
        if run.peak_memory_bytes:
            figures["peak_memory_bytes"] = run.peak_memory_bytes
        if "m" in point:
            figures["us_per_call"] = seconds * 1e6 / (point["n"] * point["m"])
        return figures

    def _simulated(self, side, point):
        """Time per event, and memory per connection. A second program, which does nothing else, measures the memory."""
        found = self._timers(side, point)
        memory = self._timers(side, {**point, "service": "memory"})
        return {
            "us_per_event": found["seconds"] * 1e6, "events_per_second": 1 / found["seconds"],
            "memory_per_connection_bytes": memory["seconds"] / point["n"], "errors": 0,
            "cpu_seconds": found["cpu_seconds"], "command": found["command"],
        }

    # -- system calls, in a separate run, because counting them slows the server down

    def system_calls(self, workload, point, counter, server):
        """System calls per request under closed load."""
        per_second = 250 if "key" in point else 1000  # that many connections are set up, while each call is counted
        seconds = min(self.settings.closed(point), max(self.settings.counting, point["connections"] // per_second))
        figures, _ = load.until_answered(
            lambda length: self._count_calls(point, counter, server, self._closed_command(workload, point, server.url, length), length),
            seconds, in_flight(point), lambda found: self.requests(workload, found))
        requests = self.requests(workload, figures)
        if requests <= 0:
            raise LoadError("no request was answered while system calls were counted")
        return {"system_calls_per_request": figures["calls"] / requests, "counter": counter.name}

    @staticmethod
    def _count_calls(point, counter, server, command, seconds):
        """The figures of a load command, with the system calls of the server meanwhile; and the command."""
        with tempfile.TemporaryDirectory(prefix="bench-") as directory:
            calls, output = counter.count(server.program.pids(), command, os.path.join(directory, "calls"), seconds)
        if is_http2(point):
            figures = load.h2load_closed_figures(output, seconds)
        else:
            figures = load.ab_figures(output) if point["service"] == "tls-handshake" else load.wrk_figures(output)
        return {**figures, "calls": calls}, command


class PerfCounter:
    """Counts system calls with perf, which hardly slows the server down."""

    name = "perf stat -e raw_syscalls:sys_enter"

    @staticmethod
    def works():
        if not shutil.which("perf"):
            return False
        return subprocess.run(
            ["perf", "stat", "-e", "raw_syscalls:sys_enter", "true"], capture_output=True, check=False).returncode == 0

    def count(self, pids, command, path, seconds):
        """Runs the load command. Returns the system calls that the processes made meanwhile, and the command's output."""
        done = load.run(
            ["perf", "stat", "-x;", "-o", path, "-e", "raw_syscalls:sys_enter", "-p", ",".join(map(str, pids)), "--", *command], seconds)
        with open(path, encoding="utf-8") as file:
            for line in file:
                if "raw_syscalls:sys_enter" in line and line.split(";")[0].isdigit():
                    return int(line.split(";")[0]), done.stdout
        raise LoadError(f"perf printed no count of system calls: {done.stderr.strip()[-200:]}")


class StraceCounter:
    """Counts system calls with strace. It slows the server down, so more requests wait at a time than without it."""

    name = "strace -c -f"

    @staticmethod
    def works():
        if not shutil.which("strace"):
            return False
        return subprocess.run(["strace", "-c", "true"], capture_output=True, check=False).returncode == 0

    def count(self, pids, command, path, seconds):
        tracer = subprocess.Popen(
            ["strace", "-c", "-f", "-o", path, *[word for pid in pids for word in ("-p", str(pid))]],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            time.sleep(0.5)
            done = load.run(command, seconds)
        finally:
            tracer.send_signal(signal.SIGINT)
            tracer.wait(20)
        with open(path, encoding="utf-8") as file:
            for line in file:
                words = line.split()
                if words and words[-1] == "total":
                    return int(words[3]), done.stdout
        raise LoadError("strace printed no total of system calls")


def system_call_counter():
    """The best counter that works here, or None."""
    for counter in (PerfCounter(), StraceCounter()):
        if counter.works():
            return counter
    return None
