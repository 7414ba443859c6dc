"""Measures one row of a closed-loop workload: all its sides at once, from the start of their servers to their end.

First come the turns of all rounds, for CPU time (see `turns`). Each round starts new servers, because the placement of a
process's memory decides which of its cache lines evict each other, which changes its CPU time by several per cent for as
long as it lives. Then the servers of the last round give each side's uninterrupted samples, for throughput and latencies:
a generator that is paused now and then cannot measure these.
"""

import contextlib

from . import load, turns
from .load import LoadError
from .measurement import point_of


class Contest:
    def __init__(self, bench, workload, point):
        self._bench = bench
        self._workload = workload
        self._point = point
        self._stack = contextlib.ExitStack()
        self._servers = {}  # by the name of the side, as the next three
        self._points = {}  # the row's point, as each side serves it
        self._failures = {}
        self._costs = {}  # (name, round) -> figures

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._stack.close()

    def begin(self, sides, rounds):
        """Starts every side and takes the turns. The failure of a side is raised when its sample is asked for."""
        for number in range(rounds):
            self._start([side for side in sides if side.name not in self._failures])
            with contextlib.ExitStack() as stack:
                self._take_turns(self._runners(stack), number)

    def _start(self, sides):
        self._stack.close()
        self._servers = {}
        self._points = {side.name: point_of(side, self._point) for side in sides}
        for side in sides:
            try:
                self._servers[side.name] = self._stack.enter_context(
                    self._bench.serving(side, self._workload, point_of(side, self._point)))
            except load.FAILURES as error:
                self._failures[side.name] = error

    def _runners(self, stack):
        runners = {}
        for name, server in self._servers.items():
            try:
                runners[name] = self._runner(self._points[name], server, stack)
            except load.FAILURES as error:
                self._failures[name] = error
        return runners

    def _runner(self, point, server, stack):
        generator = self._bench.paused(self._workload, point, server.url)
        stack.callback(generator.kill)
        generator.pause()  # before it connects, so that it does not disturb the others' preparation
        return turns.Runner(server.program, generator, lambda: self._bench.unserved(point, server, generator))

    def _take_turns(self, runners, number):
        turns.set_up(runners.values(), self._point["connections"])
        turns.play(runners.values(), self._bench.settings.turns)
        costs = {name: runner.cost() for name, runner in runners.items()}
        ended = turns.finish(runners.values())
        for name, runner in runners.items():
            if runner.failure is not None:
                self._failures[name] = runner.failure
            else:
                self._costs[name, number] = self._figures(costs[name], ended[runner], self._servers[name].bytes_per_request)
                if runner.doubt:
                    self._costs[name, number]["doubt"] = runner.doubt

    def _figures(self, cost, of_generator, bytes_per_request):
        cpu_ns, user_share, counted = cost
        errors = of_generator["errors"]
        requests = 0
        if bytes_per_request:
            requests = counted / bytes_per_request
        elif of_generator["bytes"] > 0:
            requests = counted * self._bench.requests(self._workload, of_generator) / of_generator["bytes"]
        if requests <= 0:
            return {"errors": errors}
        figures = {"cpu_us_per_request": cpu_ns / 1e3 / requests, "requests_in_turns": requests, "errors": errors}
        if user_share is not None:
            figures["user_us_per_request"] = figures["cpu_us_per_request"] * user_share
            figures["system_us_per_request"] = figures["cpu_us_per_request"] * (1 - user_share)
        return figures

    def _server(self, side):
        if side.name in self._failures:
            raise self._failures[side.name]
        return self._servers[side.name]

    def sample(self, side, number):
        """The figures of a side in a round: an uninterrupted sample, taken now, and the costs measured in its turns."""
        server = self._server(side)
        cost = self._costs[side.name, number]
        if "cpu_us_per_request" not in cost:
            raise LoadError("the server answered no request during its turns")
        with server.watched():
            figures = self._bench.uninterrupted(side, self._workload, point_of(side, self._point), server)
        return {**figures, **cost, "errors": figures["errors"] + cost["errors"]}

    def system_calls(self, side, counter):
        """System calls per request. Call this last, because tracing may change a server's behaviour for good."""
        server = self._server(side)
        with server.watched():
            return self._bench.system_calls(self._workload, point_of(side, self._point), counter, server)
