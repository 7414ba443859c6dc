"""The command bench/referee."""

import argparse
import os
import signal
import sys

from driver import load, machine
from driver.commands import BENCH
from driver.peers import Workshop

from . import entries
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
