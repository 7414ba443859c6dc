"""Progress: what a person sees while the benchmark runs."""

import sys
import time


class Progress:
    def __init__(self):
        self.total = 0
        self.done = 0
        self.begin = time.monotonic()

    def say(self, text):
        print(text, flush=True)

    def step(self, text):
        """One step of the total is over."""
        self.done += 1
        elapsed = time.monotonic() - self.begin
        left = elapsed / self.done * (self.total - self.done)
        print(f"[{self.done}/{self.total}, {_duration(left)} left] {text}", flush=True)

    def complain(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)


def _duration(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
