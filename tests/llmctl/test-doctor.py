# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmctl doctor, of a service that is well, and of all that can be wrong with it."""
import json
import os
import pathlib
import re
import signal
import time
import unittest

import fakes
import rig

RULES = [
    {"when": {"contains": "fail"}, "error": {"name": "NoMemory", "message": "no room"}},
    {"text": "You said: {prompt}"},
]


class Doctor(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES})
        # Not what lies in this machine's cache.
        self.rig.environment["XDG_CACHE_HOME"] = str(self.rig.home / "cache")

    def tearDown(self):
        self.rig.close()

    def look(self, *arguments, status=None, **environment):
        """{check: [finding]}"""
        begin = time.monotonic()
        outcome = self.rig.run("doctor", "--json", *arguments, **environment)
        took = time.monotonic() - begin
        report = json.loads(outcome.output)
        levels = [finding["level"] for finding in report["findings"]]
        worst = max(levels, key=("ok", "note", "warn", "fail").index)
        self.assertEqual(report["worst"], worst)
        self.assertEqual(outcome.status, 1 if worst == "fail" else 0, outcome)
        if status is not None:
            self.assertEqual(outcome.status, status, outcome)
        self.assertEqual(outcome.complaint, "")
        # not a measure of speed: nothing is waited for without an end
        self.assertLess(took, 60)
        findings = {}
        for finding in report["findings"]:
            self.assertLessEqual(set(finding), {"check", "level", "text", "hint"})
            if finding["level"] == "fail":
                self.assertIn("hint", finding)
            findings.setdefault(finding["check"], []).append(finding)
        return findings

    def look_loaded(self):
        """Once no model is being loaded: a loaded machine takes seconds for that."""
        for _ in range(200):
            findings = self.look(status=0)
            if not any("is loading a model" in finding["text"] for finding in findings["service"]):
                return findings
            time.sleep(0.2)
        return self.fail(f"a model is still being loaded: {json.dumps(findings, indent=1)}")

    def find(self, findings, check, level, text):
        for finding in findings.get(check, ()):
            if finding["level"] == level and text in finding["text"]:
                return finding
        return self.fail(f"no “{text}” ({level}) in {check}: {json.dumps(findings, indent=1)}")

    # --- the service ---

    def test_well(self):
        self.rig.run("ask", "--context", "notes", "Hello there")
        findings = self.look(status=0)
        pid = self.rig.get_pid()
        self.find(findings, "bus", "ok", f"on the session bus, as process {pid}")
        self.find(findings, "bus", "note", "The system bus can't be reached")
        self.find(findings, "service", "ok", "version 0.1.0, as llmctl")
        self.find(findings, "service", "ok", "ready for questions")
        self.find(findings, "memory", "ok", "memory is not pressed")
        self.find(findings, "model", "warn", "Answers come from a script")
        self.find(findings, "quota", "ok", "No application")
        self.find(findings, "use", "ok", "1 questions since it was started, 0 of them failed")
        for check in ("psi", "io_uring", "cgroup", "state", "disk", "speed", "sandbox", "language"):
            self.assertIn(check, findings)

    def test_for_people(self):
        # it is not loading any more
        self.rig.run("ask", "Hello there")
        outcome = self.rig.run("doctor")
        self.assertEqual(outcome.status, 0, outcome)
        # the interface's words, too, are in the user's language
        german = self.rig.run("status", LC_ALL="C.UTF-8", LANGUAGE="de").output
        self.assertIn("Dienst: bereit\n", german)
        self.assertIn("Druck keiner\n", german)
        self.assertRegex(outcome.output, r"(?m)^ok    service       It is ready for questions$")
        self.assertIn("It works, but see the warnings.\nWhat to do:\n  1. ", outcome.output)
        for line in outcome.output.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertNotIn("\x1b", outcome.output)
        # how much there is to say depends on the machine: a pager would wait for a key
        self.rig.environment["PAGER"] = "cat"
        terminal = self.rig.terminal("doctor", term="xterm")
        terminal.expect("\x1b[32mok\x1b[0m", "\x1b[33m")
        self.assertEqual(terminal.finish(), 0)

    def test_model(self):
        """With the demo, which is told from a real one."""
        self.rig.close()
        self.rig = rig.Rig()
        self.rig.run("ask", "--max-tokens", "4", "Hello there")
        findings = self.look(status=0)
        self.find(findings, "model", "warn", "is the demo")
        self.find(findings, "model", "ok", "The model has 8.1")
        self.find(findings, "model", "ok" if any("lie in the cache" in finding["text"]
                                                 for finding in findings["model"]) else "warn",
                  "prepared cop")

    def test_unusable(self):
        """A file that can't be used is a warning here, and listed with its reason elsewhere."""
        self.rig.close()
        self.rig = rig.Rig()
        models = self.rig.home / ".local/share/llmsvc/models"
        models.mkdir(parents=True)
        (models / "half.gguf").write_bytes(pathlib.Path(rig.MODEL).read_bytes()[:4000])
        (models / "gone.gguf").symlink_to("nowhere")
        findings = self.look_loaded()
        half = self.find(findings, "model", "warn", "half can't be used: ")["text"]
        self.assertIn("half.gguf”: ", half)
        self.find(findings, "model", "warn", "gone can't be used: Can't open")
        self.assertIn("see the warnings", self.rig.run("doctor").output)

        listed = {model["id"]: model for model in self.rig.json("model", "list")["models"]}
        self.assertEqual({name: model["info"]["usable"] for name, model in listed.items()},
                         {"half": False, "gone": False, pathlib.Path(rig.MODEL).stem: True})
        self.assertEqual("half can't be used: " + listed["half"]["info"]["reason"], half)
        self.assertEqual([model["id"] for model in listed.values() if model["active"]],
                         [pathlib.Path(rig.MODEL).stem])
        output = self.rig.run("model", "list").output
        self.assertRegex(output, r"(?m)^!  half ")
        self.assertIn("\n! " + half + "\n", output)
        self.assertIn("  Usable        no: " + listed["half"]["info"]["reason"],
                      self.rig.run("model", "show", "half").output)
        self.assertIn("  Usable        yes\n", self.rig.run("model", "show").output)
        outcome = self.rig.run("model", "use", "half")
        self.assertEqual(outcome.status, 4)
        self.assertIn(listed["half"]["info"]["reason"], outcome.complaint)

        (models / "half.gguf").unlink()
        (models / "gone.gguf").unlink()
        findings = self.look(status=0)
        self.assertNotIn("can't be used", json.dumps(findings["model"]))

    def test_not_running(self):
        self.rig.close()
        self.rig = rig.Rig({"rules": RULES}, activatable=True)
        findings = self.look(status=0)
        self.find(findings, "bus", "ok", "The first call on the session bus starts the service")
        self.assertNotIn("service", findings)
        self.find(findings, "model", "warn", "There is no model in the usual folders")
        self.find(findings, "model", "note", "A model file (GGUF) of up to ")
        # by its speed: no two processors of today read 300 billion parameters five times a second
        advice = next(finding["text"] for finding in findings["model"] if "billion" in finding["text"])
        self.assertLess(float(re.search(r"about ([0-9.]+) billion", advice)[1]), 300)
        self.assertEqual(self.rig.get_pid(), 0)

        models = self.rig.home / "data" / "llmsvc" / "models"
        models.mkdir(parents=True)
        (models / "some.gguf").write_bytes(b"x")
        findings = self.look(XDG_DATA_HOME=str(self.rig.home / "data"))
        self.find(findings, "model", "ok", "1 files with models")

        findings = self.look("--start", status=0)
        self.find(findings, "start", "ok", "The bus has started it")
        self.find(findings, "service", "ok", "version 0.1.0, as llmctl")
        self.assertGreater(self.rig.get_pid(), 0)

    def test_nowhere(self):
        self.rig.stop()
        findings = self.look(status=1)
        self.find(findings, "bus", "fail", "on no bus")
        findings = self.look(status=1, DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent/bus")
        self.find(findings, "bus", "note", "The session bus can't be reached")
        self.assertIn("Something does not work.\nWhat to do:\n  1. ", self.rig.run("doctor").output)

    def test_crashing(self):
        """One that ends at once, and one that never gets its name."""
        self.rig.stop()
        service = self.rig.folder / "services" / "org.llm.Service.service"
        for program in ("/bin/false", "/nonexistent/program"):
            service.write_text(f"[D-BUS Service]\nName=org.llm.Service\nExec={program}\n")
            self.rig.bus.send_signal(signal.SIGHUP)
            self.wait_for_activatable()
            findings = self.look("--start", status=1)
            self.find(findings, "start", "fail", "The bus can't start it")
            self.assertNotIn("service", findings)

    def wait_for_activatable(self):
        for _ in range(rig.LIMIT_S * 10):
            if any("starts the service" in finding["text"] for finding in self.look()["bus"]):
                return
            time.sleep(0.1)
        self.fail("the bus has not seen the new service file")

    def test_hangs(self):
        self.rig.daemon.send_signal(signal.SIGSTOP)
        try:
            findings = self.look(status=1)
        finally:
            self.rig.daemon.send_signal(signal.SIGCONT)
        finding = self.find(findings, "service", "fail", "does not answer")
        self.assertIn("restart", finding["hint"])
        self.assertIn("disk", findings)

    def test_hangs_in_the_bus(self):
        """A bus that does not answer is given up."""
        self.rig.bus.send_signal(signal.SIGSTOP)
        try:
            findings = self.look(status=1)
        finally:
            self.rig.bus.send_signal(signal.SIGCONT)
        self.find(findings, "bus", "note", "The session bus can't be reached")

    def test_failures(self):
        for _ in range(12):
            self.rig.run("ask", "fail now")
        findings = self.look(status=0)
        self.find(findings, "use", "warn", "12 of 12 questions have failed")

    def test_quota(self):
        self.rig.run("quota", "--default", "contexts=2")
        self.rig.run("context", "new", "one")
        self.rig.run("context", "new", "two")
        findings = self.look(status=0)
        self.find(findings, "quota", "warn", "has 100 % of its quota of “contexts”")

    # --- another one under its name ---

    def test_other_version(self):
        self.rig.stop()
        with fakes.Service(self.rig.environment, {
                "Version": "9.9.9", "ApiVersion": 1, "Availability": "failed",
                "AvailabilityReason": "the disk \x1b[31mburns", "ActiveModel": "/"}):
            findings = self.look(status=1)
            self.find(findings, "service", "warn", "The service is version 9.9.9 with interface 1")
            self.find(findings, "service", "fail", "It can't answer questions (failed)")
            self.rig.environment["PAGER"] = "cat"
            terminal = self.rig.terminal("doctor", term="xterm")
            terminal.expect("burns")
            self.assertEqual(terminal.finish(), 1)
            self.assertNotIn("\x1b[31mburns", terminal.text)

    def test_states(self):
        for state, level, text in (("no-model", "fail", "It has no model"),
                                   ("disabled", "fail", "has switched it off"),
                                   ("loading", "note", "loading a model"),
                                   ("ready", "warn", "can't use what is stored: for a reason"),
                                   ("surprising", "fail", "(surprising)")):
            self.rig.stop()
            with self.subTest(state=state), fakes.Service(self.rig.environment, {
                    "Version": "0.1.0", "ApiVersion": 6, "Availability": state,
                    "AvailabilityReason": "for a reason", "ActiveModel": "/"}):
                self.find(self.look(), "service", level, text)

    def test_nonsense(self):
        """Something that has the name, and none of the types."""
        self.rig.stop()
        with fakes.Service(self.rig.environment, {
                "Version": 5, "Availability": True, "ActiveModel": "not a path"}):
            self.find(self.look(status=1), "service", "fail", "It can't answer questions")

    # --- the unit ---

    def test_unit(self):
        sandbox = {"NoNewPrivileges": True, "MemoryDenyWriteExecute": True}
        for unit, service, level, text in (
                ({}, sandbox, "ok", "It runs in its sandbox"),
                ({}, sandbox, "ok", "llmsvc.service is active (running)"),
                ({}, dict(sandbox, NoNewPrivileges=False), "warn", "is off: NoNewPrivileges="),
                ({}, dict(sandbox, NRestarts=3), "warn", "start it again, 3 times"),
                ({}, dict(sandbox, MemoryMax=1 << 30), "note", "MemoryMax=1.0"),
                ({"Id": "session-2.scope"}, sandbox, "note", "runs in session-2.scope")):
            with self.subTest(text=text), fakes.Systemd(self.rig.environment, unit, service):
                self.find(self.look(), "unit", level, text)

        # and while the service does not run
        self.rig.close()
        self.rig = rig.Rig({"rules": RULES}, activatable=True)
        for unit, service, level, text in (
                ({"LoadState": "masked", "ActiveState": "inactive"}, {}, "fail", "is masked"),
                ({"LoadState": "not-found", "ActiveState": "inactive"}, {}, "note", "knows no"),
                ({"LoadState": "bad-setting"}, {}, "fail", "can't be loaded (bad-setting)"),
                ({"ActiveState": "failed"}, dict(sandbox, Result="exit-code"), "fail",
                 "has failed (exit-code)")):
            with self.subTest(text=text), fakes.Systemd(self.rig.environment, unit, service):
                self.find(self.look(), "unit", level, text)

    # --- the machine ---

    def test_state(self):
        state = self.rig.home / "state" / "llmsvc"
        self.find(self.look(), "state", "note", "is not there yet")
        state.mkdir(parents=True, mode=0o700)
        self.find(self.look(), "state", "ok", "nobody else may look into")
        state.chmod(0o755)
        self.find(self.look(), "state", "warn", "Others may look into")
        state.rmdir()
        state.write_text("")
        self.find(self.look(status=1), "state", "fail", "is no folder")

    def test_speed(self):
        folder = pathlib.Path(self.rig.environment["XDG_CACHE_HOME"], "llmsvc")
        folder.mkdir(parents=True)
        findings = self.look()
        self.find(findings, "speed", "note", "is not known yet")
        memory = self.find(findings, "speed", "ok", "Memory is read at")["text"]
        # no machine that runs this is slower, and none of today faster
        size, unit = re.fullmatch(r"Memory is read at ([0-9.]+)\s(.iB)/s", memory).groups()
        self.assertTrue(0.1 < float(size) * {"MiB": 1 / 1024, "GiB": 1, "TiB": 1024}[unit] < 4096,
                        memory)
        profile = folder / "profile-model.ini"
        for text, level, wanted in (("[times]\nread-bytes-per-us=1000\n", "ok", "The disk reads 9"),
                                    ("[times]\nread-bytes-per-us=2\n", "warn", "/s only"),
                                    ("[times]\nread-bytes-per-us=0\n", "note", "is not known yet"),
                                    ("[times]\nread-bytes-per-us=nan\n", "note", "is not known yet"),
                                    ("rubbish", "note", "is not known yet")):
            profile.write_text(text)
            self.find(self.look(), "speed", level, wanted)
        profile.unlink()
        os.mkfifo(profile)
        self.find(self.look(), "speed", "note", "is not known yet")

    def test_configuration(self):
        folder = self.rig.home / "config" / "llmsvc"
        folder.mkdir(parents=True)
        (folder / "llmsvc.conf").write_text("[service]\nthreads=2\n")
        config = str(self.rig.home / "config")
        self.find(self.look(XDG_CONFIG_HOME=config), "configuration", "ok", "can be read")
        (folder / "llmsvc.conf").write_text("threads=2\n")
        self.find(self.look(status=1, XDG_CONFIG_HOME=config), "configuration", "fail",
                  "can't be read")

    def test_user(self):
        self.find(self.look(SNAP_NAME="some-snap"), "sandbox", "note", "the snap some-snap")
        self.find(self.look(LC_ALL="C"), "language", "warn", "has no UTF-8")
        self.find(self.look(), "language", "ok", "Messages are in")


if __name__ == "__main__":
    unittest.main()
