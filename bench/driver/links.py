"""Links that delay and drop packets, for servers and generators in a network namespace: see link/link.c. Must not know peers and workloads."""

import contextlib
import shutil
import subprocess
import time
from dataclasses import dataclass

from . import programs
from .process import ServerError

# Where a server listens on the link, and where clients find it.
SERVER, SERVER_SEEN, PORT = "10.77.0.3", "10.77.0.4", 4433
END_SECONDS = 5


@dataclass(frozen=True)
class Kind:
    """What the link does to packets, in each direction, and how TCP controls congestion on it."""

    delay_ms: float
    loss_percent: float
    megabits: float
    congestion: str


@dataclass(frozen=True)
class Link:
    pid: int

    def inside(self, command):
        """The command, in the link's network namespace."""
        return ["nsenter", f"--net=/proc/{self.pid}/ns/net", *command]


@contextlib.contextmanager
def made(kind):
    """A new link. Raises ServerError if the machine allows none."""
    program = programs.bad_link()
    if isinstance(program, programs.Missing):
        raise ServerError(f"there is no link: {program.reason}")
    for needed in ("nsenter", "ip"):
        if not shutil.which(needed):
            raise ServerError(f"there is no link: `{needed}` is not installed")
    words = [program, *map(str, (kind.delay_ms, kind.loss_percent, kind.megabits, kind.congestion))]
    # It ends with its standard input, so also if this program is killed.
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        if process.stdout.readline().strip() != "ready":
            raise ServerError(f"there is no link: {process.stderr.read().strip()[-200:]}")
        yield Link(process.pid)
    finally:
        process.stdin.close()
        try:
            process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        process.stderr.close()


def check(link, program, path, expected, seconds, curl_options):
    """Waits until the server gives this answer, inside the namespace and past the link. `curl_options` say by which version of HTTP.
    Raises ServerError if it does not."""
    deadline = time.monotonic() + seconds
    received = b""
    while time.monotonic() < deadline:
        if program.ended():
            raise ServerError(f"the server ended before it listened: {program.log()}")
        received = subprocess.run(
            link.inside(["curl", "-s", "-k", *curl_options, "-m", str(seconds), "--noproxy", "*", f"https://{SERVER}:{PORT}{path}"]),
            capture_output=True, check=False).stdout
        if received == expected:
            return
        time.sleep(0.05)
    raise ServerError(f"GET {path} on the link: {len(received)} bytes (expected {len(expected)}): {program.log() or 'no message'}")
