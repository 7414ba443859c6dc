"""Probes, which find sides that cannot work on a machine; and what the sides offer."""

import os
import tempfile
import time
import unittest
from unittest import mock

from .. import peers, targets, workloads

BENCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def is_running(pid):
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


class Services(unittest.TestCase):
    def test_every_row_of_every_workload_has_a_side(self):
        workshop = peers.Workshop(BENCH, "", False)
        sides = workshop.sides(None, None)
        for workload in workloads.ALL:
            for point in workload.points:
                is_offered = any(side.offers(point["service"], point["cores"]) for side in sides)
                self.assertTrue(is_offered, f"{workload.name}: {point}")

    def test_names_of_backends_and_workloads_exist(self):
        workshop = peers.Workshop(BENCH, "", False)
        self.assertEqual([side.name for side in workshop.sides([], None) if side.peer == "millrace"],
                         ["millrace", "millrace-io_uring", "millrace-epoll"])
        self.assertEqual([side.name for side in workshop.sides([], ["default"])], ["millrace", "core", "c-fiber"])
        self.assertLessEqual(set(workloads.OTHER_BACKENDS), set(workloads.BY_NAME))
        for peer, entry in workshop.manifest.items():
            self.assertLessEqual(set(entry.get("workloads", [])) | set(entry.get("quick", [])), set(workloads.BY_NAME), peer)

    def test_handshakes_are_measured_with_the_server_of_small_answers(self):
        workshop = peers.Workshop(BENCH, "", False)
        nginx = peers.Side("nginx", "nginx", workshop.manifest["nginx"])
        self.assertEqual(nginx.service("tls-handshake"), "tls-pong")
        self.assertEqual(nginx.service("tls-files"), "tls-files")
        self.assertEqual(peers.Side("warp", "warp", workshop.manifest["warp"]).service("close"), "close")

    def test_every_service_of_a_proxy_has_a_target(self):
        workshop = peers.Workshop(BENCH, "", False)
        sides = workshop.sides(None, None)
        for workload in workloads.ALL:
            for service in {point["service"] for point in workload.points}:
                commands = [side.entry["run"][side.service(service)] for side in sides if side.offers(service, 1)]
                needed = any("{target}" in command for command in commands)
                self.assertEqual(needed, service in targets.TARGETS, f"{workload.name}: {service}")


class Probes(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.build = directory.name

    def probe(self, command):
        side = peers.Side("side", "side", {"probe": command})
        return peers.Workshop(BENCH, self.build, False).probe(side)

    def test_a_probe_that_succeeds_gives_no_reason(self):
        self.assertIsNone(self.probe("test -d {build}"))

    def test_the_last_line_says_why_not(self):
        self.assertEqual(self.probe("echo first; echo last; exit 3"), "last")
        self.assertEqual(self.probe("exit 3"), "its probe failed with exit code 3")

    def test_a_probe_that_does_not_end_is_killed_with_its_children(self):
        with mock.patch.object(peers, "PROBE_SECONDS", 0.5):
            reason = self.probe("sleep 60 & echo $! > {build}/child; wait")
        self.assertEqual(reason, "its probe did not end within 0.5 s")
        with open(os.path.join(self.build, "child"), encoding="ascii") as file:
            child = int(file.read())
        deadline = time.monotonic() + 10
        while is_running(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertFalse(is_running(child))
