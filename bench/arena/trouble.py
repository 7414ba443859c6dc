"""Clients that are no good: they come and go, stop in the middle, take their time, or break off. Each kind is one thread.

Must not know rules, or what the server is.
"""

import os
import random
import socket
import struct
import threading
import time

from . import asking, grpc
from .doors import HOST
from .websocket import TEXT, WebSocket

STALLED_MAX = 200  # connections that one thread holds at once, so that the load is bounded
REST_SECONDS = 0.02


def _open(port):
    return socket.create_connection((HOST, port), timeout=asking.PATIENCE_SECONDS)


def _reset(connection):
    """Closes a connection so that the other end sees a reset."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def come_and_go(doors, _held):
    """A connection for one request."""
    asking.http1(doors.http, "/baseline11?a=1&b=2", fields=["Connection: close"])


def stall_in_a_head(doors, held):
    """Half a request, and then nothing until the server loses patience or this client does."""
    _hold(held, doors.http, b"GET /baseline11?a=1&b=2 HTTP/1.1\r\nHo")


def stall_in_a_body(doors, held):
    """A body of which most never comes."""
    _hold(held, doors.http, b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\nabc")


def stall_in_tls(doors, held):
    """The beginning of a handshake."""
    _hold(held, doors.tls, b"\x16\x03\x01\x02\x00\x01")


def stall_in_http2(doors, held):
    """A preface of HTTP/2 without what must follow."""
    _hold(held, doors.h2c, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")


def _hold(held, port, begin):
    connection = _open(port)
    connection.sendall(begin)
    held.append(connection)
    if len(held) > STALLED_MAX:
        _reset(held.pop(random.randrange(len(held))))


def break_off_an_upload(doors, _held):
    """A reset within a body."""
    connection = _open(doors.http)
    connection.sendall(b"POST /upload HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n" + os.urandom(random.randint(1, 200_000)))
    _reset(connection)


def break_off_an_answer(doors, _held):
    """A reset while a file is being sent."""
    connection = _open(doors.http)
    connection.sendall(asking.request("GET", "/static/vendor.js") * 3)
    connection.recv(1000)
    _reset(connection)


def read_slowly(doors, _held):
    """Files that are taken in small bites, and not to the end."""
    with _open(doors.http) as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.sendall(asking.request("GET", "/static/vendor.js") * 3)
        for _ in range(20):
            connection.recv(2000)
            time.sleep(0.05)


def break_a_websocket(doors, _held):
    """A WebSocket that vanishes without a farewell."""
    connection = _open(doors.http)
    opened = WebSocket(connection)
    opened.send(TEXT, b"hello")
    opened.receive()
    _reset(connection)


def break_off_a_stream(doors, _held):
    """A stream of gRPC whose client goes away after a moment."""
    head = (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
    path = (grpc.SERVICE + "StreamSum").encode()
    fields = bytes((0x83, 0x86, 0x04, len(path))) + path + bytes((0x41, 1)) + b"a" + _literal(b"content-type", b"application/grpc") + _literal(
        b"te", b"trailers")
    message = grpc.message(1, 2, 1_000_000)
    connection = _open(doors.http)
    connection.sendall(head + _frame(1, 4, fields) + _frame(0, 1, message))
    time.sleep(0.1)
    connection.recv(1000)
    _reset(connection)


def _literal(name, value):
    return bytes((0, len(name))) + name + bytes((len(value),)) + value


def _frame(kind, flags, content):
    return len(content).to_bytes(3, "big") + bytes((kind, flags)) + (1).to_bytes(4, "big") + content


# What each kind needs of the server's profiles.
KINDS = {
    come_and_go: "baseline", stall_in_a_head: "baseline", stall_in_a_body: "upload", stall_in_tls: "json-tls",
    stall_in_http2: "baseline-h2c", break_off_an_upload: "upload", break_off_an_answer: "static", read_slowly: "static",
    break_a_websocket: "echo-ws", break_off_a_stream: "stream-grpc",
}


class Trouble:
    """All kinds at once, until the end. `made` counts what each kind has done."""

    def __init__(self, doors, profiles):
        self._over = threading.Event()
        self.made = {kind.__name__: 0 for kind, profile in KINDS.items() if profile in profiles}
        self.failures = {}  # kind -> the last failure of a client that wanted an answer
        self._threads = [threading.Thread(target=self._repeat, args=(kind, doors), daemon=True)
                         for kind, profile in KINDS.items() if profile in profiles]

    def _repeat(self, kind, doors):
        held = []
        while not self._over.wait(REST_SECONDS):
            try:
                kind(doors, held)
                self.made[kind.__name__] += 1
            except (OSError, ValueError) as error:
                self.failures[kind.__name__] = f"{type(error).__name__}: {error}"
        for connection in held:
            connection.close()

    def begin(self):
        for thread in self._threads:
            thread.start()

    def end(self):
        self._over.set()
        for thread in self._threads:
            thread.join(asking.PATIENCE_SECONDS)
