"""The sides of the comparison. They are read from peers/peers.toml, and built, or skipped with a reason.

Knows how a side is built and what its command is. Must not know workloads.
"""

import os
import shlex
import shutil
import signal
import subprocess
import tomllib
from dataclasses import dataclass, field

from . import machine


PROBE_SECONDS = 30

# The backend that a system gets without a choice, among the `backends` of peers.toml. Its side has the peer's own name.
DEFAULT = "default"

# By which server a service is served, unless a side has another one for it.
SAME_SERVER = {"close": "pong", "tls-close": "tls-pong", "tls-handshake": "tls-pong",
               "proxy-pong": "proxy", "proxy-files": "proxy", "proxy-ws": "proxy", "h2proxy": "proxy"}


@dataclass(frozen=True)
class Side:
    """One competitor: a peer, and for Millrace one of its backends."""

    name: str
    peer: str
    entry: dict = field(hash=False, compare=False)
    backend: str = ""  # empty: the program chooses

    @property
    def ours(self):
        return bool(self.entry.get("ours"))

    def title(self):
        return self.entry["title"] + (f" ({self.backend})" if self.backend else "")

    def environment(self, cores):
        variables = {key: value.format(cores=cores) for key, value in self.entry.get("environment", {}).items()}
        if self.backend:
            variables["MILLRACE_BACKEND"] = self.backend
        return variables

    def service(self, wanted):
        """The service whose command serves the wanted one: some differ only in what the client does."""
        wanted = self.instead(wanted)
        if wanted in self.entry["run"]:
            return wanted
        return SAME_SERVER.get(wanted, wanted)

    def instead(self, wanted):
        """What this side does in a row of another protocol, so that both protocols can be compared there."""
        return self.entry.get("instead", {}).get(wanted, wanted)

    def offers(self, service, cores):
        fewest, most = self.entry.get("cores", [1, 1 << 30])
        return self.service(service) in self.entry["run"] and fewest <= cores <= most


class Workshop:
    """Builds peers into one directory and makes their commands. `manifest`: the peers by name; None means peers.toml's."""

    def __init__(self, bench, build, quick, manifest=None):
        self.bench = bench
        self.root = os.path.dirname(bench)
        self.build = build
        self.quick = quick
        self.reasons = {}  # peer -> why it is left out
        self.versions = {}
        if manifest is None:
            with open(os.path.join(bench, "peers", "peers.toml"), "rb") as file:
                manifest = tomllib.load(file)["peer"]
        self.manifest = manifest

    def sides(self, wanted, backends):
        """The chosen sides. `wanted` are names of peers; None means all, or in a quick run those marked for it. `backends`
        are those of Millrace; None means all. Millrace always takes part, unless `backends` is empty."""
        unknown = sorted(set(wanted or []) - set(self.manifest))
        if unknown:
            raise ValueError(f"there is no peer {', '.join(unknown)}; the peers are {', '.join(self.manifest)}")
        result = []
        for peer, entry in self.manifest.items():
            if not entry.get("ours"):
                if peer in wanted if wanted is not None else "quick" in entry or not self.quick:
                    result.append(Side(peer, peer, entry))
                continue
            unknown = sorted(set(backends or []) - set(entry["backends"]))
            if unknown:
                raise ValueError(f"{peer} has no backend {', '.join(unknown)}; its backends are {', '.join(entry['backends'])}")
            for backend in entry["backends"]:
                if backends is None or backend in backends:
                    result.append(Side(peer, peer, entry) if backend == DEFAULT else
                                  Side(f"{peer}-{backend}", peer, entry, backend))
        return result

    def missing(self, peer):
        """None, or which command or variable a peer needs that this machine lacks."""
        entry = self.manifest[peer]
        for command in entry.get("needs", []):
            if not shutil.which(command):
                return f"`{command}` is not installed"
        variable = entry.get("needs_variable")
        if variable and not os.environ.get(variable):
            return f"the variable {variable} is not set"
        return None

    def prepare(self, peer, announce):
        """Builds a peer, once. Returns None, or the reason why the peer cannot take part."""
        if peer in self.versions:
            return self.reasons.get(peer)
        entry = self.manifest[peer]
        self.versions[peer] = ""
        reason = self.missing(peer)
        if reason is None and "build" in entry:
            announce(f"building {peer}")
            reason = self._run_build(entry)
        if reason is None:
            command = "set -e; " + entry["version"].format(build=self.build, root=self.root)
            self.versions[peer] = ", ".join(line.strip() for line in machine.output_of(command, self.bench).split("\n"))
        else:
            self.reasons[peer] = reason
        return reason

    def probe(self, side):
        """Returns None, or the reason why a side cannot work on this machine although its peer was built."""
        if "probe" not in side.entry:
            return None
        command = side.entry["probe"].format(build=self.build, root=self.root)
        process = subprocess.Popen(
            command, shell=True, cwd=self.bench, env={**os.environ, **side.environment(1)}, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, start_new_session=True)
        try:
            output, _ = process.communicate(timeout=PROBE_SECONDS)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the shell and all it has started
            process.communicate()
            return f"its probe did not end within {PROBE_SECONDS} s"
        if process.returncode == 0:
            return None
        return (output.strip().split("\n")[-1] or f"its probe failed with exit code {process.returncode}")[:300]

    def _run_build(self, entry):
        command = entry["build"].format(build=self.build, root=self.root)
        try:
            done = subprocess.run(
                command, shell=True, cwd=self.bench, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                timeout=1800)
        except subprocess.TimeoutExpired:
            return "the build took more than half an hour"
        if done.returncode == 0:
            return None
        lines = [line.strip() for line in done.stdout.split("\n") if line.strip()] or ["no message"]
        telling = [line for line in lines if "error" in line.lower()] or lines
        return f"the build failed: {telling[0][:200]}"

    def command(self, side, service, **values):
        """The command of a service as a list, or a sentence that says why there is none."""
        template = side.entry["run"][side.service(service)]
        words = [word.format(build=self.build, root=self.root, **values) for word in shlex.split(template)]
        program = os.path.join(self.bench, words[0]) if "/" in words[0] else words[0]
        if shutil.which(program) is None:
            return f"{self.shown(words[0])} does not exist"
        return words

    def shown(self, text):
        """A command as it is printed. Paths are relative to the checkout, so that it can be repeated elsewhere."""
        return text.replace(self.root + "/", "")
