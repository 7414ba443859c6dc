"""A WebSocket client of RFC 6455 that is just enough to see whether an entry sends messages back.

Must not know rules.
"""

import base64
import hashlib
import os
import struct

from . import asking

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
MAGIC = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  # of RFC 6455


def opening(path, key):
    """The request that asks for a WebSocket."""
    return asking.request("GET", path, [
        "Upgrade: websocket", "Connection: Upgrade", f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13"])


def frame(kind, content):
    """A frame of a client: always masked."""
    size = len(content)
    length = (bytes([0x80 | size]) if size < 126 else bytes([0x80 | 126]) + struct.pack("!H", size) if size < 1 << 16
              else bytes([0x80 | 127]) + struct.pack("!Q", size))
    mask = os.urandom(4)
    return bytes([0x80 | kind]) + length + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(content))


class WebSocket:
    """An open WebSocket on a connection."""

    def __init__(self, connection, path="/ws"):
        self._connection = connection
        self._held = b""
        key = base64.b64encode(os.urandom(16)).decode()
        connection.sendall(opening(path, key))
        while b"\r\n\r\n" not in self._held:
            self._receive()
        head, self._held = self._held.split(b"\r\n\r\n", 1)
        lines = head.decode("latin-1").split("\r\n")
        self.status = int(lines[0].split()[1])
        fields = {name.strip().lower(): value.strip() for name, value in (line.split(":", 1) for line in lines[1:])}
        self.accept = fields.get("sec-websocket-accept", "")
        self.expected_accept = base64.b64encode(hashlib.sha1(key.encode() + MAGIC).digest()).decode()

    def _receive(self):
        part = self._connection.recv(1 << 16)
        if not part:
            raise OSError("the server closed the connection")
        self._held += part

    def _take(self, count):
        while len(self._held) < count:
            self._receive()
        taken, self._held = self._held[:count], self._held[count:]
        return taken

    def send(self, kind, content):
        self._connection.sendall(frame(kind, content))

    def receive(self):
        """The kind and the content of the next message. Its frames are put together."""
        kind, parts = None, []
        while True:
            first, second = self._take(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
            if second & 0x80:
                raise OSError("a frame of the server is masked")
            parts.append(self._take(size))
            kind = kind or first & 15
            if first & 0x80:
                return kind, b"".join(parts)
