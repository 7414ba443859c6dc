"""The rules of the arena. Each is a function that asks an entry real questions and raises Broken if an answer is wrong.

A rule belongs to profiles: an entry must keep the rules of the profiles it takes part in.
Must not know how entries are started or measured.
"""

from dataclasses import dataclass


class Broken(Exception):
    """An answer is not what the rule demands; the text says what it was."""


class NotAsked(Exception):
    """The rule could not be tried on this machine; the text says why."""


@dataclass(frozen=True)
class Rule:
    text: str  # in words for people
    profiles: tuple
    ask: object  # a function of the doors
    brief: bool  # whether it takes part in the check before each measurement


ALL = []


def rule(text, *profiles, brief=False):
    """Declares a function as a rule of these profiles."""
    def declare(function):
        ALL.append(Rule(text, profiles, function, brief))
        return function
    return declare


def expect(holds, what):
    if not holds:
        raise Broken(what)


def shown(content, limit=60):
    """The beginning of an answer, for a message."""
    return repr(content if len(content) <= limit else content[:limit] + type(content)(b"..." if isinstance(content, bytes) else "..."))


def equal(found, wanted, what="the answer"):
    if found != wanted:
        found, wanted = (shown(value) if isinstance(value, (bytes, str)) else value for value in (found, wanted))
        raise Broken(f"{what} is {found} instead of {wanted}")


def media_type(answer):
    return answer.fields.get("content-type", "").split(";")[0].strip().lower()


def is_text(answer):
    equal(media_type(answer), "text/plain", "the content type")


def is_json(answer):
    equal(media_type(answer), "application/json", "the content type")


# Each module declares its rules when it is imported; this order is the table's.
from . import sums, uploads, things, files, rows, sockets, calls  # noqa: E402,F401
