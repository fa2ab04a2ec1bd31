#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""./try in a copy of its surroundings, with the programs of this build: what it says while packages are
installed, that it writes nothing outside build-try, and that the service ends with its terminal.
Argument: the build folder."""
import os
import pathlib
import pty
import select
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv[1]).resolve()
LIMIT_S = 60
# The packages are missing; what apt does with them is many lines. The build is there.
PROGRAMS = {
    "dpkg-query": ":",
    "apt-get": 'for i in 1 2 3 4 5 6 7 8 9; do echo "Unpacking $* ($i) ..."; done; exit ${APT_FAILS:-0}',
    "id": "echo 0",
    "meson": ":",
    "ninja": ":",
}


def make_surroundings(folder):
    source, programs, home = folder / "source", folder / "programs", folder / "home"
    for path in ("try", "scripts/packages.sh", "service/bus/org.llm.Service.xml", "examples/movies.json"):
        (source / path).parent.mkdir(parents=True, exist_ok=True)
        (source / path).write_bytes((ROOT / path).read_bytes())
    (source / "data").mkdir()
    (source / "data/models").symlink_to(ROOT / "data/models")
    (source / "build-try").mkdir()
    for name in ("data", "llmctl", "service"):
        (source / "build-try" / name).symlink_to(BUILD / name)
    programs.mkdir()
    for name, text in PROGRAMS.items():
        (programs / name).write_text(f"#!/bin/sh\n{text}\n")
        (programs / name).chmod(0o755)
    home.mkdir()
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("XDG_", "DBUS_", "LLM", "SHELL"))}
    environment.update(PATH=f"{programs}:{os.environ['PATH']}", HOME=str(home), TERM="dumb")
    return source, home, environment


def check_answer(source, home, environment):
    done = subprocess.run(["sh", "./try", "Hello!"], cwd=source, env=environment, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode == 0 and len(done.stdout) > 5, done
    assert "Installing:" in done.stderr and "Unpacking" not in done.stderr, done.stderr
    assert not list(home.rglob("*")), list(home.rglob("*"))
    done = subprocess.run(["sh", "./try", "Hello!"], cwd=source, env=dict(environment, APT_FAILS="100"), check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S)
    assert done.returncode != 0 and "Unpacking" in done.stderr and "can't be installed" in done.stderr, done


def read_until(master, wanted):
    text, end = "", time.monotonic() + LIMIT_S
    while wanted not in text:
        assert select.select([master], [], [], end - time.monotonic())[0], text
        text += os.read(master, 65536).decode(errors="replace")
    return text


def list_processes(mark):
    found = []
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if mark in path.read_bytes():
                found.append((path.parent / "cmdline").read_bytes())
        except OSError:
            pass
    return found


def check_terminal(source, environment):
    """A terminal closes: its programs get SIGHUP from it, the service has no terminal."""
    mark = f"XDG_STATE_HOME={source}/build-try/state".encode()
    pid, master = pty.fork()
    if pid == 0:
        os.chdir(source)
        os.execvpe("sh", ["sh", "./try", "--shell"], environment)
    text = read_until(master, "ends the shell")
    # on a terminal the packages are one line that is written over
    assert text.count("Unpacking") > 1 and text.count("Unpacking") == text.count("\r\x1b[KPackages: "), text
    os.write(master, b'echo "it is bash $BASH_VERSION"; llmctl ask Hi; echo "the status is $?"\n')
    text = read_until(master, "the status is 0")
    assert "it is bash 5" in text, text
    assert any(b"llmsvcd" in line for line in list_processes(mark)), list_processes(mark)
    os.close(master)
    os.waitpid(pid, 0)
    end = time.monotonic() + LIMIT_S
    while list_processes(mark):
        assert time.monotonic() < end, list_processes(mark)
        time.sleep(0.1)


with tempfile.TemporaryDirectory() as name:
    surroundings = make_surroundings(pathlib.Path(name))
    check_answer(*surroundings)
    check_terminal(surroundings[0], surroundings[2])
