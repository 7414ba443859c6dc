"""Messages of the arena's gRPC service, and calls by curl: a message is five bytes of length and then protobuf.

Must not know rules.
"""

import struct

from . import asking

# The doors of the service: each with the end of its profiles' names, and words for people.
DOORS = [("http", "", ""), ("h2", "-tls", " over TLS")]
SERVICE = "/benchmark.BenchmarkService/"
FIELDS = ["content-type: application/grpc", "te: trailers"]


def _varint(value):
    value &= (1 << 64) - 1  # negative numbers have ten bytes in protobuf
    digits = bytearray()
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*digits, value))


def message(*numbers):
    """A message whose fields 1, 2, ... are these numbers. Protobuf leaves out zeros."""
    content = b"".join(_varint(index << 3) + _varint(number) for index, number in enumerate(numbers, 1) if number)
    return b"\0" + struct.pack("!I", len(content)) + content


def _result(content):
    """The number in field 1, an int32; an empty message stands for 0."""
    if not content:
        return 0
    if content[0] != 0x08:
        raise ValueError(f"not a message with a number: {content!r}")
    value = sum((byte & 0x7F) << 7 * index for index, byte in enumerate(content[1:]))
    return value - (1 << 64) if value >> 63 else value


def results(body):
    """The numbers in the messages of a body."""
    found = []
    while body:
        if len(body) < 5 or body[0] != 0:
            raise ValueError(f"not a message of gRPC: {body[:20]!r}")
        size = struct.unpack("!I", body[1:5])[0]
        found.append(_result(body[5:5 + size]))
        body = body[5 + size:]
    return found


def call(url, method, *numbers):
    """The numbers and the gRPC status of a call. The status is in the trailers, or in the head if there is no message."""
    options = [word for line in FIELDS for word in ("--header", line)]
    answer = asking.http2(url + SERVICE + method, *options, body=message(*numbers))
    status = answer.trailers.get("grpc-status", answer.fields.get("grpc-status"))
    return results(answer.body), status, answer
