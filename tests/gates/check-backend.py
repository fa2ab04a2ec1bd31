#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check-backend.py BUILD: products and attention are computed by backends alone.

Inside service/, the functions that run products or attention are used by the
CPU's backend only (nm), and the tables of the kernels by the files that these
functions are in (sources, as what is called through a pointer has no symbol).
"""
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORWARD = "service/forward/"
BACKEND = {FORWARD + "llm-backend-cpu.c"}
PRODUCT = {FORWARD + "llm-matmul.c"}
ATTENTION = {FORWARD + name for name in ("llm-attention.c", "llm-attention-plan.c",
                                         "llm-attention-path.c")}
# Which files may use which symbols, beside those that define them.
SYMBOLS = (
    (re.compile(r"llm_(matmul|attention)_run$"), BACKEND),
    (re.compile(r"llk_attention_(begin|fold|end)$"), ATTENTION),
)
# The tables' fields; a table itself is handed on by the functions that choose kernels.
FIELDS = (
    (re.compile(r"->\s*product->\s*(find|prepare)\b"), PRODUCT),
    (re.compile(r"\b(ops|kernels)->\s*attention\b|->\s*attend\s*\("), ATTENTION),
)


def read_objects(build):
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        target = build / entry["output"]
        if source.is_relative_to(ROOT / "service") and target.exists():
            yield target, str(source.relative_to(ROOT))


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    problems, seen = set(), set()
    objects = {str(target): source for target, source in read_objects(build)}

    listing = subprocess.run(["nm", "-A", "--extern-only", "--undefined-only", *objects],
                             capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        source, symbol = objects[line.split(":")[0]], line.split()[-1]
        for pattern, files in SYMBOLS:
            if pattern.match(symbol):
                seen.add(pattern)
                if source not in files:
                    problems.add(f"{source} uses {symbol}")
    for source in objects.values():
        text = (ROOT / source).read_text(encoding="utf-8")
        for pattern, files in FIELDS:
            for found in pattern.finditer(text):
                seen.add(pattern)
                if source not in files:
                    line = text.count("\n", 0, found.start()) + 1
                    problems.add(f"{source}:{line} uses {found.group(0)}")

    for pattern, _ in SYMBOLS + FIELDS:
        if pattern not in seen:
            problems.add(f"nothing uses {pattern.pattern}: was it renamed?")
    for problem in sorted(problems):
        print(f"{problem}: a backend does that (service/forward/llm-backend.h)")
    print(f"{len(objects)} object files, {len(problems)} problems")
    return 1 if problems or not objects else 0


sys.exit(main())
