"""A temporary PostgreSQL server with the arena's rows. It listens on a port that the kernel chose, and leaves nothing behind.

Must not know entries.
"""

import contextlib
import glob
import os
import pwd
import shutil
import subprocess
import tempfile
import time

from driver import load, process

from . import dataset

USER, PASSWORD, NAME = "bench", "bench", "arena"
CONNECTIONS = 600  # of all entries that run at the same time
START_SECONDS = 30


class DatabaseError(process.ServerError):
    """PostgreSQL cannot be started here."""


def _programs():
    """The folder of PostgreSQL's newest programs. Debian does not put them on the PATH."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"), key=lambda path: int(path.split("/")[4]))
    path = found[-1] if found else shutil.which("postgres")
    if not path:
        raise DatabaseError("PostgreSQL is not installed: install Debian's postgresql")
    return os.path.dirname(os.path.realpath(path))


def _as_other_user(directory):
    """The words before a command of PostgreSQL, which refuses to run as root. The folder is given to that user."""
    if os.getuid() != 0:
        return []
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        user = pwd.getpwnam("nobody")
    os.chown(directory, user.pw_uid, user.pw_gid)
    return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"]


def _run(command, directory):
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise DatabaseError(f"{os.path.basename(command[-1])}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def _wait(programs, port, server):
    deadline = time.monotonic() + START_SECONDS
    ready = [os.path.join(programs, "pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(port), "-U", USER, "-d", "postgres"]
    while subprocess.run(ready, check=False).returncode != 0:
        if server.ended():
            raise DatabaseError(f"PostgreSQL ended before it listened: {server.log()}")
        if time.monotonic() > deadline:
            raise DatabaseError(f"PostgreSQL did not listen within {START_SECONDS} s: {server.log()}")
        time.sleep(0.05)


@contextlib.contextmanager
def running(processors, data_directory):
    """Starts a server on these processors, fills it with the rows of a folder of `dataset.provide`, yields the URL of its database, and stops it."""
    with tempfile.TemporaryDirectory(prefix="arena-database-") as scratch:
        os.chmod(scratch, 0o755)
        home = os.path.join(scratch, "server")
        os.mkdir(home)
        before = _as_other_user(home)
        programs, data, port = _programs(), os.path.join(home, "data"), load.free_port()
        secret = os.path.join(scratch, "password")
        with open(secret, "w", encoding="ascii") as file:
            file.write(PASSWORD + "\n")
        _run([*before, os.path.join(programs, "initdb"), "-D", data, "-U", USER, "-A", "scram-sha-256", f"--pwfile={secret}",
              "-E", "UTF8", "--locale=C", "--no-sync"], home)
        server = process.Program(
            process.pinned(processors, [
                *before, os.path.join(programs, "postgres"), "-D", data, "-k", home, "-p", str(port),
                "-c", "listen_addresses=127.0.0.1", "-c", f"max_connections={CONNECTIONS}", "-c", "fsync=off",
                "-c", "synchronous_commit=off", "-c", "full_page_writes=off", "-c", "shared_buffers=256MB"]),
            home, {}, os.path.join(scratch, "log"))
        try:
            _wait(programs, port, server)
            url = f"postgres://{USER}:{PASSWORD}@127.0.0.1:{port}/"
            psql = [os.path.join(programs, "psql"), "-q", "-v", "ON_ERROR_STOP=1"]
            _run([*psql, url + "postgres", "-c", f"CREATE DATABASE {NAME}"], scratch)
            rows = os.path.join(data_directory, dataset.ROWS_FILE)
            _run([*psql, url + NAME, "-c", dataset.SCHEMA, "-c", f"\\copy items from '{rows}'", "-c", "VACUUM ANALYZE items"], scratch)
            yield url + NAME
        finally:
            server.stop()
