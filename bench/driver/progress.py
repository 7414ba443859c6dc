"""Progress: what a person sees while the benchmark runs."""

import sys
import time


class Progress:
    """Of the seconds that were expected in all, those that are over."""

    def __init__(self):
        self.expected = 0
        self.over = 0
        self.begin = time.monotonic()

    def start(self, expected_seconds):
        self.expected = expected_seconds
        self.begin = time.monotonic()

    def say(self, text):
        print(text, flush=True)

    def step(self, text, expected_seconds):
        """A step is over that was expected to take so long."""
        self.over += expected_seconds
        pace = (time.monotonic() - self.begin) / self.over if self.over else 1
        left = pace * max(0, self.expected - self.over)
        print(f"[{self.over / self.expected:.0%}, {_duration(left)} left] {text}", flush=True)

    def complain(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)


def _duration(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
