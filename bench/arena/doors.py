"""Where an entry can be reached, and what it must know before it starts.

Must not know rules.
"""

from dataclasses import dataclass

from driver import load

HOST = "127.0.0.1"


@dataclass(frozen=True)
class Doors:
    """The ports of an entry, which the kernel chose, and what the referee gives it."""

    http: int  # HTTP/1.1, WebSocket, and gRPC without TLS
    tls: int  # HTTP/1.1 over TLS
    h2c: int  # HTTP/2 by prior knowledge, and nothing else
    h2: int  # HTTP/2 over TLS, and gRPC over TLS
    data: str
    certificate: str
    key: str
    database: str = ""  # empty: there is none

    def environment(self, database_connections):
        """The variables that tell an entry all of this."""
        variables = {
            "ARENA_HOST": HOST, "ARENA_HTTP_PORT": str(self.http), "ARENA_TLS_PORT": str(self.tls),
            "ARENA_H2C_PORT": str(self.h2c), "ARENA_H2_PORT": str(self.h2), "ARENA_DATA": self.data,
            "ARENA_CERTIFICATE": self.certificate, "ARENA_KEY": self.key,
        }
        if self.database:
            variables |= {"DATABASE_URL": self.database, "DATABASE_MAX_CONN": str(database_connections)}
        return variables

    def url(self, door, path):
        """The address of a path at a door: "http", "tls", "h2c" or "h2"."""
        scheme = "https" if door in ("tls", "h2") else "http"
        return f"{scheme}://{HOST}:{getattr(self, door)}{path}"


def choose(data, certificate, key, database):
    """Doors with free ports."""
    ports = set()
    while len(ports) < 4:
        ports.add(load.free_port())
    return Doors(*ports, data, certificate, key, database)
