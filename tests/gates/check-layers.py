#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares the #includes of every folder with the table in service/README.md.

The table's rows are | `folder/` | what it may include | … |. A row stands for the
folder and the folders below it that have no row of their own. What a folder may
include: itself, the layers named in its row, and what those may. System headers
are free, but kernels/ may include no GLib. Programs in JavaScript import what introspection has.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROOTS = ("kernels", "service", "libllmsvc", "llmctl")
# Where an #include is looked up; the first that has it.
INCLUDE_ROOTS = ("service", "libllmsvc", "")
ROW = re.compile(r"^\| `([\w/.]+?)/?` \|([^|]*)\|")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_table():
    table = {}
    for line in (ROOT / "service/README.md").read_text(encoding="utf-8").splitlines():
        match = ROW.match(line)
        if match:
            table[match.group(1)] = set(re.findall(r"`([\w/.]+?)/?`", match.group(2)))
    return table


def find_layer(table, path):
    """The row of the file @path, relative to the root."""
    while path not in table and "/" in path:
        path = path.rsplit("/", 1)[0]
    return path if path in table else None


def close(table, names, problems):
    """Every layer that may be included, by its short or its whole name."""
    short = {}
    for folder in table:
        short[folder] = folder
        short[folder.split("/", 1)[-1]] = folder
    closed = {}

    def visit(folder, seen):
        if folder in closed:
            return closed[folder]
        result = {folder}
        for name in table[folder]:
            if name not in short:
                problems.append(f"{folder}: the row names {name}, which is no layer")
            elif short[name] in seen:
                problems.append(f"{folder}: the table has a circle with {name}")
            else:
                result |= visit(short[name], seen | {short[name]})
        closed[folder] = result
        return result

    for folder in names:
        visit(folder, {folder})
    return closed


def main():
    problems = []
    table = read_table()
    closed = close(table, table, problems)
    n_files = 0

    for folder in table:
        path = ROOT / folder
        if not path.exists():
            problems.append(f"{folder}: in the table, but there is no such folder")
    for root in ROOTS:
        for file in sorted((ROOT / root).rglob("*.[ch]")):
            name = str(file.relative_to(ROOT))
            layer = find_layer(table, name)
            if layer is None:
                problems.append(f"{name}: its folder is not in the table")
                continue
            n_files += 1
            for bracket, target in INCLUDE.findall(file.read_text(encoding="utf-8")):
                if layer.startswith("kernels") and target.startswith(("glib", "gio")):
                    problems.append(f"{name}: kernels/ includes {target}")
                if bracket == "<" or "/" not in target:
                    continue
                paths = [f"{r}/{target}".lstrip("/") for r in INCLUDE_ROOTS]
                paths = [p for p in paths if (ROOT / p).exists()]
                other = find_layer(table, paths[0]) if paths else None
                if other is None:
                    problems.append(f"{name}: {target} is in no layer of the table")
                elif other not in closed[layer]:
                    problems.append(f"{name}: {layer} must not include {target} ({other})")

    # in JavaScript: what introspection has, and the program's own files
    for file in sorted((ROOT / "clients").rglob("*.js")):
        n_files += 1
        for target in re.findall(r"from '([^']+)';", file.read_text(encoding="utf-8")):
            if not re.fullmatch(r"gi://\w+(\?version=[\d.]+)?|\./[\w-]+\.js|gettext|system", target):
                problems.append(f"{file.relative_to(ROOT)}: imports {target}")

    for problem in problems:
        print(problem)
    print(f"{n_files} files, {len(table)} layers, {len(problems)} problems")
    return 1 if problems or not n_files else 0


sys.exit(main())
