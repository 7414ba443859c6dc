"""The clients that must be compiled: gRPC's own client in Go, and a generator of WebSocket load in C.

Must not know entries and rules.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

BENCH = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.path.join(BENCH, "build", "arena", "clients")
BUILD_SECONDS = 300


@dataclass(frozen=True)
class Missing:
    """Why a client cannot be had on this machine."""

    reason: str


_found = {}


def _built(name, needs, command):
    """The path of a program, which is compiled once in a run, or why it is missing."""
    if name not in _found:
        _found[name] = _build(name, needs, command)
    return _found[name]


def _build(name, needs, command):
    if not shutil.which(needs):
        return Missing(f"`{needs}` is not installed")
    os.makedirs(BUILD, exist_ok=True)
    path = os.path.join(BUILD, name)
    try:
        done = subprocess.run(command(path), cwd=os.path.join(BENCH, "arena", "clients"), capture_output=True, text=True,
                              timeout=BUILD_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return Missing(f"building {name} took more than {BUILD_SECONDS} s")
    if done.returncode != 0:
        return Missing(f"{name} could not be built: {(done.stderr.strip().split(chr(10)) or ['no message'])[-1][:200]}")
    return path


def grpc_program():
    """A client that makes calls of a method and checks them. Usage: PROGRAM ADDRESS GetSum|StreamSum."""
    return _built("grpc", "go", lambda path: ["go", "-C", "grpc", "build", "-o", path, "."])


def websocket_program():
    """A generator of closed WebSocket load. Usage: PROGRAM PORT CONNECTIONS SECONDS."""
    return _built("websocket", "gcc", lambda path: ["gcc", "-O2", "-Wall", "-Werror", "-o", path, "websocket.c"])
