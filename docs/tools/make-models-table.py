#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes the table of models that people download into docs/models.md, or with --check compares it.

Arguments: llmsvc-tool, whose names of architectures, tokenizers and types count, and whether there
is a model of the architecture with logits of another program (tests/data/architectures).
"""
import csv
import pathlib
import re
import struct
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "models.md"
N_TOKENS = 4096
BEGIN, END = "<!-- models: written by docs/tools/make-models-table.py -->\n", "<!-- /models -->\n"


def read_names(tool):
    """Returns {what: set of names} of what the tool knows."""
    text = subprocess.run([tool, "inspect", "--names"], check=True, capture_output=True,
                          text=True).stdout
    lines = dict(line.split(": ", 1) for line in text.splitlines())
    return {key: set(value.split(", ")) for key, value in lines.items()}


def list_proofs():
    """Returns {architecture: names of the files with logits}."""
    proofs, key = {}, b"general.architecture"
    for path in sorted((ROOT / "tests" / "data" / "architectures").glob("*.logits")):
        data = path.with_suffix(".gguf").read_bytes()
        at = data.index(key) + len(key) + 4
        length = struct.unpack_from("<Q", data, at)[0]
        name = data[at + 8:at + 8 + length].decode()
        proofs.setdefault(name, []).append(path.stem)
    return proofs


def judge(model, names, proofs):
    """Returns why the model can't be used, or nothing."""
    if model["architecture"] not in names["architectures"]:
        return "architecture"
    if model["architecture"] not in proofs:
        return "no logits to compare with"
    if model["tokenizer"] not in names["pre-tokenizers"] | {"spm"}:
        return "tokenizer"
    missing = set(model["types"].split()) - names["types"]
    return ", ".join(sorted(missing))


def get_context_size(heads):
    """Returns the MiB of keys and values of N_TOKENS tokens in 16 bits."""
    size = 0
    for part in heads.split():
        shape, _, window = part.partition("@")
        layers, n_heads, length = map(int, shape.split("x"))
        size += layers * n_heads * length * 2 * 2 * min(N_TOKENS, int(window or N_TOKENS))
    return size / 2**20


def make_table(tool):
    names, proofs = read_names(tool), list_proofs()
    with open(ROOT / "tests" / "data" / "models.csv", encoding="utf-8") as file:
        models = list(csv.DictReader(line for line in file if not line.startswith("#")))
    rows = ["| model | architecture | text is cut by | types | file | context at 4k | usable | logits |",
            "|---|---|---|---|---|---|---|---|"]
    n_usable = 0
    for model in models:
        fault = judge(model, names, proofs)
        n_usable += fault == ""
        size = f"{get_context_size(model['heads']):.0f} MiB" if model["heads"] else "–"
        rows.append(f"| {model['model']} | `{model['architecture']}` | {model['tokenizer']} | "
                    f"{model['types']} | {model['gigabytes']} GB | {size} | "
                    f"{'no: ' + fault if fault else 'yes'} | "
                    f"{', '.join(proofs.get(model['architecture'], []))} |")
    return (f"Of these {len(models)} files, {n_usable} can be used; the others have recurrent "
            "layers.\n\n" + "\n".join(rows) + "\n")


def main(arguments):
    is_check = arguments[0] == "--check"
    page = PAGE.read_text(encoding="utf-8")
    table = BEGIN + make_table(arguments[-1]) + END
    new = re.sub(re.escape(BEGIN) + ".*" + re.escape(END), lambda match: table, page, flags=re.S)
    if is_check and new != page:
        print("docs/models.md: the table of models is not what docs/tools/make-models-table.py makes")
        return 1
    if not is_check:
        PAGE.write_text(new, encoding="utf-8")
    return 0


sys.exit(main(sys.argv[1:]))
