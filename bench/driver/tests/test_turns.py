"""Turns begin when every connection has been served, or say that it was not."""

import unittest
from unittest import mock

from .. import turns


class SettingUp(unittest.TestCase):
    def setUp(self):
        for name, value in (("START_SECONDS", 0), ("SETTLING_SECONDS", 0.2), ("SETTLING_STEP_SECONDS", 0.01), ("AT_REST_SECONDS", 0)):
            patch = mock.patch.object(turns, name, value)
            patch.start()
            self.addCleanup(patch.stop)

    def runner(self, *unserved):
        """A runner of which this many connections are not served, at one look after the other."""
        left = list(unserved)
        program = mock.Mock(**{"pids.return_value": [], "ended.return_value": False})
        return turns.Runner(program, mock.Mock(), lambda: left.pop(0) if len(left) > 1 else left[0]), left

    def test_turns_wait_for_connections_that_are_not_served(self):
        runner, left = self.runner(7, 3, 0)
        turns.set_up([runner], 10)
        self.assertEqual((left, runner.doubt, runner.failure), ([0], None, None))
        self.assertEqual([call[0] for call in runner.generator.method_calls], ["resume", "pause"])

    def test_connections_that_are_never_served_are_told(self):
        runner, _ = self.runner(7)
        turns.set_up([runner], 10)
        self.assertIn("7 of 10 connections were not set up", runner.doubt)
