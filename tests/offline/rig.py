# SPDX-License-Identifier: LGPL-2.1-or-later
"""llmsvc-elastic as a user runs it, and its parts."""
import json
import os
import pathlib
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
TOOL = os.environ["LLM_TOOL"]
MODEL = pathlib.Path(os.environ["LLM_MODEL_DIR"]) / "llmsvc-demo-8M-Q8_0.gguf"
DATA = pathlib.Path(os.environ["LLM_TEST_DATA"])
N_CTX = 64
ELASTIC = SOURCE / "offline/llmsvc-elastic"

sys.path.insert(0, str(SOURCE / "offline"))
sys.dont_write_bytecode = True


def run(*arguments):
    """With one thread: results don't depend on the machine."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    return subprocess.run([sys.executable, ELASTIC, *map(str, arguments)], text=True,
                          capture_output=True, env=environment)


def run_tool(*arguments):
    return subprocess.run([TOOL, *map(str, arguments)], text=True, capture_output=True)


def run_bench(*arguments):
    return subprocess.run([sys.executable, SOURCE / "bench/run.py", *map(str, arguments)], text=True,
                          capture_output=True, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"})


def inspect(path):
    return json.loads(run_tool("inspect", "--json", path).stdout)


def measure_perplexity(path, text):
    outcome = run_tool("perplexity", "--exact", "--kv-f32", "--threads", 1, "--model", path, "--ctx", N_CTX, text)
    assert outcome.returncode == 0, outcome.stderr
    return float(outcome.stdout.rsplit("perplexity: ", 1)[1])
