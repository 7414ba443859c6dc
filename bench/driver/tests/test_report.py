"""Report, plots and comparison from made-up results: every row is there, and rows where a peer is ahead are marked and
explained."""

import glob
import os
import re
import tempfile
import unittest
import xml.etree.ElementTree as xml

from .. import comparison, overview, plot, report, results, rounds, workloads

BENCH = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def made_up(our_cost):
    data = results.new({
        "date": "2000-01-01 00:00 UTC", "commit": "abc", "processor": "P", "processors": 2, "memory": "1 kB",
        "kernel": "6", "system": "Debian", "virtual": "none", "descriptors": 20000, "load_average": "0", "tools": {},
    }, {"rounds": 3, "seconds": 1, "uninterrupted_seconds": 1, "open_loop_seconds": 30})
    for name, ours in (("millrace-epoll", True), ("nginx", False), ("warp", False)):
        data["peers"][name] = {"peer": name.split("-")[0], "title": name.title(), "language": "L", "ours": ours,
                               "version": "1", "tuning": "none"}
    for connections in (10, 100):
        for number in range(3):
            for side, cost in (("millrace-epoll", our_cost), ("nginx", 8.0)):
                data["samples"].append({
                    "workload": "pong", "point": {"service": "pong", "connections": connections, "cores": 1},
                    "side": side, "round": number, "environment": {},
                    "figures": {"cpu_us_per_request": cost + number / 100, "requests_per_second": 1e5,
                                "latency_p99_us": 900.0, "errors": 0, "command": "server", "load_command": "wrk"}})
    data["failures"].append({"workload": "pong", "point": {"service": "pong", "connections": 10, "cores": 1},
                             "side": "warp", "reason": "it did not listen"})
    data["skipped"].append({"peer": "go", "reason": "`go` is not installed", "workload": None})
    return data


def written(data):
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "BENCHMARKS.md")
        report.Report(data, BENCH, os.path.join(directory, "plots")).write(path, "source.json")
        texts = []
        for name in [path, *sorted(os.path.join(directory, "plots", name) for name in os.listdir(os.path.join(directory, "plots")))]:
            with open(name, encoding="utf-8") as file:
                texts.append(file.read())
            if name.endswith(".svg"):
                xml.fromstring(texts.pop())
        return "\n".join(texts)


class Document(unittest.TestCase):
    def test_a_peer_that_is_ahead_is_marked_and_explained(self):
        text = written(made_up(10.0))
        self.assertIn("**1.25 [", text)
        self.assertIn("**Nginx** is ahead of Millrace-Epoll: ", text)

    def test_a_note_for_every_workload_explains_where_the_workload_has_none(self):
        data = made_up(10.0)
        data["peers"]["nginx"].update(peer="tokio")
        self.assertRegex(written(data), r"\*\*Nginx\*\* is ahead of Millrace-Epoll: a task is a record")

    def test_a_peer_that_is_behind_is_not_marked(self):
        text = written(made_up(6.0))
        self.assertIn("0.75 [", text)
        self.assertNotIn("behind Nginx", text)

    def test_fallbacks_are_judged_beside_the_default_backend(self):
        data = made_up(10.0)
        for name, cost in (("millrace", 9.8), ("millrace-eperm", 12.0)):
            data["peers"][name] = dict(data["peers"]["millrace-epoll"], title=name)
            data["samples"] += [
                dict(sample, side=name, figures=dict(sample["figures"], cpu_us_per_request=cost + sample["round"] / 100))
                for sample in data["samples"] if sample["side"] == "nginx"]
        section = written(data).split("# Without io_uring")[1]
        self.assertRegex(section, r"Millrace-Epoll \| 1\.02 \[.*\| within 5 % \|")
        self.assertRegex(section, r"millrace-eperm \| 1\.22 \[.*\| 22 % more \|")

    def test_failed_and_skipped_sides_are_named(self):
        text = written(made_up(6.0))
        self.assertIn("failed: it did not listen", text)
        self.assertIn("`go` is not installed", text)


class Overview(unittest.TestCase):
    def test_the_best_peer_for_http_is_a_web_server(self):
        data = made_up(10.0)
        for name, cost in (("millrace", 6.0), ("millrace-io_uring", 5.0), ("c-epoll", 1.0), ("tokio", 7.0)):
            data["peers"][name] = dict(data["peers"]["nginx"], title=name, ours=name.startswith("millrace"))
            data["samples"] += [
                dict(sample, side=name, figures=dict(sample["figures"], cpu_us_per_request=cost + sample["round"] / 100))
                for sample in data["samples"] if sample["side"] == "nginx"]
        row, = overview.rows(data)
        self.assertEqual((row.choice.workload, row.peer), ("pong", "tokio"))
        self.assertAlmostEqual(row.ratio["ratio"], 6 / 7, places=2)

    def test_earlier_results_show_the_default_of_that_time(self):
        self.assertEqual(overview.millrace({"peers": {"millrace-io_uring": {}}}), "millrace-io_uring")
        self.assertEqual(overview.millrace({"peers": {"millrace-io_uring": {}, "millrace": {}}}), "millrace")

    def test_a_complete_run_measures_every_row_of_the_overview(self):
        for choice in overview.CHOICES:
            points = workloads.BY_NAME[choice.workload].points
            self.assertTrue(any(choice.point.items() <= point.items() for point in points), choice.text)


class Comparison(unittest.TestCase):
    def test_slower_is_reported_and_equal_is_not(self):
        worse = [c for c in comparison.changes(made_up(6.0), made_up(8.0)) if c["verdict"] == 1]
        self.assertEqual({(c["side"], c["figure"]) for c in worse}, {("millrace-epoll", "cpu_us_per_request")})
        self.assertFalse([c for c in comparison.changes(made_up(6.0), made_up(6.0)) if c["verdict"]])
        self.assertIn("Slower or larger", comparison.text(made_up(6.0), made_up(8.0)))


class Results(unittest.TestCase):
    def test_results_are_read_as_written_and_never_overwritten(self):
        with tempfile.TemporaryDirectory() as directory:
            data = made_up(6.0)
            first = results.path_for(directory, data["machine"])
            results.write(data, first)
            read = results.rows(results.read(first))
            for key, sides in results.rows(data).items():
                for side, rounds in sides.items():
                    for figure in ("cpu_us_per_request", "requests_per_second"):
                        self.assertEqual(results.values(read[key][side], figure), results.values(rounds, figure))
            commands = [found["command"] for sides in read.values() for rounds in sides.values() for found in rounds.values()
                        if "command" in found]
            self.assertEqual(len(commands), 2)  # one per side, and not one per sample
            self.assertNotEqual(results.path_for(directory, data["machine"]), first)


    def test_a_part_of_a_workload_is_added_only_to_results_of_the_same_commit(self):
        data = made_up(6.0)
        self.assertIs(results.continued(data, data["machine"], False), data)
        with self.assertRaisesRegex(ValueError, "abc"):
            results.continued(data, {**data["machine"], "commit": "def"}, False)
        first, second = results.rows(data)
        results.without_rows(data, {first})
        self.assertEqual(list(results.rows(data)), [second])
        self.assertEqual(data["failures"], [])

    def test_a_whole_workload_can_be_measured_later_and_its_page_says_so(self):
        data = made_up(6.0)
        later = {**data["machine"], "commit": "def", "date": "2001-01-01 00:00 UTC"}
        with self.assertRaisesRegex(ValueError, "processors"):
            results.continued(data, {**later, "processors": 3}, True)
        self.assertIs(results.continued(data, later, True), data)
        results.note_later(data, {"pong"}, later)
        self.assertEqual((data["samples"], data["failures"]), ([], []))
        data["samples"] = made_up(7.0)["samples"]
        self.assertIn("Measured 2001-01-01 00:00 UTC at commit `def`.", written(data))
        results.note_later(data, {"pong"}, data["machine"])
        self.assertNotIn("later", data)
        self.assertEqual(len(data["samples"]), 12)


class Plots(unittest.TestCase):
    def test_one_value_and_equal_values_can_be_drawn(self):
        for points in ([(10, 5.0)], [(10, 5.0), (100, 5.0)]):
            xml.fromstring(plot.charts(
                [plot.Panel("a < b", "x", {"one & only": points})], ["one & only"], (), "it's \"this\"").svg)
        self.assertIsNone(plot.charts([plot.Panel("t", "x", {})], []))
        xml.fromstring(plot.bars("t", {"a": 0.0, "b": -1.0}).svg)

    def test_ticks_have_units_that_suit_them(self):
        self.assertEqual(
            [plot.short(0, "µs"), plot.short(0.5, "µs"), plot.short(1e3, "µs"), plot.short(0.01, "s"), plot.short(1250, "B")],
            ["0", "0.5 µs", "1 ms", "10 ms", "1,250 B"])


class Order(unittest.TestCase):
    def test_each_round_has_every_side_once_and_begins_with_another_one(self):
        turns = list(rounds.turns(["a", "b", "c"], 3))
        self.assertEqual(len(turns), 9)
        self.assertEqual([side for _, side in turns[::3]], ["a", "b", "c"])
        self.assertEqual([side for _, side in turns[3:6]], ["b", "c", "a"])


class Documents(unittest.TestCase):
    def test_a_complete_run_measures_every_figure_of_the_documents(self):
        labels = {workloads.label(workload.name, point) for workload in workloads.ALL for point in workload.points}
        root = os.path.dirname(BENCH)
        for path in [os.path.join(root, "README.md"), *glob.glob(os.path.join(root, "docs", "guide", "*.md"))]:
            with open(path, encoding="utf-8") as file:
                for listed in re.findall("<!-- figures\n(.*?)\n-->", file.read(), re.S):
                    for line in listed.splitlines():
                        self.assertIn(re.split("  +", line, maxsplit=1)[1].split(";")[0], labels, path)


class Selection(unittest.TestCase):
    def test_names_and_counts(self):
        (workload, points), = workloads.select(["pong"], [7], quick=False)
        self.assertEqual(workload.name, "pong")
        self.assertEqual([point["connections"] for point in points], [7])
        with self.assertRaises(ValueError):
            workloads.select(["pung"], None, quick=False)
        for workload in workloads.ALL:
            self.assertTrue(workload.points, workload.name)
