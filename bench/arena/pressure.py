"""Puts load on an entry: the commands of the generators for each profile, and generators that can be paused.

Must not know rules, or how entries are started.
"""

import os

from driver import load, process, tls
from driver.workloads import in_flight

ROTATION = os.path.join(os.path.dirname(os.path.abspath(__file__)), "rotate.lua")
LOG_NAME = "latencies"


class Pressure:
    """The load of one profile at one point, through the doors of one entry. `scratch` is a folder for its files."""

    def __init__(self, profile, point, doors, processors, scratch):
        self.profile, self.point, self.doors = profile, point, doors
        self.processors, self.scratch = processors, scratch
        self.connections = point["connections"]
        self.threads = min(len(processors), self.connections)

    def _file(self, name, content):
        path = os.path.join(self.scratch, name)
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(content)
        return path

    # -- commands

    def _wrk(self, seconds, timeout):
        requests = self._file("requests", b"".join(b"%d\n%s" % (len(one), one) for one in self.profile.requests))
        return ["wrk", f"-t{self.threads}", f"-c{self.connections}", f"-d{seconds}s", "--timeout", f"{timeout}s", "-s", ROTATION,
                self.doors.url(self.profile.door, "/"), "--", requests, str(self.profile.depth)]

    def _h2load(self, length):
        paths = self.profile.paths
        command = ["h2load", f"--clients={self.connections}", f"--max-concurrent-streams={self.point['streams']}", *length,
                   f"--threads={self.threads}", f"--window-bits={load.H2_STREAM_WINDOW_BITS}",
                   f"--connection-window-bits={load.H2_CONNECTION_WINDOW_BITS}"]
        for line in self.profile.fields:
            command += ["--header", line]
        if self.profile.body:
            command.append("--data=" + self._file("body", self.profile.body))
        if len(paths) == 1:
            return [*command, self.doors.url(self.profile.door, paths[0])]
        urls = "".join(self.doors.url(self.profile.door, path) + "\n" for path in paths)
        return [*command, "--input-file=" + self._file("urls", urls.encode())]

    def _websocket(self, seconds):
        return load.websocket_words(self.doors.http, self.connections, seconds)

    def command(self, seconds, timeout=30):
        """A closed loop that ends by itself."""
        if self.profile.generator == "h2load":
            words = self._h2load([f"--duration={seconds}"])
        else:
            words = self._wrk(seconds, timeout) if self.profile.generator == "wrk" else self._websocket(seconds)
        return process.pinned(self.processors, words)

    # -- runs

    def run(self, seconds):
        """The figures of an uninterrupted closed loop, and its command."""
        command = self.command(seconds)
        if self.profile.generator == "h2load":
            return self._h2load_with_latencies(command, seconds), command
        return load.wrk(command, seconds), command

    def _h2load_with_latencies(self, command, seconds):
        log = os.path.join(self.scratch, LOG_NAME)
        if os.path.exists(log):
            os.unlink(log)  # h2load appends.
        figures = load.h2load_closed(_with_log(command, log), seconds)
        with open(log, encoding="ascii") as file:
            latencies = sorted(int(line.split("\t")[2]) for line in file if line.split("\t")[1] == "200")
        if latencies:
            for percent, name in load.PERCENTILES.items():
                figures[f"latency_p{name}_us"] = load.percentile(latencies, float(percent))
        return figures

    def paused(self):
        """A generator that can be paused and resumed."""
        if self.profile.generator == "h2load":
            endless = self._h2load([f"--requests={load.PausedH2load.REQUESTS}"])
            return load.PausedH2load(self.command, process.pinned(self.processors, endless), in_flight(self.point))
        return load.PausedCommand(self.command(load.PausedWrk.SECONDS, load.PausedWrk.TIMEOUT_SECONDS))

    # -- bytes

    def bytes_per_request(self):
        """How many bytes a generator reads for a request on a kept connection, or 0 where its own count of bytes is right.

        Over TLS generators count the bytes within the records, and the turns count all.
        """
        if not self.profile.over_tls:
            return 0
        if self.profile.generator == "wrk":
            return self._bytes_of_wrk()
        return load.h2load_bytes_per_request(
            lambda requests: process.pinned(self.processors, self._h2load([f"--requests={requests}"])), self.connections)

    def _bytes_of_wrk(self):
        connection = tls.Connection(self.doors.tls, "1.3")
        try:
            paths = [request.split(b" ")[1].decode() for request in self.profile.requests]
            connection.get(paths[0])
            before = connection.received
            for path in paths:
                connection.get(path)
            return (connection.received - before) / len(paths)
        finally:
            connection.close()


def _with_log(command, log):
    position = command.index("h2load") + 1
    return [*command[:position], f"--log-file={log}", *command[position:]]
