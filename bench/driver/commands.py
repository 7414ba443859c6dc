"""Commands: run, report and compare, as the scripts in bench/ call them."""

import argparse
import os
import signal
import sys

from . import comparison, report, results, workloads
from .session import Session

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(BENCH)


# ------------------------------------------------------------------------------------------------------- options

def _list(text):
    return [word for word in text.replace(",", " ").split() if word] or None


def _counts(text):
    try:
        return [int(word) for word in text.replace(",", " ").split()] or None
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a list of numbers: {text}") from None


def _run_options(arguments):
    """Flags win over variables of the same name."""
    def variable(name, convert, default):
        text = os.environ.get(name, "")
        return convert(text) if text else default
    parser = argparse.ArgumentParser(
        prog="bench/run", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures Millrace and its peers side by side. Every flag is also a variable: "
                    "WORKLOAD=pong bench/run.",
        epilog="workloads: " + ", ".join(workloads.BY_NAME)
        + "\n\nA run of everything takes more than an hour; its report replaces docs/BENCHMARKS.md. The report of a part "
          "goes\nto bench/build/report.")
    parser.add_argument("--workload", type=_list, default=variable("WORKLOAD", _list, None), metavar="A,B")
    parser.add_argument("--peers", type=_list, default=variable("PEERS", _list, None), metavar="A,B",
                        help="besides Millrace; `none` for no others")
    parser.add_argument("--backends", type=_list, default=variable("BACKENDS", _list, None), metavar="A,B",
                        help="of Millrace; `none` leaves Millrace out")
    parser.add_argument("--conns", type=_counts, default=variable("CONNS", _counts, None), metavar="N,M")
    parser.add_argument("--rounds", type=int, default=variable("ROUNDS", int, None),
                        help="samples per side and row; 3, but 1 of what takes very long; quick 1")
    parser.add_argument("--seconds", type=float, default=variable("SECONDS_PER_SAMPLE", float, None),
                        help="of closed load per side and round, for CPU time as for throughput; 1.5, quick 0.3 "
                             "(variable SECONDS_PER_SAMPLE)")
    parser.add_argument("--estimate", action="store_true", help="build the sides, say how long the run takes, and end")
    parser.add_argument("--into", metavar="FILE",
                        help="the results file; if it exists, rows are added, or replaced, and the commit must be the "
                             "same; its report is for bench/report to write")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK", "") not in ("", "0"),
                        help="about a minute: does everything work? Ends with a count of checks")
    parser.add_argument("--list", action="store_true", help="list workloads and peers")
    options = parser.parse_args(arguments)
    options.rounds = options.rounds or (1 if options.quick else None)
    options.seconds = options.seconds or (0.3 if options.quick else 1.5)
    options.whole = not (options.quick or options.workload or options.peers or options.backends or options.conns)
    return options


def _end(*_):
    sys.exit(128 + signal.SIGTERM)


def run(arguments):
    options = _run_options(arguments)
    signal.signal(signal.SIGTERM, _end)  # An exception, so that servers and halted generators are not left behind.
    try:
        session = Session(BENCH, options)
        if options.list:
            for workload in workloads.ALL:
                print(f"{workload.name:10} {workload.text}")
            print()
            for name, entry in session.workshop.manifest.items():
                print(f"{name:13} {entry['title']}: {', '.join(entry['run'])}")
            return 0
        return session.go()
    except ValueError as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 2


# --------------------------------------------------------------------------------------------- report and compare

def make_report(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/report", description="Writes docs/BENCHMARKS.md, and its pages and plots in docs/benchmarks, from a results file.")
    parser.add_argument("results", help="bench/results/<date>-<commit>.json")
    parser.add_argument("--output", default=os.path.join(ROOT, "docs"), help="directory (docs)")
    options = parser.parse_args(arguments)
    try:
        print(report.make(os.path.abspath(options.results), BENCH, options.output))
    except (OSError, ValueError, KeyError) as error:
        print(f"bench/report: {error!r}", file=sys.stderr)
        return 2
    return 0


def compare(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/compare", description="What got faster or slower between two results files, beyond noise.")
    parser.add_argument("a", help="the earlier results file")
    parser.add_argument("b", help="the later results file")
    options = parser.parse_args(arguments)
    try:
        print(comparison.text(results.read(options.a), results.read(options.b)))
    except (OSError, ValueError, KeyError) as error:
        print(f"bench/compare: {error!r}", file=sys.stderr)
        return 2
    return 0
