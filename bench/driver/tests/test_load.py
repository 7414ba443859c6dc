"""The load generators: percentiles contain pauses of the server, and errors are counted."""

import os
import socket
import tempfile
import time
import unittest

from .. import load, machine
from .small_server import answer, running, serving


H2LOAD_OUTPUT = """
finished in 1.03s, 2499.00 req/s, 89.81KB/s
requests: 2502 total, 2599 started, 2502 done, 2499 succeeded, 3 failed, 2 errored, 0 timeout
status codes: 2499 2xx, 0 3xx, 0 4xx, 0 5xx
traffic: 89.81KB (91968) total, 31.34KB (32091) headers (space savings 91.61%), 12.20KB (12495) data
                     min         max         mean         sd        +/- sd
time for request:      740us    211.86ms     36.48ms     48.95ms    85.79%
"""

NEWER_H2LOAD_OUTPUT = """
finished in 1.00s, 2147.00 req/s, 3.50MB/s
requests: 2147 total, 2149 started, 2147 done, 2147 succeeded, 0 failed, 0 errored, 0 timeout
traffic: 3.50MB (3669223) total, 342.08KB (350287) headers (space savings 0.00%), 3.09MB (3237036) data
                 min         max         median      p95         p99         mean        sd         +/- sd
request     :      223us      5.40ms       861us      1.45ms      1.80ms       896us       361us    72.52%
connect     :       12us        13us        12us        13us        13us        12us         1us   100.00%
"""


AB_OUTPUT = """
Time taken for tests:   1.500 seconds
Complete requests:      300
Failed requests:        2
Non-2xx responses:      1
"""


class Ab(unittest.TestCase):
    def test_the_figures_of_handshakes(self):
        figures = load.ab_figures(AB_OUTPUT)
        self.assertEqual((figures["requests"], figures["errors"], figures["duration_us"]), (300, 3, 1.5e6))

    def test_other_output_is_refused(self):
        with self.assertRaises(load.LoadError):
            load.ab_figures("SSL handshake failed")


class H2load(unittest.TestCase):
    def test_the_figures_of_a_closed_loop(self):
        figures = load.h2load_closed_figures(H2LOAD_OUTPUT, 1)
        self.assertEqual((figures["requests"], figures["errors"], figures["bytes"]), (2499, 3, 91968))
        self.assertAlmostEqual(figures["latency_mean_us"], 36480)
        self.assertAlmostEqual(figures["latency_max_us"], 211860)

    def test_the_figures_of_newer_versions(self):
        figures = load.h2load_closed_figures(NEWER_H2LOAD_OUTPUT, 1)
        self.assertAlmostEqual(figures["latency_mean_us"], 896)
        self.assertAlmostEqual(figures["latency_max_us"], 5400)

    def test_other_output_is_refused(self):
        with self.assertRaises(load.LoadError):
            load.h2load_closed_figures("Could not connect", 1)


class Listening(unittest.TestCase):
    def test_a_datagram_socket_is_seen_while_it_is_open(self):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as datagrams:
            datagrams.bind(("127.0.0.1", 0))
            port = datagrams.getsockname()[1]
            self.assertTrue(load.has_datagram_socket(port))
            self.assertFalse(load.accepts_connections(port))
        self.assertFalse(load.has_datagram_socket(port))


class OpenLoop(unittest.TestCase):
    def figures(self, **faults):
        seconds, connections, rate = 2, 5, 500
        with serving(answer(), **faults) as port, tempfile.TemporaryDirectory() as directory:
            log = os.path.join(directory, "log")
            command = load.h2load_command(
                f"http://127.0.0.1:{port}/", connections, rate, seconds, machine.processors(), log)
            return load.h2load(command, connections, rate, seconds, log)

    def test_a_pause_of_the_server_shows_in_every_request_due_meanwhile(self):
        # 0.5 s of 2 s: a quarter of all requests wait, those of the first half of the pause for more than 0.25 s.
        # A closed loop would record one long wait per connection: 5 requests out of 1000.
        figures = self.figures(pause_at=0.7, pause_seconds=0.5)
        self.assertGreater(figures["latency_p90_us"], 200_000)
        self.assertGreater(figures["latency_p99_us"], 400_000)
        self.assertLess(figures["latency_p50_us"], 100_000)

    def test_without_a_pause_the_percentiles_are_low(self):
        figures = self.figures()
        self.assertLess(figures["latency_p50_us"], 100_000)
        self.assertEqual(figures["errors"], 0)
        self.assertLess(figures["unanswered_share"], 0.05)


class ClosedLoop(unittest.TestCase):
    def figures(self, text, **faults):
        with serving(text, **faults) as port:
            command = load.wrk_command(f"http://127.0.0.1:{port}/", 3, 1, machine.processors())
            return load.wrk(command, 1)

    def test_answers_are_counted_without_errors(self):
        figures = self.figures(answer())
        self.assertGreater(figures["requests"], 10)
        self.assertEqual(figures["errors"], 0)
        self.assertGreater(figures["latency_max_us"], figures["latency_p50_us"] / 2)

    def test_error_answers_are_errors(self):
        figures = self.figures(answer(status=b"500 Oops"))
        self.assertGreater(figures["errors"], 10)

    def test_unannounced_closing_is_an_error(self):
        self.assertGreater(self.figures(answer(), hang_up=True)["errors"], 0)

    def test_nothing_listening_is_an_error(self):
        port = load.free_port()
        with self.assertRaises(load.LoadError):
            load.wrk(load.wrk_command(f"http://127.0.0.1:{port}/", 1, 1, machine.processors()), 1)


class Idle(unittest.TestCase):
    def test_connections_closed_by_the_server_are_counted(self):
        with serving(answer(), hang_up=True) as port:
            connections = load.IdleConnections(port, 3)
            try:
                # The server closes directly after its answer, which takes a moment to arrive.
                time.sleep(0.2)
                self.assertEqual(connections.closed_by_server(), 3)
            finally:
                connections.close()

    def test_open_connections_are_not(self):
        with serving(answer()) as port:
            connections = load.IdleConnections(port, 3)
            try:
                self.assertEqual(connections.closed_by_server(), 0)
            finally:
                connections.close()


class Percentile(unittest.TestCase):
    def test_nearest_rank(self):
        ordered = list(range(1, 101))
        self.assertEqual([load.percentile(ordered, p) for p in (50, 90, 99, 99.9, 100)], [50, 90, 99, 100, 100])
        self.assertEqual(load.percentile([7], 99.99), 7)


class UntilAnswered(unittest.TestCase):
    def lengths(self, *answered):
        """The lengths of runs that answer this many requests, or do not end."""
        lengths, left = [], list(answered)

        def run(seconds):
            lengths.append(seconds)
            requests = left.pop(0)
            if requests is None:
                raise load.Unfinished("h2load did not end")
            return {"requests": requests}, "command"

        self.last = load.until_answered(run, 2, 100)
        return lengths

    def test_a_run_in_which_some_connections_were_not_served_is_repeated_for_longer(self):
        self.assertEqual(self.lengths(100), [2])
        self.assertEqual(self.lengths(0, 99, 350), [2, 6, 20])
        self.assertEqual(self.last, ({"requests": 350}, "command"))

    def test_the_longest_run_counts_however_little_was_answered(self):
        self.assertEqual(self.lengths(0, 1, 2), [2, 6, 20])
        self.assertEqual(self.last[0]["requests"], 2)

    def test_a_generator_that_does_not_end_has_more_time_in_the_next_run(self):
        self.assertEqual(self.lengths(None, 100), [2, 6])
        with self.assertRaises(load.Unfinished):
            self.lengths(None, None, None)


class Uploads(unittest.TestCase):
    def test_uploads_are_counted_by_what_was_sent(self):
        size, connections = 1 << 20, 2
        with running(answer()) as server, tempfile.TemporaryDirectory() as directory:
            path = os.path.join(directory, "body")
            with open(path, "wb") as file:
                file.write(bytes(size))
            command = ["h2load", "--h1", f"--clients={connections}", f"--data={path}"]
            url = f"http://127.0.0.1:{server.server_address[1]}/"
            generator = load.PausedUpload(
                lambda seconds: [*command, f"--duration={seconds}", url], [*command, "--requests=1000000", url], connections)
            self.addCleanup(generator.kill)
            counts = []
            for _ in range(2):
                generator.resume()
                time.sleep(0.2)
                generator.pause()
                time.sleep(0.3)  # until the server has taken what was sent
                counts.append((generator.bytes_counted() / size, sum(server.bodies) / size))
            sent, received = (after - before for before, after in zip(*counts))
            self.assertGreater(received, 2 * connections)
            # Parts of bodies are counted here, and only whole ones by the server.
            self.assertAlmostEqual(sent, received, delta=connections + received / 100)


class Paused(unittest.TestCase):
    def test_a_paused_generator_sends_nothing_and_a_pause_is_no_error(self):
        with serving(answer()) as port:
            generator = load.PausedWrk(f"http://127.0.0.1:{port}/", 3, machine.processors())
            self.addCleanup(generator.kill)
            time.sleep(0.5)
            generator.pause()
            time.sleep(0.2)  # until the answers in flight have arrived
            received = generator.bytes_counted()
            time.sleep(0.5)
            self.assertEqual(generator.bytes_counted(), received)
            figures = generator.end()
        self.assertEqual(figures["errors"], 0)
        self.assertGreater(figures["requests"], 0)
        self.assertAlmostEqual(figures["bytes"] / len(answer()), figures["requests"], delta=3)

    def test_a_generator_that_ended_by_itself_is_an_error(self):
        generator = load.PausedWrk(f"http://127.0.0.1:{load.free_port()}/", 1, machine.processors())
        self.addCleanup(generator.kill)
        with self.assertRaisesRegex(load.LoadError, "wrk"):
            time.sleep(0.5)
            generator.end()
