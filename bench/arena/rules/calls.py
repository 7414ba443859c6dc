"""benchmark.BenchmarkService: calls by gRPC, of one answer and of many, without TLS and over it."""

import random
import subprocess

from driver import programs

from .. import clients, grpc
from . import Broken, NotAsked, equal, expect, rule


def _call(doors, door, method, *numbers):
    found, status, answer = grpc.call(doors.url(door, ""), method, *numbers)
    equal(answer.status, 200, "the status")
    equal(status, "0", "grpc-status")
    expect(answer.fields.get("content-type", "").startswith("application/grpc"),
           f"the content type is {answer.fields.get('content-type')}")
    return found


def _client(doors, door, method):
    program = clients.grpc_program()
    if isinstance(program, programs.Missing):
        raise NotAsked(program.reason)
    words = [program, f"127.0.0.1:{getattr(doors, door)}", method, *(["tls"] if door == "h2" else [])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Broken((done.stderr or done.stdout).strip().split("\n")[-1][:200])


def _declare(door, suffix, words):
    @rule(f"GetSum{words} adds two numbers, of either sign", f"unary-grpc{suffix}", brief=True)
    def get_sum(doors):
        for a, b in ((1, 2), (random.randint(1, 10_000), random.randint(1, 10_000)), (3, -5), (0, 0)):
            equal(_call(doors, door, "GetSum", a, b), [a + b], f"the sum of {a} and {b}")

    @rule(f"StreamSum{words} sends as many numbers as it was asked for, counting up from the sum", f"stream-grpc{suffix}", brief=True)
    def stream_sum(doors):
        for count in (1, 7, 5000):
            a, b = random.randint(1, 1000), random.randint(1, 1000)
            equal(_call(doors, door, "StreamSum", a, b, count), [a + b + number for number in range(count)], f"a stream of {count}")

    @rule(f"gRPC's own client (Go) makes a thousand calls of GetSum{words}, 50 at a time", f"unary-grpc{suffix}")
    def client_unary(doors):
        _client(doors, door, "GetSum")

    @rule(f"gRPC's own client (Go) receives ten streams of 5,000 at once{words}", f"stream-grpc{suffix}")
    def client_stream(doors):
        _client(doors, door, "StreamSum")


for one in grpc.DOORS:
    _declare(*one)
