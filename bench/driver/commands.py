"""The commands run, report and compare, which the scripts in bench/ call."""

import argparse
import os
import signal
import sys

from . import comparison, http3_report, releases, report, results, workloads
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
    """A flag has precedence over the variable of the same name."""
    def variable(name, convert, default):
        text = os.environ.get(name, "")
        return convert(text) if text else default
    parser = argparse.ArgumentParser(
        prog="bench/run", formatter_class=argparse.RawDescriptionHelpFormatter,
        description="Measures Millrace and its peers side by side. The flags --workload, --peers, --backends, --conns, "
                    "--rounds and --quick can also be environment variables: WORKLOAD=pong bench/run.",
        epilog="workloads: " + ", ".join(workloads.BY_NAME) + "; and arena (its parts: bench/run --workload arena --list)"
        + "\n\nA run of everything takes about an hour; its report replaces docs/BENCHMARKS.md. The report of a part "
          "goes\nto bench/build/report.")
    parser.add_argument("--workload", type=_list, default=variable("WORKLOAD", _list, None), metavar="A,B",
                        help="the workloads to measure; default: all")
    parser.add_argument("--peers", type=_list, default=variable("PEERS", _list, None), metavar="A,B",
                        help="the peers to measure besides Millrace; `none` for no others; default: all")
    parser.add_argument("--backends", type=_list, default=variable("BACKENDS", _list, None), metavar="A,B",
                        help="the backends of Millrace to measure: default, io_uring, epoll; `none` leaves Millrace out; "
                             "default: those in which the workload's figures differ")
    parser.add_argument("--conns", type=_counts, default=variable("CONNS", _counts, None), metavar="N,M",
                        help="the numbers of connections, instead of those of the workload")
    parser.add_argument("--cores", type=_counts, default=variable("CORES", _counts, None), metavar="N,M",
                        help="only the rows with these numbers of cores")
    parser.add_argument("--rounds", type=int, default=variable("ROUNDS", int, None),
                        help="samples per side and row; default: 3; 2 with 10,000 connections; 1 where a sample takes very long; with --quick 1")
    parser.add_argument("--seconds", type=float, default=variable("SECONDS_PER_SAMPLE", float, None),
                        help="seconds of closed load per side and round, once for CPU time and once for throughput; default: "
                             "1.5, with --quick 0.3 (variable SECONDS_PER_SAMPLE)")
    parser.add_argument("--estimate", action="store_true", help="print how long the run would take if all sides can be built here, and stop")
    parser.add_argument("--into", metavar="FILE",
                        help="the results file to write. If it exists, its rows are added to or replaced; if it is of another commit, "
                             "whole workloads are, and the report says when they were measured. Then run bench/report yourself")
    parser.add_argument("--releases", action="store_true",
                        help="only the rows and peers of the report's table of releases")
    parser.add_argument("--quick", action="store_true", default=os.environ.get("QUICK", "") not in ("", "0"),
                        help="about a minute: checks that everything works, and prints how many checks passed")
    parser.add_argument("--list", action="store_true", help="list workloads and peers")
    options = parser.parse_args(arguments)
    if options.releases:
        options.workload, options.peers = sorted(releases.POINTS), releases.PEERS
    options.rounds = options.rounds or (1 if options.quick else None)
    options.seconds = options.seconds or (0.3 if options.quick else 1.5)
    options.takes_whole_workloads = not (options.quick or options.peers or options.backends or options.conns or options.cores)
    options.whole = options.takes_whole_workloads and not options.workload
    return options


def _end(*_):
    sys.exit(128 + signal.SIGTERM)


def _session(options):
    """The run that the options ask for. The arena has its own sides and workloads."""
    from arena import profiles, session  # The arena uses this package, so it can only be imported now.
    return (session.ArenaSession if profiles.is_wanted(options.workload) else Session)(BENCH, options)


def run(arguments):
    options = _run_options(arguments)
    os.environ.pop("MILLRACE_BACKEND", None)  # Otherwise the side with the default backend would have another one.
    signal.signal(signal.SIGTERM, _end)  # Raise an exception, so that servers and paused load generators are stopped.
    try:
        session = _session(options)
        if options.list:
            for workload in session.catalogue.ALL:
                print(f"{workload.name:15}{workload.title}. {workload.text}")
            print()
            for name, entry in session.workshop.manifest.items():
                print(f"{name:13} {entry['title']}: {', '.join(entry['run'])}")
            return 0
        return session.go()
    except ValueError as error:
        print(f"bench/run: {error}", file=sys.stderr)
        return 2


# --------------------------------------------------------------------------------------------- report and compare

def _reason(error):
    """What a person needs to know of an exception. A KeyError's text is only the key."""
    return f"the results file has no {error}" if isinstance(error, KeyError) else str(error)


def make_report(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/report",
        description="Writes docs/BENCHMARKS.md, and its pages and plots in docs/benchmarks, from a results file.")
    parser.add_argument("results", help="the results file, for example bench/results/<date>-<commit>.json")
    parser.add_argument("--output", default=os.path.join(ROOT, "docs"), help="the directory to write to; default: docs")
    options = parser.parse_args(arguments)
    from arena import report as arena_report  # as above
    try:
        path = os.path.abspath(options.results)
        makes = (arena_report.make if arena_report.is_mine(path) else http3_report.make if http3_report.is_mine(path) else report.make)
        print(makes(path, BENCH, options.output))
    except (OSError, ValueError, KeyError) as error:
        print(f"bench/report: cannot make the report of {options.results}: {_reason(error)}", file=sys.stderr)
        return 2
    return 0


def compare(arguments):
    parser = argparse.ArgumentParser(
        prog="bench/compare", description="Lists what became faster or slower between two results files by more than noise.")
    parser.add_argument("a", help="the earlier results file")
    parser.add_argument("b", help="the later results file")
    options = parser.parse_args(arguments)
    try:
        print(comparison.text(results.read(options.a), results.read(options.b)))
    except (OSError, ValueError, KeyError) as error:
        print(f"bench/compare: cannot compare {options.a} with {options.b}: {_reason(error)}", file=sys.stderr)
        return 2
    return 0
