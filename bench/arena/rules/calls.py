"""benchmark.BenchmarkService: calls by gRPC, of one answer and of many."""

import random
import subprocess

from driver import programs

from .. import clients, grpc
from . import Broken, NotAsked, equal, expect, rule


def _call(doors, method, *numbers):
    found, status, answer = grpc.call(doors.url("http", ""), method, *numbers)
    equal(answer.status, 200, "the status")
    equal(status, "0", "grpc-status")
    expect(answer.fields.get("content-type", "").startswith("application/grpc"),
           f"the content type is {answer.fields.get('content-type')}")
    return found


@rule("GetSum adds two numbers, of either sign", "unary-grpc", brief=True)
def get_sum(doors):
    for a, b in ((1, 2), (random.randint(1, 10_000), random.randint(1, 10_000)), (3, -5), (0, 0)):
        equal(_call(doors, "GetSum", a, b), [a + b], f"the sum of {a} and {b}")


@rule("StreamSum sends as many numbers as it was asked for, counting up from the sum", "stream-grpc", brief=True)
def stream_sum(doors):
    for count in (1, 7, 5000):
        a, b = random.randint(1, 1000), random.randint(1, 1000)
        equal(_call(doors, "StreamSum", a, b, count), [a + b + number for number in range(count)], f"a stream of {count}")


def _client(doors, method):
    program = clients.grpc_program()
    if isinstance(program, programs.Missing):
        raise NotAsked(program.reason)
    done = subprocess.run([program, f"127.0.0.1:{doors.http}", method], capture_output=True, text=True, timeout=60, check=False)
    if done.returncode != 0:
        raise Broken((done.stderr or done.stdout).strip().split("\n")[-1][:200])


@rule("gRPC's own client (Go) makes a thousand calls of GetSum, 50 at a time", "unary-grpc")
def client_unary(doors):
    _client(doors, "GetSum")


@rule("gRPC's own client (Go) receives ten streams of 5,000 at once", "stream-grpc")
def client_stream(doors):
    _client(doors, "StreamSum")
