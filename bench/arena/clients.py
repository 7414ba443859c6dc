"""The client that must be compiled: gRPC's own in Go.

Must not know entries and rules.
"""

import os

from driver import programs


def grpc_program():
    """A client that makes calls of a method and checks them. Usage: PROGRAM ADDRESS GetSum|StreamSum [tls]."""
    return programs.built("grpc", "go", os.path.join("arena", "clients", "grpc"), lambda path: ["go", "build", "-o", path, "."])
