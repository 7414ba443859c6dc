"""The load generators, and how their output is read.

wrk is the closed loop: each connection sends its next request when the previous one has been answered. For HTTP/2 it is
h2load, with a fixed number of requests in flight on each connection. Over TLS, wrk resumes sessions. ab does not, and is the closed
loop of full handshakes: a connection for each request.

The generator of WebSocket load is websocket/load.c: each connection sends a message when the previous one has come back.

That of HTTP/3 is http3/load.c, as h2load: with a fixed number of requests in flight on each connection.

h2load is the open loop: a Debian package that is fast enough for these servers on one core (bench/README.md). With --rps,
each connection sends on schedule. With a high --max-concurrent-streams (for HTTP/1.1: requests in flight on a connection)
it continues to send while earlier requests are unanswered. Latencies come from its log of single requests, not from its
summary. tests/test_load.py pauses a server and checks that the requests that were due meanwhile are in the percentiles.
"""

import contextlib
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

from . import process, programs

NAMES = ("wrk", "h2load", "ab", "websocket", "http3")
IN_FLIGHT_PER_CONNECTION = 2000
# Windows like those of browsers, so that they are not what is measured.
H2_STREAM_WINDOW_BITS, H2_CONNECTION_WINDOW_BITS = 20, 22
END_ATTEMPTS, END_ATTEMPT_SECONDS = 150, 0.2
START_SECONDS = 5
END_SECONDS = 30  # A generator has as long to end after its time.
LENGTHS = (1, 3, 10)  # how many times as long a sample is when the one before was too short
PERCENTILES = {"50": "50", "90": "90", "99": "99", "99.9": "99_9", "99.99": "99_99"}


class LoadError(Exception):
    """The load generator failed, or its output makes no sense."""


class Unfinished(LoadError):
    """The load generator did not end by itself."""


# Failures of one side that do not end the run.
FAILURES = (process.ServerError, LoadError, OSError, subprocess.SubprocessError)


def _name(command):
    """The generator that a command runs."""
    return next((name for name in map(os.path.basename, command) if name in NAMES), command[0])


def run(command, seconds):
    """Runs a generator, or a program that runs one, which should end by itself after these seconds."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=seconds + END_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise Unfinished(f"{_name(command)} did not end within {seconds + END_SECONDS:.0f} s") from None


def _run(command, seconds):
    done = run(command, seconds)
    if done.returncode != 0:
        raise LoadError(f"{_name(command)} failed: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def until_answered(sample, seconds, in_flight, count=lambda figures: figures["requests"]):
    """What sample(seconds) returns: figures, of which `count` tells the number of requests, and a command.

    If fewer requests were answered than are in flight at a time, connections were hardly set up when the time was over. Then it is
    taken again, for longer. The same holds if the generator does not end: h2load waits for ever if the handshake of a connection is
    not over in time, and the server keeps idle connections.
    """
    for times in LENGTHS[:-1]:
        with contextlib.suppress(Unfinished):
            figures, command = sample(times * seconds)
            if count(figures) >= in_flight:
                return figures, command
    return sample(LENGTHS[-1] * seconds)


def wrk_command(url, connections, seconds, processors, depth=1, fields=(), timeout_seconds=30):
    threads = min(len(processors), connections)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrk.lua")
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{timeout_seconds}s",
               "-s", script]
    for line in fields:
        command += ["-H", line]
    return process.pinned(processors, [*command, url, "--", str(depth)])


def wrk_figures(output):
    """The figures that wrk.lua printed."""
    for line in output.split("\n"):
        if line.startswith("figures "):
            figures = json.loads(line[len("figures "):])
            figures["errors"] = sum(value for key, value in figures.items() if key.startswith("errors_"))
            return figures
    raise LoadError(f"wrk printed no figures: {output.strip()[-300:]}")


def wrk(command, seconds):
    return wrk_figures(_run(command, seconds))


class _Paused:
    """A load generator that is paused and resumed with SIGSTOP and SIGCONT. Its latencies contain the pauses, so they are
    useless."""

    def __init__(self, command):
        self._name = _name(command)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def resume(self):
        if self._process.poll() is not None:
            raise LoadError(f"{self._name} ended too early: {self._process.stdout.read().strip()[-300:]}")
        self._process.send_signal(signal.SIGCONT)

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    # What bytes_counted counts.
    _count = staticmethod(process.bytes_read)

    def bytes_counted(self):
        """The bytes by which its requests are counted: all that it has read so far, including its libraries and script."""
        try:
            return self._count(self._process.pid)
        except OSError as error:
            raise LoadError(f"cannot count the bytes of {self._name}: {error}") from None

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


class PausedCommand(_Paused):
    """A generator that prints its figures as wrk.lua does when SIGINT ends it."""

    SECONDS = 100_000  # end() ends it much earlier.
    # Longer than any pause, so that wrk does not count a pause as an error. wrk allocates eight bytes per microsecond of it.
    TIMEOUT_SECONDS = 60

    def end(self):
        """Ends it and returns its figures."""
        self.resume()
        for _ in range(END_ATTEMPTS):
            # The signal ends wrk's sleep only if its main thread receives it. Another thread may, so try again.
            self._process.send_signal(signal.SIGINT)
            try:
                output, _ = self._process.communicate(timeout=END_ATTEMPT_SECONDS)
                return self._figures_of(output)
            except subprocess.TimeoutExpired:
                pass
        raise LoadError(f"{self._name} did not end after {END_ATTEMPTS} SIGINTs")

    @staticmethod
    def _figures_of(output):
        return wrk_figures(output)


class PausedWrk(PausedCommand):
    def __init__(self, url, connections, processors, depth=1, fields=(), environment=()):
        super().__init__([*environment, *wrk_command(url, connections, self.SECONDS, processors, depth, fields, self.TIMEOUT_SECONDS)])


class PausedAb(PausedCommand):
    def __init__(self, url, connections, processors, version):
        super().__init__(ab_command(url, connections, self.SECONDS, processors, version))

    @staticmethod
    def _figures_of(output):
        return ab_figures(output)


def websocket_words(port, connections, seconds):
    """The command of closed WebSocket load, which prints its figures as wrk.lua does. Raises LoadError if it cannot be had."""
    program = programs.websocket_load()
    if isinstance(program, programs.Missing):
        raise LoadError(program.reason)
    return [program, str(port), str(connections), str(seconds)]


def http3_words(url, connections, streams, seconds, counter):
    """The command of closed HTTP/3 load, which prints its figures as wrk.lua does. Raises LoadError if it cannot be had."""
    program = programs.http3_load()
    if isinstance(program, programs.Missing):
        raise LoadError(program.reason)
    parts = urllib.parse.urlsplit(url)
    return [program, parts.netloc, parts.path or "/", str(connections), str(streams), str(seconds), counter]


class PausedHttp3(PausedCommand):
    """The generator of HTTP/3 load. A server repeats what a stopped client does not acknowledge. So this one is not stopped, but told to
    begin no requests. It counts the bytes of bodies in a file."""

    BYTES, SERVED = 0, 1  # the numbers in the file

    def __init__(self, command, counter):
        self._counter = counter
        super().__init__(command)

    def resume(self):
        self._signal(signal.SIGUSR2)

    def pause(self):
        self._signal(signal.SIGUSR1)

    def _signal(self, number):
        if self._process.poll() is not None:
            raise LoadError(f"{self._name} ended too early: {self._process.stdout.read().strip()[-300:]}")
        deadline = time.monotonic() + START_SECONDS
        # It makes the file when it knows the signals.
        while not os.path.exists(self._counter) and time.monotonic() < deadline:
            time.sleep(0.005)
        self._process.send_signal(number)

    def _number(self, index):
        try:
            with open(self._counter, "rb") as file:
                return int.from_bytes(file.read()[8 * index:8 * index + 8], sys.byteorder)
        except OSError as error:
            raise LoadError(f"cannot read the count of {self._name}: {error}") from None

    def bytes_counted(self):
        return self._number(self.BYTES)

    def served(self):
        """How many connections have got their first answer."""
        return self._number(self.SERVED)

    def kill(self):
        super().kill()
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._counter)


class IdleHttp3Connections:
    """As IdleConnections, over HTTP/3: the generator, paused when each of its connections was served."""

    QUIET_SECONDS = 4  # until a server has put away what it needs only for work

    def __init__(self, port, count):
        counter = os.path.join(tempfile.mkdtemp(prefix="bench-"), "counter")
        self._generator = PausedHttp3(http3_words(f"https://127.0.0.1:{port}/", count, 1, PausedCommand.SECONDS, counter), counter)
        try:
            self._generator.resume()  # when it counts
            deadline = time.monotonic() + START_SECONDS + count / 20
            while (served := self._generator.served()) < count:
                if time.monotonic() > deadline:
                    raise LoadError(f"{count - served} of {count} connections were not served")
                time.sleep(0.1)
            self._generator.pause()
            time.sleep(self.QUIET_SECONDS)
        except BaseException:
            self.close()
            raise

    def closed_by_server(self):
        return self._generator.end()["errors"]

    def close(self):
        self._generator.kill()


def ab_command(url, connections, seconds, processors, version):
    # The number of requests is only a limit. Without it, -t would mean 50,000.
    return process.pinned(processors, [
        "ab", "-q", "-r", "-n", "100000000", "-t", str(seconds), "-c", str(connections), "-f", f"TLS{version}", url])


def ab_figures(output):
    """The figures that ab printed. It counts no bytes of TLS."""
    found = {name: int(value) for name, value in
             re.findall(r"^(Complete requests|Failed requests|Non-2xx responses):\s+(\d+)", output, re.M)}
    seconds = re.search(r"^Time taken for tests:\s+([\d.]+)", output, re.M)
    if "Complete requests" not in found or not seconds:
        raise LoadError(f"ab printed no figures: {output.strip()[-300:]}")
    return {
        "requests": found["Complete requests"], "errors": found.get("Failed requests", 0) + found.get("Non-2xx responses", 0),
        "duration_us": float(seconds[1]) * 1e6, "bytes": 0,
    }


def ab(command, seconds):
    return ab_figures(_run(command, seconds))


class PausedH2load(_Paused):
    """h2load cannot be asked to end and to print its figures. So a short run before this one tells how many bytes a request
    takes."""

    REQUESTS = 1_000_000_000  # It is killed much earlier.
    CALIBRATION_SECONDS = 1

    def __init__(self, short, endless, in_flight):
        """A function from seconds to the command of the short run, the command of the one that is paused, and the number of requests
        in flight."""
        self._figures, _ = until_answered(
            lambda seconds: (h2load_closed(short(seconds), seconds), None), self.CALIBRATION_SECONDS, in_flight)
        if self._figures["requests"] <= 0:
            raise LoadError("no request was answered")
        super().__init__(endless)

    def end(self):
        """Ends it and returns the figures of the run before."""
        self.resume()
        self._process.kill()
        self._process.wait()
        return self._figures


class PausedUpload(PausedH2load):
    """h2load that uploads a large file. Its requests are counted by the bytes that it has written, which are the file and less
    than 0.1 % more. The bytes that it has read would not tell: they are mostly the file itself, which it reads again for each
    request, and the announcements of windows, which are as many as a server likes."""

    _count = staticmethod(process.bytes_written)


def h2load_closed_command(url, connections, streams, seconds, processors, body=None, requests=PausedH2load.REQUESTS):
    """HTTP/2 with a fixed number of requests in flight on each connection. `seconds`: None for this many requests. `body`: a file to
    upload."""
    length = f"--requests={requests}" if seconds is None else f"--duration={seconds}"
    command = ["h2load", f"--clients={connections}", f"--max-concurrent-streams={streams}", length,
               f"--threads={min(len(processors), connections)}",
               f"--window-bits={H2_STREAM_WINDOW_BITS}", f"--connection-window-bits={H2_CONNECTION_WINDOW_BITS}"]
    return process.pinned(processors, [*command, *(["--data=" + body] if body else []), url])


# Requests of each connection, in the two runs whose difference tells how many bytes a request takes.
_COUNTED = (20, 60)


def h2load_bytes_per_request(command, connections):
    """How many bytes h2load reads for a request, over TLS too, where its own count is that of the bytes within the records.
    `command`: from the number of requests to a command."""
    fewer, more = (_bytes_read_by(command(connections * count)) for count in _COUNTED)
    return (more - fewer) / (connections * (_COUNTED[1] - _COUNTED[0]))


def _bytes_read_by(command):
    generator = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    try:
        # The record of a process can be read until its end is collected.
        os.waitid(os.P_PID, generator.pid, os.WEXITED | os.WNOWAIT)
        return process.bytes_read(generator.pid)
    finally:
        if generator.wait() != 0:
            raise LoadError(f"h2load failed while bytes were counted: {' '.join(command)}")


_H2LOAD_UNITS = {"us": 1, "ms": 1e3, "s": 1e6}


def _h2load_microseconds(text):
    found = re.fullmatch(r"([0-9.]+)(us|ms|s)", text)
    if not found:
        raise LoadError(f"h2load printed a time that is none: {text}")
    return float(found[1]) * _H2LOAD_UNITS[found[2]]


# The row with the latencies of requests: the least, the most and their mean. In newer versions (1.70 of nghttp2) percentiles stand before the mean.
_H2LOAD_LATENCIES = (
    r"^time for request: +\S+ +(?P<most>\S+) +(?P<mean>\S+)",
    r"^request +: +\S+ +(?P<most>\S+) +\S+ +\S+ +\S+ +(?P<mean>\S+)",
)


def h2load_closed_figures(output, seconds):
    """The figures that h2load printed at its end. Percentiles are only printed by newer versions."""
    requests = re.search(r"^requests: .* (\d+) done, (\d+) succeeded, (\d+) failed, (\d+) errored, (\d+) timeout", output, re.M)
    traffic = re.search(r"^traffic: \S+ \((\d+)\) total", output, re.M)
    times = next(filter(None, (re.search(row, output, re.M) for row in _H2LOAD_LATENCIES)), None)
    if not (requests and traffic and times):
        raise LoadError(f"h2load printed no figures: {output.strip()[-300:]}")
    return {
        "requests": int(requests[2]), "errors": int(requests[3]), "bytes": int(traffic[1]), "duration_us": seconds * 1e6,
        "latency_mean_us": _h2load_microseconds(times["mean"]), "latency_max_us": _h2load_microseconds(times["most"]),
    }


def h2load_closed(command, seconds):
    return h2load_closed_figures(_run(command, seconds), seconds)


def h2load_command(url, connections, rate_per_second, seconds, processors, log_path, http2=False):
    return process.pinned(processors, [
        "h2load", *([] if http2 else ["--h1"]), f"--clients={connections}", f"--max-concurrent-streams={IN_FLIGHT_PER_CONNECTION}",
        f"--rps={rate_per_second / connections:.3f}", f"--duration={seconds}", f"--log-file={log_path}", url,
    ])


def percentile(ordered, percent):
    """The smallest value of an ordered list that at least `percent` per cent of the values do not exceed."""
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(0, int(rank) - 1)]


def h2load(command, connections, rate_per_second, seconds, log_path):
    """Runs h2load and reads its log of requests."""
    if os.path.exists(log_path):
        os.unlink(log_path)  # h2load appends
    _run(command, seconds)
    latencies, errors = [], 0
    with open(log_path, encoding="ascii") as log:
        for line in log:
            _, status, duration_us = line.split("\t")
            if status == "200":
                latencies.append(int(duration_us))
            else:
                errors += 1
    os.unlink(log_path)
    if not latencies:
        raise LoadError("h2load's log contains no answered request")
    latencies.sort()
    scheduled = rate_per_second * seconds
    figures = {
        "requests": len(latencies), "errors": errors, "duration_us": seconds * 1e6,
        "latency_max_us": latencies[-1], "scheduled_requests": scheduled,
        # Requests that were due but not answered when time ran out. Unless this is near 0, the percentiles are too low.
        "unanswered_share": max(0.0, 1 - (len(latencies) + errors) / scheduled),
    }
    for percent, name in PERCENTILES.items():
        figures[f"latency_p{name}_us"] = percentile(latencies, float(percent))
    return figures


class IdleConnections:
    """Connections that are each served once and then do nothing."""

    REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"

    def __init__(self, port, count):
        self.sockets = []
        try:
            for _ in range(count):
                connection = socket.create_connection(("127.0.0.1", port), timeout=10)
                self.sockets.append(connection)
                self._ask(connection)
        except OSError as error:
            self.close()
            raise LoadError(f"connection {len(self.sockets)} of {count}: {error}") from None

    def _ask(self, connection):
        connection.sendall(self.REQUEST)
        if not connection.recv(65536):
            raise LoadError("the server closed a connection instead of answering")

    def closed_by_server(self):
        """The number of connections that the server has closed meanwhile."""
        with selectors.DefaultSelector() as selector:
            for connection in self.sockets:
                selector.register(connection, selectors.EVENT_READ)
            ready = [key.fileobj for key, _ in selector.select(0)]
        return sum(1 for connection in ready if not self._alive(connection))

    @staticmethod
    def _alive(connection):
        try:
            connection.settimeout(0)
            while True:
                if not connection.recv(65536):
                    return False
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self):
        for connection in self.sockets:
            connection.close()


class IdleHttp2Connections(IdleConnections):
    """The same with HTTP/2, by prior knowledge."""

    # The preface, empty settings, an acknowledgement of the server's, and a GET of / on stream 1 with fields of the static
    # table and an authority of one letter.
    REQUEST = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)) + bytes((0, 0, 0, 4, 1, 0, 0, 0, 0))
               + bytes((0, 0, 6, 1, 5, 0, 0, 0, 1)) + bytes((0x82, 0x86, 0x84, 0x01, 0x01)) + b"a")
    HEAD, TYPE, FLAGS, STREAM = 9, 3, 4, 8
    DATA, HEADERS, END_STREAM = 0, 1, 1

    def _ask(self, connection):
        connection.sendall(self.REQUEST)
        held = b""
        while True:
            while len(held) >= self.HEAD and len(held) >= self.HEAD + int.from_bytes(held[:3], "big"):
                frame, held = held[:self.HEAD], held[self.HEAD + int.from_bytes(held[:3], "big"):]
                if frame[self.TYPE] in (self.DATA, self.HEADERS) and frame[self.FLAGS] & self.END_STREAM and frame[self.STREAM] == 1:
                    return
            part = connection.recv(65536)
            if not part:
                raise LoadError("the server closed a connection instead of answering")
            held += part


def accepts_connections(port):
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


def has_datagram_socket(port):
    """Whether some process of this network namespace has bound the port for UDP."""
    for table in ("/proc/net/udp", "/proc/net/udp6"):
        with open(table, encoding="ascii") as rows:
            if any(row.split()[1].endswith(f":{port:04X}") for row in rows):
                return True
    return False


def wait_until_listening(port, program, seconds, listens=accepts_connections):
    """Waits until a server listens. Raises process.ServerError if it does not within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if program.ended():
            raise process.ServerError(f"the server ended before it listened on port {port}: {program.log()}")
        if listens(port):
            return
        time.sleep(0.02)
    raise process.ServerError(f"the server did not listen on port {port} within {seconds} s: {program.log()}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
