"""CPU time and memory of a program and its children; programs that fail."""

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

    def test_a_measured_run_reports_cpu_time(self):
        output, cpu, peak = process.run_measured([sys.executable, "-c", BURN + "print('done')"], "/", {}, 30)
        self.assertEqual(output, "done\n")
        self.assertGreater(cpu, 0.35)
        self.assertGreater(peak, 1 << 20)

    def test_failure_and_overrun_are_errors(self):
        with self.assertRaises(process.ServerError):
            process.run_measured([sys.executable, "-c", "raise SystemExit(3)"], "/", {}, 30)
        with self.assertRaises(TimeoutError):
            process.run_measured([sys.executable, "-c", "import time; time.sleep(60)"], "/", {}, 0.3)
