#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the gdbus and busctl lines of README.md as written, on a private bus.

Arguments: the session.conf of the build folder and the folder of models.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONF, MODELS = sys.argv[1:3]


def read_lines():
    """The indented blocks of the section for shells, as one script."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("## From a shell", 1)[1].split("\n## ", 1)[0]
    return [line[4:] for line in section.splitlines() if line.startswith("    ")]


def main():
    lines = read_lines()
    with tempfile.TemporaryDirectory() as folder:
        environment = dict(os.environ, LLMSVC_MODEL_PATH=MODELS, XDG_STATE_HOME=folder)
        done = subprocess.run(
            ["dbus-run-session", f"--config-file={CONF}", "--", "sh", "-eu"],
            input="\n".join(lines) + "\necho END\n", env=environment, text=True,
            capture_output=True, timeout=100, check=False)
    print(done.stdout)
    # What each line must have printed, in order.
    wanted = ["('", "finish-reason", "sa{sv} ", "output-tokens", "sa{sv} ", "('", "[('user', 'I want",
              "Italian food, please.", 's "ready"', "/org/llm/Service/models/", "t ", "a{sv} ", "freed",
              "/org/llm/Service/contexts/", "END"]
    at = 0
    for text in wanted:
        found = done.stdout.find(text, at)
        if found < 0:
            print(f"not printed: {text}\n{done.stderr}")
            return 1
        at = found + len(text)
    n_calls = sum(line.lstrip().startswith(("gdbus", "busctl", "CONTEXT=")) for line in lines)
    print(f"{n_calls} calls of README.md, 0 faults")
    return 0 if done.returncode == 0 and n_calls >= 8 else 1


sys.exit(main())
