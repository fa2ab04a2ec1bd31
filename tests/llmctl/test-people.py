# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmctl's commands for people against the real service: with the demo model, and with a
script where a model is not the point."""
import json
import os
import re
import signal
import stat
import unittest

import rig

# Words in several pieces, a word that is longer than a line, Chinese, and a line of code. Nothing is
# in it twice: an answer that goes round is ended.
WORD = "".join(f"{i:03}" for i in range(45))
CHINESE = "".join(chr(0x6c34 + i) for i in range(60))
CODE = "    int " + ", ".join(f"x{i}" for i in range(40)) + ";"
LONG = ["Wo", "rds", " of ten", "s", *[f" number{i:04}" for i in range(30)], "\n", WORD, " y\n",
        CHINESE, "\n``", "`c\n", CODE[:20], CODE[20:] + "\n", "```\n", "The end of it"]

RULES = [
    {"when": {"contains": "slow"}, "pieces": ["It begins ", "and goes on."],
     "piece-delay-ms": 600000},
    {"when": {"contains": "escape"}, "text": "red \u001b[31m\u0007 end"},
    {"when": {"contains": "count", "turn": 2}, "text": "This is the second."},
    {"when": {"contains": "count", "turn": 1}, "text": "This is the first."},
    {"when": {"contains": "at length"}, "pieces": LONG},
    {"text": "You said: {prompt}"},
]


class WithScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig({"rules": RULES})

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def tearDown(self):
        names = [context["name"] for context in self.rig.json("context", "list")["contexts"]]
        if any(names):
            self.rig.json("context", "rm", *filter(None, names))

    def check_failure(self, status, said, *arguments, **options):
        outcome = self.rig.run(*arguments, **options)
        self.assertEqual(outcome.status, status, outcome)
        self.assertIn(said, outcome.complaint)
        self.assertEqual(outcome.output, "")
        return outcome


class Ask(WithScript):
    def test_input(self):
        self.assertEqual(self.rig.run("ask", "Short", input="a diff").output,
                         "You said: a diff\n\nShort\n")
        self.assertEqual(self.rig.run("ask", "-", input="all of it").output,
                         "You said: all of it\n")

    def test_lines(self):
        """On a terminal lines end between words, but not those of code; elsewhere they come as they are."""
        terminal = self.rig.terminal("ask", "Tell me at length")
        self.assertEqual(terminal.finish(), 0)
        lines = terminal.text.replace("\r", "").partition("\n[prompt")[0].split("\n")
        text = "".join(LONG)
        self.assertEqual("".join(lines).replace(" ", ""), text.replace("\n", "").replace(" ", ""))
        numbers = [line for line in lines if "number" in line]
        self.assertEqual(len(numbers), 4, lines)
        for line in numbers:
            self.assertRegex(line, r"^(Words of tens )?number\d{4}( number\d{4})*$")
            self.assertLessEqual(len(line), 100)
        self.assertIn(CODE, lines)
        self.assertIn(CHINESE[:50], lines)
        self.assertEqual(lines[-1], "The end of it")
        self.assertEqual(self.rig.run("ask", "Tell me at length").output, text + "\n")

    def test_json(self):
        outcome = self.rig.run("ask", "--json", "Hi")
        lines = [json.loads(line) for line in outcome.output.splitlines()]
        self.assertEqual("".join(line.get("t", "") for line in lines), "You said: Hi")
        self.assertEqual(lines[-1]["done"]["finish-reason"], "stop")
        self.assertEqual(lines[-1]["done"]["model"], "mock")
        self.assertEqual(outcome.complaint, "")

    def test_summary(self):
        self.assertEqual(self.rig.run("ask", "Hi").complaint, "")
        self.assertRegex(self.rig.run("ask", "-v", "Hi").complaint,
                         r"^\[prompt \d+ tokens \(\d+ cached\), generated \d+; .*complete; "
                         r"KV cache of 16\.0 bits\]\n$")
        terminal = self.rig.terminal("ask", "Hi")
        terminal.expect("You said: Hi\r\n", "complete]")
        self.assertEqual(terminal.finish(), 0)

    def test_harmless(self):
        terminal = self.rig.terminal("ask", "escape")
        terminal.expect("red \ufffd[31m\ufffd end")
        self.assertEqual(terminal.finish(), 0)
        self.assertEqual(self.rig.run("ask", "escape").output, "red \x1b[31m\x07 end\n")

    def test_context(self):
        self.assertEqual(self.rig.run("ask", "--context", "a", "count").output,
                         "This is the first.\n")
        self.assertEqual(self.rig.run("ask", "--context", "a", "count").output,
                         "This is the second.\n")
        self.check_failure(2, "own system text", "ask", "--context", "a", "--system", "s", "count")

    def test_exact(self):
        ask = ["ask", "--context", "e", "count", "-o"]
        self.assertEqual(self.rig.run(*ask, "exact=true").status, 0)
        self.assertEqual(self.rig.run(*ask, "exact=true").complaint, "")
        self.check_failure(2, "and is exact", *ask, "exact=false")
        self.assertIn(", exact)", self.rig.run("context", "show", "e").output)
        self.assertIn(", exact ", self.rig.run("context", "list").output)
        self.rig.run("ask", "--context", "f", "count")
        self.check_failure(2, "is not exact", "ask", "--context", "f", "count", "-o", "exact=true")
        self.check_failure(2, "is not exact", "ask", "--context", "f", "--continue", "-o",
                           "exact=true")
        self.assertNotIn("exact", self.rig.run("context", "show", "f").output)
        self.assertEqual([self.rig.json("context", "show", name)["exact"] for name in "ef"],
                         [True, False])

    def test_options(self):
        self.assertEqual(self.rig.run("ask", "--max-tokens", "3", "Hi").output, "You\n")
        self.assertEqual(self.rig.run("ask", "--slo", "background", "-o", "stop=said", "Hi").output,
                         "You \n")
        self.check_failure(2, "slo", "ask", "--slo", "soon", "Hi")
        outcome = self.rig.run("ask", "-o", "colour=red", "Hi")
        self.assertIn("“colour”", outcome.complaint)
        self.assertNotIn("did you mean", outcome.complaint)
        self.assertEqual(outcome.output, "You said: Hi\n")
        self.assertIn("did you mean “max-tokens”?",
                      self.rig.run("ask", "-o", "max-token=3", "Hi").complaint)

    def test_time_limit(self):
        outcome = self.rig.run("ask", "--timeout", "1", "slow")
        self.assertEqual(outcome.status, 3)
        self.assertEqual(outcome.output, "It begins \n")
        self.assertIn("time limit", outcome.complaint)

    def test_interrupt(self):
        process = self.rig.spawn("ask", "slow")
        self.assertEqual(process.stdout.read(10), "It begins ")
        process.send_signal(signal.SIGINT)
        output, complaint = process.communicate(timeout=rig.LIMIT_S)
        self.assertEqual((process.returncode, output, complaint), (130, "\n", ""))


class AskAgain(unittest.TestCase):
    """The service crashes once while it answers."""

    def setUp(self):
        self.rig = rig.Rig({"rules": [
            {"when": {"contains": "early", "start": 1}, "text": "", "exit": "before-keep"},
            {"when": {"contains": "half", "start": 1}, "pieces": ["Half "], "exit": "before-keep"},
            {"when": {"contains": "kept", "start": 1}, "pieces": ["All of it."],
             "exit": "after-keep"},
            {"text": "You said: {prompt}"}]}, activatable=True)

    def tearDown(self):
        self.rig.close()

    def test_nothing_came(self):
        outcome = self.rig.run("ask", "--context", "a", "early")
        self.assertEqual((outcome.status, outcome.output), (0, "You said: early\n"), outcome)
        self.assertEqual(len(self.rig.json("context", "show", "a")["messages"]), 2)

    def test_nothing_came_unnamed(self):
        outcome = self.rig.run("ask", "early")
        self.assertEqual((outcome.status, outcome.output), (0, "You said: early\n"), outcome)

    def test_kept(self):
        outcome = self.rig.run("ask", "--context", "a", "kept")
        self.assertEqual((outcome.status, outcome.output), (0, "All of it.\n"), outcome)
        self.assertEqual([message["text"] for message in
                          self.rig.json("context", "show", "a")["messages"]],
                         ["kept", "All of it."])

    def test_half(self):
        outcome = self.rig.run("ask", "--context", "a", "half")
        self.assertEqual(outcome.status, 4, outcome)
        self.assertEqual(outcome.output, "Half \n")
        self.assertEqual(self.rig.json("context", "show", "a")["messages"], [])


class Contexts(WithScript):
    def test_life(self):
        made = self.rig.json("context", "new", "notes", "--system", "Be kind")
        self.assertEqual(made["name"], "notes")
        self.assertEqual(self.rig.run("context", "new", "notes").status, 1)
        self.rig.run("ask", "--context", "notes", "count")

        listed, = self.rig.json("context", "list")["contexts"]
        self.assertEqual((listed["name"], listed["revision"]), ("notes", 1))
        self.assertIn("notes", self.rig.run("context", "list").output)
        shown = self.rig.json("context", "show", "notes")
        self.assertEqual(shown["tokens"], listed["tokens"])
        self.assertEqual([(m["role"], m["text"]) for m in shown["messages"]],
                         [("system", "Be kind"), ("user", "count"),
                          ("assistant", "This is the first.")])
        self.assertIn("assistant:\nThis is the first.\n",
                      self.rig.run("context", "show", "notes").output)

        self.rig.json("context", "new", "other")
        outcome = self.rig.run("context", "rm", "notes", "missing", "other", "--json")
        self.assertEqual(outcome.status, 1)
        self.assertIn("missing", outcome.complaint)
        self.assertEqual(json.loads(outcome.output), {"version": 1, "removed": ["notes", "other"]})
        self.assertEqual(self.rig.json("context", "list")["contexts"], [])
        self.check_failure(1, "notes", "context", "show", "notes")

    def test_export_import(self):
        file = self.rig.folder / "notes.json"
        self.rig.json("context", "new", "notes", "--system", "Be kind")
        self.rig.run("ask", "--context", "notes", "count")
        file.write_text("old")
        os.chmod(file, 0o666)
        self.assertEqual(self.rig.run("context", "export", "notes", str(file)).status, 0)
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        written = json.loads(file.read_text())
        self.assertEqual({key: written[key] for key in ("format", "version", "name")},
                         {"format": "llmsvc-context", "version": 1, "name": "notes"})
        self.assertEqual(json.loads(self.rig.run("context", "export", "notes").output), written)

        self.check_failure(1, "--replace", "context", "import", str(file))
        self.assertEqual(self.rig.json("context", "import", str(file), "copy")["name"], "copy")
        self.assertEqual(self.rig.json("context", "show", "copy")["messages"],
                         self.rig.json("context", "show", "notes")["messages"])
        self.assertEqual(self.rig.run("ask", "--context", "copy", "count").output,
                         "This is the second.\n")

        # What takes its place is there from then on, and a refused file changes nothing.
        written["messages"][2]["text"] = "Changed."
        self.rig.json("context", "import", "--replace", "-", input=json.dumps(written))
        self.assertEqual(self.rig.json("context", "show", "notes")["messages"][2]["text"],
                         "Changed.")
        written["messages"][2]["role"] = "nobody"
        self.check_failure(2, "message 3", "context", "import", "--replace", "-",
                           input=json.dumps(written))
        self.assertEqual(self.rig.json("context", "show", "notes")["messages"][2]["text"],
                         "Changed.")

    def test_extras(self):
        content = {"format": "llmsvc-context", "version": 1, "name": "e", "messages": [
            {"role": "user", "text": "Hi", "extras": {"n": "uint32 7", "who": "'me'"}},
            {"role": "assistant", "text": "Ho"}]}
        self.rig.json("context", "import", "-", input=json.dumps(content))
        self.assertEqual(json.loads(self.rig.run("context", "export", "e").output), content)

    def test_bad_files(self):
        good = {"format": "llmsvc-context", "version": 1, "name": "bad", "messages": []}
        message = {"role": "user", "text": "Hi"}
        cases = [
            ("", "no conversation"),
            ("{", "byte 2"),
            ('{"format": "llmsvc-context",\n "version": 1,\n "name" 3}', "byte 53"),
            ("[" * 100000, "no conversation"),
            ("[]", "one object"),
            (dict(good, format="other"), "“format”"),
            (dict(good, version=2), "version 2"),
            (dict(good, version="1"), "“version”"),
            (dict(good, messages={}), "“messages”"),
            (dict(good, messages=[message, 3]), "message 2"),
            (dict(good, messages=[{"role": "user"}]), "“text”"),
            (dict(good, messages=[{"role": 1, "text": ""}]), "“role”"),
            (dict(good, messages=[dict(message, role="boss")]), "“role”"),
            (dict(good, messages=[dict(message, extras=[])]), "“extras”"),
            (dict(good, messages=[dict(message, extras={"a": 1})]), "GVariant"),
            (dict(good, messages=[dict(message, extras={"a": "{{"})]), "GVariant"),
            (b"\xff\xfe", "UTF-8"),
            (b'{"a": "\0"}', "UTF-8"),
            (b" " * (17 * 1024 * 1024), "more than"),
        ]
        for content, said in cases:
            data = json.dumps(content) if isinstance(content, dict) else content
            with self.subTest(content=str(content)[:60]):
                outcome = self.rig.run("context", "import", "-", input=data)
                self.assertIn(said, outcome.complaint)
                self.assertIn(outcome.status, (1, 2))
        self.check_failure(1, "/nowhere", "context", "import", "/nowhere")
        self.check_failure(2, "give a NAME", "context", "import", "-",
                           input=json.dumps(dict(good, name="")))
        self.assertEqual(self.rig.json("context", "list")["contexts"], [])

    def test_export_target(self):
        self.rig.json("context", "new", "notes")
        self.check_failure(2, "is no file", "context", "export", "notes", str(self.rig.folder))
        self.check_failure(1, "can't be written", "context", "export", "notes",
                           "/nowhere/file.json")

    def test_usage(self):
        for arguments in (["show"], ["new"], ["rm"], ["export"], ["import"], ["show", "a", "b"],
                          ["new", ""], ["list", "a"]):
            self.assertEqual(self.rig.run("context", *arguments).status, 2, arguments)
        self.check_failure(2, "is empty", "context", "new", "")
        for name in ("\u200d", "\u200c\u200d", " ", "\u3164"):
            self.check_failure(2, "can be seen", "context", "new", name)

    def test_complete(self):
        self.rig.json("context", "new", "notebook")
        self.assertIn("notebook",
                      self.rig.run("complete", "--", "context", "show", "no").output)


class NotRunning(unittest.TestCase):
    """What only looks does not start the service."""

    def setUp(self):
        self.rig = rig.Rig({"rules": RULES}, activatable=True)

    def tearDown(self):
        self.rig.close()

    def test_looking(self):
        self.assertIn("not running", self.rig.run("status").output)
        outcome = self.rig.run("status", "--json")
        self.assertEqual((outcome.status, json.loads(outcome.output)),
                         (4, {"version": 1, "bus": "session", "running": False}))
        for command in (["memory"], ["stats"], ["trim", "low"]):
            outcome = self.rig.run(*command)
            self.assertEqual(outcome.status, 4, outcome)
            self.assertIn("not running", outcome.complaint)
        self.assertEqual(self.rig.run("monitor", "--timeout", "0.2").status, 0)
        self.assertEqual(self.rig.get_pid(), 0)
        self.assertEqual(self.rig.json("apps")["apps"], [])
        self.assertNotEqual(self.rig.get_pid(), 0)


class Monitor(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES, "availability": [
            {"state": "loading", "for-ms": 300}, {"state": "ready"}]})

    def tearDown(self):
        self.rig.close()

    def wait_event(self, process, **wanted):
        for line in process.stdout:
            event = json.loads(line)
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
            if all(event.get(key) == value for key, value in wanted.items()):
                return event
        self.fail(f"{wanted} did not come")

    def test_restart(self):
        process = self.rig.spawn("monitor", "--json")
        self.wait_event(process, event="running")
        self.rig.stop()
        self.wait_event(process, event="not-running")
        self.rig.start()
        self.wait_event(process, event="running")
        self.wait_event(process, event="property", name="Availability", value="ready",
                        interface="org.llm.Service", path="/org/llm/Service")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=rig.LIMIT_S)
        self.assertEqual(process.returncode, 0)

    def test_people(self):
        terminal = self.rig.terminal("monitor")
        terminal.expect("The service is running")
        self.rig.stop()
        terminal.expect("The service is not running")
        self.rig.start()
        terminal.expect("Availability: ready")
        terminal.send("\x03")
        self.assertEqual(terminal.finish(), 0)

    def test_language(self):
        self.rig.environment["LANGUAGE"] = "de"
        terminal = self.rig.terminal("monitor")
        terminal.expect("Der Dienst läuft")
        self.rig.stop()
        self.rig.start()
        terminal.expect("Availability: bereit")
        terminal.send("\x03")
        self.assertEqual(terminal.finish(), 0)

    def test_bus_gone(self):
        process = self.rig.spawn("monitor", "--json")
        self.wait_event(process, event="running")
        self.rig.bus.terminate()
        _, complaint = process.communicate(timeout=rig.LIMIT_S)
        self.assertEqual(process.returncode, 4)
        self.assertIn("bus has ended", complaint)


class WithModel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig()
        assert cls.rig.run("ask", "--max-tokens", "8", "I am a farmer.").status == 0

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def test_ask(self):
        first = self.rig.run("ask", "--seed", "7", "--max-tokens", "12", "I want to eat out.")
        again = self.rig.run("ask", "--seed", "7", "--max-tokens", "12", "I want to eat out.")
        self.assertEqual(first.status, 0, first)
        self.assertGreater(len(first.output), 1)
        self.assertEqual(first.output, again.output)

    def test_raw(self):
        outcome = self.rig.run("ask", "--raw", "--max-tokens", "4", "Once upon")
        self.assertEqual(outcome.status, 0, outcome)
        lines = self.rig.run("ask", "--raw", "--json", "--max-tokens", "4", "Once").output
        self.assertEqual([list(json.loads(line))[-1] for line in lines.splitlines()],
                         ["t", "done"])

    def test_status(self):
        status = self.rig.json("status")
        self.assertEqual(status["service"]["availability"], "ready")
        self.assertGreater(status["memory"]["resident"], 0)
        self.assertIn("demo", status["model"]["id"])
        output = self.rig.run("status").output
        self.assertRegex(output, r"Service: ready\n  version \S+, on the session bus\n")

    def test_memory(self):
        memory = self.rig.json("memory")
        self.assertGreater(memory["weights"], 1000000)
        self.assertEqual(set(memory["reclaimable"]), {"free", "cheap", "costly"})
        output = self.rig.run("memory").output
        self.assertIn("Memory pressure: none\n", output)
        self.assertRegex(output, r"weights +[\d.]+\sMiB\n")
        self.assertNotIn("█", output)
        terminal = self.rig.terminal("memory")
        terminal.expect("held", "█", "100 %", "Could be given back")
        self.assertEqual(terminal.finish(), 0)

    def test_stats(self):
        self.assertGreaterEqual(self.rig.json("stats")["requests"], 1)
        output = self.rig.run("stats").output
        self.assertRegex(output, r"requests +\d+\n")
        # all that the service counts has words, and fits 80 columns
        self.assertNotIn("Others", output)
        self.assertLessEqual(max(map(len, output.splitlines())), 80)

    def test_apps_and_quota(self):
        app, = self.rig.json("apps")["apps"]
        self.assertEqual(app["uid"], os.getuid())
        self.assertGreaterEqual(app["requests"], 1)
        self.assertRegex(self.rig.run("apps").output, r"^Application .*\n.* \d{4}-\d\d-\d\d ")
        self.assertIn(" of ", self.rig.run("quota").output)

        self.assertEqual(self.rig.json("quota", "org.example.App", "contexts=3", "disk=2M",
                                       "share=0.25"), {})
        quota, = self.rig.json("quota", "org.example.App")["apps"]
        self.assertEqual((quota["quota-contexts"], quota["quota-disk"], quota["quota-share"]),
                         (3, 2 << 20, 0.25))
        self.assertEqual(self.rig.run("quota", "--default", "contexts=17").status, 0)
        self.assertEqual(self.rig.json("quota", "org.example.App")["apps"][0]["quota-contexts"], 3)
        self.assertIn(17, [app["quota-contexts"] for app in self.rig.json("quota")["apps"]])

        # what a user has together, and what a program asks for in a second
        self.assertEqual(self.rig.run("quota", "--default", "named=33", "message=64K",
                                      "rate=5").status, 0)
        quota = self.rig.json("quota")["apps"][0]
        self.assertEqual((quota["quota-named"], quota["quota-message"], quota["quota-rate"]),
                         (33, 65536, 5))
        self.assertEqual(self.rig.run("quota", "--default", "rate=0").status, 0)
        uid = str(os.getuid())
        self.assertRegex(self.rig.run("quota").output, rf"(?m)^All of user .*\n{uid} .* of 33 ")
        self.assertEqual(self.rig.json("quota", "--user", uid), self.rig.json("quota"))
        self.assertEqual(self.rig.json("quota", "--user", "4000000000"), {"apps": []})
        self.assertEqual(self.rig.run("quota", "--user", "nobody-of-that-name").status, 2)

        for arguments, status in ((["contexts=3"], 2), (["--default"], 2),
                                  (["a.b", "contexts=many"], 2), (["a.b", "share=2"], 2),
                                  (["a.b", "colour=3"], 1), (["a.b", "contexts=3", "c"], 2),
                                  (["missing.App"], 1), (["--default", "a.b", "calls=1"], 2)):
            self.assertEqual(self.rig.run("quota", *arguments).status, status, arguments)

    def test_narrow(self):
        for arguments in (["apps"], ["quota"], ["ask", "-v", "-n", "4", "Hi"],
                          ["context", "show", "missing"]):
            terminal = self.rig.terminal(*arguments, columns=80)
            terminal.finish()
            lines = terminal.text.splitlines()
            self.assertTrue(lines)
            self.assertLessEqual(max(map(len, lines)), 80, terminal.text)
        # what a script reads is whole
        self.assertRegex(self.rig.run("apps").output, "^Application +User .* Last used\n")
        self.assertRegex(self.rig.run("quota").output, "^Application +User .* answer\n")
        self.assertEqual(self.rig.run("context", "show", "missing").complaint.count("\n"), 1)

        terminal = self.rig.terminal("chat", columns=80)
        terminal.say("/bogus")
        terminal.say("/quit")
        self.assertEqual(terminal.finish(), 0)
        complaint = terminal.text[terminal.text.index("llmctl: “/bogus”"):]
        self.assertLessEqual(max(map(len, complaint.splitlines()[:2])), 80, terminal.text)

    def test_words(self):
        german = {"LC_ALL": "C.UTF-8", "LANGUAGE": "de"}
        self.assertRegex(self.rig.run("quota", **german).output, "^Anwendung .* contexts +tokens ")
        self.assertRegex(self.rig.run("apps", **german).output, r" +\d+ +(Rechner|Unit) ")

    def test_trim(self):
        results = self.rig.json("trim", "low", "--target-bytes", "1K")
        self.assertEqual(set(results), {"freed", "duration-ms", "steps"})
        self.assertRegex(self.rig.run("trim", "medium").output, r"^Given back: .* in \d+ ms\n")
        for arguments in ([], ["hard"], ["low", "low"], ["low", "--target-bytes", "many"],
                          ["low", "--target-bytes", "99999999999T"]):
            self.assertEqual(self.rig.run("trim", *arguments).status, 2, arguments)

    def test_models(self):
        model, = self.rig.json("model", "list")["models"]
        self.assertTrue(model["active"])
        self.assertEqual(model["info"]["quantization"], "Q8_0")
        self.assertEqual(self.rig.json("model", "show"), model)
        self.assertEqual(self.rig.json("model", "show", model["id"]), model)
        self.assertRegex(self.rig.run("model", "list").output, r"\n\* +" + re.escape(model["id"]))
        self.assertIn("Q8_0", self.rig.run("model", "show").output)
        self.assertEqual(self.rig.json("model", "use", model["id"]), {"id": model["id"]})
        self.assertEqual(self.rig.run("model", "show", "other").status, 1)
        self.assertRegex(self.rig.run("model", "use", model["id"]).output,
                         f"^“{re.escape(model['id'])}” is the model now, for everyone")
        self.assertEqual(self.rig.run("model", "use", "other").status, 1)
        self.assertIn("/nowhere/a.gguf can't be read: No such file",
                      self.rig.run("model", "use", "/nowhere/a.gguf").complaint)
        self.assertEqual(self.rig.run("model", "use").status, 2)

    def test_check(self):
        outcome = self.rig.run("model", "check", rig.MODEL)
        self.assertEqual(outcome.status, 0, outcome)
        self.assertIn("usable: yes", outcome.output)
        self.assertTrue(self.rig.json("model", "check", rig.MODEL)["usable"])
        broken = self.rig.folder / "broken.gguf"
        broken.write_bytes(b"GGUF" + bytes(100))
        outcome = self.rig.run("model", "check", str(broken))
        self.assertEqual(outcome.status, 1)
        self.assertIn("broken.gguf", outcome.complaint)
        self.assertEqual(self.rig.run("model", "check").status, 2)
        outcome = self.rig.run("model", "check", rig.MODEL, PATH="/nonexistent")
        self.assertEqual(outcome.status, 4)
        self.assertIn("llmsvc-tool", outcome.complaint)


if __name__ == "__main__":
    unittest.main()
