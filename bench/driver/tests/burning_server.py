"""An HTTP server that takes a known CPU time for each request, after it has received the request's body.

burning_server.py PORT MICROSECONDS [REQUESTS]: with REQUESTS, it ends after that many requests.
"""

import re
import selectors
import socket
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong!"


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


class Connection:
    def __init__(self):
        self.head, self.missing = b"", 0  # bytes of a head that is not complete, or how many of a body are missing

    def take(self, received):
        """Whether this is the end of a request."""
        if self.missing:
            self.missing -= len(received)
            return not self.missing
        self.head += received
        if b"\r\n\r\n" not in self.head:
            return False
        head, body = self.head.split(b"\r\n\r\n", 1)
        length = re.search(rb"content-length: *(\d+)", head, re.I)
        self.head, self.missing = b"", (int(length[1]) if length else 0) - len(body)
        return not self.missing


def main(port, microseconds, requests=0):
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    selector.register(listener, selectors.EVENT_READ)
    answered = 0
    while not requests or answered < requests:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ, Connection())
                continue
            try:
                received = key.fileobj.recv(1 << 18)
                if received and key.data.take(received):
                    burn(microseconds / 1e6)
                    key.fileobj.sendall(ANSWER)
                    answered += 1
            except OSError:
                received = b""
            if not received:
                selector.unregister(key.fileobj)
                key.fileobj.close()


main(*map(int, sys.argv[1:]))
