#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes docs/captures/*.txt: llmctl as it is seen, with the demo model on a private bus.

Usage: scripts/capture-cli.py BUILD-FOLDER [--check]

With --check it writes nothing and tells whether those of STEADY still have the words that llmctl says.
"""
import os
import pathlib
import re
import shlex
import shutil
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
if len(sys.argv) not in (2, 3) or sys.argv[2:] not in ([], ["--check"]):
    sys.exit(__doc__)
IS_CHECK = len(sys.argv) == 3
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
    "top": ["top --batch --count 2"],
    "doctor": ["doctor"],
    "metrics": ["metrics"],
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

# Those whose words no machine and no moment changes, so that a new capture tells whether they are stale.
STEADY = ("context", "introspect", "call", "complete", "model")
# Names and figures that are others each time, where a chunk is, and how hard memory is pressed then.
CHANGES = re.compile(r"[0-9a-f]{32}|[A-Za-z]*[0-9][A-Za-z0-9]*|"
                     r"\b(bytes|[KMG]iB|compressed|memory|storage|none|low|medium|critical)\b")

# Told to a context of that name each, before the service is killed.
FACTS = {
    "Anna": "I am a farmer, and I grow apples and pears near the river.",
    "Bert": "I drive a bus through the city, every day but Sunday.",
    "Cleo": "I have two cats, and one of them sleeps all day long.",
    "Dora": "I would like to eat Italian food tonight, with my sister.",
    "Emil": "I am looking for a doctor in San Jose, for next Monday.",
    "Fred": "I want to see a comedy movie, but not too late at night.",
    "Gina": "I need a train to the mountains, for three people and a dog.",
    "Hans": "I build houses of wood, and in winter I repair old boats.",
    "Iris": "I am learning to play the piano, and I practise each morning.",
    "Jack": "I lost my phone on the way to work, and I want it back.",
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


def get_words(text):
    # what the model says is not the same with all kernels
    text = re.sub(r"^\$ llmctl (ask|context show|context export) .*?(?=^\$ |\Z)", "", text,
                  flags=re.DOTALL | re.MULTILINE)
    return set(re.findall(r"[A-Za-z][A-Za-z-]+", CHANGES.sub(" ", text)))


def write(name, text):
    lines = [line.rstrip() for line in CONTROL.sub("", text).replace("\r", "").split("\n")]
    text = "\n".join(lines).strip("\n") + "\n"
    path = ROOT / "docs" / "captures" / f"{name}.txt"
    if IS_CHECK:
        differ = get_words(text) ^ get_words(path.read_text(encoding="utf-8"))
        if differ:
            sys.exit(f"docs/captures/{name}.txt is stale: “scripts/capture-cli.py BUILD-FOLDER” makes "
                     f"all of them again. These words differ: {' '.join(sorted(differ))}")
        return
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    print(path.relative_to(ROOT))


def show(bus, line):
    """What a terminal shows for one command; `complete` is read by shells, through a pipe."""
    words = shlex.split(line)
    if words[0] == "complete":
        outcome = bus.run(*words)
        return f"$ llmctl {line}\n{outcome.output.replace(chr(9), '  ')}{outcome.complaint}"
    terminal = bus.terminal(*words)
    terminal.finish()
    # Somebody's home, and not that of a test.
    text = terminal.text.replace(str(bus.home), "/home/anna")
    return f"$ llmctl {line}\n{text}"


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


def show_restart(bus):
    """Ten contexts, before and after the service was killed, and one that goes on."""
    texts = []
    for name, fact in FACTS.items():
        line = f'ask --context {name} --max-tokens 16 --temperature 0 "My name is {name}. {fact}"'
        text = show(bus, line)
        texts += [text] if not texts else []
    while any(set(context["memory"]["places"][:-1]) != {"b"}
              for context in bus.json("context", "list")["contexts"]):
        time.sleep(0.1)
    texts += ["… and nine more", show(bus, "context list")]
    bus.stop(signal.SIGKILL)
    bus.start()
    texts += ["$ killall -KILL llmsvcd", show(bus, "context list"),
              show(bus, 'ask --context Anna --max-tokens 16 --temperature 0 "What do I grow?"'),
              show(bus, "context list"), show(bus, "context show Anna")]
    return "\n".join(texts)


def main():
    os.chdir(ROOT)
    bus = rig.Rig()
    # Where the interface's documentation is once it is installed.
    interfaces = bus.folder / "data" / "dbus-1" / "interfaces"
    interfaces.mkdir(parents=True)
    shutil.copy(ROOT / "service" / "bus" / "org.llm.Service.xml", interfaces)
    bus.environment["XDG_DATA_DIRS"] = str(bus.folder / "data")
    try:
        if not IS_CHECK:
            write("chat", show_chat(bus))
        for name in STEADY if IS_CHECK else SHOWN:
            write(name, "\n".join(show(bus, line) for line in SHOWN[name]))
    finally:
        bus.close()
    if IS_CHECK:
        return
    bus = rig.Rig()
    try:
        write("restart", show_restart(bus))
    finally:
        bus.close()


main()
