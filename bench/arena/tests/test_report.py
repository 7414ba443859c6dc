"""The arena's page from made-up results: rows for one core and two, and a verdict on tails."""

import os
import tempfile
import unittest

from driver import results

from .. import report

BENCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def made_up(tails):
    """Results of these sides, each with the 99th percentiles of its rounds, in milliseconds."""
    data = results.new({
        "date": "2000-01-01 00:00 UTC", "commit": "abc", "processor": "P", "processors": 2, "memory": "1 kB",
        "kernel": "6", "system": "Debian", "virtual": "none", "descriptors": 20000, "load_average": "0", "tools": {},
    }, {"rounds": 3, "seconds": 1, "uninterrupted_seconds": 1, "open_loop_seconds": 30})
    for side, rounds in tails.items():
        data["peers"][side] = {"peer": side, "title": side.title(), "language": "L", "ours": side == "millrace", "version": "1",
                               "tuning": "none"}
        for cores in (1, 2):
            for number, tail in enumerate(rounds):
                data["samples"].append({
                    "workload": "arena-json", "point": {"service": "json", "connections": 8, "cores": cores}, "side": side,
                    "round": number, "environment": {},
                    "figures": {"cpu_us_per_request": 10.0, "latency_p99_us": tail * 1e3, "errors": 0}})
    return data


class Page(unittest.TestCase):
    def page(self, tails):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "arena.md")
            report.ArenaReport(made_up(tails), BENCH, folder).write(path, "source.json")
            with open(path, encoding="utf-8") as file:
                return file.read()

    def test_a_tail_is_compared_with_the_best_of_the_others(self):
        for ours, verdict in (([2, 2, 2], "0.50 [0.50–0.50] Rust: ahead"), ([4.2, 4.2, 4.2], "1.05 [1.05–1.05] Rust: level"),
                              ([9, 3, 6], "1.50 [0.75–2.25] Rust: level"), ([8, 8, 8], "2.00 [2.00–2.00] Rust: behind")):
            page = self.page({"millrace": ours, "rust": [4, 4, 4], "go": [1000, 5, 5]})
            self.assertEqual(page.count(f"| {verdict} |"), 2, page)

    def test_both_numbers_of_cores_have_a_table(self):
        page = self.page({"millrace": [1], "go": [1]})
        self.assertIn("### json, 8 connections, 1 core\n", page)
        self.assertIn("### json, 8 connections, 2 cores\n", page)
