"""The load: requests take turns, and WebSocket load is counted. And what a long run makes of its notes."""

import os
import re
import socketserver
import tempfile
import threading
import unittest

from driver import load, machine, plot, programs

from .. import doors, long_run, profiles
from ..pressure import Pressure

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"


class _Collector(socketserver.ThreadingTCPServer):
    """Answers everything that it receives, and keeps it."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self):
        self.received = []
        super().__init__(("127.0.0.1", 0), _Handler)


class _Handler(socketserver.BaseRequestHandler):
    def handle(self):
        while True:
            try:
                part = self.request.recv(1 << 16)
                if not part:
                    return
                self.server.received.append(part)
                self.request.sendall(ANSWER)
            except OSError:
                return


class Rotation(unittest.TestCase):
    def received(self, name):
        with _Collector() as server, tempfile.TemporaryDirectory() as scratch:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            port = server.server_address[1]
            pressure = Pressure(profiles.PROFILES[name], {"connections": 2}, doors.Doors(port, port, port, port, "", "", ""),
                                machine.processors()[:1], scratch)
            figures, _ = pressure.run(1)
            server.shutdown()
            return figures, server.received

    def test_all_requests_of_a_profile_are_sent_as_they_are(self):
        figures, received = self.received("baseline")
        self.assertGreater(figures["requests"], 10)
        self.assertEqual(figures["errors"], 0)
        self.assertEqual(set(received), set(profiles.PROFILES["baseline"].requests))

    def test_numbers_are_put_into_requests_of_which_new_ones_never_repeat(self):
        _, received = self.received("crud")
        everything = b"".join(received)
        self.assertNotIn(b"{", re.sub(rb'\{"[^}]*\}', b"", everything))
        made = re.findall(rb'"id":(\d+)', everything)
        self.assertTrue(made)
        self.assertEqual(len(made), len(set(made)))
        self.assertGreater(len(set(re.findall(rb"items/(\d{5}) ", everything))), 5)


class WebSockets(unittest.TestCase):
    def test_something_else_than_an_echo_is_an_error(self):
        program = programs.websocket_load()
        if isinstance(program, programs.Missing):
            self.skipTest(program.reason)
        with _Collector() as server:
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
            figures = load.wrk([program, str(server.server_address[1]), "3", "0.5"], 1)
            server.shutdown()
        self.assertEqual((figures["requests"], figures["errors"]), (0, 3))


class Notes(unittest.TestCase):
    def test_the_pauses_that_ghc_has_written(self):
        lines = """    Alloc    Copied     Live     GC     GC      TOT      TOT  Page Flts
    bytes     bytes     bytes    user   elap     user     elap
 67137848    117456   1220648  0.001  0.002    0.123    1.456    0    0  (Gen:  0)
        0                         0.000  0.000
"""
        with tempfile.TemporaryDirectory() as scratch:
            path = os.path.join(scratch, "pauses")
            with open(path, "w", encoding="ascii") as file:
                file.write(lines)
            self.assertEqual(long_run.pauses_of(path), [(1.456, 2000.0)])
            self.assertEqual(long_run.pauses_of(path + ".other"), [])

    def test_the_longest_of_each_stretch_of_time_is_drawn(self):
        points = [(second / 10, second % 7) for second in range(36000)]
        line = long_run._line(points, max)
        self.assertEqual(len(line), long_run.POINTS_MAX)
        self.assertEqual({value for _, value in line}, {6})

    def test_a_line_of_many_points_has_no_markers(self):
        few, many = ([(x, 1 + x) for x in range(count)] for count in (5, 100))
        for points, markers in ((few, 5), (many, 0)):
            drawn = plot.charts([plot.Panel("a", "b", {"line": points}, "", False, False)], ["line"]).svg
            self.assertEqual(drawn.count("<circle"), markers + 1)  # One is in the legend.
