"""Writes the page of the arena from a results file: what each entry keeps of the rules, and the figures of all profiles."""

import os

from driver import estimate, figures, results
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
    def __init__(self, data, bench, plots_directory):
        super().__init__(data, bench, plots_directory, profiles)

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
            line = [profiles.label(key[0], dict(key[1])), self._spread_of(sides[self.default])]
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
        """Writes the page."""
        facts = self.data["machine"]
        lines = [
            "# Arena", "",
            "An application with many parts, written for several servers. The rules are those of HttpArena. "
            "Millrace's entry is [examples/arena](../../examples/arena).", "",
            *self._ratios(), *self._rules(),
            self._length(), "",
            f"Measured {facts['date']} at commit `{facts['commit']}` on {facts['processors']} processors ({facts['processor']}), "
            f"Linux {facts['kernel']}{self._some_later()}. `make bench WORKLOAD=arena` measures on your machine.", "",
            *(line for group in self._measured() for line in self._section(group, path)),
            "## Entries", "", *self._sides(), *self._skipped(), "",
            "## How to read it", "", *HOW_TO_READ, "", f"{GENERATED} The source is `{source}`. [Overview]({self.overview}).",
        ]
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def is_mine(results_path):
    """Whether a results file is one of the arena."""
    data = results.read(results_path)
    return any(sample["workload"] in profiles.BY_NAME for sample in data["samples"] + data["failures"])


def make(results_path, bench, directory):
    """Writes the page into the folder benchmarks of a directory. Returns its path."""
    folder = os.path.join(directory, "benchmarks")
    path = os.path.join(folder, "arena.md")
    os.makedirs(folder, exist_ok=True)
    ArenaReport(results.read(results_path), bench, folder).write(
        path, os.path.relpath(results_path, os.path.dirname(bench)))
    return path
