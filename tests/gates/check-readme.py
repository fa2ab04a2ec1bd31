#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Runs the lines of docs/shell.md, and the Python of README.md, as written, on a private bus.

Arguments: the session.conf of the build folder, the folder of models and llmctl; where there
are bindings also a Python that has gi (the environment tells it where they are).
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
CONF, MODELS, LLMCTL = sys.argv[1:4]
PYTHON = sys.argv[4] if len(sys.argv) > 4 else None


def read_section(title):
    text = (ROOT / "docs/shell.md").read_text(encoding="utf-8")
    return text.split(f"## From a shell, with {title}", 1)[1].split("\n## ", 1)[0]


def read_bus_lines(choice):
    """One of the two lines that choose the bus, and the indented blocks, as one script."""
    section = read_section("no tool")
    return [section.split("```\n")[1].splitlines()[choice],
            *(line[4:] for line in section.splitlines() if line.startswith("    "))]


def read_llmctl_lines():
    """The fenced block, as one script."""
    return read_section("llmctl").split("```\n")[1].splitlines()


def read_python_lines():
    """The Python, as a script's one command."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    return [f"{PYTHON} - <<'END_OF_PYTHON'",
            *text.split("```python\n")[1].split("```")[0].splitlines(), "END_OF_PYTHON"]


def run(lines):
    """What the lines print; ends with END when none of them fails."""
    folder = pathlib.Path(LLMCTL).resolve().parent
    with tempfile.TemporaryDirectory() as state:
        interfaces = pathlib.Path(state, "share/dbus-1/interfaces")
        interfaces.mkdir(parents=True)
        shutil.copy(ROOT / "service/bus/org.llm.Service.xml", interfaces)
        environment = dict(os.environ, LLMSVC_MODEL_PATH=MODELS, XDG_STATE_HOME=state,
                           XDG_DATA_DIRS=f"{state}/share:/usr/share",
                           PATH=f"{folder}:{os.environ['PATH']}")
        script = [*lines, "echo END"]
        return subprocess.run(
            ["dbus-run-session", f"--config-file={CONF}", "--", "sh", "-eu"],
            input="\n".join(script), env=environment, text=True, capture_output=True,
            timeout=100, check=False)


def find_missing(done, wanted):
    """The first text that was not printed in its turn."""
    at = 0
    for text in wanted:
        found = done.stdout.find(text, at)
        if found < 0:
            return text
        at = found + len(text)
    return None


def main():
    n_lines = 0
    n_faults = 0
    python = [(read_python_lines(), ["doing well", "END"])] if PYTHON else []
    bus_output = ["(\"I'm", "finish-reason", "sa{sv} ", "output-tokens", "sa{sv} ", "('",
                  "[('user', 'I want", "Italian food, please.", 's "ready"', "/org/llm/Service/models/",
                  "t ", "a{sv} ", "freed", "/org/llm/Service/contexts/", "END"]
    for lines, wanted in (
            *python,
            # the private bus in the system's place
            (["export DBUS_SYSTEM_BUS_ADDRESS=$DBUS_SESSION_BUS_ADDRESS", *read_bus_lines(0)], bus_output),
            (read_bus_lines(1), bus_output),
            (read_llmctl_lines(),
             ["doing well", "music", "notes", "llmsvc-demo-8M-Q8_0", "Memory pressure", "Generate", "tokens", "ready", "END"])):
        done = run(lines)
        print(done.stdout)
        n_lines += sum(not line.startswith(" ") for line in lines)
        missing = find_missing(done, wanted)
        if missing is not None or done.returncode != 0:
            print(f"not printed: {missing}\n{done.stderr}")
            n_faults += 1

    print(f"{n_lines} lines of docs/shell.md and README.md, {n_faults} faults")
    return 0 if n_faults == 0 and n_lines >= 17 else 1


sys.exit(main())
