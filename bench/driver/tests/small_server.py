"""A small HTTP server in a thread, with faults on demand, for tests."""

import contextlib
import socketserver
import threading
import time


class _Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while True:
            line = self.rfile.readline()
            if not line:
                return
            length = 0
            while line.strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
                line = self.rfile.readline()
            self.server.bodies.append(len(self.rfile.read(length)))
            self.server.answered += 1
            self.server.pause_if_due()
            self.wfile.write(self.server.answer)
            if self.server.hang_up:
                return


class _Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, answer, pause_at, pause_seconds, hang_up):
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.answered = 0
        self.bodies = []  # the sizes of the requests' bodies
        self.pause_at, self.pause_seconds = pause_at, pause_seconds
        self.paused_until = None
        self.hang_up = hang_up

    def handle_error(self, _request, _client):
        """Reports nothing: load generators reset their connections when they end."""

    def pause_if_due(self):
        """Answers nobody for a while, which begins at a given time after the first request."""
        now = time.monotonic()
        if self.paused_until is None:
            self.paused_until = now + self.pause_at + self.pause_seconds
        if self.paused_until - self.pause_seconds <= now < self.paused_until:
            time.sleep(self.paused_until - now)


def answer(body=b"Pong!", status=b"200 OK"):
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


@contextlib.contextmanager
def running(text, pause_at=0.0, pause_seconds=0.0, hang_up=False):
    """A server that answers every request with these bytes. It notes the sizes of the requests' bodies."""
    with _Server(text, pause_at, pause_seconds, hang_up) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


@contextlib.contextmanager
def serving(text, **faults):
    """The port of such a server."""
    with running(text, **faults) as server:
        yield server.server_address[1]
