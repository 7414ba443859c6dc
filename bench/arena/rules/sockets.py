"""/ws: a WebSocket whose messages come back."""

import random

from .. import asking
from ..websocket import BINARY, CLOSE, PING, PONG, TEXT, WebSocket
from . import equal, rule


@rule("GET /ws becomes a WebSocket (101 with the right Sec-WebSocket-Accept)", "echo-ws")
def opened(doors):
    with asking.connected(doors.http) as connection:
        found = WebSocket(connection)
        equal(found.status, 101, "the status")
        equal(found.accept, found.expected_accept, "Sec-WebSocket-Accept")


@rule("messages of text and of bytes come back as they were sent, short and long", "echo-ws", brief=True)
def echoed(doors):
    with asking.connected(doors.http) as connection:
        found = WebSocket(connection)
        for kind, content in ((TEXT, b"hello"), (BINARY, random.randbytes(200)), (TEXT, b"x" * 5000), (BINARY, random.randbytes(70_000))):
            found.send(kind, content)
            equal(found.receive(), (kind, content), "the message")


@rule("many messages that were sent at once come back in order", "echo-ws")
def many(doors):
    with asking.connected(doors.http) as connection:
        found = WebSocket(connection)
        for number in range(50):
            found.send(TEXT, str(number).encode())
        equal([found.receive()[1] for _ in range(50)], [str(number).encode() for number in range(50)], "the messages")


@rule("a ping is answered with a pong, and a close with a close", "echo-ws")
def controlled(doors):
    with asking.connected(doors.http) as connection:
        found = WebSocket(connection)
        found.send(PING, b"are you there")
        equal(found.receive(), (PONG, b"are you there"), "the answer to a ping")
        found.send(CLOSE, (1000).to_bytes(2, "big"))
        equal(found.receive()[0], CLOSE, "the kind of the answer to a close")
