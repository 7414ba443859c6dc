"""Starts and stops programs, and reads from /proc what they have used.

The children of a program are counted with it, because some servers are several processes.
"""

import os
import resource
import signal
import subprocess
import time
from dataclasses import dataclass

TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")


class ServerError(Exception):
    """A server did not start, gave a wrong answer, or ended by itself."""


def _parents():
    """The parent of every process: {pid: parent's pid}."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields:
                parents[int(name)] = int(fields[1])
    return parents


def _stat(pid):
    """`pid`: a process, or PID/task/TID. The fields of /proc/PID/stat after the command's name, or None if the process is gone."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()
    except OSError:
        return None


def tree(pid):
    """A process and all its descendants."""
    parents = _parents()
    found = [pid]
    for candidate in found:
        found.extend(child for child, parent in parents.items() if parent == candidate)
    return found


def cpu_seconds(pids):
    """User and system time of the processes."""
    user = system = 0
    for pid in pids:
        fields = _stat(pid)
        if fields:
            user += int(fields[11])
            system += int(fields[12])
    return user / TICKS_PER_SECOND, system / TICKS_PER_SECOND


def cpu_ns(pids):
    """User and system time of the processes together, in nanoseconds, including threads that have ended.

    /proc/PID/stat has a resolution of 10 ms. This reads the clock that clock_getcpuclockid(3) returns for a process.
    """
    total = 0
    for pid in pids:
        try:
            total += time.clock_gettime_ns(~pid << 3 | 2)
        except OSError:
            pass
    return total


def _bytes(pid, name):
    with open(f"/proc/{pid}/io", encoding="utf-8") as file:
        for line in file:
            if line.startswith(name + ":"):
                return int(line.split()[1])
    raise OSError(f"/proc/PID/io has no {name}")


def is_runnable(pids):
    """Whether a thread of the processes runs, or would if there were a processor for it."""
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                fields = _stat(f"{pid}/task/{thread}")
                if fields and fields[0] == "R":
                    return True
        except OSError:
            pass
    return False


def bytes_read(pid):
    """The bytes that a process has read, from sockets too. Raises OSError if the kernel does not count them."""
    return _bytes(pid, "rchar")


def bytes_written(pid):
    """The same for bytes that it has written."""
    return _bytes(pid, "wchar")


def memory_bytes(pids, name):
    """The sum of a field of /proc/PID/status over processes: VmHWM is the peak, VmRSS the memory resident now."""
    total = 0
    for pid in pids:
        try:
            with open(f"/proc/{pid}/status", encoding="utf-8") as file:
                for line in file:
                    if line.startswith(name + ":"):
                        total += int(line.split()[1]) * 1024
        except OSError:
            pass
    return total


def kernel_memory_bytes():
    """The memory that the machine's kernel uses for thread stacks, page tables and its own records."""
    with open("/proc/meminfo", encoding="utf-8") as file:
        fields = dict(line.split(":") for line in file)
    return sum(int(fields[name].split()[0]) for name in ("KernelStack", "PageTables", "SUnreclaim")) * 1024


def _settled_kernel_memory_bytes():
    """The same, after waiting until it no longer changes: the kernel frees a thousand ended threads over some time."""
    found = kernel_memory_bytes()
    for _ in range(20):
        time.sleep(0.05)
        before, found = found, kernel_memory_bytes()
        if abs(found - before) < 64 << 10:
            break
    return found


def pinned(processors, command):
    return ["taskset", "-c", ",".join(map(str, processors)), *command]


class Program:
    """A running program in a new session, with its output in a file."""

    def __init__(self, command, directory, environment, log_path):
        self.command = command
        self.log_path = log_path
        with open(log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, cwd=directory, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=log,
                stderr=subprocess.STDOUT, start_new_session=True)

    def pids(self):
        return tree(self.process.pid)

    def ended(self):
        return self.process.poll() is not None

    def log(self):
        """The end of its output, for messages."""
        with open(self.log_path, encoding="utf-8", errors="replace") as file:
            return file.read()[-500:].strip()

    def stop(self):
        """SIGTERM, then SIGKILL after five seconds, to the program's own process group."""
        if not self.ended():
            self._signal(signal.SIGTERM)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                pass
        self._signal(signal.SIGKILL)
        self.process.wait()

    def _signal(self, number):
        try:
            os.killpg(self.process.pid, number)
        except ProcessLookupError:
            pass


def _threads(pid):
    """How many threads a process has now; 0 if it is gone."""
    fields = _stat(pid)
    return int(fields[17]) if fields else 0


@dataclass(frozen=True)
class Run:
    """The output of a program, and what it used. Peaks are the largest of samples taken every few milliseconds, or 0 without
    samples. The kernel's memory is the growth of the whole machine's."""

    output: str
    cpu_seconds: float
    peak_memory_bytes: int
    peak_threads: int
    peak_kernel_memory_bytes: int


def run_measured(command, directory, environment, timeout_seconds):
    """Runs a program to its end and returns its Run.

    Raises ServerError if it fails, TimeoutError if it takes too long.
    """
    kernel_before = _settled_kernel_memory_bytes()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        command, cwd=directory, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True)
    peak = threads = kernel = 0
    deadline = time.monotonic() + timeout_seconds
    while True:
        try:
            output, _ = process.communicate(timeout=0.005)
            break
        except subprocess.TimeoutExpired:
            # ru_maxrss would include this driver's memory, which the child had before exec. So sample the running process.
            peak = max(peak, memory_bytes([process.pid], "VmHWM"))
            threads = max(threads, _threads(process.pid))
            kernel = max(kernel, kernel_memory_bytes() - kernel_before)
            if time.monotonic() > deadline:
                os.killpg(process.pid, signal.SIGKILL)
                process.communicate()
                raise TimeoutError(f"the program took longer than {timeout_seconds:.0f} s and was stopped") from None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if process.returncode != 0:
        raise ServerError(f"the program failed with exit code {process.returncode}: {output.strip()[-300:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Run(output, cpu, peak, threads, kernel)
