"""Rules notice wrong answers, and every profile has rules."""

import json
import os
import unittest

from driver import load
from driver.tests.small_server import serving

from .. import asking, codings, dataset, doors, entries, grpc, profiles, rules, websocket
from .. import referee as referees


def answer(body, kind=b"text/plain"):
    return b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s" % (kind, len(body), body)


def rule(text):
    found = [one for one in rules.ALL if text in one.text]
    assert len(found) == 1, [one.text for one in found]
    return found[0]


def result(text, to_answer):
    with serving(to_answer) as port:
        return referees.ask(rule(text), doors.Doors(port, port, port, port, "", "", ""))


class Rules(unittest.TestCase):
    def test_a_right_answer_keeps_the_rule(self):
        self.assertEqual(result("GET /baseline11", answer(b"55")).result, referees.KEPT)

    def test_a_wrong_number_and_a_wrong_type_break_it(self):
        wrong = result("GET /baseline11", answer(b"56"))
        self.assertEqual((wrong.result, wrong.detail), (referees.BROKEN, "the answer is '56' instead of '55'"))
        self.assertIn("text/html", result("GET /baseline11", answer(b"55", b"text/html")).detail)

    def test_an_answer_that_does_not_depend_on_the_request_breaks_a_rule(self):
        self.assertEqual(result("sums are computed for each request", answer(b"55")).result, referees.BROKEN)

    def test_http1_on_the_port_of_http2_breaks_a_rule(self):
        self.assertEqual(result("refuses HTTP/1.1", answer(b"2")).result, referees.BROKEN)

    def test_something_else_than_json_breaks_a_rule(self):
        self.assertIn("not JSON", result("GET /json/N?m=M answers", answer(b"{", b"application/json")).detail)

    def test_a_server_that_only_answers_is_no_websocket(self):
        self.assertIn("the status is 200", result("becomes a WebSocket", answer(b"hello")).detail)

    def test_calls_over_tls_are_asked_over_tls(self):
        closed = load.free_port()
        with serving(answer(b"")) as port:
            found = referees.ask(rule("GetSum over TLS adds"), doors.Doors(port, port, port, closed, "", "", ""))
        self.assertEqual((found.result, found.rule.profiles), (referees.BROKEN, ("unary-grpc-tls",)))
        self.assertRegex(found.detail, f"(port |:){closed}")  # by the version of curl

    def test_nothing_listening_breaks_a_rule(self):
        found = referees.ask(rule("GET /pipeline"), doors.choose("", "", "", ""))
        self.assertIn("ConnectionRefusedError", found.detail)

    def test_a_broken_rule_excludes_its_profiles(self):
        broken = referees.Finding(rule("GET /baseline11"), referees.BROKEN, "no")
        self.assertEqual(set(referees.broken_profiles([broken])), {"baseline", "limited-conn"})


class Profiles(unittest.TestCase):
    def test_every_profile_has_rules_load_and_a_check_before_each_measurement(self):
        measured = {point["service"] for group in profiles.ALL for point in group.points}
        self.assertEqual(measured, set(profiles.PROFILES))
        for name in profiles.PROFILES:
            mine = [one for one in rules.ALL if name in one.profiles]
            self.assertTrue(any(one.brief for one in mine), name)

    def test_every_profile_is_measured_on_one_core_and_on_two(self):
        for name in profiles.PROFILES:
            cores = {point["cores"] for group in profiles.ALL for point in group.points if point["service"] == name}
            self.assertEqual(cores, {1, 2}, name)

    def test_millrace_takes_part_in_all_that_it_submits_and_that_is_measured(self):
        with open(os.path.join(os.path.dirname(entries.HERE), "..", "..", "examples", "arena", "meta.json"), encoding="utf-8") as file:
            submitted = set(json.load(file)["tests"])
        self.assertEqual(set(entries.manifest()["millrace"]["profiles"]), set(profiles.PROFILES))
        self.assertEqual(submitted - set(profiles.PROFILES), {"api-4", "api-16"})
        self.assertLessEqual(set(profiles.PROFILES), submitted)

    def test_the_arena_is_not_mixed_with_other_workloads(self):
        self.assertTrue(profiles.is_wanted(["arena-json"]))
        self.assertFalse(profiles.is_wanted(["pong"]) or profiles.is_wanted(None))
        with self.assertRaises(ValueError):
            profiles.is_wanted(["arena", "pong"])

    def test_every_tenth_request_closes_its_connection(self):
        requests = profiles.PROFILES["limited-conn"].requests
        self.assertEqual(sum(b"Connection: close" in one for one in requests) * 10, len(requests))


class Formats(unittest.TestCase):
    def test_codings_decode_to_what_was_encoded(self):
        for coding in dataset.SUFFIXES:
            content = dataset.content("reset.css")
            self.assertEqual(codings.plain(coding, codings.compressed(coding, content)), content)
            with self.assertRaises((ValueError, OSError)):
                codings.plain(coding, b"nothing of the kind")

    def test_messages_of_grpc(self):
        self.assertEqual(grpc.message(1, 2), bytes.fromhex("0000000004" "08011002"))
        for number in (0, 5, 300, -2):
            self.assertEqual(grpc.results(grpc.message(number) * 2), [number, number])

    def test_frames_of_websocket_are_masked_and_have_their_length(self):
        for size, begin in ((5, 6), (200, 8), (70_000, 14)):
            found = websocket.frame(websocket.BINARY, b"a" * size)
            self.assertEqual(len(found), begin + size)
            self.assertTrue(found[1] & 0x80)

    def test_chunks(self):
        self.assertEqual(asking.chunked(b"2", b"0"), b"1\r\n2\r\n1\r\n0\r\n0\r\n\r\n")

    def test_the_data_set_is_the_same_everywhere(self):
        self.assertEqual(dataset.items(), dataset.items())
        self.assertEqual(len(dataset.items()), 50)
        self.assertEqual([item["id"] for item in dataset.items()], list(range(1, 51)))
