"""Facts about the machine, and which processors run the server and which the load generator.

Must not know peers or workloads.
"""

import datetime
import os
import platform
import resource
import shutil
import subprocess


def output_of(command, directory=None):
    """Standard output of a shell command, or "" if it fails."""
    done = subprocess.run(command, shell=True, cwd=directory, capture_output=True, text=True, timeout=60)
    return done.stdout.strip() if done.returncode == 0 else ""


def _field(path, name):
    try:
        with open(path, encoding="utf-8") as file:
            for line in file:
                if line.split(":")[0].strip().strip('"') == name or line.startswith(name + "="):
                    return line.replace("=", ":", 1).split(":", 1)[1].strip().strip('"')
    except OSError:
        pass
    return ""


def processors():
    """The processors this process may use, in order."""
    return sorted(os.sched_getaffinity(0))


def server_processors(cores):
    return processors()[:cores]


def load_processors(cores):
    """The processors that the server does not use, at most four. If none is left, all of them."""
    rest = processors()[cores:]
    return rest[:4] if rest else processors()


def shares_processors(cores):
    return bool(set(server_processors(cores)) & set(load_processors(cores)))


def raise_descriptor_limit():
    """Raises the limit of open descriptors of this process and its children as far as the system allows; returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def commit(root):
    """The commit measured, with "-dirty" if the checkout differs from it; "uncommitted" outside a repository."""
    name = output_of("git rev-parse --short=10 HEAD", root)
    if not name:
        return "uncommitted"
    return name + ("-dirty" if output_of("git status --porcelain --untracked-files=no", root) else "")


def _tool_version(tool, command):
    if not shutil.which(tool):
        return "missing"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, timeout=10)
    return (done.stdout + done.stderr).strip().split("\n")[0]


def facts(root):
    """Everything about the machine that a reader of the figures may want to know."""
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": commit(root),
        "processor": _field("/proc/cpuinfo", "model name"),
        "processors": len(processors()),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "system": _field("/etc/os-release", "PRETTY_NAME"),
        "virtual": output_of("systemd-detect-virt") or "not known",
        "descriptors": resource.getrlimit(resource.RLIMIT_NOFILE)[1],
        "load_average": "%.2f %.2f %.2f" % os.getloadavg(),
        "tools": {
            "wrk": _tool_version("wrk", "wrk -v 2>&1 | head -1 | cut -d' ' -f2"),
            "h2load": _tool_version("h2load", "h2load --version | cut -d' ' -f2"),
            "perf": _tool_version("perf", "perf --version | cut -d' ' -f3"),
            "strace": _tool_version("strace", "strace --version | head -1 | sed 's/.*version //'"),
            "python": platform.python_version(),
        },
    }
