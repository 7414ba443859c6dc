#!/usr/bin/env python3
"""Clients that make a server keep memory: hold.py PORT COUNT BYTES. Each sends a head of so many bytes and does not finish it. Then the
first one does. Prints the status of its answer.
"""
import socket
import sys
import time

port, count, size = map(int, sys.argv[1:])
head = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + b"".join(b"X-%d: %s\r\n" % (number, b"y" * 4000) for number in range(size // 4010))
crowd = []
for _ in range(count):
    client = socket.socket()
    client.setblocking(False)
    client.connect_ex(("127.0.0.1", port))
    crowd.append(client)
time.sleep(1)
# What does not go into a socket's buffer is not sent: the server has not accepted that connection.
for client in crowd:
    try:
        client.send(head)
    except BlockingIOError:
        pass
time.sleep(2)
first = crowd[0]
first.settimeout(30)
first.sendall(b"\r\n")
print(first.recv(1000).split(b" ")[1].decode())
