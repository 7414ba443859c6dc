#!/usr/bin/env python3
"""Clients that try to put requests and fields of their own into what `millrace proxy` sends to its target, over HTTP/1 and HTTP/2.
inject.py MILLRACE starts the proxy; the target is here, and writes down what it gets. Prints how many attempts reached the target and how
many were refused. Fails if a line that the proxy did not make stands alone in what the target got.
"""
import socket
import subprocess
import sys
import threading

received = []


def serve(listener):
    while True:
        client, _ = listener.accept()
        threading.Thread(target=answer, args=(client,), daemon=True).start()


def answer(client):
    with client:
        got = b""
        while more := client.recv(65536):
            got += more
            while b"\r\n\r\n" in got:
                head, _, got = got.partition(b"\r\n\r\n")
                received.append(head)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")


def send(port, data):
    """What comes back until nothing more comes for a tenth of a second."""
    with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
        client.sendall(data)
        got = client.recv(65536)
        client.settimeout(0.1)
        try:
            while more := client.recv(65536):
                got += more
        except OSError:
            pass
    return got


def literal(name, value):
    """A field that is not indexed, without Huffman codes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def request2(fields):
    block = b"".join(literal(name, value) for name, value in fields)
    frame = len(block).to_bytes(3, "big") + b"\1\5\0\0\0\1" + block
    return b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0" + frame


EVIL = [b"a\r\nX-Evil: 1", b"a\nX-Evil: 1", b"a\rX-Evil: 1", b"a\0X-Evil: 1", b"a\r\n\r\nGET /evil HTTP/1.1\r\nX-Evil: 1"]


def attempts1():
    for evil in EVIL:
        yield b"GET / HTTP/1.1\r\nHost: a\r\nX-Field: " + evil.replace(b"\r\n", b"\r \n") + b"\r\n\r\n"
        yield b"GET /" + evil.replace(b"\r\n", b"\r") + b" HTTP/1.1\r\nHost: a\r\n\r\n"
        yield b"GET / HTTP/1.1\r\nHost: " + evil.replace(b"\r\n", b"\r") + b"\r\n\r\n"
        yield b"GET / HTTP/1.1\r\nHost: a\r\nX-" + evil.replace(b"\r\n", b"\r") + b": b\r\n\r\n"
    # What is encoded stays encoded.
    yield b"GET /%0d%0aX-Evil:%201 HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"GET /?q=%0d%0a%0d%0aGET%20/evil HTTP/1.1\r\nHost: a\r\n\r\n"
    yield b"GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 1.2.3.4\r\nForwarded: for=1.2.3.4;proto=https\r\nX-Request-Id: a b\"c\r\nTraceparent: evil\r\n\r\n"


def attempts2():
    usual = {b":method": b"GET", b":scheme": b"http", b":path": b"/", b":authority": b"a"}
    for evil in EVIL:
        for name in [*usual, b"x-field"]:
            yield request2({**usual, name: (b"/" if name == b":path" else b"") + evil}.items())
        yield request2([*usual.items(), (b"x-" + evil.lower(), b"b")])
    for name, value in [(b"transfer-encoding", b"chunked"), (b"connection", b"close"), (b"content-length", b"5\r\n"), (b"host", b"b"), (b"te", b"x")]:
        yield request2([*usual.items(), (name, value)])
    yield request2({**usual, b":path": b"/ HTTP/1.1\t"}.items())
    yield request2({**usual, b":method": b"GET /evil HTTP/1.1"}.items())


def main():
    listener = socket.create_server(("127.0.0.1", 0), backlog=100)
    threading.Thread(target=serve, args=(listener,), daemon=True).start()
    proxy = subprocess.Popen([sys.argv[1], "proxy", str(listener.getsockname()[1]), "--port", "0", "--cores", "1"], stdout=subprocess.PIPE, text=True)
    try:
        port = int(proxy.stdout.readline().rsplit(":", 1)[1])
        if b"200" not in send(port, b"GET / HTTP/1.1\r\nHost: a\r\n\r\n") or b"ok" not in send(port, request2([(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"a")])):
            sys.exit("the proxy does not work")
        before = len(received)
        attempts = [*attempts1(), *attempts2()]
        for attempt in attempts:
            send(port, attempt)
        for head in received:
            lines = head.split(b"\r\n")
            evil = [line for line in lines if line.lower().startswith((b"x-evil", b"transfer-encoding", b"get /evil")) or b"\r" in line or b"\n" in line or b"\0" in line or b"1.2.3.4" in line]
            if evil or len(lines[0].split(b" ")) != 3:
                sys.exit(f"the target got {head!r}")
        print(len(received) - before, len(attempts) - (len(received) - before))
    finally:
        proxy.kill()
        proxy.wait()


main()
