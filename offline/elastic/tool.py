# SPDX-License-Identifier: LGPL-2.1-or-later
"""What llmsvc-tool knows better: the tokens of a text, and the identity of a model's weights."""
import json
import subprocess

import numpy
from modelfile.reader import GgufError


def run(tool, *words, text=None):
    """What it prints with --json; @text: a file for its standard input. Fails with GgufError."""
    try:
        done = subprocess.run([tool, *words, "--json"], stdin=text or subprocess.DEVNULL,
                              capture_output=True, check=False)
    except OSError as error:
        raise GgufError(f"{tool} can’t be started ({error.strerror}): --tool says where "
                        "llmsvc-tool is") from error
    if done.returncode != 0:
        raise GgufError(f"{tool}: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def tokenize(tool, model, path):
    with open(path, "rb") as text:
        return run(tool, "tokenize", "--model", model, "-", text=text)["ids"]


def draw(tool, model, n_windows, n_tokens):
    """The tokens of text that @model draws itself."""
    ids = run(tool, "draw", "--model", model, "--windows", str(n_windows), "--tokens",
              str(n_tokens))["ids"]
    return numpy.array(ids)


def identify(tool, model):
    """Names the weights of the file @model, as llm_model_get_weight_identity() does."""
    found = run(tool, "inspect", model)
    if "weight-identity" not in found:
        raise GgufError(f"{tool} can’t use {model}: {found.get('reason', 'it says no identity')}")
    return found["weight-identity"]
