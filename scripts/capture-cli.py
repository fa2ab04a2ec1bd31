#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes docs/captures/*.txt: llmctl as it is seen, with the demo model on a private bus.

Usage: scripts/capture-cli.py BUILD-FOLDER
"""
import os
import pathlib
import re
import shlex
import shutil
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
if len(sys.argv) != 2:
    sys.exit(__doc__)
BUILD = pathlib.Path(sys.argv[1]).resolve()
os.environ.update(LLMCTL=str(BUILD / "llmctl" / "llmctl"),
                  LLM_DAEMON=str(BUILD / "service" / "llmsvcd"),
                  LLM_TOOL=str(BUILD / "service" / "tool" / "llmsvc-tool"),
                  LLM_MODEL_DIR=str(ROOT / "data" / "models"))
sys.path.insert(0, str(ROOT / "tests" / "llmctl"))
import rig  # noqa: E402  its programs are named above

CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

# Each file: the lines of a shell that it shows.
SHOWN = {
    "ask": ['ask --seed 7 "What can you help me with?"',
            'ask --temperature 0 --json "Hello, how are you?"'],
    "status": ["status", "stats", "apps", "quota", "monitor --timeout 0.2"],
    "memory": ["memory", "trim medium", "memory --json"],
    "model": ["model list", "model show", "model check data/models/llmsvc-demo-8M-Q8_0.gguf"],
    "context": ['context new notes --system "You are brief."',
                'ask --context notes --seed 7 "What can you help me with?"',
                "context list", "context show notes", "context export notes"],
    "introspect": ["tree", "introspect org.llm.Service.Memory"],
    "call": ["call Trim --help", "call Trim low target-bytes=1000000", "get Memory.Pressure",
             "call GetStatistics --json"],
    "complete": ["complete -- c", "complete -- call Tr", "complete -- call Trim low ''",
                 "complete -- context show ''"],
}

CHAT = [
    "Hello, how are you?",
    "What can you\\",
    "help me with?",
    "/tokens",
    "/undo",
    "/set temperature=0",
    "/retry",
    "/messages",
    "/hlep",
    "/quit",
]


def write(name, text):
    folder = ROOT / "docs" / "captures"
    folder.mkdir(exist_ok=True)
    lines = [line.rstrip() for line in CONTROL.sub("", text).replace("\r", "").split("\n")]
    (folder / f"{name}.txt").write_text("\n".join(lines).strip("\n") + "\n", encoding="utf-8")
    print(f"docs/captures/{name}.txt")


def show(bus, line):
    """What a terminal shows for one command; `complete` is read by shells, through a pipe."""
    words = shlex.split(line)
    if words[0] == "complete":
        outcome = bus.run(*words)
        return f"$ llmctl {line}\n{outcome.output.replace(chr(9), '  ')}{outcome.complaint}"
    terminal = bus.terminal(*words)
    terminal.finish()
    return f"$ llmctl {line}\n{terminal.text}"


def show_chat(bus):
    terminal = bus.terminal("chat", "--option", "seed=3", "--option", "max-tokens=60")
    for line in CHAT:
        while not terminal.text[terminal.at:].endswith(("> ", "| ")):
            if not terminal.read(rig.LIMIT_S):
                raise RuntimeError(terminal.text)
        terminal.at = len(terminal.text)
        terminal.send(line + "\r")
    terminal.finish()
    return "$ llmctl chat\n" + terminal.text


def main():
    os.chdir(ROOT)
    bus = rig.Rig()
    # Where the interface's documentation is once it is installed.
    interfaces = bus.folder / "data" / "dbus-1" / "interfaces"
    interfaces.mkdir(parents=True)
    shutil.copy(ROOT / "service" / "bus" / "org.llm.Service.xml", interfaces)
    bus.environment["XDG_DATA_DIRS"] = str(bus.folder / "data")
    try:
        write("chat", show_chat(bus))
        for name, lines in SHOWN.items():
            write(name, "\n".join(show(bus, line) for line in lines))
    finally:
        bus.close()


main()
