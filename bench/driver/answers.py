"""Checks that a server gives the answer that its workload demands. This is done at every start, so that no side is fast by
being wrong."""

import http.client
import socket

from .process import ServerError

PONG_BODY = b"Pong!"


def check(service, port, file=None):
    """Raises ServerError unless one request is answered as the service demands. `file`: (name, its bytes)."""
    try:
        if service == "tcp500":
            _check_tcp500(port)
        elif service == "files":
            _check_http(port, f"/{file[0]}", file[1])
        else:
            _check_http(port, "/", PONG_BODY)
    except (OSError, http.client.HTTPException) as error:
        raise ServerError(f"the server on port {port} gave no complete answer: {error!r}") from None


def _check_tcp500(port):
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        for _ in range(2):
            connection.sendall(b"anything")
            received = 0
            while received < 500:
                part = connection.recv(4096)
                if not part:
                    raise ServerError(f"the server on port {port} sent {received} bytes instead of 500")
                received += len(part)
            if received != 500:
                raise ServerError(f"the server on port {port} sent {received} bytes instead of 500")


def _check_http(port, path, expected):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        for _ in range(2):  # The second on the same connection: keep-alive works.
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200 or body != expected:
                raise ServerError(f"GET {path}: status {answer.status}, {len(body)} bytes (expected {len(expected)})")
    finally:
        connection.close()
