#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The build can be configured as README.md says with the packages of a build alone, and ./try
leaves the folder of that build alone. Argument: meson."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MESON = sys.argv[1]
# of the packages for the tests, in scripts/packages.sh
TEST_PROGRAMS = {"gjs", "fish", "zsh", "mandoc", "Xvfb", "xdotool", "xmllint", "valgrind"}


def link_programs(folder):
    """A folder with all programs of PATH but those."""
    for place in reversed(os.environ["PATH"].split(os.pathsep)):
        for program in pathlib.Path(place).glob("*") if os.path.isdir(place) else ():
            if program.name in TEST_PROGRAMS:
                continue
            link = folder / program.name
            link.unlink(missing_ok=True)
            link.symlink_to(program)


def check_readme(folder):
    lines = re.findall(r"^    (meson setup build .*)$",
                       (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(lines) == 1, lines
    programs = folder / "bin"
    programs.mkdir()
    link_programs(programs)
    command = [MESON, "setup", str(folder / "build"), *lines[0].split()[3:]]
    done = subprocess.run(command, cwd=ROOT, env=dict(os.environ, PATH=str(programs)),
                          capture_output=True, text=True, check=False)
    print(done.stdout[-1500:], done.stderr)
    assert done.returncode == 0, f"{lines[0]}: {done.returncode}"
    assert "The tests are left out" in done.stdout and "gjs" in done.stdout

    # who wants the tests is told what is missing
    done = subprocess.run([*command, "--reconfigure", "-Dtests=enabled"], cwd=ROOT,
                          env=dict(os.environ, PATH=str(programs)), capture_output=True, text=True,
                          check=False)
    assert done.returncode != 0 and "not found" in done.stdout, done


def check_try(folder):
    """In a copy of the script's surroundings, with programs that only note what they are told."""
    source = folder / "source"
    programs = folder / "noting"
    for path in ("try", "scripts/packages.sh", "service/bus/org.llm.Service.xml"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    programs.mkdir()
    for name in ("meson", "ninja", "dbus-run-session", "dpkg-query", "apt-get", "sudo"):
        answer = ('for p in "$@"; do echo "$p installed"; done' if name == "dpkg-query" else ":")
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/notes\n{answer}\n')
        (programs / name).chmod(0o755)
    subprocess.run(["sh", "./try", "Hi"], cwd=source, check=True,
                   env=dict(os.environ, PATH=f"{programs}:{os.environ['PATH']}"))
    notes = (folder / "notes").read_text(encoding="utf-8")
    print(notes)
    assert re.search(rf"^meson setup {source}/build-try ", notes, re.MULTILINE)
    assert not (source / "build").exists() and f"{source}/build " not in notes
    assert f" {source}/build-try/llmctl/llmctl " in notes


with tempfile.TemporaryDirectory() as name:
    check_try(pathlib.Path(name))
    check_readme(pathlib.Path(name))
