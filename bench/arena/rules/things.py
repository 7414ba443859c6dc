"""/json/N: the first N things of the data set, each with a total, as JSON and compressed if the client asks for it."""

import json

from .. import asking, codings, dataset
from . import Broken, equal, is_json, rule

PAIRS = [(12, 3), (22, 7), (31, 2), (50, 5)]


def _wanted(count, factor):
    return [{**item, "total": item["price"] * item["quantity"] * factor} for item in dataset.items()[:count]]


def _holds(answer, count, factor, plain=None):
    equal(answer.status, 200, "the status")
    is_json(answer)
    try:
        found = json.loads(answer.body if plain is None else plain)
    except ValueError as error:
        raise Broken(f"the answer is not JSON: {error}") from None
    equal(found.get("count"), count, "the count")
    wanted = _wanted(count, factor)
    equal(len(found.get("items", [])), count, "the number of things")
    for item, other in zip(found["items"], wanted):
        if item != other:
            raise Broken(f"a thing is {item} instead of {other}")


def _path(count, factor):
    return f"/json/{count}?m={factor}"


@rule("GET /json/N?m=M answers with N things and totals of price × quantity × M", "json", brief=True)
def things(doors):
    for count, factor in PAIRS:
        _holds(asking.http1(doors.http, _path(count, factor)), count, factor)


@rule("GET /json/N?m=M is compressed for clients that accept it, and decodes to the same", "json-comp", brief=True)
def compressed(doors):
    for accepted in ("gzip, br", "gzip", "br"):
        for count, factor in ((25, 3), (50, 2)):
            answer = asking.http1(doors.http, _path(count, factor), fields=[f"Accept-Encoding: {accepted}"])
            coding = answer.fields.get("content-encoding", "")
            if not coding and accepted == "br":
                continue  # One of the two codings is enough.
            if not coding or coding not in accepted:
                raise Broken(f"the coding is {coding or 'none'}, where the client accepts {accepted}")
            _holds(answer, count, factor, codings.plain(coding, answer.body))


@rule("an answer is not compressed for clients that do not ask for it", "json-comp")
def not_compressed(doors):
    answer = asking.http1(doors.http, _path(50, 1))
    equal(answer.fields.get("content-encoding"), None, "the coding")
    _holds(answer, 50, 1)


@rule("GET /json/N?m=M over TLS answers the same by HTTP/1.1", "json-tls", brief=True)
def over_tls(doors):
    for count, factor in ((7, 2), (23, 11), (50, 1)):
        _holds(asking.http1(doors.tls, _path(count, factor), tls=True), count, factor)


@rule("GET /json/N?m=M by HTTP/2 without TLS answers the same", "json-h2c", brief=True)
def over_h2c(doors):
    for count, factor in PAIRS[:2]:
        answer = asking.http2(doors.url("h2c", _path(count, factor)))
        equal(answer.version, "2", "the version of HTTP")
        _holds(answer, count, factor)
