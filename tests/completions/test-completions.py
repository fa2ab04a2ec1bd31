#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The files of completions in their real shells, against the programs just built.

Arguments: llmctl, llmsvcd, llmsvc-tool, the session.conf of the build folder and the
folder of models. The service runs on a private bus.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/gates"))

import programs
import shells

COMPLETIONS = ROOT / "data/completions"
LLMCTL, LLMSVCD, TOOL, CONF, MODELS = (os.path.abspath(path) for path in sys.argv[1:6])


def without_values(candidates):
    """{"--json", "--timeout"} of {"--json", "--timeout="}."""
    return {candidate.rstrip("=") for candidate in candidates}


class Completions(unittest.TestCase):
    """One bus and one service for all: asking is all that is done."""

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        # A person would not wait; a test on a busy machine does.
        patient = pathlib.Path(cls.folder.name, "llmctl")
        patient.write_text(f'#!/bin/sh\nexec "{LLMCTL}" --timeout=60 "$@"\n', encoding="utf-8")
        patient.chmod(0o755)
        folders = [cls.folder.name, *(str(pathlib.Path(p).parent) for p in (LLMSVCD, TOOL))]
        cls.environment = {
            "PATH": ":".join([*folders, os.environ["PATH"]]),
            "LC_ALL": "C.UTF-8",
            "HOME": cls.folder.name,
            "XDG_STATE_HOME": cls.folder.name,
            # where the help for methods and their options is installed
            "XDG_DATA_DIRS": cls.folder.name,
            "LLMSVC_MODEL_PATH": MODELS,
            "DBUS_SYSTEM_BUS_ADDRESS": "unix:path=/nonexistent",
        }
        interfaces = pathlib.Path(cls.folder.name, "dbus-1/interfaces")
        interfaces.mkdir(parents=True)
        shutil.copy(ROOT / "service/bus/org.llm.Service.xml", interfaces)
        cls.bus = subprocess.Popen(
            ["dbus-daemon", f"--config-file={CONF}", "--nofork", "--print-address"],
            env=cls.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        cls.addClassCleanup(cls.stop_bus)
        cls.environment["DBUS_SESSION_BUS_ADDRESS"] = cls.bus.stdout.readline().strip()
        cls.run_llmctl("call", "CreateContext", "name=shopping list")
        cls.tree = programs.read_tree(LLMCTL)

    @classmethod
    def stop_bus(cls):
        cls.bus.terminate()
        cls.bus.wait()
        cls.bus.stdout.close()

    @classmethod
    def run_llmctl(cls, *arguments):
        return subprocess.run([LLMCTL, *arguments], env=cls.environment, text=True, check=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=60).stdout

    def check(self, line, wanted, *, bash=None, trim=None):
        """Every shell offers what is wanted for the line; bash may offer something else, and
        what is offered may be trimmed before."""
        for shell, ask in shells.ASK.items():
            with self.subTest(shell=shell, line=line):
                found = ask(COMPLETIONS, self.environment, line)
                self.assertEqual(trim(found) if trim else found,
                                 bash if shell == "bash" and bash is not None else wanted)

    def find(self, name):
        return next(c for c in self.tree["commands"] if c["name"] == name)

    def test_commands(self):
        names = {c["name"] for c in self.tree["commands"] if not c.get("hidden")}
        self.check("llmctl ", names)
        self.check("llmctl con", {name for name in names if name.startswith("con")})

    def test_commands_of_a_group(self):
        commands = self.find("context")["commands"]
        self.check("llmctl context ", {c["name"] for c in commands if not c.get("hidden")})

    def test_options(self):
        options = self.tree["options"] + self.find("ask")["options"]
        self.check("llmctl ask --", {f"--{option['long']}" for option in options},
                   trim=without_values)

    def test_value_behind_an_equals_sign(self):
        # readline replaces what stands behind the sign only
        self.check("llmctl call Complete hi slo=i", {"slo=interactive"}, bash={"interactive"})
        self.check("llmctl call Complete hi max-t", {"max-tokens="})

    def test_name_with_a_space(self):
        self.check("llmctl context show shop", {"shopping list"}, bash={"shopping\\ list"})
        self.check("llmctl context show shopping\\ l", {"shopping list"},
                   bash={"shopping\\ list"})
        self.check('llmctl context show "shopping l', {"shopping list"})

    def test_what_the_bus_says(self):
        self.check("llmctl get Avail", {"Availability", "AvailabilityReason"})

    def test_llmsvcd(self):
        self.check("llmsvcd --", programs.list_help_options(LLMSVCD), trim=without_values)

    def test_llmsvc_tool(self):
        commands = programs.list_help_commands(TOOL)
        self.check("llmsvc-tool ", commands, trim=lambda found: {w for w in found if w[0] != "-"})
        for command in sorted(commands):
            self.check(f"llmsvc-tool {command} --", programs.list_help_options(TOOL, command),
                       trim=without_values)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
