#!/usr/bin/env python3
"""A crowd of clients, each of which asks once and keeps its connection: crowd.py KIND PORT COUNT. Then another one asks for
/large. Prints which of the crowd the server has ended, by number, and how many bytes /large had.

KIND is http1, http2 (by prior knowledge), https1 or https2. Certificates are not verified.
"""
import json
import socket
import ssl
import sys

GET1 = b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n"
# The preface, empty SETTINGS, and a HEADERS frame on stream 1: GET, /, http, a.
GET2 = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + b"\0\0\6\1\5\0\0\0\1" + b"\x82\x84\x86\x41\1a"


def connect(kind, port):
    plain = socket.create_connection(("127.0.0.1", port), timeout=60)
    if not kind.startswith("https"):
        return plain
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["h2" if kind.endswith("2") else "http/1.1"])
    return context.wrap_socket(plain, server_hostname="localhost")


def ask(kind, client):
    client.sendall(GET2 if kind.endswith("2") else GET1 % b"/")
    got = b""
    while b"crowded" not in got:
        more = client.recv(4096)
        if not more:
            sys.exit("a connection ended before its answer")
        got += more


def has_ended(client):
    """Whether the server has ended it: whatever else it has sent is read."""
    client.settimeout(0.01)
    try:
        while client.recv(4096):
            pass
        return True
    except (TimeoutError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True


def length_of_large(kind, port):
    with connect(kind.replace("2", "1"), port) as client:
        client.sendall((GET1 % b"/large").replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
        got = b""
        while more := client.recv(65536):
            got += more
    return len(got.partition(b"\r\n\r\n")[2])


kind, port, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
crowd = []
for _ in range(count):
    crowd.append(connect(kind, port))
    ask(kind, crowd[-1])
large = length_of_large(kind, port)
print(json.dumps([large, [number for number, client in enumerate(crowd) if has_ended(client)]]))
