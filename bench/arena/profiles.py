"""The profiles of the arena, in groups that are workloads of `bench/run`: what each asks, through which door, and how often at
once. The names and the mixture of requests are HttpArena's; the numbers of connections suit machines of a few cores.

Only descriptions: `rules` says what is right, and `pressure` makes the load.
"""

from dataclasses import dataclass

from driver.workloads import Workload

from . import asking, dataset, grpc

THINGS = [(1, 3), (5, 7), (10, 2), (15, 5), (25, 4), (40, 8), (50, 6)]
COMPRESSED_THINGS = [(25, 4), (40, 8), (50, 6)]
DEPTH = 16
REQUESTS_PER_CONNECTION = 10


@dataclass(frozen=True)
class Profile:
    name: str
    title: str
    door: str
    generator: str  # wrk, h2load or websocket
    requests: tuple = ()  # wrk: whole requests, which take turns
    depth: int = 1  # wrk: how many are written at once
    paths: tuple = ()  # h2load: paths, which take turns
    fields: tuple = ()  # h2load
    body: bytes = b""  # h2load: makes its requests POST

    @property
    def over_tls(self):
        return self.door in ("tls", "h2")


def _get(path, *fields):
    return asking.request("GET", path, fields)


def _post(path, body, *fields):
    return asking.request("POST", path, fields, body)


def _things(pairs, *fields):
    return tuple(_get(f"/json/{count}?m={factor}", *fields) for count, factor in pairs)


_SUM, _FORM = "/baseline11?a=13&b=42", "Content-Type: text/plain"
_SUMS = (_get(_SUM), _post(_SUM, b"20", _FORM), _post(_SUM, asking.chunked(b"20"), _FORM, "Transfer-Encoding: chunked"))


def _closing(requests):
    """The requests, of which every tenth closes its connection."""
    return tuple(
        request.replace(b"Host: localhost\r\n", b"Host: localhost\r\nConnection: close\r\n", 1)
        if index % REQUESTS_PER_CONNECTION == 0 else request
        for index, request in enumerate(requests * REQUESTS_PER_CONNECTION))


_JSON = "Content-Type: application/json"
# rotate.lua puts numbers into these words, as many digits as letters.
_OLD, _NEW = "{OLD}", "{NEWX}"
_CHANGES = tuple(
    asking.request("PUT", f"/crud/items/{_OLD}", [_JSON], b'{"name":"Changed","price":%d,"quantity":5}' % price) for price in (30, 31, 32))
_CRUD = (
    _get(f"/crud/items/{_OLD}"),) * 15 + _CHANGES + (
    _get("/crud/items?category=office&page=3&limit=10"),
    _post("/crud/items", b'{"id":%s,"name":"Made","category":"test","price":25,"quantity":10}' % _NEW.encode(), _JSON))
_RANGES = tuple(_get(f"/async-db?min=10&max=50&limit={limit}") for limit in (5, 10, 20, 35, 50))
_ACCEPTED = "Accept-Encoding: br;q=1, gzip;q=0.8"
_FILES = tuple(f"/static/{name}" for name in dataset.STATIC)

PROFILES = {profile.name: profile for profile in [
    Profile("baseline", "sums, by GET, POST and POST in chunks", "http", "wrk", _SUMS),
    Profile("pipelined", "16 requests in each write", "http", "wrk", (_get("/pipeline"),), depth=DEPTH),
    Profile("limited-conn", "sums, about ten requests per connection", "http", "wrk", _closing(_SUMS)),
    Profile("json", "1 to 50 things as JSON", "http", "wrk", _things(THINGS)),
    Profile("json-comp", "25 to 50 things as JSON, compressed", "http", "wrk",
            _things(COMPRESSED_THINGS, "Accept-Encoding: gzip, br")),
    Profile("json-tls", "1 to 50 things as JSON over TLS", "tls", "wrk", _things(THINGS)),
    Profile("upload", "uploads of 500 KB and 2 MB", "http", "wrk", tuple(
        _post("/upload", bytes(size), "Content-Type: application/octet-stream") for size in (512_000, 2 << 20))),
    Profile("static", "twenty files, compressed if the server does", "http", "wrk", tuple(_get(path, _ACCEPTED) for path in _FILES)),
    Profile("async-db", "rows of a range of prices", "http", "wrk", _RANGES),
    Profile("crud", "rows read, changed, listed and made", "http", "wrk", _CRUD),
    Profile("baseline-h2", "sums by HTTP/2 over TLS", "h2", "h2load", paths=("/baseline2?a=1&b=1",)),
    Profile("static-h2", "twenty files by HTTP/2 over TLS", "h2", "h2load", paths=_FILES, fields=(_ACCEPTED,)),
    Profile("baseline-h2c", "sums by HTTP/2 without TLS", "h2c", "h2load", paths=("/baseline2?a=1&b=1",)),
    Profile("json-h2c", "1 to 50 things as JSON by HTTP/2 without TLS", "h2c", "h2load",
            paths=tuple(f"/json/{count}?m={factor}" for count, factor in THINGS)),
    Profile("echo-ws", "messages of a WebSocket", "http", "websocket"),
    *(Profile(f"unary-grpc{suffix}", f"gRPC{words}, calls with one answer", door, "h2load", paths=(grpc.SERVICE + "GetSum",),
              fields=tuple(grpc.FIELDS), body=grpc.message(1, 2)) for door, suffix, words in grpc.DOORS),
    *(Profile(f"stream-grpc{suffix}", f"gRPC{words}, calls with 5,000 answers", door, "h2load", paths=(grpc.SERVICE + "StreamSum",),
              fields=tuple(grpc.FIELDS), body=grpc.message(1, 2, 5000)) for door, suffix, words in grpc.DOORS),
]}


def _points(service, *pairs, cores=(1, 2)):
    return [{"service": service, "connections": connections, "cores": core} | ({"streams": streams} if streams else {})
            for core in cores for connections, streams in pairs]


def _group(name, title, text, points, quick=()):
    return Workload(f"arena-{name}", title, "closed", text, "cpu_us_per_request", points, list(quick))


ALL = [
    _group("http1", "small answers by HTTP/1.1",
           "baseline: sums of two numbers in the address and one in the body, by GET, POST with a length and POST in chunks. "
           "pipelined: 16 requests in each write. limited-conn: as baseline, with about ten requests on each connection.",
           _points("baseline", (512, 0), (4096, 0)) + _points("pipelined", (512, 0)) + _points("limited-conn", (512, 0)),
           _points("baseline", (64, 0), cores=(1,))),
    _group("json", "JSON",
           "1 to 50 things of a data set, each with a total that depends on the request: plain, compressed by gzip or brotli, and "
           "over TLS.",
           _points("json", (1024, 0)) + _points("json-comp", (512, 0)) + _points("json-tls", (512, 0))),
    _group("files", "uploads and files",
           "upload: bodies of 500 KB and 2 MB in turn, whose bytes are counted. static: twenty files of a page in turn; the "
           "client accepts brotli and gzip, and servers may send the compressed variants that lie beside the files.",
           _points("upload", (32, 0)) + _points("static", (1024, 0))),
    _group("database", "PostgreSQL",
           "async-db: up to 50 rows of a range of prices, found without an index. crud: of twenty requests, 15 read a row, which "
           "the server keeps for 200 ms, 3 change one, one makes one and one lists a page. Only the server's CPU time is counted, "
           "not the database's.",
           _points("async-db", (512, 0)) + _points("crud", (1024, 0))),
    _group("http2", "HTTP/2",
           "Sums, files and JSON by HTTP/2, over TLS (baseline-h2, static-h2) and without (baseline-h2c, json-h2c).",
           _points("baseline-h2", (64, 100)) + _points("static-h2", (64, 32)) + _points("baseline-h2c", (64, 100))
           + _points("json-h2c", (64, 32)),
           _points("baseline-h2c", (16, 10), cores=(1,))),
    _group("streams", "WebSocket and gRPC",
           "echo-ws: messages of five bytes, one in flight on each connection. unary-grpc: calls that add two numbers. "
           "stream-grpc: calls that are answered with 5,000 messages; the figure is one call. unary-grpc-tls and stream-grpc-tls: the same "
           "over TLS.",
           _points("echo-ws", (512, 0)) + _points("unary-grpc", (64, 100)) + _points("stream-grpc", (8, 4))
           + _points("unary-grpc-tls", (64, 100)) + _points("stream-grpc-tls", (8, 4))),
]
BY_NAME = {workload.name: workload for workload in ALL}


def is_wanted(names):
    """Whether the names that an option gives are those of the arena. They cannot be mixed with others."""
    found = [name == "arena" or name in BY_NAME for name in names or ()]
    if any(found) and not all(found):
        raise ValueError("the arena has its own sides: name only `arena`, or only " + ", ".join(BY_NAME))
    return any(found)


def label(_name, point):
    """The name of a row in the report and while it is measured."""
    words = [point["service"], f"{point['connections']:,} connections"]
    if point.get("streams", 1) > 1:
        words.append(f"{point['streams']} streams each")
    return ", ".join([*words, f"{point['cores']} core" + "s" * (point["cores"] > 1)])


def select(names, connections, quick):
    """The workloads and points of a run, as (workload, points)."""
    chosen = []
    for workload in ALL:
        if workload.name not in names and "arena" not in names:
            continue
        points = workload.quick if quick else workload.points
        if connections is not None:
            points = [{**point, "connections": count} for point in points for count in connections]
        points = [point for index, point in enumerate(points) if point not in points[:index]]
        if points:
            chosen.append((workload, points))
    return chosen
