"""Calls examples/grpc with the gRPC of Python (grpcio): calls of all four kinds, errors, a deadline, a cancellation, and
a thousand calls at once. Usage: client.py ADDRESS. It fails unless all do what they should."""

import sys
import time

import grpc


def encode(value):
    digits = bytearray((0x08,))
    while value > 0x7F:
        digits.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*digits, value))


def decode(message):
    return sum((byte & 0x7F) << 7 * index for index, byte in enumerate(message[1:])) if message[:1] == b"\x08" else 0


def code_of(call):
    try:
        call()
    except grpc.RpcError as error:
        return error.code()
    return grpc.StatusCode.OK


def main(address):
    with grpc.insecure_channel(address) as channel:
        square = channel.unary_unary("/Numbers/Square", encode, decode)
        count = channel.unary_stream("/Numbers/Count", encode, decode)
        total = channel.stream_unary("/Numbers/Sum", encode, decode)
        squares = channel.stream_stream("/Numbers/Squares", encode, decode)

        assert square(1234) == 1234 * 1234
        assert list(count(1000)) == list(range(1, 1001))
        assert total(iter(range(1001))) == 500500
        assert list(squares(iter(range(100)))) == [value * value for value in range(100)]

        # A question follows each answer: neither side waits for the other's end.
        answers, questions = [], iter(range(5))
        for value in squares(iter(lambda: next(questions, None), None)):
            answers.append(value)
        assert answers == [0, 1, 4, 9, 16]

        assert code_of(lambda: channel.unary_unary("/Numbers/Nothing", encode, decode)(1)) == grpc.StatusCode.UNIMPLEMENTED
        assert code_of(lambda: list(count(100_000, timeout=0.2))) == grpc.StatusCode.DEADLINE_EXCEEDED

        stream = count(100_000)
        next(stream)
        stream.cancel()
        time.sleep(0.5)
        many = [square.future(value) for value in range(1000)]
        assert [call.result() for call in many] == [value * value for value in range(1000)]


main(sys.argv[1])
