"""Closed loops against servers that all run at the same time. The loops take turns of a fraction of a second.

A shared machine changes its speed within seconds, by up to a factor of two. Samples of whole seconds, one side after the
other, differ by 20 % where turns of 0.15 s agree within a few per cent. Must not know sides and workloads: a runner is a
program and its paused load generator.

Both ends of a turn are exact. A turn begins when the server is idle, and ends when it has finished everything that was
sent before its generator was paused. The number of requests is computed from the bytes that the generator has read, or written
if it uploads: wrk prints its own count only at its end, and that includes setting up the connections.
"""

import random
import time

from . import process
from .load import FAILURES

TURN_SECONDS = 0.15
AT_REST_SECONDS = 0.005
AT_REST_SHARE = 0.05  # A server that uses less of a processor than this is idle.
WORK_OFF_SECONDS = 2.0  # Tens of thousands of requests may be in flight when the generator is paused.
START_SECONDS = 0.3
CONNECTIONS_PER_SECOND = 5000  # The usual rate of setting up connections, when all servers do it at once.
SETTLING_SECONDS, SETTLING_STEP_SECONDS = 30, 0.1  # Handshakes and busy machines take longer than usual: at most so long.


class Runner:
    """A server and its paused generator, with what the turns of the current round have cost. `unserved` tells how many of the
    generator's connections the server has not served yet."""

    def __init__(self, program, generator, unserved=lambda: 0):
        self.program = program
        self.generator = generator
        self.unserved = unserved
        self.failure = self.doubt = None
        self.pids = program.pids()
        self.clear()

    def unserved_now(self):
        return 0 if self.failure or self.program.ended() else self.unserved()

    def clear(self):
        self.cpu_ns = self.user_seconds = self.system_seconds = self.bytes = 0

    def cost(self):
        """CPU nanoseconds, the share of user time (None if too short to tell), and bytes, all since clear()."""
        seconds = self.user_seconds + self.system_seconds
        return self.cpu_ns, self.user_seconds / seconds if seconds > 0 else None, self.bytes

    def _reading(self):
        return process.cpu_ns(self.pids), *process.cpu_seconds(self.pids), self.generator.bytes_counted()

    def turn(self):
        cpu_ns, user, system, counted = self._reading()
        self.generator.resume()
        time.sleep(TURN_SECONDS)
        self.generator.pause()
        self.wait_until_at_rest()
        after = self._reading()
        self.cpu_ns += after[0] - cpu_ns
        self.user_seconds += after[1] - user
        self.system_seconds += after[2] - system
        self.bytes += after[3] - counted

    def wait_until_at_rest(self):
        deadline = time.monotonic() + WORK_OFF_SECONDS
        before = process.cpu_ns(self.pids)
        while time.monotonic() < deadline:
            time.sleep(AT_REST_SECONDS)
            after = process.cpu_ns(self.pids)
            # On a busy machine a server may have work, and no processor for a while.
            if after - before < AT_REST_SHARE * AT_REST_SECONDS * 1e9 and not process.is_runnable(self.pids):
                return
            before = after


def _attempt(runner, action):
    """Records the failure of one runner. The others continue."""
    if runner.failure is None:
        try:
            action(runner)
            if runner.program.ended():
                raise process.ServerError(f"the server ended during the run: {runner.program.log() or 'no message'}")
        except FAILURES as error:
            runner.failure = error


def setting_up_seconds(runners, connections):
    return runners * (START_SECONDS + connections / CONNECTIONS_PER_SECOND)


def set_up(runners, connections):
    """Lets the generators connect and the servers warm up, all at once, so that the first does not idle until the last. Ends when
    every connection has been served, so that setting them up is not in the turns."""
    for runner in runners:
        _attempt(runner, lambda r: r.generator.resume())
    time.sleep(setting_up_seconds(len(runners), connections))
    deadline = time.monotonic() + SETTLING_SECONDS
    for runner in runners:
        while unserved := runner.unserved_now():
            if time.monotonic() >= deadline:
                runner.doubt = f"{unserved} of {connections} connections were not set up yet when the turns began"
                break
            time.sleep(SETTLING_STEP_SECONDS)
    for runner in runners:
        _attempt(runner, lambda r: r.generator.pause())
    for runner in runners:
        _attempt(runner, Runner.wait_until_at_rest)


def play(runners, count):
    """Takes `count` turns with each runner, in an order that changes every time."""
    for runner in runners:
        runner.clear()
    for _ in range(count):
        for runner in random.sample(list(runners), len(runners)):
            _attempt(runner, Runner.turn)


def finish(runners):
    """Ends the generators one by one. Returns {runner: wrk's figures}, without the runners that failed."""
    figures = {}
    for runner in runners:
        _attempt(runner, lambda r: figures.update({r: r.generator.end()}))
    return figures
