"""The load generators, and how their output is read.

wrk is the closed loop: each connection sends its next request when the previous one has been answered.

h2load is the open loop: a Debian package that is fast enough for these servers on one core (bench/README.md). With --rps,
each connection sends on schedule. With a high --max-concurrent-streams (for HTTP/1.1: requests in flight on a connection)
it continues to send while earlier requests are unanswered. Latencies come from its log of single requests, not from its
summary. tests/test_load.py pauses a server and checks that the requests that were due meanwhile are in the percentiles.
"""

import json
import os
import selectors
import signal
import socket
import subprocess
import time

from . import process

IN_FLIGHT_PER_CONNECTION = 2000
END_ATTEMPTS, END_ATTEMPT_SECONDS = 150, 0.2
PERCENTILES = {"50": "50", "90": "90", "99": "99", "99.9": "99_9", "99.99": "99_99"}


class LoadError(Exception):
    """The load generator failed, or its output makes no sense."""


# Failures of one side that do not end the run.
FAILURES = (process.ServerError, LoadError, OSError, subprocess.SubprocessError)


def _run(command, seconds):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{command[0]} did not end within {seconds + 60:.0f} s") from None
    if done.returncode != 0:
        raise LoadError(f"{command[0]} failed: {(done.stdout + done.stderr).strip()[-300:]}")
    return done.stdout


def wrk_command(url, connections, seconds, processors, depth=1, close=False, timeout_seconds=30):
    threads = min(len(processors), connections)
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "wrk.lua")
    command = ["wrk", f"-t{threads}", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{timeout_seconds}s",
               "-s", script]
    if close:
        command += ["-H", "Connection: close"]
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


class PausedWrk:
    """A wrk that is paused and resumed with SIGSTOP and SIGCONT. Its latencies contain the pauses, so they are useless."""

    SECONDS = 100_000  # end() ends it much earlier.
    # Longer than any pause, so that wrk does not count a pause as an error. wrk allocates eight bytes per microsecond of it.
    TIMEOUT_SECONDS = 60

    def __init__(self, url, connections, processors, depth=1, close=False):
        command = wrk_command(url, connections, self.SECONDS, processors, depth, close, self.TIMEOUT_SECONDS)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def resume(self):
        if self._process.poll() is not None:
            raise LoadError(f"wrk ended too early: {self._process.stdout.read().strip()[-300:]}")
        self._process.send_signal(signal.SIGCONT)

    def pause(self):
        self._process.send_signal(signal.SIGSTOP)

    def bytes_received(self):
        """All bytes it has read so far, including its libraries and script."""
        try:
            return process.bytes_read(self._process.pid)
        except OSError as error:
            raise LoadError(f"cannot tell how many bytes wrk has received: {error}") from None

    def end(self):
        """Ends it and returns its figures."""
        self.resume()
        for _ in range(END_ATTEMPTS):
            # The signal ends wrk's sleep only if its main thread receives it. Another thread may, so try again.
            self._process.send_signal(signal.SIGINT)
            try:
                output, _ = self._process.communicate(timeout=END_ATTEMPT_SECONDS)
                return wrk_figures(output)
            except subprocess.TimeoutExpired:
                pass
        raise LoadError(f"wrk did not end after {END_ATTEMPTS} SIGINTs")

    def kill(self):
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()


def h2load_command(url, connections, rate_per_second, seconds, processors, log_path):
    return process.pinned(processors, [
        "h2load", "--h1", f"--clients={connections}", f"--max-concurrent-streams={IN_FLIGHT_PER_CONNECTION}",
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
                connection.sendall(self.REQUEST)
                if not connection.recv(65536):
                    raise LoadError("the server closed a connection instead of answering")
        except OSError as error:
            self.close()
            raise LoadError(f"connection {len(self.sockets)} of {count}: {error}") from None

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


def wait_until_listening(port, program, seconds):
    """Waits until a server accepts connections. Raises process.ServerError if it does not within that time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if program.ended():
            raise process.ServerError(f"the server ended before it listened on port {port}: {program.log()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise process.ServerError(f"the server did not listen on port {port} within {seconds} s: {program.log()}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
