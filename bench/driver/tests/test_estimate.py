"""Ratios and intervals."""

import unittest

from .. import estimate


class Ratios(unittest.TestCase):
    def test_pairing_removes_a_disturbance_of_both_sides(self):
        # The machine was ten times slower in round 1, for both.
        ours = {0: 1.0, 1: 10.0, 2: 1.1}
        theirs = {0: 2.0, 1: 20.0, 2: 2.2}
        ratio = estimate.paired_ratio(ours, theirs)
        self.assertAlmostEqual(ratio["ratio"], 0.5)
        self.assertAlmostEqual(ratio["low"], 0.5)
        self.assertAlmostEqual(ratio["high"], 0.5)

    def test_only_common_rounds_count(self):
        self.assertEqual(estimate.paired_ratio({0: 1.0}, {1: 2.0}), None)
        self.assertEqual(estimate.paired_ratio({0: 3.0, 1: 9.0}, {0: 1.5})["ratio"], 2.0)

    def test_no_interval_from_fewer_than_three_rounds(self):
        self.assertIsNone(estimate.paired_ratio({0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0})["low"])

    def test_noise_is_not_a_difference(self):
        noisy = estimate.unpaired_ratio([1.0, 1.3, 0.8, 1.1, 0.9], [1.0, 0.8, 1.25, 0.9, 1.1])
        self.assertEqual(estimate.beyond(noisy, 0.05), 0)
        slower = estimate.unpaired_ratio([2.0, 2.1, 1.9], [1.0, 1.05, 0.95])
        self.assertEqual(estimate.beyond(slower, 0.05), 1)
        self.assertEqual(estimate.beyond(estimate.unpaired_ratio([2.0], [1.0]), 0.05), 0)
        faster = estimate.unpaired_ratio([1.0, 1.05, 0.95], [2.0, 2.1, 1.9])
        self.assertEqual(estimate.beyond(faster, 0.05), -1)
