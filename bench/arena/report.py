"""Writes the pages of the arena from a results file: what each entry keeps of the rules, and a page for each group of profiles."""

import os

from driver import estimate, figures, plot, results
from driver.report import GENERATED, Report, _median, _ratio_text, _table

from . import profiles

HOW_TO_READ = [
    "- **CPU time** is the user and system time of the server's processes for a request. All servers of a row run at the same "
    "time, and their load generators take turns of a fraction of a second, so a busy machine slows all of them down alike.",
    "- **A ratio** is Millrace's CPU time divided by the other's. Below 1, Millrace needs less. In bold: it needs more.",
    "- **Throughput, latencies and memory** are from uninterrupted samples of some seconds, one entry after the other. They vary much "
    "more.",
    "- **p99** is the 99th percentile of latency of these samples: every connection asks as fast as it can, so an entry that answers more "
    "requests per second also lets each wait less. The best other entry is the one with the lowest. Ahead or behind is a difference "
    "of more than 10 % that is not noise; fewer than three rounds cannot tell noise.",
]
TAIL, TAIL_LEVEL = "latency_p99_us", 0.1  # Tails that differ by less count as level.
# The languages whose best entry is compared on the first page.
RIVALS = {"go": "Go", "grpc-go": "Go", "rust": "Rust", "tonic": "Rust", "node": "Node", "vertx": "Java", "warp": "Warp", "nginx": "nginx"}
COLUMNS = ["Go", "Rust", "Node", "Java", "Warp", "nginx"]


def _verdict(ratio):
    if ratio is None:
        return "not comparable"
    is_noise = ratio["low"] is not None and ratio["low"] <= 1 <= ratio["high"]
    if is_noise or abs(ratio["ratio"] - 1) <= TAIL_LEVEL:
        return "level"
    return "ahead" if ratio["ratio"] < 1 else "behind"


class ArenaReport(Report):
    overview = "README.md"

    def __init__(self, data, bench, plots_directory):
        super().__init__(data, bench, plots_directory, profiles)

    def _plots_of(self, name):
        """A plot of bars for each profile and number of cores, at its fewest connections."""
        drawn = {}
        for (workload, point), sides in self.rows.items():
            point = dict(point)
            cores = f"{point['cores']} core" + "s" * (point["cores"] > 1)
            file = f"{point['service']}{'' if point['cores'] == 1 else '-' + cores.replace(' ', '-')}.svg"
            if workload != name or file in drawn:
                continue
            values = {self.titles[side]: estimate.median(list(found.values())) for side, rounds in sides.items()
                      if (found := results.values(rounds, "cpu_us_per_request"))}
            drawn[file] = plot.bars(f"{point['service']}: CPU per request, {cores}", values, figures.microseconds, self._emphasised())
        return {file: drawing for file, drawing in drawn.items() if drawing}

    def _best(self, sides, language):
        """The ratio of Millrace's CPU time to that of the best entry of a language, or nothing."""
        ours = results.values(sides[self.default], "cpu_us_per_request")
        found = [ratio for side, rounds in sides.items() if RIVALS.get(self.data["peers"][side]["peer"]) == language
                 and (ratio := estimate.paired_ratio(ours, results.values(rounds, "cpu_us_per_request")))]
        return max(found, key=lambda ratio: ratio["ratio"], default=None)

    def _ratios(self):
        lines = []
        for key, sides in self.rows.items():
            if self.default not in sides:
                continue
            line = [f"[{profiles.label(key[0], dict(key[1]))}]({key[0]}.md)",
                    self._spread_of(sides[self.default])]
            for language in COLUMNS:
                ratio = self._best(sides, language)
                text = _ratio_text(ratio)
                line.append(f"**{text}**" if ratio and ratio["ratio"] > 1 else text)
            lines.append(line + self._tail(sides))
        return _table(["profile", "Millrace, µs", *(f"÷ {language}" for language in COLUMNS), "p99", "p99 ÷ the best other's"], lines) + [""]

    def _tail(self, sides):
        """The 99th percentile of Millrace's latencies, and how it compares with the lowest of the other entries."""
        tails = {side: results.values(rounds, TAIL) for side, rounds in sides.items()}
        ours = tails.pop(self.default)
        medians = {side: estimate.median(list(found.values())) for side, found in tails.items() if found}
        if not ours or not medians:
            return [_median(sides[self.default], TAIL), "–"]
        best = min(medians, key=medians.get)
        ratio = estimate.paired_ratio(ours, tails[best])
        verdict = f"{_ratio_text(ratio)} {RIVALS.get(self.data['peers'][best]['peer'], self.titles[best])}: {_verdict(ratio)}"
        return [_median(sides[self.default], TAIL), verdict]

    @staticmethod
    def _spread_of(rounds):
        found = list(results.values(rounds, "cpu_us_per_request").values())
        return figures.number(estimate.median(found)) if found else "–"

    def _length(self):
        """How much was measured, which tells how exact the figures are."""
        rounds = max((sample["round"] for sample in self.data["samples"]), default=0) + 1
        return (f"{rounds} round{'s' * (rounds > 1)} of {self.data['options']['seconds']:g} s in turns."
                + (" With fewer than three there are no intervals." if rounds < 3 else ""))

    def _rules(self):
        lines = []
        for side, findings in self.data.get("rules", {}).items():
            broken = [f"{finding['rule']}: {finding['detail']}" for finding in findings if finding["result"] == "BROKEN"]
            kept = sum(1 for finding in findings if finding["result"] == "kept")
            lines.append([self.titles.get(side, side), f"{kept} of {len(findings)}",
                          "; ".join(broken).replace("|", "/") or "none"])
        return _table(["entry", "rules kept", "broken"], lines) + [""] if lines else []

    def write(self, path, source):
        """Writes the first page to `path`, and the other pages and the plots to their folder."""
        os.makedirs(self.plots_directory, exist_ok=True)
        measured = {key[0] for key in self.rows} | {failure["workload"] for failure in self.data["failures"]}
        groups = [group for group in profiles.ALL if group.name in measured]
        for group in groups:
            self._workload_page(group)
        self._write_page("machine", [
            "# Machine, entries and commands", "", f"{GENERATED} [Overview]({self.overview}).", "", "## Machine", "", *self._machine(),
            "", "## Entries", "", *self._sides(), *self._skipped(), "", "## Commands", "", "```", *self._commands(), "```"])
        facts = self.data["machine"]
        links = ", ".join(f"[{group.name}]({group.name}.md)" for group in groups)
        lines = [
            "# Arena", "",
            "An application with many parts, written for several servers. The rules are those of HttpArena. "
            "Millrace's entry is [examples/arena](../../../examples/arena).", "",
            *self._ratios(), *self._rules(),
            self._length(), "",
            f"Measured {facts['date']} at commit `{facts['commit']}` on {facts['processors']} processors ({facts['processor']}), "
            f"Linux {facts['kernel']}{self._some_later()}. `make bench WORKLOAD=arena` measures on your machine.", "",
            f"Pages: {links}, and [the machine, the entries with their tuning, and all commands](machine.md).", "",
            "## How to read it", "", *HOW_TO_READ, "", f"{GENERATED} The source is `{source}`.",
        ]
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def is_mine(results_path):
    """Whether a results file is one of the arena."""
    data = results.read(results_path)
    return any(sample["workload"] in profiles.BY_NAME for sample in data["samples"] + data["failures"])


def make(results_path, bench, directory):
    """Writes the pages and plots into the folder benchmarks/arena of a directory. Returns the first page's path."""
    folder = os.path.join(directory, "benchmarks", "arena")
    path = os.path.join(folder, "README.md")
    os.makedirs(folder, exist_ok=True)
    ArenaReport(results.read(results_path), bench, folder).write(
        path, os.path.relpath(results_path, os.path.dirname(bench)))
    return path
