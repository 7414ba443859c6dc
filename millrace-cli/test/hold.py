#!/usr/bin/env python3
"""Clients that make a server keep memory: hold.py PORT COUNT BYTES. Each sends a head of so many bytes and does not finish it. Then the
first one does. Prints the status of its answer; all of the answer if that is not 200.
"""
import socket
import sys
import time

port, count, size = map(int, sys.argv[1:])
head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"y" * 4000) for number in range(size // 4010))
# An idle connection gives way to others after five seconds, so this one is busy before there are others.
first = socket.create_connection(("127.0.0.1", port), 30)
first.sendall(head)
crowd = []
for _ in range(count - 1):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    crowd.append(client)
time.sleep(1)
# What does not go into a socket's buffer is not sent: the server has not accepted that connection.
for client in crowd:
    try:
        client.send(head)
    except OSError:
        pass
time.sleep(2)
first.sendall(b"\r\n")
answer = first.recv(1000)
print("200" if answer.startswith(b"HTTP/1.1 200 ") else answer)
