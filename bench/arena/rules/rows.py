"""/async-db and /crud: rows of the database, read, kept for a moment, made and changed."""

import json
import random
import time

from .. import asking, dataset
from . import Broken, equal, expect, is_json, rule

DATABASE = ("async-db", "crud")
KEPT_SECONDS = 0.2
MADE = 200_000  # The rows that rules make have numbers above this.
SHAPE = {"id": int, "name": str, "category": str, "price": int, "quantity": int, "active": bool, "tags": list, "rating": dict}


def _json(answer):
    is_json(answer)
    try:
        return json.loads(answer.body)
    except ValueError as error:
        raise Broken(f"the answer is not JSON: {error}") from None


def _shaped(item):
    for name, kind in SHAPE.items():
        expect(type(item.get(name)) is kind, f"{name} is {item.get(name)!r} in {item}")
    expect({"score", "count"} <= set(item["rating"]), f"the rating has no score or count in {item}")


def _range(doors, low, high, limit):
    answer = asking.http1(doors.http, f"/async-db?min={low}&max={high}&limit={limit}")
    equal(answer.status, 200, "the status")
    found = _json(answer)
    equal(found.get("count"), len(found.get("items", [])), "the count")
    for item in found["items"]:
        _shaped(item)
        expect(low <= item["price"] <= high, f"the price {item['price']} is not within {low} and {high}")
    return found["items"]


@rule("GET /async-db answers with as many rows of the range of prices as the limit allows", *DATABASE, brief=True)
def ranges(doors):
    for low, high, limit in ((5, 80, 7), (20, 150, 18), (100, 400, 33), (10, 50, 50)):
        equal(len(_range(doors, low, high, limit)), limit, "the number of rows")


@rule("GET /async-db answers with no rows for a range without any", *DATABASE)
def empty_range(doors):
    equal(_range(doors, 9999, 9999, 50), [], "the rows")


@rule("GET /async-db without parameters takes prices from 10 to 50 and fifty rows", *DATABASE)
def defaults(doors):
    found = _json(asking.http1(doors.http, "/async-db"))
    equal(found.get("count"), 50, "the count")
    expect(all(10 <= item["price"] <= 50 for item in found["items"]), "a price is not within 10 and 50")


def _read(doors, number):
    return asking.http1(doors.http, f"/crud/items/{number}")


def _write(doors, method, path, content):
    return asking.http1(doors.http, path, method, ["Content-Type: application/json"], json.dumps(content).encode())


@rule("GET /crud/items answers with a page of a category", "crud", brief=True)
def page(doors):
    category = dataset.CATEGORIES[0]
    pages = [_json(asking.http1(doors.http, f"/crud/items?category={category}&page={number}&limit=5")) for number in (1, 2)]
    for number, found in enumerate(pages, 1):
        equal([found.get(name) for name in ("total", "page", "limit")], [5, number, 5], "total, page and limit")
        equal(len(found["items"]), 5, "the number of rows")
        for item in found["items"]:
            _shaped(item)
            equal(item["category"], category, "the category")
    numbers = [item["id"] for found in pages for item in found["items"]]
    equal(numbers, sorted(set(numbers)), "the order of two pages")


@rule("GET /crud/items/ID answers with one row, and with 404 if there is none", "crud", brief=True)
def one(doors):
    number = random.randint(1, dataset.ROWS)
    item = _json(_read(doors, number))
    _shaped(item)
    equal(item["id"], number, "the id")
    equal(_read(doors, 999_999).status, 404, "the status of a row that does not exist")


@rule("a row is kept for 200 ms: X-Cache says MISS, then HIT, and after that MISS again", "crud")
def kept(doors):
    number = random.randint(1, dataset.ROWS)
    first, second = _read(doors, number), _read(doors, number)
    begin = time.monotonic()
    equal(first.fields.get("x-cache"), "MISS", "X-Cache of the first answer")
    equal(second.fields.get("x-cache"), "HIT", "X-Cache of the second answer")
    equal(json.loads(first.body), json.loads(second.body), "the row")
    while time.monotonic() < begin + KEPT_SECONDS + 0.1:
        time.sleep(0.05)
    equal(_read(doors, number).fields.get("x-cache"), "MISS", "X-Cache 300 ms later")


@rule("POST /crud/items makes a row (201) or replaces it, and it can be read", "crud")
def made(doors):
    number = random.randint(MADE + 1, MADE + 100_000)
    for price in (42, 43):
        content = {"id": number, "name": f"Made {price}", "category": "test", "price": price, "quantity": 7}
        answer = _write(doors, "POST", "/crud/items", content)
        equal(answer.status, 201, "the status")
        equal(_json(answer).get("id"), number, "the id")
        time.sleep(KEPT_SECONDS + 0.05)  # An entry may keep the row that it replaces for this time.
        item = _json(_read(doors, number))
        _shaped(item)
        equal({name: item[name] for name in content}, content, "the row")


@rule("PUT /crud/items/ID changes a row at once, also if it was kept; 404 if there is none", "crud")
def changed(doors):
    number = random.randint(1, dataset.ROWS)
    for _ in range(2):
        _read(doors, number)
    content = {"name": f"Changed {random.randint(1, 1000)}", "price": 99, "quantity": 1}
    answer = _write(doors, "PUT", f"/crud/items/{number}", content)
    equal(answer.status, 200, "the status")
    after = _read(doors, number)
    equal(after.fields.get("x-cache"), "MISS", "X-Cache after the change")
    item = _json(after)
    equal({name: item[name] for name in content}, content, "the row")
    equal(_write(doors, "PUT", "/crud/items/999999", content).status, 404, "the status of a row that does not exist")
