"""Connections that a server has served are distinguished from those that wait."""

import socket
import time
import unittest

from .. import load, sockets
from .small_server import answer, serving


class Served(unittest.TestCase):
    def test_only_clients_that_have_received_something_are_served(self):
        with serving(answer()) as port:
            if sockets.served(port) is None:
                self.skipTest("`ss` is not installed")
            silent = socket.create_connection(("127.0.0.1", port))
            self.addCleanup(silent.close)
            self.assertEqual(sockets.served(port), 0)
            connections = load.IdleConnections(port, 3)
            self.addCleanup(connections.close)
            time.sleep(0.1)
            self.assertEqual(sockets.served(port), 3)
            self.assertEqual(sockets.served(port, len(answer()) - 1), 3)
            self.assertEqual(sockets.served(port, len(answer())), 0)
