"""What every entry gets to serve: a data set of fifty items, a hundred thousand rows for the database, twenty static files
and a certificate. All but the certificate are the same on every machine. They have the shape that HttpArena prescribes.

Must not know servers.
"""

import functools
import json
import os
import random
import subprocess

from . import codings

ITEMS, ROWS = 50, 100_000
ROWS_FILE = "rows"  # They are not the entries' business, but making them takes a second.
CATEGORIES = ["electronics", "tools", "office", "garden", "kitchen", "sports", "music", "travel"]
FIRST = ["Amber", "Birch", "Cobalt", "Delta", "Ember", "Fjord", "Granite", "Harbour", "Indigo", "Juniper"]
SECOND = ["Anchor", "Beacon", "Clamp", "Drill", "Engine", "Funnel", "Gauge", "Hinge", "Kettle", "Lantern"]
TAGS = ["light", "sturdy", "spare", "outdoor", "small", "boxed", "quiet", "blue", "used", "rare"]

# name -> size. The sizes and kinds are those of a page of HttpArena.
TEXTS = {
    "reset.css": 8_000, "layout.css": 25_000, "theme.css": 40_000, "components.css": 200_000, "utilities.css": 60_000,
    "analytics.js": 12_000, "helpers.js": 20_000, "app.js": 90_000, "vendor.js": 300_000, "router.js": 30_000,
    "header.html": 55_000, "footer.html": 120_000, "logo.svg": 15_000, "icon-sprite.svg": 70_000, "manifest.json": 3_000,
}
BINARIES = {"regular.woff2": 18_000, "bold.woff2": 22_000, "hero.webp": 45_000, "thumb1.webp": 6_000, "thumb2.webp": 9_000}
STATIC = [*TEXTS, *BINARIES]

# The media types of the endings. For scripts there are two names for the same type (RFC 9239).
TYPES = {
    "css": {"text/css"}, "js": {"text/javascript", "application/javascript"}, "html": {"text/html"},
    "svg": {"image/svg+xml"}, "json": {"application/json"}, "woff2": {"font/woff2"}, "webp": {"image/webp"},
}

SUFFIXES = {"gzip": ".gz", "br": ".br"}

SCHEMA = """
CREATE TABLE items (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL,
    category TEXT NOT NULL,
    price INTEGER NOT NULL,
    quantity INTEGER NOT NULL,
    active BOOLEAN NOT NULL,
    tags JSONB NOT NULL,
    rating_score INTEGER NOT NULL,
    rating_count INTEGER NOT NULL
);
"""  # There is no index on the price, so a range of prices is searched row by row.


def _item(chance, number):
    return {
        "id": number, "name": f"{chance.choice(FIRST)} {chance.choice(SECOND)} {number}", "category": chance.choice(CATEGORIES),
        "price": chance.randint(1, 500), "quantity": chance.randint(1, 100), "active": chance.random() < 0.7,
        "tags": chance.sample(TAGS, chance.randint(1, 4)),
        "rating": {"score": chance.randint(1, 50), "count": chance.randint(1, 500)},
    }


@functools.cache
def items():
    """The data set of the JSON profiles."""
    chance = random.Random("items")
    return [_item(chance, number) for number in range(1, ITEMS + 1)]


def rows():
    """The rows of the database, in the text format of PostgreSQL's COPY."""
    chance = random.Random("rows")
    for number in range(1, ROWS + 1):
        item = _item(chance, number)
        yield "\t".join(map(str, (
            item["id"], item["name"], item["category"], item["price"], item["quantity"], "t" if item["active"] else "f",
            json.dumps(item["tags"]), item["rating"]["score"], item["rating"]["count"]))) + "\n"


def _text(name, size):
    """Lines of words, some of which are frequent, so that the text compresses about as well as real files."""
    chance = random.Random(name)
    words = ["".join(chance.choices("abcdefghijklmnopqrstuvwxyz", k=chance.randint(2, 11))) for _ in range(600)]
    parts, length = [], 0
    while length < size:
        word = words[min(len(words) - 1, int(chance.expovariate(1 / 60)))]
        parts.append(word + chance.choice([" ", " ", ": ", ";\n", " {\n", " }\n"]))
        length += len(parts[-1])
    return "".join(parts).encode()[:size]


@functools.cache
def content(name):
    """The bytes of a static file."""
    if name in TEXTS:
        return _text(name, TEXTS[name])
    return random.Random(name).randbytes(BINARIES[name])


def _write(path, data):
    if not os.path.exists(path):
        with open(path + ".new", "wb") as file:
            file.write(data() if callable(data) else data)
        os.replace(path + ".new", path)


def provide(directory):
    """Makes the folder that ARENA_DATA names. What it already has stays as it is."""
    static = os.path.join(directory, "static")
    os.makedirs(static, exist_ok=True)
    _write(os.path.join(directory, "dataset.json"), json.dumps(items(), indent=1).encode())
    _write(os.path.join(directory, ROWS_FILE), lambda: "".join(rows()).encode())
    for name in STATIC:
        path = os.path.join(static, name)
        _write(path, lambda name=name: content(name))
        if name in TEXTS:
            for coding, suffix in SUFFIXES.items():
                _write(path + suffix, lambda name=name, coding=coding: codings.compressed(coding, content(name)))
    return directory


def certificate(directory):
    """The paths of a certificate for localhost and of its key. They are made when first needed, and last a year."""
    os.makedirs(directory, exist_ok=True)
    paths = [os.path.join(directory, name) for name in ("server.crt", "server.key")]
    if not os.path.exists(paths[0]):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "365",
             "-batch", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
             "-keyout", paths[1], "-out", paths[0] + ".new"], check=True, capture_output=True)
        os.replace(paths[0] + ".new", paths[0])
    return paths
