"""What is printed while the benchmark runs."""

import sys
import time


class Progress:
    """How many of the expected seconds have passed."""

    def __init__(self):
        self.expected = 0
        self.passed = 0
        self.begin = time.monotonic()

    def start(self, expected_seconds):
        self.expected = expected_seconds
        self.begin = time.monotonic()

    def say(self, text):
        print(text, flush=True)

    def step(self, text, expected_seconds):
        """Reports the end of a step. `expected_seconds` is how long it was expected to take."""
        self.passed += expected_seconds
        pace = (time.monotonic() - self.begin) / self.passed if self.passed else 1
        left = pace * max(0, self.expected - self.passed)
        print(f"[{self.passed / self.expected:.0%}, {_duration(left)} left] {text}", flush=True)

    def complain(self, text):
        print(f"  {text}", file=sys.stderr, flush=True)


def _duration(seconds):
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
