#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check-linked.py BUILD: every object of service/ is in the daemon or in the tool.

What neither runs is no feature; what only measures belongs in bench/. The linker leaves out an object
of a static library that nothing refers to: then none of its symbols are in the program.
"""
import pathlib
import subprocess
import sys

PROGRAMS = ("service/llmsvcd", "service/tool/llmsvc-tool")


def read_symbols(path, *options):
    found = subprocess.run(["nm", "--defined-only", *options, str(path)], capture_output=True, text=True,
                           check=True)
    return {line.split()[-1] for line in found.stdout.splitlines() if line.strip()}


def main():
    build = pathlib.Path(sys.argv[1])
    linked = set().union(*(read_symbols(build / program) for program in PROGRAMS))
    objects = [path for path in (build / "service").rglob("*.o") if path.parent.name.endswith(".a.p")]
    outside = set()
    for path in objects:
        symbols = read_symbols(path, "--extern-only")
        if symbols and not symbols & linked:
            outside.add(path.name.removesuffix(".o"))
    print(f"{len(objects)} objects, outside the daemon and the tool: {', '.join(sorted(outside))}")
    for name in sorted(outside):
        print(f"{name}: neither the daemon nor the tool has it: wire it in, or move it to bench/")
    return bool(outside) or len(objects) < 100


if __name__ == "__main__":
    sys.exit(main())
