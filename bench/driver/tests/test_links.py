"""The link that delays and drops packets does so."""

import os
import shutil
import subprocess
import sys
import unittest

from .. import links
from ..process import ServerError

# Sends this many datagrams over the link and back, one after the other. Prints how many came back, and how long the quickest one took.
PING = f"""
import socket, sys, time
server, client = (socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2))
server.bind(("{links.SERVER}", {links.PORT}))
server.settimeout(0.2)
client.settimeout(0.2)
back, quickest = 0, 9
for _ in range(int(sys.argv[1])):
    start = time.monotonic()
    client.sendto(b"ping", ("{links.SERVER_SEEN}", {links.PORT}))
    try:
        data, sender = server.recvfrom(100)
        server.sendto(data, sender)
        client.recv(100)
        back, quickest = back + 1, min(quickest, time.monotonic() - start)
    except TimeoutError:
        pass
print(back, quickest)
"""


@unittest.skipUnless(os.geteuid() == 0 and os.path.exists("/dev/net/tun") and shutil.which("ip") and shutil.which("nsenter"), "needs root and TUN")
class Links(unittest.TestCase):
    def ping(self, kind, count):
        try:
            with links.made(kind) as link:
                done = subprocess.run(link.inside([sys.executable, "-c", PING, str(count)]), capture_output=True, text=True, timeout=120, check=True)
        except ServerError as error:
            self.skipTest(str(error))
        back, quickest = done.stdout.split()
        return int(back), float(quickest)

    def test_a_question_and_its_answer_take_the_delay_twice(self):
        back, quickest = self.ping(links.Kind(20, 0, 100, "cubic"), 5)
        self.assertEqual(back, 5)
        self.assertGreaterEqual(quickest, 0.04)
        self.assertLess(quickest, 0.2)

    def test_packets_are_lost_each_way(self):
        back, _ = self.ping(links.Kind(0, 30, 100, "cubic"), 60)
        self.assertTrue(10 < back < 50, back)  # 0.7 · 0.7 of 60 are 29


if __name__ == "__main__":
    unittest.main()
