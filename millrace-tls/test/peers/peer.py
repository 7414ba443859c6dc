"""A client or a server on Python's ssl, for the tests.

    peer.py client PORT CA       sends a question to localhost, prints the answer
    peer.py server CHAIN KEY     prints its port, then answers each line of one client with the line, turned round
"""
import socket
import ssl
import sys


def client(port, authority):
    context = ssl.create_default_context(cafile=authority)
    with socket.create_connection(("127.0.0.1", int(port))) as raw:
        with context.wrap_socket(raw, server_hostname="localhost", suppress_ragged_eofs=False) as secured:
            secured.sendall(b"question\n")
            received = b""
            while part := secured.recv(1000):
                received += part
            sys.stdout.write(received.decode())


def server(chain, key):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        raw, _ = listener.accept()
        with context.wrap_socket(raw, server_side=True, suppress_ragged_eofs=False) as secured:
            for line in secured.makefile("r"):
                secured.sendall((line[-2::-1] + "\n").encode())
            secured.unwrap()


{"client": client, "server": server}[sys.argv[1]](*sys.argv[2:])
