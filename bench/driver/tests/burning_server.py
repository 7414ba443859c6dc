"""An HTTP server that takes a known CPU time for each request.

burning_server.py PORT MICROSECONDS [REQUESTS]: with REQUESTS, it ends after that many requests.
"""

import selectors
import socket
import sys
import time

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nPong!"


def burn(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def main(port, microseconds, requests=0):
    selector = selectors.DefaultSelector()
    listener = socket.create_server(("127.0.0.1", port), backlog=128)
    selector.register(listener, selectors.EVENT_READ)
    answered = 0
    while not requests or answered < requests:
        for key, _ in selector.select():
            if key.fileobj is listener:
                selector.register(listener.accept()[0], selectors.EVENT_READ)
                continue
            try:
                received = key.fileobj.recv(4096)
                if received:
                    burn(microseconds / 1e6)
                    key.fileobj.sendall(ANSWER)
                    answered += 1
            except OSError:
                received = b""
            if not received:
                selector.unregister(key.fileobj)
                key.fileobj.close()


main(*map(int, sys.argv[1:]))
