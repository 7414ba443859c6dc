"""Load: the generators, and what each says about a run.

wrk is the closed loop: each connection sends its next request when the last was answered.

h2load is the open loop: a Debian package that keeps up with these servers from one core (bench/README.md). With
--rps each connection sends on schedule, and with a high --max-concurrent-streams (for HTTP/1.1: requests in flight
on a connection) it goes on sending while earlier requests are unanswered. Latencies come from its log of single
requests, not from its summary. tests/test_load.py stops a server for a while and looks whether the requests that
fell due meanwhile are in the percentiles.
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
    """The generator failed, or what it said makes no sense."""


# What may go wrong with one side without an end to the run.
FAILURES = (process.ServerError, LoadError, OSError, subprocess.SubprocessError)


def _run(command, seconds):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError("the load generator did not end") from None
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


class HaltedWrk:
    """A wrk that works only while it is let: SIGSTOP and SIGCONT. Its latencies contain the halts and mean nothing."""

    SECONDS = 100_000  # It ends when end() says so.
    # Longer than it is ever halted, lest a halt be an error. wrk allots eight bytes for each microsecond of this.
    TIMEOUT_SECONDS = 60

    def __init__(self, url, connections, processors, depth=1, close=False):
        command = wrk_command(url, connections, self.SECONDS, processors, depth, close, self.TIMEOUT_SECONDS)
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def resume(self):
        if self._process.poll() is not None:
            raise LoadError(f"wrk ended: {self._process.stdout.read().strip()[-300:]}")
        self._process.send_signal(signal.SIGCONT)

    def halt(self):
        self._process.send_signal(signal.SIGSTOP)

    def bytes_received(self):
        """So far; what it read before its first answer (libraries, the script) included."""
        try:
            return process.bytes_read(self._process.pid)
        except OSError as error:
            raise LoadError(f"what wrk has received is not to be had: {error}") from None

    def end(self):
        """Lets it finish; returns its figures."""
        self.resume()
        for _ in range(END_ATTEMPTS):
            # Only if its main thread takes the signal does that end its sleep, and a thread just resumed may not.
            self._process.send_signal(signal.SIGINT)
            try:
                output, _ = self._process.communicate(timeout=END_ATTEMPT_SECONDS)
                return wrk_figures(output)
            except subprocess.TimeoutExpired:
                pass
        raise LoadError("wrk did not end")

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
    """Of an ordered list: the smallest value that at least `percent` per cent do not exceed."""
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
        raise LoadError("h2load logged no answered request")
    latencies.sort()
    scheduled = rate_per_second * seconds
    figures = {
        "requests": len(latencies), "errors": errors, "duration_us": seconds * 1e6,
        "latency_max_us": latencies[-1], "scheduled_requests": scheduled,
        # What was due and not answered when time ran out: near 0, or the percentiles are too good to be true.
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
        """How many the server has closed meanwhile."""
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
    """Waits for a server to take connections. Raises process.ServerError if it does not."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if program.ended():
            raise process.ServerError(f"it ended at once: {program.log()}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.02)
    raise process.ServerError(f"it did not listen within {seconds} s: {program.log()}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
