"""CPU time and memory of a program and its children, and programs that fail."""

import sys
import tempfile
import time
import unittest

from .. import process

BURN = "import time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass\n"


class Programs(unittest.TestCase):
    def program(self, code):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        program = process.Program([sys.executable, "-c", code], directory.name, {}, directory.name + "/log")
        self.addCleanup(program.stop)
        return program

    def test_the_time_and_memory_of_children_count(self):
        program = self.program(
            "import subprocess, sys, time\n"
            f"child = subprocess.Popen([sys.executable, '-c', {BURN + 'time.sleep(60)'!r}])\ntime.sleep(60)")
        deadline = time.monotonic() + 10
        while sum(process.cpu_seconds(program.pids())) < 0.35 and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertGreaterEqual(sum(process.cpu_seconds(program.pids())), 0.35)
        self.assertEqual(len(program.pids()), 2)
        self.assertGreater(process.memory_bytes(program.pids(), "VmRSS"), 1 << 20)
        children = program.pids()[1:]
        program.stop()
        self.assertEqual([process.memory_bytes(children, "VmRSS")], [0])

    def test_the_fine_clock_agrees_with_the_ticks_and_counts_threads_that_have_ended(self):
        program = self.program(
            f"import threading, time\nthread = threading.Thread(target=lambda: exec({BURN!r}))\n"
            "thread.start()\nthread.join()\nprint('burnt', flush=True)\ntime.sleep(60)")
        deadline = time.monotonic() + 30
        while program.log() != "burnt" and time.monotonic() < deadline:
            time.sleep(0.05)
        seconds = process.cpu_ns(program.pids()) / 1e9
        self.assertGreater(seconds, 0.39)
        self.assertAlmostEqual(seconds, sum(process.cpu_seconds(program.pids())), delta=0.05)
        self.assertEqual(process.cpu_ns([1 << 22]), 0)  # No process has this number.

    def test_a_measured_run_reports_cpu_time(self):
        run = process.run_measured([sys.executable, "-c", BURN + "print('done')"], "/", {}, 30)
        self.assertEqual(run.output, "done\n")
        self.assertGreater(run.cpu_seconds, 0.35)
        self.assertGreater(run.peak_memory_bytes, 1 << 20)
        self.assertEqual(run.peak_threads, 1)

    def test_a_measured_run_reports_the_largest_number_of_threads(self):
        code = ("import threading, time\nthreads = [threading.Thread(target=time.sleep, args=(1,)) for _ in range(7)]\n"
                "for thread in threads: thread.start()\nfor thread in threads: thread.join()\n")
        self.assertEqual(process.run_measured([sys.executable, "-c", code], "/", {}, 30).peak_threads, 8)

    def test_a_measured_run_reports_kernel_memory(self):
        threads = 400
        code = (f"import threading, time\nthreads = [threading.Thread(target=time.sleep, args=(1,)) for _ in range({threads})]\n"
                "for thread in threads: thread.start()\nfor thread in threads: thread.join()\n")
        # 16 KB of stack for each thread, unless another program frees as much meanwhile.
        growths = (process.run_measured([sys.executable, "-c", code], "/", {}, 30).peak_kernel_memory_bytes for _ in range(5))
        self.assertTrue(any(growth > threads * 8192 for growth in growths))

    def test_failure_and_overrun_are_errors(self):
        with self.assertRaises(process.ServerError):
            process.run_measured([sys.executable, "-c", "raise SystemExit(3)"], "/", {}, 30)
        with self.assertRaises(TimeoutError):
            process.run_measured([sys.executable, "-c", "import time; time.sleep(60)"], "/", {}, 0.3)
