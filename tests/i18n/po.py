# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the checks of po/ share: extraction as scripts/update-po.sh does it, and
reading of PO files."""

import ast
import os
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
PO = ROOT / "po"


def read_list(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line for line in lines if line and not line.startswith("#")]


LANGUAGES = read_list(PO / "LINGUAS")
OPTIONS = read_list(PO / "XGETTEXT")


def run(*command, **more):
    return subprocess.run(command, check=True, text=True, cwd=ROOT, capture_output=True, **more)


def extract(files, output, options=None):
    """Writes the messages of files to output; nothing when there are none."""
    environment = dict(os.environ, GETTEXTDATADIRS=str(PO))
    return run("xgettext", *(OPTIONS if options is None else options), f"--output={output}", *files,
               env=environment).stderr


class Entry:
    """One message: its texts, where it comes from and its flags."""

    def __init__(self):
        self.references, self.flags, self.texts = [], [], {}
        self.obsolete = False

    @property
    def id(self):
        return self.texts.get("msgid", "")

    @property
    def plural(self):
        return self.texts.get("msgid_plural")

    @property
    def context(self):
        return self.texts.get("msgctxt")

    @property
    def text(self):
        return self.texts.get("msgstr", self.texts.get("msgstr[0]", ""))

    @property
    def translations(self):
        return [text for key, text in self.texts.items() if key.startswith("msgstr")]


def read(path):
    """The entries of a PO file, without the header; msgcat has checked its form."""
    entries, entry, key = [], Entry(), None
    plain = run("msgcat", "--no-wrap", "--output-file=-", str(path)).stdout
    for line in plain.splitlines() + [""]:
        if line.startswith("#~ "):
            entry.obsolete, line = True, line[3:]
        if not line:
            if entry.id:
                entries.append(entry)
            entry, key = Entry(), None
        elif line.startswith("#:"):
            entry.references += line[2:].split()
        elif line.startswith("#,"):
            entry.flags += [flag.strip() for flag in line[2:].split(",")]
        elif line.startswith('"'):
            entry.texts[key] += ast.literal_eval(line)
        elif not line.startswith("#"):
            key, value = line.split(" ", 1)
            entry.texts[key] = ast.literal_eval(value)
    return entries
