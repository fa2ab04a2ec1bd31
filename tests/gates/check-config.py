#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The example file, the service and the docs know the same keys and defaults."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "data/llmsvc.conf"
SETTINGS = ROOT / "service/engine/llm-settings.c"
DOCS = ROOT / "docs/configuration.md"


def read_example():
    """Returns {(group, key): default}; a file of defaults is all comments and groups."""
    keys, group = {}, None
    for line in EXAMPLE.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"\[([a-z]+)\]", line):
            group = match.group(1)
        elif match := re.fullmatch(r"#([a-z-]+)=(.*)", line):
            keys[group, match.group(1)] = match.group(2)
        elif line and not line.startswith("# ") and line != "#":
            sys.exit(f"check-config: {EXAMPLE.name}: “{line}” is neither group, comment nor default")
    return keys


def read_settings():
    text = SETTINGS.read_text(encoding="utf-8")
    return set(re.findall(r'\{ "([a-z]+)", "([a-z-]+)", KEY_', text))


def read_docs():
    """Returns {(group, key): default} of the lists below the headings of groups."""
    keys, group = {}, None
    for line in DOCS.read_text(encoding="utf-8").splitlines():
        if match := re.fullmatch(r"#+ (?:\[([a-z]+)\]|.*)", line):
            group = match.group(1)
        elif match := re.match(r"- `([a-z-]+)` \(default (?:`([^`]*)`|none)\): ", line):
            if group is None:
                sys.exit(f"check-config: {DOCS.name}: “{match.group(1)}” is in no group")
            keys[group, match.group(1)] = match.group(2) or ""
    return keys


def main():
    example, settings, docs = read_example(), read_settings(), read_docs()
    faults = []
    for where, keys in (("the service", settings), ("the docs", docs.keys())):
        for group, key in sorted(example.keys() - keys):
            faults.append(f"[{group}] {key} is in {EXAMPLE.name}, but not in {where}")
        for group, key in sorted(keys - example.keys()):
            faults.append(f"[{group}] {key} is in {where}, but not in {EXAMPLE.name}")
    for group, key in sorted(example.keys() & docs.keys()):
        if example[group, key] != docs[group, key]:
            faults.append(f"[{group}] {key}: “{example[group, key]}” in {EXAMPLE.name}, "
                          f"“{docs[group, key]}” in the docs")

    for fault in faults:
        print(f"check-config: {fault}", file=sys.stderr)
    print(f"check-config: {len(example)} keys, {len(faults)} faults")
    return 1 if faults or not example else 0


if __name__ == "__main__":
    sys.exit(main())
