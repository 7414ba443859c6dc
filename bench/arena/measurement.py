"""Takes the samples of the arena: as driver.measurement, with entries instead of peers and the profiles' load."""

import contextlib

from driver import load, machine, measurement, tls
from driver.load import LoadError
from driver.process import ServerError
from driver.workloads import in_flight

from . import referee as referees
from .pressure import Pressure
from .profiles import PROFILES

WARM_UP_SECONDS = 1


class Settings(measurement.Settings):
    def closed(self, point):
        """Thousands of connections take a second or two to set up; over TLS, where each begins with a handshake, hundreds do."""
        takes_long = PROFILES[point["service"]].over_tls or point["connections"] >= 2000
        return super().closed(point) * (3 if takes_long else 1)


class Bench(measurement.Bench):
    CLOSING = ("limited-conn",)

    def __init__(self, workshop, settings, referee):
        super().__init__(workshop, settings)
        self._referee = referee
        self._pressures = {}  # by the URL of the running server

    @contextlib.contextmanager
    def serving(self, side, workload, point):
        """Starts an entry, checks the rules of the profile in brief, warms it up, yields it as a Server, and stops it."""
        profile = PROFILES[point["service"]]
        with self._referee.running(side, point["cores"]) as running:
            broken = referees.broken_profiles(referees.check(running, [profile.name], brief=True))
            if broken:
                raise ServerError(f"a rule is broken: {next(iter(broken.values()))}")
            url = running.doors.url(profile.door, "/")
            pressure = Pressure(profile, point, running.doors, machine.load_processors(point["cores"]), running.scratch)
            self._pressures[url] = pressure
            seconds = 0 if self.settings.quick else side.entry.get("warm_up", WARM_UP_SECONDS)
            if seconds:
                load.until_answered(pressure.run, seconds, in_flight(point))
            yield measurement.Server(running.program, 0, url, self.workshop.shown(" ".join(running.command)),
                                     pressure.bytes_per_request(),
                                     tls.opening_bytes(getattr(running.doors, profile.door)) if profile.over_tls else 0)

    def paused(self, workload, point, url):
        return self._pressures[url].paused()

    def _closed_loop(self, workload, point, url, seconds):
        return self._pressures[url].run(seconds)

    def uninterrupted(self, side, workload, point, server):
        figures = super().uninterrupted(side, workload, point, server)
        scratch = self._pressures[server.url].scratch
        figures["load_command"] = figures["load_command"].replace(scratch, "SCRATCH")
        figures["command"] = figures["command"].replace(scratch, "SCRATCH")
        if point["service"] == "pipelined":
            # wrk's correction for coordinated omission computes nonsense for pipelined requests.
            figures = {name: value for name, value in figures.items() if not name.startswith("latency_")}
        return figures

    def system_calls(self, *_):
        raise LoadError("system calls are not counted in the arena")
