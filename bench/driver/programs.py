"""Programs that must be compiled before they can be used: clients, generators of load, and targets of proxies.

Must not know workloads and peers.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(BENCH, "build", "programs")
BUILD_SECONDS = 300


@dataclass(frozen=True)
class Missing:
    """Why a program cannot be had on this machine."""

    reason: str


_found = {}


def built(name, needs, folder, command):
    """The path of a program, or why it is missing. `command(path)` compiles it in `folder` of bench/, once in a run."""
    if name not in _found:
        _found[name] = _build(name, needs, folder, command)
    return _found[name]


def _build(name, needs, folder, command):
    if not shutil.which(needs):
        return Missing(f"`{needs}` is not installed")
    os.makedirs(BUILD, exist_ok=True)
    path = os.path.join(BUILD, name)
    try:
        done = subprocess.run(command(path), cwd=os.path.join(BENCH, folder), capture_output=True, text=True,
                              timeout=BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Missing(f"building {name} took more than {BUILD_SECONDS} s")
    if done.returncode != 0:
        return Missing(f"{name} could not be built: {(done.stderr.strip().split(chr(10)) or ['no message'])[-1][:200]}")
    return path


def _of_websocket(name, source):
    return built(name, "gcc", os.path.join("driver", "websocket"), lambda path: ["gcc", "-O2", "-Wall", "-Werror", "-o", path, source])


def websocket_load():
    """A generator of closed WebSocket load. Usage: PROGRAM PORT CONNECTIONS SECONDS."""
    return _of_websocket("websocket", "load.c")


def http3_load():
    """A generator of closed HTTP/3 load. Usage: PROGRAM [ADDRESS:]PORT PATH CONNECTIONS STREAMS SECONDS COUNTER."""
    libraries = ["-lngtcp2", "-lngtcp2_crypto_gnutls", "-lnghttp3", "-lgnutls"]
    return built("http3", "gcc", os.path.join("driver", "http3"),
                 lambda path: ["gcc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", path, "load.c", *libraries])


def bad_link():
    """A link that delays and drops packets. Usage: PROGRAM DELAY_MS LOSS_PERCENT MEGABITS CONGESTION_CONTROL."""
    return built("link", "gcc", os.path.join("driver", "link"),
                 lambda path: ["gcc", "-O2", "-D_GNU_SOURCE", "-Wall", "-Werror", "-o", path, "link.c"])


def websocket_echo():
    """A server that sends the messages of `websocket_load` back. Usage: PROGRAM PORT."""
    return _of_websocket("websocket-echo", "echo.c")
