"""Two clients of a chat over WebSockets: what they hear from the server."""
import base64
import socket


def chat(port):
    """Two clients of the chat that wai-websockets has as an example: what comes from the server, in order."""
    one, two = WebSocket(port, "/"), WebSocket(port, "/")
    heard = [("handshake", (one.status, one.fields, b""))]

    def hear(what, client):
        heard.append((what, (None, {}, repr(client.receive()).encode())))

    one.send(1, "Hi! I am one")
    hear("one: welcome", one)
    hear("one: joined", one)
    two.send(1, "Hi! I am one")
    hear("two: a name twice", two)
    hear("two: the end", two)
    two = WebSocket(port, "/")
    two.send(1, "Hi! I am two")
    hear("two: welcome", two)
    hear("two: joined", two)
    hear("one: the other joined", one)
    for size in (0, 125, 126, 70000):
        two.send(1, "é" * size)
        hear(f"one: {size} characters", one)
        hear(f"two: {size} characters", two)
    one.send(9, "ping")
    hear("one: pong", one)
    two.close()
    hear("one: the other left", one)
    one.send(8, b"\x03\xe8")
    hear("one: close", one)
    heard.append(("one: the end", (None, {}, b"more" if one.receive() else b"nothing")))
    return heard


class WebSocket:
    """A client of RFC 6455."""

    def __init__(self, port, target):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        key = base64.b64encode(b"0123456789abcdef").decode()
        lines = [f"GET {target} HTTP/1.1", "Host: localhost", "Upgrade: websocket", "Connection: Upgrade",
                 f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.input = self.socket.makefile("rb")
        self.status = int(self.input.readline().split()[1])
        answered = iter(self.input.readline, b"\r\n")
        self.fields = {name.lower(): value.strip() for name, value in (line.decode().split(":", 1) for line in answered)}

    def send(self, opcode, text):
        payload = text.encode() if isinstance(text, str) else text
        size = len(payload)
        head = bytes([0x80 | opcode])
        if size < 126:
            head += bytes([0x80 | size])
        elif size < 65536:
            head += bytes([0x80 | 126]) + size.to_bytes(2, "big")
        else:
            head += bytes([0x80 | 127]) + size.to_bytes(8, "big")
        self.socket.sendall(head + bytes(4) + payload)

    def receive(self):
        """The opcode and the payload of a frame, or None at the end."""
        try:
            head = self.input.read(2)
        except ConnectionResetError:
            return None
        if len(head) < 2:
            return None
        size = head[1]
        if size in (126, 127):
            size = int.from_bytes(self.input.read(2 if size == 126 else 8), "big")
        return head[0], self.input.read(size)

    def close(self):
        self.input.close()
        self.socket.close()
