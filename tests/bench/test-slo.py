# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calls and their targets: what is asked for, and a short run with the real service and another
program's interface. How quickly anything comes is no part of it."""
import pathlib
import sys
import tempfile
import unittest

import rig

from slo import report
from slo.play import Call
from slo.trace import APPS, LAWS, make_batch, make_text, make_trace

# Answers as llama-server does, at once, without computing anything.
SERVER = f"""#!{sys.executable}
import http.server, json, socketserver, sys
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def log_message(self, *args): pass
    def do_GET(self):
        self.send_response(200); self.send_header('Content-Length', '2'); self.end_headers()
        self.wfile.write(b'{{}}')
    def chunk(self, data):
        data = b'data: ' + json.dumps(data).encode() + b'\\n\\n'
        self.wfile.write(b'%x\\r\\n' % len(data) + data + b'\\r\\n')
    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers['Content-Length'])))
        self.send_response(200); self.send_header('Transfer-Encoding', 'chunked')
        self.end_headers()
        for i in range(body['n_predict']): self.chunk({{'content': 'x', 'stop': False}})
        self.chunk({{'content': '', 'stop': True, 'tokens_predicted': body['n_predict'],
                    'tokens_evaluated': len(body['prompt'])}})
        self.wfile.write(b'0\\r\\n\\r\\n')
class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    request_queue_size = 64
arguments = dict(zip(sys.argv[1::2], sys.argv[2::2]))
Server(('127.0.0.1', int(arguments['--port'])), Handler).serve_forever()
"""


class Trace(unittest.TestCase):
    def test_laws(self):
        trace = make_trace(1, 10, 100, 1)
        self.assertTrue(800 < len(trace) < 1200)
        self.assertEqual(trace, sorted(trace, key=lambda arrival: arrival.at_s))
        for begin in range(0, len(trace) - 9, 10):
            block = [arrival.slo_class for arrival in trace[begin:begin + 10]]
            self.assertEqual([block.count(name) for name in LAWS], [3, 3, 4])
        for arrival in trace:
            law = LAWS[arrival.slo_class]
            self.assertIn(arrival.app, law.apps)
            self.assertTrue(law.words[0] <= arrival.n_words <= law.words[1])
            self.assertTrue(law.output[0] <= arrival.n_output <= law.output[1])
        self.assertEqual({arrival.app for arrival in trace}, set(APPS))

    def test_loads(self):
        """A higher load brings the same calls, only sooner."""
        slow, fast = make_trace(7, 5, 40, 1), make_trace(7, 10, 40, 1)
        self.assertGreater(len(slow), 100)
        self.assertGreater(len(fast), len(slow))
        for a, b, c in zip(slow, fast, make_batch(7, len(slow), 1)):
            self.assertAlmostEqual(a.at_s, 2 * b.at_s)
            self.assertEqual(c.at_s, 0)
            self.assertEqual(a.__dict__ | {"at_s": 0}, b.__dict__ | {"at_s": 0})
            self.assertEqual(a.__dict__ | {"at_s": 0}, c.__dict__)
            self.assertEqual(len(make_text(7, a)), 3 * a.n_words - 1)
            self.assertEqual(make_text(7, a), make_text(7, b))
        self.assertNotEqual(make_trace(8, 5, 40, 1), slow)

    def test_targets(self):
        """What is late, too slow or refused has missed."""
        arrival = next(arrival for arrival in make_batch(1, 10, 1)
                       if arrival.slo_class == "interactive")
        calls = []
        for first_s, last_s in ((0.9, 1.8), (1.1, 1.8), (0.9, 2.0)):
            call = Call(arrival, 20, 0)
            call.first_s, call.last_s, call.n_output, call.end = first_s, last_s, 11, "done"
            calls.append(call)
        calls.append(Call(arrival, 20, 0))
        calls.append(Call(arrival, 20, 0))
        calls[-1].fail(True, "too much to do")
        result = report.sum_up_class(calls, LAWS["interactive"])
        self.assertEqual([result[key] for key in ("calls", "met", "missed", "refused", "failed")],
                         [5, 1, 4, 1, 1])
        self.assertEqual(result["ttft-ms"]["n"], 3)


class Run(unittest.TestCase):
    def check_class(self, figures):
        self.assertEqual(figures["calls"], figures["met"] + figures["missed"])
        self.assertEqual(figures["failed"], 0)
        self.assertGreaterEqual(figures["missed"], figures["refused"])
        self.assertEqual(figures["sub-model-percent"], 100)
        self.assertEqual(figures["ttft-ms"]["n"], figures["calls"] - figures["refused"])

    def test_run(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "server")
            program.write_text(SERVER)
            program.chmod(0o700)
            data = rig.read_json("slo", "--quick", *rig.SERVICE, "--peer", f"peer: {program}",
                                 "--loads", "0.5", "--seconds", "1", "--calls", "10", "--folder",
                                 folder, "--plots", folder, "--json")
            plot = pathlib.Path(folder, "slo.svg").read_text()
        self.assertIn("deadline", plot)
        self.assertIn("peer", plot)
        self.assertGreater(data["capacity-calls-per-second"], 0)
        for key in ("saturated", "results"):
            self.assertEqual([result["policy"] for result in data[key]],
                             ["deadline", "fifo", "peer"])
        for result in data["results"]:
            self.assertNotIn("first-failure", result)
            self.assertEqual(result["short-answers"], 0)
            for figures in result["classes"].values():
                self.check_class(figures)
        # All policies had the same calls, and prompts of the same length.
        totals = [result["seconds"] * result["tokens-per-second"] for result in data["saturated"]]
        for total in totals:
            self.assertAlmostEqual(total, totals[0], delta=0.5)

    def test_no_daemon(self):
        """What does not start is said, and ends it."""
        outcome = rig.run("slo", "--daemon", "/bin/false", "--model", rig.MODEL)
        self.assertEqual(outcome.returncode, 1)
        self.assertIn("The service did not start", outcome.stderr)

    def check_options(self, *arguments):
        outcome = rig.run("slo", *arguments)
        self.assertEqual(outcome.returncode, 2, arguments)
        self.assertTrue(outcome.stderr.startswith("llmsvc-bench: "), outcome.stderr)

    def test_options(self):
        for wrong in (("--policy", "luck"), ("--loads", "0.5,0.3"), ("--loads", "x"),
                      ("--loads", ""), ("--rounds", "0"), ("--slots", "0"), ("--seconds", "-1"),
                      ("--users", "2"), ("--flood-class", "interactive")):
            self.check_options("--daemon", "d", "--model", "m", *wrong)
        self.check_options("--fair")
        for wrong in (("--users", "1"), ("--users", "2,2"), ("--users", "17"), ("--users", "x"),
                      ("--class", "urgent"), ("--flood-class", "interactive,urgent"),
                      ("--rounds", "0"), ("--seconds", "-1"),
                      ("--daemon", "d"), ("--loads", "1")):
            self.check_options("--fair", "--model", "m", *wrong)


class Fair(unittest.TestCase):
    """What users keep beside one who floods."""

    def check_side(self, side, floods):
        if side["calls"] == 0:
            return
        # 500 words of the flood and 32 to 64 of others, an eighth of them.
        self.assertGreaterEqual(side["prompt-tokens"], 62 if floods else 4)
        self.assertLessEqual(side["prompt-tokens"], 62 * 3 + 8 if floods else 8 * 3 + 8)
        self.assertGreater(side["ttft-ms"], 0)
        self.assertGreater(side["tokens-per-second"], 0)

    def test_run(self):
        data = rig.read_json("slo", "--fair", "--quick", "--users", "2,3", "--class", "responsive",
                             "--flood-class", "interactive,responsive", "--seconds", "0.5",
                             "--model", rig.MODEL, "--json")
        self.assertEqual(data["class"], "responsive")
        self.assertEqual(data["goal"], 0.8)
        self.assertEqual([(case["n"], case["flood-class"]) for case in data["cases"]],
                         [(2, "interactive"), (3, "interactive"),
                          (2, "responsive"), (3, "responsive")])
        # A slow machine may not come to a token in one of the runs.
        speeds = [case[f"{side}-tokens-per-second"] for case in data["cases"]
                  for side in ("ordinary", "flooded")]
        self.assertGreater(sum(speeds), 0)
        for case in data["cases"]:
            self.assertEqual(len(case["users"]), case["n"])
            for number, user in enumerate(case["users"], 1):
                floods = number == case["n"]
                self.assertEqual(user["floods"], floods)
                self.assertEqual("kept-rate" in user, not floods)
                self.check_side(user["ordinary"], False)
                self.check_side(user["flooded"], floods)


unittest.main()
