#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The programs speak the language of their environment, straight from the build tree."""

import os
import subprocess
import unittest

import po

PROGRAMS = {"llmsvcd": os.environ["LLM_DAEMON"], "llmsvc-tool": os.environ["LLM_TOOL"],
            "llmctl": os.environ["LLM_CTL"]}
MESSAGES = {"llmsvcd": "Serve one user on the session bus (default)",
            "llmsvc-tool": "Show what a GGUF file holds"}


def say(program, *arguments, **environment):
    result = subprocess.run([PROGRAMS[program], *arguments], capture_output=True, text=True,
                            timeout=60, env=dict(os.environ, **environment))
    return result.stdout + result.stderr


def translate(language, message):
    for entry in po.read(po.PO / f"{language}.po"):
        if entry.id == message:
            return entry.text
    raise KeyError(message)


class Programs(unittest.TestCase):
    def test_english(self):
        for program, message in MESSAGES.items():
            for locale in ("C", "C.UTF-8"):
                self.assertIn(message, say(program, "--help", LC_ALL=locale, LANGUAGE=""))

    def test_languages(self):
        # C.UTF-8 is there on every machine, and LANGUAGE chooses the messages below it
        for language in po.LANGUAGES:
            for program, message in MESSAGES.items():
                said = say(program, "--help", LC_ALL="C.UTF-8", LANGUAGE=language)
                self.assertIn(translate(language, message), said)
                self.assertNotIn(message, said)

    def test_llmctl(self):
        english = say("llmctl", "--help", LC_ALL="C.UTF-8", LANGUAGE="")
        # nothing is translated in the locale C, which has no UTF-8
        self.assertIn("Usage: llmctl COMMAND [OPTION...]\n",
                      say("llmctl", "--help", LC_ALL="C", LANGUAGE="de"))
        said = {say("llmctl", "--help", LC_ALL="C.UTF-8", LANGUAGE=language)
                for language in po.LANGUAGES}
        self.assertEqual(len(said | {english}), len(po.LANGUAGES) + 1)

    def test_wrong_argument(self):
        english = say("llmsvcd", "elsewhere", LC_ALL="C.UTF-8", LANGUAGE="")
        self.assertIn("Unknown argument “elsewhere”", english)
        self.assertIn(translate("de", "Unknown argument “%s”").replace("%s", "elsewhere"),
                      say("llmsvcd", "elsewhere", LC_ALL="C.UTF-8", LANGUAGE="de"))

    def test_no_log_in_other_languages(self):
        # there is no such bus: what follows the arguments is the journal's, in English
        said = say("llmsvcd", "--session", LC_ALL="C.UTF-8", LANGUAGE="de",
                   DBUS_SESSION_BUS_ADDRESS="unix:path=/nonexistent/bus")
        self.assertIn("No session bus: ", said)
        self.assertIn("No such file or directory", said)


if __name__ == "__main__":
    unittest.main()
