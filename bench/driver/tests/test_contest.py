"""A whole row of a closed loop. The measured cost of a request is what the server was configured to use, and a side that fails
does not affect the others."""

import os
import sys
import tempfile
import unittest
from unittest import mock

from .. import answers, contest, measurement, workloads
from ..peers import Side
from ..process import ServerError

SERVER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "burning_server.py")
POINT = {"service": "pong", "connections": 3, "cores": 1}


class Workshop:
    """Replaces the peers' workshop. A side's entry has the command of its server."""

    bench = "/"

    def __init__(self, build):
        self.build = build

    @staticmethod
    def command(side, _service, port, **_values):
        return [sys.executable, SERVER, str(port), *map(str, side.entry["arguments"])]

    @staticmethod
    def shown(text):
        return text


def side(name, *arguments):
    return Side(name, name, {"run": {"pong": ""}, "arguments": arguments})


class Contest(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.workshop = Workshop(directory.name)
        bench = measurement.Bench(self.workshop, measurement.Settings(0.3, quick=True))
        self.contest = contest.Contest(bench, workloads.BY_NAME["pong"], POINT)
        self.addCleanup(self.contest.__exit__)

    def test_the_cost_of_a_request_is_what_the_server_uses_for_it(self):
        cheap, same, dear = side("cheap", 2000), side("same", 2000), side("dear", 6000)
        self.contest.begin([cheap, same, dear], rounds=2)
        for which, expected_us in ((cheap, 2000), (same, 2000), (dear, 6000)):
            for number in range(2):
                found = self.contest.sample(which, number)
                # The server burns an exact CPU time per request. Receiving and sending are added to it.
                self.assertGreaterEqual(found["cpu_us_per_request"], expected_us * 0.98)
                self.assertLess(found["cpu_us_per_request"], expected_us + 1500)
                self.assertGreater(found["requests_in_turns"], 2)
                self.assertGreater(found["requests_per_second"], 2)
                self.assertEqual(found["errors"], 0)

    def test_the_cost_of_an_upload_is_that_of_a_whole_body(self):
        class Bench(measurement.Bench):
            """Uploads by HTTP/1.1, which the small server understands."""

            def _h2load_command(self, point, url, *length):
                *words, last = super()._h2load_command(point, url, *length)
                return [*words, "--h1", last]

        bench = Bench(self.workshop, measurement.Settings(0.3, quick=True))
        uploads = contest.Contest(bench, workloads.BY_NAME["h2-upload"], {"service": "h2upload", "connections": 2, "streams": 1, "cores": 1})
        self.addCleanup(uploads.__exit__)
        burning = side("burning", 5000)
        with mock.patch.object(answers, "check"):
            uploads.begin([burning], rounds=1)
        found = uploads.sample(burning, 0)
        # Receiving a body and bodies of which only a part was sent in a turn are added.
        self.assertGreaterEqual(found["cpu_us_per_request"], 4000)
        self.assertLess(found["cpu_us_per_request"], 12000)

    def test_a_side_that_fails_leaves_the_others_their_figures(self):
        sound, short, absent = side("sound", 1000), side("short", 1000, 40), side("absent", 1000, "nonsense")
        self.contest.begin([short, absent, sound], rounds=1)
        with self.assertRaisesRegex(ServerError, "the server ended during the run"):
            self.contest.sample(short, 0)
        with self.assertRaisesRegex(ServerError, "(?s)the server ended before it listened.*nonsense"):
            self.contest.sample(absent, 0)
        found = self.contest.sample(sound, 0)
        self.assertGreater(found["cpu_us_per_request"], 980)
        self.assertEqual(found["errors"], 0)
