"""The entries of the arena, read from entries/NAME/entry.toml, in the form of peers.toml.

    title, language, needs, build, version, environment, cores, tuning    as in peers.toml
    ours       true for Millrace's entry
    quick      true if it takes part in a quick run
    command    starts the server; variables tell it all else (see doors.py). Placeholders: {build}, {root}, {cores}, {state}
    profiles   those that it takes part in
    warm_up    seconds of load before it is measured, for run-time systems that compile while they run; absent: 1

Must not know how entries are started.
"""

import os
import tomllib

from driver.peers import DEFAULT

from . import profiles

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "entries")


def _entry(name):
    with open(os.path.join(HERE, name, "entry.toml"), "rb") as file:
        entry = tomllib.load(file)
    unknown = set(entry["profiles"]) - set(profiles.PROFILES)
    if unknown:
        raise ValueError(f"entry {name} takes part in profiles that do not exist: {', '.join(sorted(unknown))}")
    entry["run"] = {profile: entry["command"] for profile in entry["profiles"]}
    if entry.pop("quick", False):
        entry["quick"] = list(profiles.BY_NAME)
    if entry.get("ours"):
        entry["backends"] = [DEFAULT]
    return entry


def manifest():
    """All entries by name, Millrace's first."""
    names = sorted(name for name in os.listdir(HERE) if os.path.exists(os.path.join(HERE, name, "entry.toml")))
    found = {name: _entry(name) for name in names}
    return dict(sorted(found.items(), key=lambda item: not item[1].get("ours")))
