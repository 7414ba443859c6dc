"""One table of several releases of the system: what Millrace needs there, and its ratio to that release's own peers.

Each release has its own results file in bench/results/releases, measured in a root of that release by
`bench/run --releases`. Figures of different releases were measured at different times; compare the ratios.
"""

import os
from dataclasses import dataclass

from . import estimate, figures, results

DIRECTORY = os.path.join("results", "releases")


@dataclass(frozen=True)
class Column:
    heading: str
    workload: str
    point: dict
    figure: str
    peers: tuple  # names of sides, and what the table calls them

    def show(self, value):
        return figures.microseconds(value) if self.figure.startswith(("cpu_us", "us_")) else figures.ALL[self.figure][1](value)


WEB_SERVERS = (("warp", "Warp"), ("nginx", "nginx"))
GHC = (("ghc", "GHC"),)

COLUMNS = [
    Column("HTTP, small answer, 100 connections: CPU time", "pong", {"service": "pong", "connections": 100, "cores": 1},
           "cpu_us_per_request", WEB_SERVERS),
    Column("the same, 1,000 connections", "pong", {"service": "pong", "connections": 1000, "cores": 1},
           "cpu_us_per_request", WEB_SERVERS),
    Column("10,000 idle HTTP connections: memory of one", "idle", {"service": "pong", "connections": 10000, "cores": 1},
           "memory_per_connection_bytes", WEB_SERVERS),
    Column("a million threads sleep 1 ms: CPU time", "sleepers", {"service": "sleepers", "cores": 1, "n": 1_000_000},
           "cpu_seconds", GHC),
    Column("`timeout` around an action: time", "timeouts", {"service": "timeouts", "cores": 1, "n": 1000, "m": 300},
           "us_per_call", GHC),
]

POINTS = {name: [column.point for column in COLUMNS if column.workload == name] for name in {c.workload for c in COLUMNS}}
PEERS = sorted({name for column in COLUMNS for name, _ in column.peers})


def _cell(table, column, side):
    sides = table.get((column.workload, tuple(sorted(column.point.items()))), {})
    ours = results.values(sides.get(side, {}), column.figure)
    if not ours:
        return "–"
    ratios = []
    for peer, title in column.peers:
        ratio = estimate.paired_ratio(ours, results.values(sides.get(peer, {}), column.figure))
        if ratio:
            ratios.append(f"{figures.number(ratio['ratio'])} of {title}")
    return ": ".join([column.show(estimate.median(list(ours.values()))), ", ".join(ratios)] if ratios else
                     [column.show(estimate.median(list(ours.values())))])


def _lines_of(data):
    table = results.rows(data)
    for name, peer in data["peers"].items():
        if peer["ours"]:
            versions = [peer["version"].split(", ")[-1]] + [
                data["peers"][other]["version"].replace("/", " ") for other in ("warp", "nginx") if other in data["peers"]]
            versions[1:] = [version.split(",")[0] for version in versions[1:]]
            yield [f"{data['machine']['system']}: {', '.join(versions)}", peer["title"],
                   *(_cell(table, column, name) for column in COLUMNS), data["machine"]["date"][:10]]


def table(bench):
    """The header and the lines of the table, and the names of the files; no lines without files."""
    directory = os.path.join(bench, DIRECTORY)
    names = sorted(name for name in os.listdir(directory) if name.endswith(".json")) if os.path.isdir(directory) else []
    read = [results.read(os.path.join(directory, name)) for name in names]
    lines = [line for data in sorted(read, key=lambda data: data["peers"]["ghc"]["version"].split()[1].split(".")[1].zfill(3))
             for line in _lines_of(data)]
    return ["system", "side", *(column.heading for column in COLUMNS), "measured"], lines, names
