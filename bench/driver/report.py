"""Report: docs/BENCHMARKS.md and its plots, from one results file and the notes. Measures nothing."""

import os
import tomllib

from . import estimate, figures, plot, results
from .turns import TURN_SECONDS
from .workloads import BY_NAME, label

# A row counts as lost when the ratio is above 1 by more than this, and its interval too.
LOST_BEYOND = 0.03

# Where io_uring is refused: what a request may cost besides, and the rows that show it.
FALLBACK_BEYOND = 0.05
FALLBACK_ROWS = ("tcp500", "pong")
PREFERRED, FALLBACKS = "millrace-io_uring", ("millrace-epoll", "millrace-eperm", "millrace-enosys")

PLOTS = {
    "tcp500": "500 bytes over TCP",
    "pong": "HTTP, five-byte body",
    "file4k": "HTTP, file of 4 KiB",
}


def _notes(bench):
    with open(os.path.join(bench, "notes.toml"), "rb") as file:
        return tomllib.load(file)


def _ours(data):
    return [name for name, peer in data["peers"].items() if peer["ours"]]


def _titles(data):
    return {name: peer["title"] for name, peer in data["peers"].items()}


def _spread(rounds, figure):
    """ "5.90 (5.71–6.20)" """
    found = list(results.values(rounds, figure).values())
    if not found:
        return "–"
    summary = estimate.summary(found)
    show = figures.ALL[figure][1]
    text = show(summary["median"])
    if len(found) > 1:
        text += f" ({show(summary['least'])}–{show(summary['greatest'])})"
    return text


def _median(rounds, figure):
    found = list(results.values(rounds, figure).values())
    return figures.ALL[figure][1](estimate.median(found)) if found else "–"


def _ratio_text(ratio):
    if ratio is None:
        return "–"
    text = f"{ratio['ratio']:.2f}"
    if ratio["low"] is not None:
        text += f" [{ratio['low']:.2f}–{ratio['high']:.2f}]"
    return text


def _table(header, lines):
    rows = ["| " + " | ".join(line) + " |" for line in lines]
    return ["| " + " | ".join(header) + " |", "|" + "---|" * len(header), *rows]


class Report:
    def __init__(self, data, bench, plots_directory):
        self.data = data
        self.notes = _notes(bench)
        self.plots_directory = plots_directory
        self.titles = _titles(data)
        self.ours = _ours(data)
        self.rows = results.rows(data)
        self.calls = {(results.key_of(entry), entry["side"]): entry["system_calls_per_request"]
                      for entry in data["system_calls"]}
        self.lost = {}  # workload -> set of (ours, theirs)

    # -- tables

    def _row(self, key, sides):
        workload = BY_NAME[key[0]]
        primary = workload.primary
        shown = [name for name in figures.SHOWN[workload.kind]
                 if name != primary and any(results.values(rounds, name) for rounds in sides.values())]
        ours = [side for side in self.ours if side in sides]
        counted = any((key, side) in self.calls for side in sides)
        header = ["side", figures.ALL[primary][0]] + [figures.ALL[name][0] for name in shown]
        header += ["system calls per request"] * counted + ["errors"]
        header += [f"{self.titles[side]} ÷ this" for side in ours]
        lines = []
        for side in sorted(sides, key=lambda name: self._order(sides[name], primary)):
            rounds = sides[side]
            name = self.titles[side]
            line = [f"**{name}**" if side in self.ours else name, _spread(rounds, primary)]
            line += [_median(rounds, figure) for figure in shown]
            if counted:
                line.append(figures.number(self.calls[key, side]) if (key, side) in self.calls else "–")
            line.append(str(int(sum(found.get("errors", 0) for found in rounds.values()))))
            line += [self._ratio(key, sides, mine, side, primary) for mine in ours]
            lines.append(line)
        lines += self._missing(key, len(header))
        doubts = sorted({f"{self.titles[side]}: {found['doubt']}" for side, rounds in sides.items()
                         for found in rounds.values() if "doubt" in found})
        return _table(header, lines) + [""] + [f"Doubtful: {doubt}." for doubt in doubts] + [""] * bool(doubts)

    @staticmethod
    def _order(rounds, primary):
        found = list(results.values(rounds, primary).values())
        return estimate.median(found) if found else float("inf")

    def _ratio(self, key, sides, mine, side, primary):
        if mine == side:
            return ""
        ratio = estimate.paired_ratio(results.values(sides[mine], primary), results.values(sides[side], primary))
        if side not in self.ours and estimate.beyond(ratio, LOST_BEYOND) > 0:
            self.lost.setdefault(key[0], set()).add((mine, side))
            return f"**{_ratio_text(ratio)}**"
        return _ratio_text(ratio)

    def _missing(self, key, width):
        """Sides that failed altogether at this point stay in the table."""
        lines = []
        for failure in self.data["failures"]:
            if results.key_of(failure) == key and failure["side"] not in self.rows.get(key, {}):
                reason = failure["reason"].replace("|", "/").replace("\n", " ")[:160]
                line = [self.titles.get(failure["side"], failure["side"]), f"failed: {reason}"]
                line += [""] * (width - 2)
                if line not in lines:
                    lines.append(line)
        return lines

    @staticmethod
    def _fallback_verdict(ratio):
        if abs(ratio["ratio"] - 1) <= FALLBACK_BEYOND:
            return f"within {FALLBACK_BEYOND:.0%}"
        return f"{abs(ratio['ratio'] - 1):.0%} {'more' if ratio['ratio'] > 1 else 'less'}" + (
            "" if estimate.beyond(ratio, FALLBACK_BEYOND) else ", which may be noise")

    def _fallback(self):
        """What a request costs without io_uring, beside what it costs with it."""
        lines = []
        for key, sides in self.rows.items():
            if key[0] not in FALLBACK_ROWS or PREFERRED not in sides:
                continue
            primary = BY_NAME[key[0]].primary
            for side in FALLBACKS:
                ratio = side in sides and estimate.paired_ratio(
                    results.values(sides[side], primary), results.values(sides[PREFERRED], primary))
                if ratio:
                    lines.append([label(key[0], dict(key[1])), self.titles[side], _ratio_text(ratio),
                                  self._fallback_verdict(ratio)])
        if not lines:
            return []
        table = _table(["row", "side", f"CPU time ÷ {self.titles[PREFERRED]}", ""], lines)
        return ["## Without io_uring", "", self.notes["fallback"]["text"].strip(), "", *table, ""]

    # -- plots

    def _lines(self, name, figure, parameter, where=lambda point: True):
        lines = {}
        for (workload, point), sides in self.rows.items():
            point = dict(point)
            if workload != name or parameter not in point or not where(point):
                continue
            for side, rounds in sides.items():
                found = [value for value in results.values(rounds, figure).values() if value > 0]
                if found:
                    lines.setdefault(self.titles[side], []).append((point[parameter], estimate.median(found)))
        return {title: points for title, points in lines.items()}

    def _emphasised(self):
        return [self.titles[side] for side in self.ours]

    def _load_plot(self, name):
        panels = [
            plot.Panel(f"{title}", "connections", self._lines(name, figure, "connections"), y_logarithmic=logarithmic)
            for title, figure, logarithmic in (
                ("CPU µs per request", "cpu_us_per_request", False),
                ("requests per second", "requests_per_second", False),
                ("99th percentile of latency, µs", "latency_p99_us", True))
        ]
        if not any(len(points) > 1 for panel in panels for points in panel.lines.values()):
            return None
        return plot.charts(
            panels, list(self.titles.values()), self._emphasised(),
            f"{PLOTS[name]}: cost, throughput and latency by connections")

    def _sleepers_plot(self):
        panels = [
            plot.Panel(f"n threads sleep 1 ms, {cores} core{'s' * (cores > 1)}: seconds", "threads", self._lines(
                "sleepers", "seconds", "n",
                lambda point, cores=cores: point["service"] == "sleepers" and point["cores"] == cores))
            for cores in (1, 2)
        ]
        if not any(len(points) > 1 for panel in panels for points in panel.lines.values()):
            return None
        return plot.charts(
            panels, list(self.titles.values()), self._emphasised(), "time until n threads that sleep 1 ms have woken")

    def _simulated_plot(self):
        def lines(figure, **services):
            found = {}
            for service, title in services.items():
                of_service = self._lines("simulated", figure, "n", lambda point, service=service: point["service"] == service)
                found.update((title, points) for points in of_service.values())
            return found
        titles = {"turn": "an operation, in turn", "random": "an operation, at random", "idle": "a deadline"}
        panels = [plot.Panel("CPU µs per event", "connections", lines("us_per_event", **titles), y_logarithmic=False),
                  plot.Panel("bytes per connection, both ends", "connections",
                             lines("memory_per_connection_bytes", turn=titles["turn"]), y_logarithmic=False)]
        if not any(len(points) > 1 for panel in panels for points in panel.lines.values()):
            return None
        return plot.charts(panels, list(titles.values()), [titles["turn"]],
                           "simulated connections: cost of an event and memory by connections")

    def _idle_plot(self, service):
        values, connections = {}, 0
        for (workload, point), sides in self.rows.items():
            point = dict(point)
            if workload != "idle" or point["service"] != service:
                continue
            connections = point["connections"]
            for side, rounds in sides.items():
                found = list(results.values(rounds, "memory_per_connection_bytes").values())
                if found:
                    values[self.titles[side]] = estimate.median(found) / 1024
        what = "HTTP" if service == "pong" else "TCP"
        return plot.bars(f"Memory per idle {what} connection, {connections:,} connections", "KB", values,
                         self._emphasised())

    def _plots_of(self, name):
        """{file name: SVG}"""
        if name in PLOTS:
            drawn = {f"{name}.svg": self._load_plot(name)}
        elif name == "sleepers":
            drawn = {"sleepers.svg": self._sleepers_plot()}
        elif name == "simulated":
            drawn = {"simulated.svg": self._simulated_plot()}
        elif name == "idle":
            drawn = {f"idle-{service}.svg": self._idle_plot(service) for service in ("pong", "tcp500")}
        else:
            drawn = {}
        return {file: text for file, text in drawn.items() if text}

    # -- the document

    def _machine(self):
        facts = self.data["machine"]
        tools = ", ".join(f"{name} {version}" for name, version in facts["tools"].items())
        lines = [
            f"- Measured {facts['date']}, commit `{facts['commit']}`.",
            f"- {facts['processors']} processors ({facts['processor']}), {facts['memory']}, "
            f"Linux {facts['kernel']}, {facts['system']}, virtual machine: {facts['virtual']}.",
            f"- {facts['descriptors']:,} descriptors per process. Load average at the start: {facts['load_average']}.",
            f"- Tools: {tools}.",
        ]
        options = self.data["options"]
        lines.append(f"- {options['rounds']} rounds; under closed load {options['seconds']} s per side and round in turns "
                     f"of {TURN_SECONDS} s, for CPU time, and {options['uninterrupted_seconds']} s uninterrupted, for "
                     "throughput and latencies (three times that from 10,000 connections on); "
                     f"{options['open_loop_seconds']} s under constant rate, which has one round unless more were asked "
                     "for, as have idle connections and ten million timers.")
        return lines

    def _sides(self):
        lines = []
        for peer in self.data["peers"].values():
            lines.append([f"**{peer['title']}**" if peer["ours"] else peer["title"], peer["language"],
                          peer["version"] or "–", peer["tuning"]])
        return _table(["side", "language", "version", "tuning, and what could be better"], lines)

    def _skipped(self):
        if not self.data["skipped"]:
            return []
        lines = ["", "Left out:", ""]
        for entry in self.data["skipped"]:
            scope = f" ({entry['workload']})" if entry.get("workload") else ""
            lines.append(f"- {entry['peer']}{scope}: {entry['reason']}.")
        return lines

    def _explanations(self, name):
        """Why rows are lost: notes by peer, of this workload or of all, or by workload. A row without a note says so."""
        notes = self.notes.get(name, {})
        lines = []
        if "text" in notes:
            lines += [notes["text"].strip(), ""]
        lost = {}
        for mine, side in sorted(self.lost.get(name, ())):
            lost.setdefault(side, []).append(self.titles[mine])
        for side, mine in lost.items():
            reason = self._reason(notes, self.data["peers"][side]["peer"])
            lines.append(f"- {' and '.join(mine)} behind {self.titles[side]}: {reason.strip()}")
        return lines + [""] * bool(lost)

    def _reason(self, notes, peer):
        everywhere = self.notes.get("everywhere", {})
        return notes.get(peer) or everywhere.get(peer) or notes.get("lost") or "not explained yet."

    def _commands(self):
        seen, lines = set(), []
        for sample in self.data["samples"]:
            command = sample["figures"].get("command")
            key = (sample["workload"], sample["side"], sample["point"]["service"], sample["point"]["cores"])
            if command and key not in seen:
                seen.add(key)
                lines.append(f"# {sample['workload']}, {sample['side']}")
                environment = " ".join(f"{name}={value}" for name, value in sample.get("environment", {}).items())
                lines.append((environment + " " + command).strip())
                if "load_command" in sample["figures"]:
                    lines.append("    " + sample["figures"]["load_command"])
        return lines

    def write(self, path, source):
        """Writes the document and its plots."""
        os.makedirs(self.plots_directory, exist_ok=True)
        lines = [
            "# Benchmarks", "",
            f"Generated by `bench/report` from `{source}`; do not edit. `make bench` measures on your machine.", "",
            "Bold ratios are rows where Millrace is behind beyond noise. A ratio is Millrace's figure divided by the "
            "other side's, the median over rounds that measured both in turn, with its 95 % bootstrap interval; "
            "below 1, Millrace needs less. Other figures are medians; in parentheses, the least and the greatest. "
            "CPU time is that of the server's processes. Under closed load the servers of a row run at the same time and "
            "their load generators take turns of a fraction of a second, because machines change their speed within "
            "seconds; throughput and latencies are from uninterrupted samples, one side after the other, and suffer from "
            "that. System calls are counted in a run of their own. A peak of memory counts pages shared between processes once for each.", "",
            "## Machine", "", *self._machine(), "",
            "## Sides", "", *self._sides(), *self._skipped(), "",
        ]
        current = None
        for key, sides in self.rows.items():
            workload = BY_NAME[key[0]]
            if workload.name != current:
                if current:
                    lines += self._explanations(current)
                current = workload.name
                lines += [f"## {workload.name}", "", workload.text, ""]
                for file, svg in self._plots_of(workload.name).items():
                    with open(os.path.join(self.plots_directory, file), "w", encoding="utf-8") as out:
                        out.write(svg)
                    relative = os.path.relpath(os.path.join(self.plots_directory, file), os.path.dirname(path))
                    lines += [f"![{workload.name}]({relative})", ""]
            lines += [f"### {label(key[0], dict(key[1]))}", "", *self._row(key, sides)]
        if current:
            lines += self._explanations(current)
        lines += self._fallback()
        failed_rows = {results.key_of(failure) for failure in self.data["failures"]} - set(self.rows)
        for key in sorted(failed_rows, key=str):
            lines += [f"### {label(key[0], dict(key[1]))}", "", "No side could be measured.", ""]
        lines += ["## Commands", "", "```", *self._commands(), "```", ""]
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines))


def make(results_path, bench, directory):
    """Writes BENCHMARKS.md and its plots into a directory; returns the document's path."""
    path = os.path.join(directory, "BENCHMARKS.md")
    os.makedirs(directory, exist_ok=True)
    Report(results.read(results_path), bench, os.path.join(directory, "benchmarks")).write(
        path, os.path.relpath(results_path, os.path.dirname(bench)))
    return path
