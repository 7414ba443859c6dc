"""The servers behind proxies answer as the services demand, and end with their block."""

import os
import shutil
import socket
import tempfile
import unittest

from .. import answers, load, programs, targets

BENCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Running(unittest.TestCase):
    def running(self, service, files=""):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        return targets.running(service, BENCH, files, state.name, sorted(os.sched_getaffinity(0)))

    def test_other_services_have_none(self):
        with self.running("pong") as port:
            self.assertIsNone(port)

    @unittest.skipUnless(shutil.which("nginx"), "nginx is not installed")
    def test_an_nginx_answers_and_has_the_files(self):
        with tempfile.TemporaryDirectory() as files:
            with open(os.path.join(files, "name"), "wb") as file:
                file.write(b"x" * 9)
            with self.running("proxy-pong", files) as port:
                answers.check("proxy-pong", port)
                answers.check("proxy-files", port, ("name", b"x" * 9))
        with self.assertRaises(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1)

    def test_messages_of_websockets_come_back(self):
        if isinstance(programs.websocket_echo(), programs.Missing):
            self.skipTest("there is no compiler")
        with self.running("proxy-ws") as port:
            answers.check("proxy-ws", port)
            figures = load.wrk(load.websocket_words(port, 3, 0.3), 1)
        self.assertGreater(figures["requests"], 10)
        self.assertEqual(figures["errors"], 0)
