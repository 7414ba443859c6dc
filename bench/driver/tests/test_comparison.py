"""Comparing results of every workload."""

import copy
import glob
import os
import unittest

from .. import comparison, results

BENCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


class Comparisons(unittest.TestCase):
    def setUp(self):
        self.old = results.read(sorted(glob.glob(os.path.join(BENCH, "results", "*.json")))[-1])

    def test_every_workload_of_a_whole_run_is_compared(self):
        found = comparison.changes(self.old, self.old)
        self.assertEqual({change["workload"] for change in found}, {sample["workload"] for sample in self.old["samples"]})
        self.assertEqual({change["verdict"] for change in found}, {0})
        self.assertIn(f"{len(found)} figures compared", comparison.text(self.old, self.old))

    def test_a_figure_that_doubled_is_reported(self):
        new = copy.deepcopy(self.old)
        for sample in new["samples"]:
            if sample["workload"] == "sleepers" and sample["side"] == "millrace":
                sample["figures"] = {name: 2 * value if isinstance(value, float) else value for name, value in sample["figures"].items()}
        worse = [change for change in comparison.changes(self.old, new) if change["verdict"] == 1]
        self.assertTrue(worse)
        self.assertEqual({(change["workload"], change["side"]) for change in worse}, {("sleepers", "millrace")})
        self.assertIn("Slower or larger than before:", comparison.text(self.old, new))
