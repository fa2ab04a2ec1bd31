#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""check-knots.py BUILD: no #include circle, and no large circle of files by their symbols.

Inside a library or program, a file depends on another whose external symbols it
uses (nm). Files that depend on each other in a circle are one unit; more than
3 of them, or more than 800 lines, are a knot that nobody can change in parts,
but for what is recursive by nature and declared here.
"""
import collections
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOTS = ("kernels", "service", "libllmsvc", "llmctl", "bench")
INCLUDE_ROOTS = ("service", "libllmsvc", "")
MAX_FILES = 3
MAX_LINES = 800
RECURSIVE = {
    # the rules of an object's members are those of arrays, of calls and of objects
    frozenset({"llm-schema-arrays.c", "llm-schema-calls.c", "llm-schema-objects.c", "llm-schema-rules.c"}),
}
INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)


def find_circles(edges):
    """Strongly connected sets of more than one node (Tarjan), or a node with an edge to itself."""
    index, low, stack, on_stack, circles = {}, {}, [], set(), []

    def visit(node):
        index[node] = low[node] = len(index)
        stack.append(node)
        on_stack.add(node)
        for other in edges.get(node, ()):
            if other not in index:
                visit(other)
                low[node] = min(low[node], low[other])
            elif other in on_stack:
                low[node] = min(low[node], index[other])
        if low[node] == index[node]:
            circle = []
            while not circle or circle[-1] != node:
                circle.append(stack.pop())
                on_stack.discard(circle[-1])
            if len(circle) > 1 or node in edges.get(node, ()):
                circles.append(sorted(circle))

    sys.setrecursionlimit(10000)
    for node in sorted(edges):
        if node not in index:
            visit(node)
    return circles


def read_includes():
    edges = {}
    for root in ROOTS:
        for file in (ROOT / root).rglob("*.[ch]"):
            name = str(file.relative_to(ROOT))
            edges[name] = set()
            for target in INCLUDE.findall(file.read_text(encoding="utf-8")):
                places = [str(pathlib.Path(name).parent / target)]
                places += [f"{r}/{target}".lstrip("/") for r in INCLUDE_ROOTS]
                edges[name] |= {p for p in places[:] if (ROOT / p).is_file()}
    return edges


def read_objects(build):
    """Object files by the library or program that they are compiled for, with their sources."""
    libraries = collections.defaultdict(dict)
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        source = (pathlib.Path(entry["directory"]) / entry["file"]).resolve()
        target = build / entry["output"]
        if not source.is_relative_to(ROOT) or not target.exists():
            continue
        source = source.relative_to(ROOT)
        if source.parts[0] in ROOTS:
            libraries[str(target.parent.relative_to(build))][target] = source
    return libraries


def read_symbols(objects):
    defined, used = {}, {}
    for target in objects:
        used[target] = set()
        listing = subprocess.run(["nm", "--extern-only", str(target)], capture_output=True,
                                 text=True, check=True).stdout
        for line in listing.splitlines():
            kind, symbol = line.split()[-2:]
            if kind == "U":
                used[target].add(symbol)
            else:
                defined.setdefault(symbol, target)
    return {objects[t]: {objects[defined[s]] for s in used[t] if s in defined} - {objects[t]}
            for t in objects}


def main():
    build = pathlib.Path(sys.argv[1]).resolve()
    problems = []
    n_objects = 0
    declared = set(RECURSIVE)

    for circle in find_circles(read_includes()):
        problems.append("these include each other: " + ", ".join(circle))
    for library, objects in sorted(read_objects(build).items()):
        n_objects += len(objects)
        for circle in find_circles(read_symbols(objects)):
            n_lines = sum(len((ROOT / file).read_text(encoding="utf-8").splitlines())
                          for file in circle)
            names = frozenset(file.name for file in circle)
            declared.discard(names)
            if (len(circle) > MAX_FILES or n_lines > MAX_LINES) and names not in RECURSIVE:
                problems.append(f"{library}: a knot of {len(circle)} files and {n_lines} lines: "
                                + ", ".join(file.name for file in circle))

    problems += ["declared, but no circle: " + ", ".join(sorted(names)) for names in declared]

    for problem in problems:
        print(problem)
    print(f"{n_objects} object files, {len(problems)} knots")
    return 1 if problems or not n_objects else 0


sys.exit(main())
