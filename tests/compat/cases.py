"""What scripts/interop/compat builds and runs, and what differs from the originals, with the reason of each difference."""
from dataclasses import dataclass, field

from chat import chat


@dataclass
class Suite:
    """Debian's source, the test suite, and what fails: the beginning of the examples' names, how many, and the reason."""

    source: str
    component: str
    expected: dict = field(default_factory=dict)
    # A folder in tests/compat: a package for the suite's specs, or modules that come before others for them.
    made: str = ""
    # Examples that would end the whole suite, each with the reason.
    skipped: dict = field(default_factory=dict)
    # Sources that are between it and the package whose names it has.
    between: list = field(default_factory=list)


@dataclass
class Program:
    """Debian's source or a folder in tests/compat, the executable, how it is started and asked, and what differs."""

    component: str
    arguments: list
    requests: list
    source: str = ""
    made: str = ""
    expected: dict = field(default_factory=dict)
    between: list = field(default_factory=list)
    flags: str = ""
    port: int = 0
    # Asks instead of the requests: a function, or arguments with which the same program is a client that prints its answers.
    ask: object = None
    client: list = field(default_factory=list)
    # Where Debian's source is found and where its dependencies are; usually in this release.
    source_release: str = ""
    only_on: str = ""
    # Before it is started: arguments.
    prepare: list = field(default_factory=list)
    environment: dict = field(default_factory=dict)


NO_INSIDE = "it calls a function from within Warp, and Millrace has nothing like it"
SUITES = {
    "warp": Suite("haskell-warp", "warp-suite:test:spec", {
        "/FdCache/": (1, "Millrace's descriptors stay within the server: this cache returns none, as Warp's with a duration of 0"),
        "/Response/sanitizeHeaderValue/": (6, NO_INSIDE),
        '/Response/range requests/(\\"-17': (1, "a suffix that is longer than the file gets 206 with the whole file (RFC 9110, section 14.1.2)"),
        "/Run/non-pipelining/chunked body, ": (2, "their chunked bodies have no end: the empty line after the last chunk is missing"),
        "/Run/pipelining/chunked body, ": (2, "the same: Warp takes the next request's first line for a new request there, as an attacker wants"),
        "/Run/chunked bodies/in chunks/": (1, "the same"),
        "/Run/special input/multiline headers/": (1, "lines are folded: see setAllowFolding"),
        "/Run/head requests/file, with range/": (1, "HEAD ignores Range (RFC 9110, section 14.2)"),
        "/SendFile/packHeader/": (12, NO_INSIDE),
    }, made="warp-suite"),
    "scotty": Suite("haskell-scotty", "scotty:test:spec", {
        "/Web.Scotty/scottySocket/works with a unix socket/": (
            1, "it ends a request's head with a bare LF, and goes on: Millrace answers, and closes the connection, "
            "because a proxy that does not see a line end there would take what follows for another request"),
    }),
    "yesod-core": Suite("haskell-yesod-core", "yesod-core:test:tests", dict.fromkeys(
        ["/sendWaiResponse + responseStream/", "/sendWaiApplication + responseStream/"],
        (1, "they expect the sizes of chunks with leading zeros, as Warp writes them"))),
    "servant-server": Suite("haskell-servant-server", "servant-server:test:spec", between=["haskell-wai-app-static"]),
    "http-conduit": Suite("haskell-http-conduit", "http-conduit:test:test", {
        "/httpLbs/TLS/": (1, "its certificate has an RSA key of 1,024 bits, signed with SHA-1: OpenSSL refuses both at its security level 2"),
    }),
}

# Of Warp's own suite these specs call only functions from within Warp, and are not compiled: examples of each.
WARP_INSIDE = {"BufferPool": 1, "Conduit": 3, "File": 4, "ReadInt": 1, "Request": 19, "ResponseHeader": 5}

# Suites with the names of base, stm and network from compat/names.
NAMED = {
    "network": Suite("haskell-network", "network-suite:test:spec", {
        "/Network.Socket/unix sockets/safely throws an exception/": (1, "a name that is too long is an IOError, not a call of error"),
        "/Network.Socket/gracefulClose/does not send TCP RST back/": (
            1, "its client keeps the connection until the server's gracefulClose ends, and gives it a second: network stops waiting at the "
            "client's next bytes, and Millrace waits for the client's end, as long as it may"),
    }, made="network-suite"),
    "async": Suite("haskell-async", "async:test:test-async"),
    "streaming-commons": Suite("haskell-streaming-commons", "streaming-commons:test:test"),
    "conduit-extra": Suite("haskell-conduit-extra", "conduit-extra:test:test", skipped=dict.fromkeys(
        ["fork server also executes custom afterBind", "fork server really waits for server to be finalized before returning"],
        "they bind a port as soon as killThread has returned: a thread in accept closes its socket after the system has taken "
        "back the accept, and so another thread of the program runs before that"), between=["haskell-streaming-commons"]),
    "unliftio": Suite("haskell-unliftio", "unliftio:test:unliftio-spec"),
    "websockets": Suite("haskell-websockets", "websockets:test:websockets-tests", between=["haskell-streaming-commons"]),
}
NAMES = """build-depends: base, network, stm, unix, millrace-names
mixins: base hiding (Control.Concurrent, System.Timeout, GHC.Conc, GHC.Event), \
network hiding (Network.Socket, Network.Socket.ByteString, Network.Socket.ByteString.Lazy), \
stm hiding (Control.Concurrent.STM, Control.Concurrent.STM.TVar)"""

STATIC_REQUESTS = [
    ("GET", "/", {}),
    ("GET", "/text.txt", {}),
    ("HEAD", "/text.txt", {}),
    ("GET", "/none", {}),
    ("GET", "/folder", {}),
    ("GET", "/text.txt", {"Range": "bytes=1-3"}),
    ("GET", "/text.txt", {"Range": "bytes=-3"}),
    ("GET", "/text.txt", {"Range": "bytes=99-"}),
    ("GET", "/text.txt", {"If-Modified-Since": "Fri, 01 Jan 2100 00:00:00 GMT"}),
    ("GET", "/text.txt?a=b", {}),
    ("GET", "/%2e%2e/text.txt", {}),
    ("POST", "/text.txt", {"body": "abc"}),
    ("OPTIONS", "/text.txt", {}),
    ("GET", "/empty", {}),
]
HLEDGER_REQUESTS = [
    ("GET", "/", {}),
    ("GET", "/journal", {}),
    ("HEAD", "/journal", {}),
    ("GET", "/register?q=inacct:assets", {}),
    ("GET", "/accountnames", {}),
    ("GET", "/transactions", {}),
    ("GET", "/accounttransactions/assets", {}),
    ("GET", "/static/hledger.css", {}),
    ("GET", "/robots.txt", {}),
    ("GET", "/none", {}),
    ("POST", "/add", {"body": "abc"}),
    ("DELETE", "/journal", {}),
]
JOURNAL = "2026-01-01 opening\n    assets    10\n    equity\n"
# A note is written, found, and still there for the last request.
YESOD_REQUESTS = [
    ("GET", "/", {}),
    ("GET", "/notes", {}),
    ("POST", "/notes", {"Content-Type": "application/x-www-form-urlencoded", "body": "text=first+%26+last"}),
    ("POST", "/notes", {"Content-Type": "application/x-www-form-urlencoded", "body": "other=1"}),
    ("GET", "/note/1", {}),
    ("HEAD", "/note/1", {}),
    ("GET", "/note/2", {}),
    ("GET", "/note/none", {}),
    ("GET", "/notes", {"Accept": "application/json"}),
    ("GET", "/static/style.css", {}),
    ("HEAD", "/static/style.css", {}),
    ("GET", "/static/style.css?etag=wrong", {}),
    ("GET", "/static/style.css", {"Range": "bytes=2-5"}),
    ("GET", "/static/", {}),
    ("GET", "/static/../Main.hs", {}),
    ("GET", "/stream", {}),
    ("PUT", "/notes", {"body": "x"}),
    ("GET", "/notes", {}),
]
HOOGLE_REQUESTS = [
    ("GET", "/", {}),
    ("GET", "/?hoogle=map", {}),
    ("GET", "/?hoogle=a+-%3E+a", {}),
    ("HEAD", "/?hoogle=map", {}),
    ("GET", "/?hoogle=map&mode=json", {}),
    ("GET", "/?hoogle=map&mode=json&count=2&start=1", {}),
    ("GET", "/?hoogle=map&mode=body", {}),
    ("GET", "/hoogle.js", {}),
    ("GET", "/hoogle.css", {"Range": "bytes=2-5"}),
    ("GET", "/canary", {}),
    ("GET", "/log", {}),
    ("GET", "/stats", {}),
    ("GET", "/none", {}),
    ("GET", "/%2e%2e/none", {}),
    ("POST", "/", {"body": "hoogle=map"}),
]
TO_HTML = '{"text": "# One\\n\\n*a* [b](c)", "from": "markdown", "to": "html"}'
# Debian's library has no data files within it, and the server reads no others: so its conversions answer 500, on both servers.
PANDOC_REQUESTS = [
    ("GET", "/version", {}),
    ("HEAD", "/version", {}),
    ("GET", "/babelmark?text=*a*+%C3%BC&from=markdown&to=html", {}),
    ("GET", "/babelmark", {}),
    ("POST", "/", {"Content-Type": "application/json", "Accept": "text/plain", "body": TO_HTML}),
    ("POST", "/", {"Content-Type": "application/json", "Accept": "application/json", "body": TO_HTML}),
    ("POST", "/", {"Content-Type": "application/json", "Accept": "application/octet-stream", "body": TO_HTML.replace("html", "epub")}),
    ("POST", "/", {"Content-Type": "application/json", "body": TO_HTML.replace("html", "nothing")}),
    ("POST", "/", {"Content-Type": "application/json", "body": "{"}),
    ("POST", "/", {"Content-Type": "text/plain", "body": TO_HTML}),
    ("POST", "/batch", {"Content-Type": "application/json", "body": f"[{TO_HTML}, {TO_HTML.replace('html', 'latex')}]"}),
    ("PUT", "/", {"body": "x"}),
    ("OPTIONS", "/", {"Origin": "http://one.example", "Access-Control-Request-Method": "POST"}),
    ("GET", "/none", {}),
]
HOOGLE_INPUT = """-- | A list.
@package lists
@version 1
module Lists
-- | Applies a function to each element.
map :: (a -> b) -> [a] -> [b]
-- | The same value.
same :: a -> a
"""


YESOD_BETWEEN = [*(f"haskell-yesod{name}" for name in ("", "-core", "-form", "-persistent", "-static", "-test")),
                 "haskell-wai-app-static", "haskell-wai-handler-launch"]
PROGRAMS = {
    "wai-app-static": Program(
        "wai-app-static:exe:warp", ["-d", "{folder}", "-p", "{port}"], STATIC_REQUESTS, source="haskell-wai-app-static", expected={
            "GET /text.txt Range: bytes=99-: status 416, with Warp None": "this version of Warp throws, and closes the connection",
            "GET /text.txt If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT: status 304, with Warp 200":
                "wai-app-static leaves the condition to the server, and RFC 9110, section 13.1.3, knows no exception for the future",
        }),
    "hledger-web": Program(
        "hledger-web:exe:hledger-web", ["--serve", "--host=127.0.0.1", "--port={port}", "--file={folder}/journal"],
        HLEDGER_REQUESTS, source="haskell-hledger-web", between=YESOD_BETWEEN),
    "yesod-site": Program(
        "yesod-site:exe:yesod-site", ["{port}", "{folder}/notes.db", "{made}/static"], YESOD_REQUESTS, made="yesod-site",
        between=YESOD_BETWEEN),
    "servant-shelf": Program(
        "servant-shelf:exe:servant-shelf", ["{port}"], [], made="servant-shelf", client=["ask", "{port}"],
        between=["haskell-servant-server", "haskell-wai-app-static"]),
    "pandoc": Program(
        "pandoc-site:exe:pandoc-site", ["{port}"], PANDOC_REQUESTS, made="pandoc-site", only_on="trixie",
        between=["haskell-pandoc-server", "haskell-servant-server", "haskell-wai-app-static", "haskell-wai-extra"]),
    "chat": Program(
        "wai-websockets:exe:wai-websockets-example", [], [], source="haskell-wai-websockets", between=["haskell-wai-app-static"],
        flags="+example", port=9160, ask=chat, expected={
            "one: the end: another body: b'nothing', with Warp b'more'":
                "after the last frame Warp still sends a response of HTTP",
        }),
    "hoogle": Program(
        "hoogle:exe:hoogle", ["server", "--local", "--host=127.0.0.1", "--port={port}", "--database={folder}/hoogle.db"],
        HOOGLE_REQUESTS, source="haskell-hoogle", source_release="sid", only_on="trixie",
        prepare=["generate", "--local={folder}/hoogle", "--database={folder}/hoogle.db"], environment={"hoogle_datadir": "{source}"}),
}
# One of them, which its package links without -threaded.
UNTHREADED = "wai-app-static"
