# SPDX-License-Identifier: LGPL-2.1-or-later
"""What people are told where the packages are installed: a service on the system bus, and the
users' unit masked, as the systemd of the session says."""
import json
import unittest

import fakes
import rig

RULES = [{"text": "You said: {prompt}"}]
OWN = ".local/share"
SYSTEM = "/lib/llmsvc/models"
MASKED = {"LoadState": "masked", "ActiveState": "inactive"}


class Packages(unittest.TestCase):
    def setUp(self):
        self.rig = rig.Rig({"rules": RULES}, activatable=True, systemd=True)
        self.addCleanup(self.rig.close)
        share = self.rig.folder / "share"
        self.unit = share / "llmsvc/systemd/user/llmsvc.service"
        self.unit.parent.mkdir(parents=True)
        self.unit.write_text("")
        self.rig.environment.update(XDG_DATA_DIRS=str(share), XDG_DATA_HOME="",
                                    XDG_CACHE_HOME=str(self.rig.home / "cache"))
        systemd = fakes.Systemd(self.rig.environment, MASKED, {})
        systemd.__enter__()
        self.addCleanup(systemd.__exit__)
        self.link = f"systemctl --user link {self.unit}"

    def add_system(self, **options):
        """A bus that takes the place of the system's, with a service."""
        other = rig.Rig({"rules": RULES}, **options)
        self.addCleanup(other.close)
        self.rig.environment["DBUS_SYSTEM_BUS_ADDRESS"] = (
            other.environment["DBUS_SESSION_BUS_ADDRESS"])
        return other

    def look(self, *arguments):
        findings = json.loads(self.rig.run("doctor", "--json", *arguments).output)["findings"]
        return findings, json.dumps(findings, ensure_ascii=False)

    def test_doctor(self):
        for options in ({}, {"activatable": True}):
            self.add_system(**options)
            findings, said = self.look()
            self.assertNotIn(OWN, said)
            self.assertNotIn("session bus starts the service", said)
            masked = [finding for finding in findings if "masked, on purpose" in finding["text"]]
            self.assertEqual([finding["level"] for finding in masked], ["note"], said)
            self.assertIn(self.link, masked[0]["hint"])
        # nothing runs, so the folders are looked at
        self.assertRegex(said, f"sudo install -D -m 644 -t [^ ]*{SYSTEM} FILE.gguf")
        self.assertIn("sudo llmctl model use ID", said)

    def test_doctor_alone(self):
        """Without a service for all, nothing works."""
        for arguments in ([], ["--start"]):
            findings, said = self.look(*arguments)
            failed = [finding for finding in findings if finding["level"] == "fail"]
            self.assertIn("is masked", failed[0]["text"])
            self.assertIn(self.link, failed[0]["hint"])
            self.assertNotIn("session bus starts the service", said)
        self.unit.unlink()
        self.assertIn("systemctl --user unmask llmsvc", self.look()[1])

    def test_calls(self):
        """Each of them says one sentence with what to do."""
        for words in (["ask", "Hi"], ["get", "Availability"], ["model", "list"], ["memory"]):
            for options in (["--session-bus"], []):
                outcome = self.rig.run(*words, *options)
                self.assertEqual(outcome.status, 4, outcome)
                self.assertEqual(outcome.complaint.count("\n"), 1, outcome)
                self.assertIn("is masked here", outcome.complaint)
                self.assertIn(self.link, outcome.complaint)
                self.assertIn(options[0] if options else "sudo systemctl start llmsvc",
                              outcome.complaint)
        outcome = self.rig.run("status")
        self.assertEqual(outcome.status, 4, outcome)
        self.assertIn("Service: masked", outcome.output)

    def test_habits(self):
        self.add_system()
        for word, wanted in (("pull", SYSTEM), ("rm", "sudo rm "),
                             ("serve", "sudo systemctl start llmsvc"),
                             ("stop", "sudo systemctl stop llmsvc")):
            outcome = self.rig.run(word)
            self.assertEqual(outcome.status, 2, outcome)
            self.assertIn(wanted, outcome.complaint)
            self.assertNotIn(OWN, outcome.complaint)
            self.assertNotIn("--user", outcome.complaint)
        outcome = self.rig.run("--session-bus", "pull")
        self.assertIn(f"“install -D -m 644 -t ~/{OWN}/llmsvc/models FILE.gguf”", outcome.complaint)

    def test_no_model(self):
        """Where one is put is said with the error that there is none."""
        other = self.add_system()
        other.stop()
        with fakes.Service(other.environment, {}, "NoModel"):
            outcome = self.rig.run("call", "SelectModel", "x")
        self.assertEqual(outcome.status, 4, outcome)
        self.assertRegex(outcome.complaint, f"“sudo install -D -m 644 -t [^ ]*{SYSTEM} FILE.gguf”")

    def test_refused(self):
        """With the words that were typed, where the bus is the system's."""
        other = self.add_system()
        other.stop()
        with fakes.Service(other.environment, {}, "NotAuthorized"):
            for words, line in ((["model", "use", "some model"], "model use 'some model'"),
                                (["quota", "--default", "tokens=5"], "quota --default tokens=5"),
                                (["--system-bus", "model", "use", "m"], "--system-bus model use m")):
                outcome = self.rig.run(*words)
                self.assertEqual(outcome.status, 5, outcome)
                self.assertIn(f"llmctl: As root: sudo llmctl {line}\n", outcome.complaint)
            # another right would not help
            outcome = self.rig.run("ask", "Hi")
            self.assertNotIn("sudo", outcome.complaint)
            outcome = self.rig.run(
                "--session-bus", "quota", "--default", "tokens=5",
                DBUS_SESSION_BUS_ADDRESS=other.environment["DBUS_SESSION_BUS_ADDRESS"])
            self.assertEqual(outcome.status, 5, outcome)
            self.assertNotIn("sudo", outcome.complaint)


if __name__ == "__main__":
    unittest.main()
