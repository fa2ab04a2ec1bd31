#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs the fenced blocks of a page as they stand, on the bus it finds, with the demo model.

    check-page.py PAGE.md PYTHON GJS LLMCTL
"""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

# What each block prints, in the order of the page.
PRINTED = [
    r"(Bonn|Kiel) [1-9][0-9]*\n",
    r"(glad|sad|neither)\n",
    r"(yes|no)\n",
    r"a call of add: \['a', 'b'\]\n(stop|length)\n",
    r"3\n",
]


def main():
    page, python, gjs, llmctl = sys.argv[1:]
    text = pathlib.Path(page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    if len(blocks) != len(PRINTED):
        sys.exit(f"check-page: {page} has {len(blocks)} blocks, and {len(PRINTED)} are known")
    # a bus of this test's own stands in for the system's, too
    environment = {**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": os.environ["DBUS_SESSION_BUS_ADDRESS"],
                   "PATH": f"{pathlib.Path(llmctl).resolve().parent}:{os.environ['PATH']}"}
    with tempfile.TemporaryDirectory() as folder:
        for (language, source), wanted in zip(blocks, PRINTED, strict=True):
            program = pathlib.Path(folder, f"example.{language}")
            program.write_text(source, encoding="utf-8")
            command = {"python": [python], "sh": ["sh", "-eu"], "js": [gjs, "-m"]}[language]
            done = subprocess.run([*command, str(program)], cwd=folder, env=environment, text=True,
                                  capture_output=True, check=False)
            if done.returncode != 0 or not re.fullmatch(wanted, done.stdout):
                sys.exit(f"check-page: this printed {done.stdout!r}, not {wanted!r}:\n{source}"
                         f"\n{done.stderr}")
            print(done.stdout, end="")


main()
