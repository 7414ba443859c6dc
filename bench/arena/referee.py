"""Starts entries, asks them everything that the rules demand, and prints what they keep and what they break."""

import contextlib
import os
import tempfile
import time
from dataclasses import dataclass

from driver import load, machine, process

from . import database, dataset, doors, profiles, rules

START_SECONDS = 60  # A virtual machine and a pool of connections take a while when the processors are busy.
KEPT, BROKEN, NOT_ASKED = "kept", "BROKEN", "not asked"


@dataclass(frozen=True)
class Running:
    """An entry that has started."""

    program: process.Program
    doors: doors.Doors
    command: list
    scratch: str


@dataclass(frozen=True)
class Finding:
    """What became of a rule."""

    rule: rules.Rule
    result: str
    detail: str = ""


class Referee:
    """What entries need beside themselves: data, a certificate and a database, which is started when first needed."""

    def __init__(self, workshop):
        self.workshop = workshop
        directory = os.path.join(workshop.build, "arena")
        self.data = dataset.provide(os.path.join(directory, "data"))
        self.certificate, self.key = dataset.certificate(os.path.join(directory, "certificates"))
        self._stack = contextlib.ExitStack()
        self._database = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def database(self):
        if self._database is None:
            self._database = self._stack.enter_context(database.running(machine.load_processors(1), self.data))
        return self._database

    def _wait(self, side, running):
        """Until all ports listen that the entry's profiles need."""
        needed = {profiles.PROFILES[name].door for name in side.entry["profiles"]}
        for name in sorted(needed):
            load.wait_until_listening(getattr(running.doors, name), running.program, START_SECONDS)

    @contextlib.contextmanager
    def running(self, side, cores):
        """Starts an entry, and stops it."""
        wants_database = {"async-db", "crud"} & set(side.entry["profiles"])
        chosen = doors.choose(self.data, self.certificate, self.key, self.database() if wants_database else "")
        with tempfile.TemporaryDirectory(prefix="arena-") as scratch:
            words = self.workshop.command(side, side.entry["profiles"][0], cores=cores, state=scratch)
            if isinstance(words, str):
                raise process.ServerError(words)
            command = process.pinned(machine.server_processors(cores), words)
            environment = {**side.environment(cores), **chosen.environment(32), "ARENA_CORES": str(cores)}
            program = process.Program(command, self.workshop.bench, environment, os.path.join(scratch, "log"))
            try:
                found = Running(program, chosen, command, scratch)
                self._wait(side, found)
                yield found
            finally:
                program.stop()


def ask(one, to_doors):
    """What becomes of a rule."""
    try:
        detail = one.ask(to_doors)
        return Finding(one, KEPT, detail or "")
    except rules.NotAsked as reason:
        return Finding(one, NOT_ASKED, str(reason))
    except rules.Broken as reason:
        return Finding(one, BROKEN, str(reason))
    except Exception as error:  # Whatever a server does to a client here is its breach of the rule.
        return Finding(one, BROKEN, f"{type(error).__name__}: {error}")


def check(running, names, brief=False):
    """The findings for all rules of these profiles, or for those that are asked before each measurement."""
    chosen = [one for one in rules.ALL if set(one.profiles) & set(names) and (one.brief or not brief)]
    found = []
    for one in chosen:
        found.append(ask(one, running.doors))
        if running.program.ended():
            raise process.ServerError(f"the entry ended at the rule: {one.text}: {running.program.log() or 'no message'}")
    return found


def broken_profiles(findings):
    """The profiles of which a rule is broken, with the first such rule."""
    found = {}
    for finding in findings:
        if finding.result == BROKEN:
            for name in finding.rule.profiles:
                found.setdefault(name, f"{finding.rule.text}: {finding.detail}")
    return found


def table(title, findings, names, seconds):
    """The findings as text: a line for each rule, under its profiles."""
    counts = {result: sum(1 for finding in findings if finding.result == result) for result in (KEPT, BROKEN, NOT_ASKED)}
    lines = [f"{title}: {counts[KEPT]} rules kept, {counts[BROKEN]} broken"
             + (f", {counts[NOT_ASKED]} not asked" if counts[NOT_ASKED] else "") + f" ({seconds:.1f} s)"]
    for finding in findings:
        mark = {KEPT: "  kept    ", BROKEN: "  BROKEN  ", NOT_ASKED: "  -       "}[finding.result]
        lines.append(mark + finding.rule.text + (f" ({finding.detail})" if finding.detail and finding.result == KEPT else ""))
        if finding.detail and finding.result != KEPT:
            lines.append(" " * 10 + finding.detail)
    others = [name for name in profiles.PROFILES if name not in names]
    if others:
        lines.append(f"  it takes no part in {', '.join(others)}")
    return "\n".join(lines)


def examine(referee, side, say):
    """Starts an entry on one core, asks all rules of its profiles, and prints the table. Returns the findings."""
    names = side.entry["profiles"]
    begin = time.monotonic()
    with referee.running(side, 1) as running:
        found = check(running, names)
    say(table(side.title(), found, names, time.monotonic() - begin))
    return found
