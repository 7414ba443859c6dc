"""The servers behind the proxies that are measured: an nginx that answers, or a program that sends messages of WebSockets back.

They run on the processors of the load, and their CPU time does not count. Each proxy has its own. Must not know peers.
"""

import contextlib
import os
import shutil

from . import load, process, programs
from .process import ServerError

# By service. Services that are not here have no target.
NGINX, NGINX_HTTP2, WEBSOCKET = "nginx", "nginx by HTTP/2", "websocket"
TARGETS = {"proxy-pong": NGINX, "proxy-files": NGINX, "h2proxy": NGINX, "proxy-h2c": NGINX_HTTP2, "proxy-ws": WEBSOCKET}
START_SECONDS = 15


def _words(target, bench, port, files, state):
    if target == WEBSOCKET:
        program = programs.websocket_echo()
        if isinstance(program, programs.Missing):
            raise ServerError(f"there is no target for the proxy: {program.reason}")
        return [program, str(port)]
    if not shutil.which("nginx"):
        raise ServerError("there is no target for the proxy: `nginx` is not installed")
    return [os.path.join(bench, "peers", "nginx", "serve"), str(port), "1", files, state,
            *(["http2"] if target == NGINX_HTTP2 else [])]


@contextlib.contextmanager
def running(service, bench, files, state, processors):
    """The port of a target of this service, or None if the service needs none."""
    if service not in TARGETS:
        yield None
        return
    port = load.free_port()
    words = process.pinned(processors, _words(TARGETS[service], bench, port, files, os.path.join(state, "target")))
    program = process.Program(words, bench, {}, os.path.join(state, "target.log"))
    try:
        load.wait_until_listening(port, program, START_SECONDS)
        yield port
    finally:
        program.stop()
