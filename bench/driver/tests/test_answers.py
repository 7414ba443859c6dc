"""A server that gives wrong answers is rejected."""

import unittest

from .. import answers
from ..process import ServerError
from .small_server import answer, serving


class Check(unittest.TestCase):
    def test_the_right_answers_pass(self):
        with serving(answer()) as port:
            answers.check("pong", port)
        with serving(answer(b"x" * 9)) as port:
            answers.check("files", port, ("name", b"x" * 9))

    def refused(self, service, text, file=None, **faults):
        with serving(text, **faults) as port, self.assertRaises(ServerError):
            answers.check(service, port, file)

    def test_wrong_answers_are_rejected(self):
        self.refused("pong", answer(b"Ping!"))
        self.refused("pong", answer(status=b"404 Not Found"))
        self.refused("pong", b"nonsense\r\n\r\n")
        self.refused("files", answer(b"y" * 9), ("name", b"x" * 9))
        self.refused("proxy-ws", answer())
