"""One run of the arena, from building the entries to the report: bench/run with other sides and workloads."""

import contextlib
import os

from driver import load
from driver.peers import Workshop
from driver.session import Session

from . import entries, measurement, profiles, report
from . import referee as referees


class ArenaSession(Session):
    catalogue = profiles

    def __init__(self, bench, options):
        self._stack = contextlib.ExitStack()
        self._broken = {}  # the name of a side -> {profile: the rule that it breaks}
        options.whole = False  # Its results never replace those of bench/results.
        super().__init__(bench, options)

    def _new_workshop(self):
        return Workshop(self.directory, self.build, self.options.quick, entries.manifest())

    def _new_settings(self):
        return measurement.Settings(self.options.seconds, self.options.quick)

    def _new_bench(self):
        self.referee = self._stack.enter_context(referees.Referee(self.workshop))
        return measurement.Bench(self.workshop, self.settings, self.referee)

    def _sides(self):
        """The sides that could be built and started, after the referee has examined each."""
        ready = []
        for side in super()._sides():
            if self.options.estimate:
                ready.append(side)
                continue
            try:
                findings = referees.examine(self.referee, side, self.progress.say)
            except load.FAILURES as error:
                self._skip(side.name, f"it could not be examined: {error}", ours=side.ours)
                continue
            self._broken[side.name] = referees.broken_profiles(findings)
            self.passed += sum(1 for finding in findings if finding.result == referees.KEPT)
            self.failed += sum(1 for finding in findings if finding.result == referees.BROKEN)
            self.data.setdefault("rules", {})[side.name] = [
                {"rule": finding.rule.text, "profiles": list(finding.rule.profiles), "result": finding.result,
                 "detail": finding.detail} for finding in findings]
            ready.append(side)
        return ready

    def _takes_part(self, side, workload, point):
        fewest, most = side.entry.get("cores", [1, 1 << 30])
        if point["service"] not in side.entry["profiles"] or not fewest <= point["cores"] <= most:
            return False
        reason = self._broken.get(side.name, {}).get(point["service"])
        if reason:
            self._skip(side.peer, f"it breaks a rule: {reason}", point["service"])
        return not reason

    def _counts_calls(self, workload, point):
        return False

    def _write_report(self):
        return report.make(self.path, self.directory, os.path.join(self.build, "report"))

    def go(self):
        with self._stack:
            return super().go()
