#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Compares the #includes of every folder with the table in service/README.md.

The table's rows are | `folder/` | names of folders it may include | … |. A name
is the last part of a folder (`base`, `kernels`). System headers are free, but
kernels/ may include no GLib.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ROW = re.compile(r"^\| `([\w/.]+?)/?` \|([^|]*)\|")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.M)


def read_table():
    table = {}
    for line in (ROOT / "service/README.md").read_text(encoding="utf-8").splitlines():
        match = ROW.match(line)
        if match:
            names = re.findall(r"`([\w/.]+?)/?`", match.group(2))
            table[match.group(1)] = {name.split("/")[-1] for name in names}
    return table


def main():
    table = read_table()
    layers = {folder.split("/")[-1]: folder for folder in table}
    problems = []
    n_files = 0

    for folder, allowed in table.items():
        path = ROOT / folder
        files = [path] if path.is_file() else sorted(path.glob("*.[ch]"))
        if not files:
            problems.append(f"{folder}: in the table, but there is no such folder")
        for file in files:
            n_files += 1
            own = folder.split("/")[-1]
            for bracket, target in INCLUDE.findall(file.read_text(encoding="utf-8")):
                if folder.startswith("kernels") and (target.startswith("glib") or target.startswith("gio")):
                    problems.append(f"{file.relative_to(ROOT)}: kernels/ includes {target}")
                if bracket == "<" or "/" not in target:
                    continue
                layer = target.split("/")[0]
                if layer not in layers:
                    problems.append(f"{file.relative_to(ROOT)}: {target} is in no layer of the table")
                elif layer != own and layer not in allowed:
                    problems.append(f"{file.relative_to(ROOT)}: {folder} must not include {target}")

    # No folder of sources may be missing from the table.
    for root in ("kernels", "service", "libllmsvc", "llmctl"):
        for file in (ROOT / root).rglob("*.c"):
            folder = str(file.parent.relative_to(ROOT))
            if folder not in table and str(file.relative_to(ROOT)) not in table:
                problems.append(f"{file.relative_to(ROOT)}: its folder is not in the table")

    for problem in problems:
        print(problem)
    print(f"{n_files} files, {len(table)} layers, {len(problems)} problems")
    return 1 if problems or not n_files else 0


sys.exit(main())
