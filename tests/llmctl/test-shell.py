# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a shell has to do with the programs: how options are written, what other users can
read, and messages in a locale without UTF-8."""
import json
import os
import pathlib
import signal
import subprocess
import unittest

import rig

SECRET = "a secret that nobody else reads"
MODEL_TEXT = "“Größe” … 大小"

RULES = [
    {"when": {"contains": "secret"}, "pieces": ["It begins ", "and goes on."],
     "piece-delay-ms": 600000},
    {"when": {"contains": "UTF-8"}, "text": MODEL_TEXT},
    {"text": "You said: {prompt}"},
]
ASCII = {"“": '"', "”": '"', "…": "...", "’": "'", "–": "-", "→": "->", "µ": "u"}


def read_arguments(process):
    return pathlib.Path(f"/proc/{process.pid}/cmdline").read_bytes().decode()


class WithScript(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.rig = rig.Rig({"rules": RULES})

    @classmethod
    def tearDownClass(cls):
        cls.rig.close()

    def run_tool(self, program, *arguments, **environment):
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              env=dict(self.rig.environment, **environment), timeout=rig.LIMIT_S,
                              check=False)
        return rig.Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())


class Options(WithScript):
    def test_forms(self):
        """As getopt has them, and with the equals sign that people also write."""
        for form in (["-n1"], ["-n", "1"], ["-n=1"], ["--max-tokens=1"], ["--max-tokens", "1"],
                     ["-t0", "-n1"], ["-t=0", "-n1"], ["--temperature=0", "-n1"], ["-t", "0", "-n1"],
                     ["-ostop=said", "-n1"], ["-o", "stop=said", "-n1"]):
            outcome = self.rig.run("ask", *form, "Hi")
            self.assertEqual((outcome.status, outcome.output), (0, "Y\n"), (form, outcome))
            self.assertEqual(outcome.complaint, "", form)

    def test_clusters(self):
        for form in (["-vn1"], ["-vn", "1"], ["-v", "-n1"], ["-n1", "-v"], ["-vn=1"]):
            outcome = self.rig.run("ask", *form, "Hi")
            self.assertEqual((outcome.status, outcome.output), (0, "Y\n"), (form, outcome))
            self.assertIn("complete", outcome.complaint + " complete", form)
            self.assertTrue(outcome.complaint.startswith("["), (form, outcome))

    def test_separator(self):
        for form in (["--", "-n1"], ["--", "-vn1"]):
            outcome = self.rig.run("ask", *form)
            self.assertEqual(outcome.output, f"You said: {form[1]}\n", outcome)
        # the value of an option is no option
        self.assertEqual(self.rig.run("ask", "-s", "-n1", "Hi").output, "You said: Hi\n")
        self.assertEqual(self.rig.run("ask", "-s-n1", "Hi").output, "You said: Hi\n")

    def test_numbers(self):
        """A negative number is an argument, or the value of an option."""
        outcome = self.rig.run("ask", "-5")
        self.assertEqual((outcome.status, outcome.output), (0, "You said: -5\n"), outcome)
        for form in (["-t-1"], ["-t", "-1"], ["-vt-1"]):
            outcome = self.rig.run("ask", *form, "Hi")
            self.assertEqual(outcome.status, 2, (form, outcome))
            self.assertIn("temperature", outcome.complaint)

    def test_unknown(self):
        for form in (["-x1"], ["-vx"], ["-nx"]):
            outcome = self.rig.run("ask", *form, "Hi")
            self.assertEqual((outcome.status, outcome.output), (2, ""), (form, outcome))

    def test_tool(self):
        long = self.run_tool(rig.TOOL, "generate", "--model", rig.MODEL, "--temperature", "0",
                             "--max-tokens", "3", "Hi")
        self.assertEqual(long.status, 0, long)
        for form in (["-t0", "-n3", f"-m{rig.MODEL}"], ["-t=0", "-n=3", f"-m={rig.MODEL}"],
                     ["-t", "0", "-n", "3", "-m", rig.MODEL]):
            short = self.run_tool(rig.TOOL, "generate", *form, "Hi")
            self.assertEqual((short.status, short.output), (0, long.output), (form, short))
        text = self.run_tool(rig.TOOL, "tokenize", f"-m{rig.MODEL}", "--", "-n3")
        self.assertEqual(text.status, 0, text)


class Hidden(WithScript):
    """What users write is in the argument list, which every user of the machine can read and
    a bus daemon logs: it is overwritten before the program waits for anything."""

    def check(self, program, *arguments):
        """The program reads its standard input when its arguments are settled."""
        process = subprocess.Popen([program, *arguments], env=self.rig.environment,
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        try:
            # more than a pipe holds: somebody has read
            process.stdin.write(b"x" * (1 << 20))
            process.stdin.flush()
            said = read_arguments(process)
        finally:
            process.kill()
            process.wait(rig.LIMIT_S)
            try:
                process.stdin.close()
            except BrokenPipeError:
                pass
        self.assertNotIn("secret", said)
        self.assertTrue(said.startswith(program + "\0" + arguments[0]), said)

    def test_ask_waits(self):
        process = self.rig.spawn("ask", SECRET)
        try:
            self.assertEqual(process.stdout.read(10), "It begins ")
            said = read_arguments(process)
        finally:
            process.kill()
            process.communicate(timeout=rig.LIMIT_S)
        self.assertNotIn("secret", said)
        self.assertEqual(said.rstrip("\0").split("\0"), [rig.LLMCTL, "ask"])

    def test_arguments(self):
        for arguments in (["ask", SECRET], ["ask", "--system", SECRET, "-"],
                          ["ask", "-o", f"stop={SECRET}", "-"],
                          ["call", "Complete", "-", f"system={SECRET}"],
                          ["call", "CountTokens", f"user:{SECRET}"],
                          ["context", "new", SECRET]):
            if "-" in arguments or arguments[0] == "ask":
                self.check(rig.LLMCTL, *arguments)
        self.check(rig.LLMCTL, "context", "import", "-", SECRET)

    def test_commands_still_work(self):
        self.assertEqual(self.rig.run("--timeout", "60", "ask", "-s", "System", "ask").output,
                         "You said: ask\n")

    def test_tool(self):
        self.check(rig.TOOL, "generate", "--model", rig.MODEL, "--system", SECRET, "-")
        self.check(rig.TOOL, "tokenize", "--model", f"/nonexistent/{SECRET}", "-")


class Locale(WithScript):
    """In the locale C our own texts are ASCII, and what models and users write is UTF-8."""

    def check(self, status, program, *arguments):
        utf8 = self.run_tool(program, *arguments)
        plain = self.run_tool(program, *arguments, LC_ALL="C")
        self.assertEqual((utf8.status, plain.status), (status, status), (arguments, utf8, plain))
        for said, wanted in ((plain.output, utf8.output), (plain.complaint, utf8.complaint)):
            self.assertTrue(said.isascii(), (arguments, said))
            # lines are broken where their length in characters says
            self.assertEqual(said.translate(str.maketrans("", "", " \n")),
                             wanted.translate(str.maketrans(dict(ASCII, **{" ": "", "\n": ""}))),
                             arguments)

    def walk(self, commands, before=()):
        for command in commands:
            yield *before, command["name"]
            yield from self.walk(command.get("commands", []), (*before, command["name"]))

    def test_llmctl(self):
        self.check(0, rig.LLMCTL, "--help")
        self.check(0, rig.LLMCTL)
        for names in self.walk(self.rig.json("help")["commands"]):
            self.check(0, rig.LLMCTL, *names, "--help")
        for arguments in (["frob"], ["ask"], ["ask", "--frob", "x"], ["context", "show"],
                          ["call", "Complete"], ["model", "use"]):
            self.check(2, rig.LLMCTL, *arguments)

    def test_service(self):
        self.check(0, rig.DAEMON, "--help")
        self.check(1, rig.DAEMON, "elsewhere")
        self.check(1, rig.DAEMON, "--system", "--session")

    def test_tool(self):
        self.check(0, rig.TOOL, "--help")
        self.check(2, rig.TOOL)
        self.check(2, rig.TOOL, "frob")
        for name in ("generate", "perplexity", "accuracy", "divergence", "tokenize", "inspect",
                     "prepare", "profile", "options"):
            self.check(0, rig.TOOL, name, "--help")
        self.check(0, rig.TOOL, "options")

    def test_text_of_others(self):
        for locale in ("C", "C.UTF-8"):
            self.assertEqual(self.rig.run("ask", "UTF-8", LC_ALL=locale).output, MODEL_TEXT + "\n")
            line = self.rig.run("ask", "--json", "UTF-8", LC_ALL=locale).output.splitlines()[0]
            self.assertEqual(json.loads(line)["t"], MODEL_TEXT)
            outcome = self.rig.run("ask", "-c", MODEL_TEXT, MODEL_TEXT, LC_ALL=locale)
            self.assertEqual(outcome.output, f"You said: {MODEL_TEXT}\n", outcome)
            self.assertIn(MODEL_TEXT, self.rig.run("context", "list", LC_ALL=locale).output)
            self.assertIn(f"You said: {MODEL_TEXT}\n",
                          self.rig.run("context", "show", MODEL_TEXT, LC_ALL=locale).output)
            self.assertEqual(self.rig.run("context", "rm", MODEL_TEXT, LC_ALL=locale).status, 0)


class NotRunning(unittest.TestCase):
    """Commands that look at the service without starting it end alike when it is not there."""

    def setUp(self):
        self.rig = rig.Rig({"rules": RULES}, activatable=True)

    def tearDown(self):
        self.rig.close()

    def test_exit_status(self):
        for arguments in (["status"], ["memory"], ["stats"], ["metrics"], ["trim", "low"],
                          ["top", "--once"], ["top", "--batch", "--count=2", "--interval=0.1"]):
            for form in ([], ["--json"]):
                outcome = self.rig.run(*arguments, *form)
                self.assertEqual(outcome.status, 4, (arguments, form, outcome))
                said = outcome.output + outcome.complaint
                self.assertIn("running", said, (arguments, form))
                # the next question starts it, so that nobody has to
                self.assertNotIn("systemctl", said)
        self.assertFalse(json.loads(self.rig.run("status", "--json").output)["running"])
        self.assertEqual(self.rig.run("monitor", "--timeout", "1").status, 0)
        self.assertEqual(self.rig.get_pid(), 0)

        self.assertEqual(self.rig.run("ask", "Hi, a SECRET").status, 0)
        # the bus daemon notes who has made it start the service
        log = self.rig.bus_log.read_text()
        self.assertIn("Activating service name='org.llm.Service'", log)
        self.assertIn("llmctl ask", log)
        self.assertNotIn("SECRET", log)
        for arguments in (["status"], ["memory"], ["stats"], ["metrics"], ["trim", "low"],
                          ["top", "--once"]):
            self.assertEqual(self.rig.run(*arguments).status, 0, arguments)


class NoBus(WithScript):
    """Without a session bus, as in cron, over ssh or as root: what is wrong and what helps."""

    def run_without(self, program, *arguments, address=None, system="unix:path=/nonexistent/bus"):
        environment = dict(self.rig.environment, DBUS_SYSTEM_BUS_ADDRESS=system)
        for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY"):
            environment.pop(name, None)
        if address is not None:
            environment["DBUS_SESSION_BUS_ADDRESS"] = address
        done = subprocess.run([program, *arguments], stdin=subprocess.DEVNULL, capture_output=True,
                              env=environment, timeout=rig.LIMIT_S, check=False)
        return rig.Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def check(self, outcome):
        said = " ".join((outcome.output + outcome.complaint).split())
        self.assertIn("DBUS_SESSION_BUS_ADDRESS is not set", said, outcome)
        self.assertIn("dbus-run-session", said, outcome)
        # these need the bus that is missing
        self.assertNotIn("llmsvcd &", said, outcome)
        self.assertNotIn("systemctl --user", said, outcome)
        self.assertNotIn("installed?", said, outcome)

    def test_no_session(self):
        for arguments in (["ask", "Hi"], ["status"], ["memory"], ["model", "list"], ["top", "--once"],
                          ["chat"], ["get"], ["ask", "--session-bus", "Hi"]):
            outcome = self.run_without(rig.LLMCTL, *arguments)
            self.assertEqual((outcome.status, outcome.output), (4, ""), (arguments, outcome))
            self.check(outcome)
        self.check(self.run_without(rig.LLMCTL, "doctor"))
        outcome = self.run_without(rig.DAEMON, "--session")
        self.assertEqual(outcome.status, 1)
        self.check(outcome)

    def test_system_bus_without_service(self):
        """A bus that is there and has no service is not the one that is looked for."""
        self.rig.stop()
        address = self.rig.environment["DBUS_SESSION_BUS_ADDRESS"]
        try:
            for arguments in (["ask", "Hi"], ["status"], ["model", "list"]):
                outcome = self.run_without(rig.LLMCTL, *arguments, system=address)
                self.assertEqual((outcome.status, outcome.output), (4, ""), (arguments, outcome))
                self.check(outcome)
        finally:
            self.rig.start()

    def test_wrong_address(self):
        outcome = self.run_without(rig.LLMCTL, "ask", "Hi", address="unix:path=/nonexistent/other")
        self.assertEqual(outcome.status, 4)
        self.assertIn("DBUS_SESSION_BUS_ADDRESS is “unix:path=/nonexistent/other”",
                      outcome.complaint)


class FirstCall(unittest.TestCase):
    """The call that starts the service waits until the folders of models have been read, which
    takes a while where there are many."""

    def setUp(self):
        self.rig = rig.Rig(activatable=True)
        models = self.rig.folder / "models"
        models.mkdir()
        for i in range(200):
            (models / f"model-{i:03}.gguf").symlink_to(rig.MODEL)
        (self.rig.folder / "llmsvc.conf").write_text(f"[model]\nfolders={models}\n")

    def tearDown(self):
        self.rig.close()

    def test_list(self):
        models = self.rig.json("model", "list")["models"]
        self.assertGreaterEqual(len(models), 200)
        self.assertEqual([model["id"] for model in models if model["active"]],
                         ["llmsvc-demo-8M-Q8_0"])

    def test_show(self):
        outcome = self.rig.run("model", "show")
        self.assertEqual(outcome.status, 0, outcome)
        self.assertIn("llmsvc-demo-8M-Q8_0", outcome.output)

    def test_over_the_bus(self):
        done = subprocess.run(
            ["gdbus", "call", "--session", "--dest", "org.llm.Service", "--object-path",
             "/org/llm/Service/models", "--method",
             "org.freedesktop.DBus.ObjectManager.GetManagedObjects"],
            env=self.rig.environment, capture_output=True, text=True, timeout=rig.LIMIT_S,
            check=True)
        self.assertGreaterEqual(done.stdout.count("'org.llm.Service.Model'"), 200)
        self.assertIn("'Title': <", done.stdout)

    def test_end_meanwhile(self):
        """Who waits when the service ends is told."""
        call = subprocess.Popen(
            ["gdbus", "call", "--session", "--dest", "org.llm.Service", "--object-path",
             "/org/llm/Service/models", "--method",
             "org.freedesktop.DBus.ObjectManager.GetManagedObjects"],
            env=self.rig.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        subprocess.run(["gdbus", "wait", "--session", "--timeout", str(rig.LIMIT_S),
                        "org.llm.Service"], env=self.rig.environment, check=True)
        pid = self.rig.get_pid()
        self.assertNotEqual(pid, 0)
        os.kill(pid, signal.SIGTERM)
        call.communicate(timeout=rig.LIMIT_S)


class NoModel(unittest.TestCase):
    """The folders that were searched are named, and the file that was asked for."""

    def start(self, *arguments, **environment):
        self.rig = rig.Rig({"rules": []}, activatable=True)
        self.addCleanup(self.rig.close)
        self.rig.command = [rig.DAEMON, "--session", "--config",
                            str(self.rig.folder / "llmsvc.conf"), "--state-dir",
                            str(self.rig.folder / "state"), *arguments]
        self.rig.environment.update(environment)
        self.rig.start()

    def test_folders(self):
        self.start(LLMSVC_MODEL_PATH="/nonexistent/first:/nonexistent/second")
        own = str(self.rig.home / ".local/share/llmsvc/models")
        for arguments in (["ask", "Hi"], ["model", "list"], ["model", "show"],
                          ["model", "use", "gpt-99"], ["status"]):
            outcome = self.rig.run(*arguments, XDG_DATA_HOME="")
            said = outcome.output + outcome.complaint
            self.assertIn("“/nonexistent/first:/nonexistent/second:" + own, said, arguments)
        self.assertIn("gpt-99", self.rig.run("model", "use", "gpt-99").complaint)

    def test_file(self):
        self.start("--model", "/nonexistent/that.gguf")
        for arguments in (["ask", "Hi"], ["model", "list"], ["model", "show"], ["status"]):
            outcome = self.rig.run(*arguments)
            self.assertIn("“/nonexistent/that.gguf”", outcome.output + outcome.complaint, arguments)

    def test_tool(self):
        self.start()
        environment = dict(self.rig.environment, LLMSVC_MODEL_PATH="/nonexistent/first")
        for arguments, wanted in ((["generate", "--model", "/nonexistent/that.gguf", "Hi"],
                                   "/nonexistent/that.gguf"),
                                  (["profile"], "/nonexistent/first:")):
            done = subprocess.run([rig.TOOL, *arguments], capture_output=True, env=environment,
                                  timeout=rig.LIMIT_S, check=False)
            self.assertEqual(done.returncode, 1, done)
            self.assertIn(wanted, done.stderr.decode())


if __name__ == "__main__":
    unittest.main(verbosity=2)
