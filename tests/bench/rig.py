# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-bench as a user runs it, and the parts of it that are written in Python."""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
BENCH = os.environ["LLM_BENCH"]
DAEMON = os.environ["LLM_DAEMON"]
MODEL = pathlib.Path(os.environ["LLM_MODEL_DIR"]) / "llmsvc-demo-8M-Q8_0.gguf"
SERVICE = ("--daemon", DAEMON, "--model", MODEL)
COMPANION = MODEL.parent / "companion" / "llmsvc-demo-8M-Q8_0.llmsvc.gguf"

sys.path.insert(0, str(SOURCE / "bench"))
sys.path.append(str(SOURCE / "offline"))
sys.dont_write_bytecode = True
os.environ["LLMSVC_BENCH"] = BENCH


def put_beside(folder):
    """The model with its companion, as they are installed, in @folder."""
    for path in (MODEL, COMPANION):
        pathlib.Path(folder, path.name).symlink_to(path)
    return pathlib.Path(folder, MODEL.name)


def run(*arguments):
    return subprocess.run([BENCH, *map(str, arguments)], text=True, capture_output=True)


def read_json(*arguments):
    """What a run prints; its status may be that of a measurement that is not as it should be."""
    outcome = run(*arguments)
    assert outcome.returncode in (0, 1) and outcome.stdout, outcome.stderr
    return json.loads(outcome.stdout)
