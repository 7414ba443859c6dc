"""The commands bench/referee and bench/long-run."""

import argparse
import os
import signal
import sys

from driver import load, machine
from driver.commands import BENCH
from driver.peers import Workshop

from . import entries, long_run
from . import referee as referees


def _end(*_):
    sys.exit(128 + signal.SIGTERM)


def examine(arguments):
    """Builds entries and asks them all rules."""
    parser = argparse.ArgumentParser(
        prog="bench/referee", description="Starts entries of the arena and checks with real requests which of its rules they keep. "
        "`bench/run --workload arena` does the same first, and then measures them.")
    parser.add_argument("entries", nargs="*", help="the entries; default: all. They are the folders of bench/arena/entries")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    machine.raise_descriptor_limit()
    workshop = Workshop(BENCH, os.path.join(BENCH, "build"), False, entries.manifest())
    kept = broken = left_out = 0
    try:
        sides = workshop.sides(options.entries or None, None)
    except ValueError as error:
        print(f"bench/referee: {error}", file=sys.stderr)
        return 2
    with referees.Referee(workshop) as referee:
        for side in sides:
            if options.entries and side.peer not in options.entries:
                continue
            reason = workshop.prepare(side.peer, lambda text: print(text, flush=True))
            if reason is None:
                try:
                    findings = referees.examine(referee, side, lambda text: print(text, flush=True))
                except load.FAILURES as error:
                    reason = str(error)
            if reason is not None:
                print(f"left out: {side.title()}: {reason}", flush=True)
                left_out += 1
                broken += bool(options.entries)
                continue
            kept += sum(1 for finding in findings if finding.result == referees.KEPT)
            broken += sum(1 for finding in findings if finding.result == referees.BROKEN)
    print(f"{kept} passed, {broken} failed, {left_out} skipped")
    return 1 if broken else 0


def run_long(arguments):
    """Runs one entry for a long time, and tells whether anything grows or is lost."""
    parser = argparse.ArgumentParser(
        prog="bench/long-run", description="Puts an entry of the arena under all its profiles at once, among clients that come, go, "
        "stall and break off, and draws memory, descriptors, latencies and pauses over time.")
    parser.add_argument("entry", nargs="?", default="millrace", help="default: millrace")
    parser.add_argument("--minutes", type=float, default=60, help="default: 60")
    parser.add_argument("--cores", type=int, default=1, help="the processors of the entry; default: 1")
    parser.add_argument("--output", default=os.path.join(BENCH, "build", "long-run"), metavar="DIRECTORY",
                        help="where ENTRY.svg and ENTRY.json are written; default: bench/build/long-run")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, _end)
    machine.raise_descriptor_limit()
    workshop = Workshop(BENCH, os.path.join(BENCH, "build"), False, entries.manifest())
    side = next((side for side in workshop.sides([options.entry], None) if side.peer == options.entry), None)
    reason = "there is no such entry" if side is None else workshop.prepare(side.peer, lambda text: print(text, flush=True))
    if reason is not None:
        print(f"bench/long-run: {options.entry}: {reason}", file=sys.stderr)
        return 2
    os.makedirs(options.output, exist_ok=True)
    pauses_path = os.path.join(os.path.abspath(options.output), f"{options.entry}.pauses")
    if side.entry["language"] == "Haskell":
        side.entry["environment"] = {**side.entry.get("environment", {}), "GHCRTS": f"-S{pauses_path}"}
    with referees.Referee(workshop) as referee:
        run = long_run.LongRun(referee, side, options.minutes * 60, options.cores)
        try:
            findings = run.go(lambda text: print(text, flush=True))
        except load.FAILURES as error:
            print(f"bench/long-run: {options.entry}: {error}", file=sys.stderr)
            return 1
    pauses = long_run.pauses_of(pauses_path)
    long_run.write(os.path.join(options.output, f"{options.entry}.json"), run, pauses)
    picture = os.path.join(options.output, f"{options.entry}.svg")
    with open(picture, "w", encoding="utf-8") as file:
        file.write(long_run.drawing(side.title(), run, pauses).svg)
    found = long_run.verdicts(run, findings)
    for sentence, holds in found:
        print(("holds:  " if holds else "FAILS:  ") + sentence)
    print(f"drawn in {workshop.shown(os.path.abspath(picture))}")
    return 0 if all(holds for _, holds in found) else 1
