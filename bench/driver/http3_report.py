"""Writes the page of HTTP/3 from a results file: Millrace beside other servers, and beside itself by HTTP/2 over TLS."""

import os

from . import estimate, figures, results
from .report import GENERATED, HOW_TO_READ, Report, _ratio_text, _spread, _table

OURS = "millrace-http3"
# The columns of the first table.
OTHERS = {"nginx-http3": "nginx", "go-http3": "quic-go", "rust-http3": "quinn", "millrace-http2-tls": "Millrace, HTTP/2 over TLS", "nginx-http2-tls": "nginx, HTTP/2 over TLS"}


class Http3Report(Report):
    def __init__(self, data, bench, plots_directory):
        super().__init__(data, bench, plots_directory)
        self.ours = [OURS]

    def _ratios(self):
        lines = []
        for key, sides in self.rows.items():
            if OURS not in sides:
                continue
            primary = self.catalogue.BY_NAME[key[0]].primary
            ours = results.values(sides[OURS], primary)
            line = [self.catalogue.label(key[0], dict(key[1])), figures.ALL[primary][0], _spread(sides[OURS], primary)]
            for other in OTHERS:
                ratio = other in sides and estimate.paired_ratio(ours, results.values(sides[other], primary))
                line.append(_ratio_text(ratio) if ratio else "–")
            lines.append(line)
        return _table(["row", "figure", "Millrace, HTTP/3", *(f"÷ {title}" for title in OTHERS.values())], lines) + [""]

    def write(self, path, source):
        """Writes the page."""
        measured = self._measured()
        facts = self.data["machine"]
        lines = [
            "# HTTP/3", "",
            "Millrace's HTTP/3 beside that of others, and beside its own HTTP/2 over TLS. A ratio is Millrace's figure divided by the other's. "
            "Below 1, Millrace needs less.", "",
            *self._ratios(),
            f"Measured {facts['date']} at commit `{facts['commit']}` on {facts['processors']} processors ({facts['processor']}), "
            f"Linux {facts['kernel']}, {facts['system']}{self._some_later()}. The load average at the start was {facts['load_average']}. It needs "
            "ngtcp2 1.11: `bench/run --workload " + ",".join(workload.name for workload in measured) + "`.", "",
            *(line for workload in measured for line in self._section(workload, path)),
            "## Sides", "", *self._sides(), *self._skipped(), "",
            "## How to read it", "",
            *HOW_TO_READ[1:], "", f"{GENERATED} The source is `{source}`. [Overview]({self.overview}).",
        ]
        with open(path, "w", encoding="utf-8") as out:
            out.write("\n".join(lines) + "\n")


def is_mine(results_path):
    """Whether a results file is one of HTTP/3."""
    data = results.read(results_path)
    return all(sample["workload"].startswith("h3-") for sample in data["samples"] + data["failures"])


def make(results_path, bench, directory):
    """Writes the page into the folder benchmarks of a directory. Returns its path."""
    folder = os.path.join(directory, "benchmarks")
    path = os.path.join(folder, "http3.md")
    os.makedirs(folder, exist_ok=True)
    Http3Report(results.read(results_path), bench, folder).write(path, os.path.relpath(results_path, os.path.dirname(bench)))
    return path
