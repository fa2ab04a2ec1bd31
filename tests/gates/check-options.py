#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The table of options and the comments of the interface name the same options.

Reads each method's @options paragraph in the XML and the table in C, and
compares keys, types, and which call takes which.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
XML = ROOT / "service/bus/org.llm.Service.xml"
TABLE = ROOT / "libllmsvc/common/llmsvc-option-table.c"

# A key in backticks followed by its type: `ttft-ms` (u), `slo` (s: `a`, `b`).
KEY = re.compile(r"`([a-z0-9-]+)`\s+\((a\(ssa\{sv\}\)|a\{[a-z]+\}|[a-z]+)(?:(:[^)]*)|[,)])")
METHOD = re.compile(r"^\s*([A-Z][A-Za-z]+):\s*$", re.M)
AS_FOR = re.compile(r"As for (?:[\w.]+\.)?([A-Z][A-Za-z]+)\(\)")

# Taken by every call and handled before the table.
EVERYWHERE = {"require", "locale"}


def read_xml():
    """Returns {method: {key: (type, choices or None)}} and {method: method it is like}."""
    text = XML.read_text(encoding="utf-8")
    methods, like = {}, {}
    for comment in re.findall(r"<!--(.*?)-->", text, re.S):
        name = METHOD.search(comment)
        options = re.search(r"@options:(.*?)(?:\n\s*@|\n\s*\n|\Z)", comment, re.S)
        if name is None or options is None:
            continue
        body = options.group(1)
        methods[name.group(1)] = {
            key: (kind, tuple(re.findall(r"`([a-z0-9-]+)`", rest)) if rest else None)
            for key, kind, rest in KEY.findall(body)
        }
        other = AS_FOR.search(body)
        if other is not None:
            like[name.group(1)] = other.group(1)
    return methods, like


def expand_calls(expression, macros):
    names = set()
    for word in re.findall(r"[A-Z_]+", expression):
        if word in macros:
            names |= expand_calls(macros[word], macros)
        elif word.startswith("LLMSVC_CALL_"):
            names.add("".join(p.capitalize() for p in word[len("LLMSVC_CALL_"):].split("_")))
    return names


def read_table():
    """Returns {key: (type, methods, choices)}."""
    text = TABLE.read_text(encoding="utf-8")
    header = (TABLE.parent / "llmsvc-option-table.h").read_text(encoding="utf-8")
    macros = dict(re.findall(r"#define\s+((?:LLMSVC_)?CALLS_[A-Z_]+)\s+\(?(.*?)\)?$",
                             header + text, re.M))
    lists = {name: tuple(re.findall(r'"([^"]+)"', body))
             for name, body in re.findall(r"(\w+_choices)\[\] = \{(.*?)\}", text, re.S)}
    entries = {}
    for block in re.findall(r"\{ \.id = .*?\.since = \d+ \}", text, re.S):
        key = re.search(r'\.key = "([^"]+)"', block).group(1)
        kind = re.search(r'\.type = "([^"]+)"', block).group(1)
        calls = re.search(r"\.calls\s*=\s*([A-Z_|\s]+?),", block).group(1)
        choices = re.search(r"\.choices = (\w+)", block)
        entries[key] = (kind, expand_calls(calls, macros),
                        lists[choices.group(1)] if choices else None)
    return entries


def check():
    methods, like = read_xml()
    table = read_table()
    faults = []

    documented = set().union(*methods.values()) - EVERYWHERE
    for key in sorted(documented - table.keys()):
        faults.append(f"“{key}” is in the interface's comments but not in the table")
    for key in sorted(table.keys() - documented):
        faults.append(f"“{key}” is in the table but not in the interface's comments")

    for method, keys in sorted(methods.items()):
        for key, (kind, choices) in sorted(keys.items()):
            if key not in table:
                continue
            if table[key][0] != kind:
                faults.append(f"{method}: “{key}” is ({kind}) in the comments, "
                              f"({table[key][0]}) in the table")
            if choices is not None and choices != table[key][2]:
                faults.append(f"{method}: “{key}” takes {choices} in the comments, "
                              f"{table[key][2]} in the table")
            if method not in table[key][1]:
                faults.append(f"{method} documents “{key}”, but the table does not list it there")
        allowed = set(keys)
        other = like.get(method)
        if other is not None:
            allowed |= set(methods.get(other, {}))
        for key, (_, calls, _) in sorted(table.items()):
            if method in calls and key not in allowed:
                faults.append(f"{method}: the table lists “{key}”, the comments do not")

    known = set(methods) | {"Close"}
    for key, (_, calls, _) in sorted(table.items()):
        for call in sorted(calls - known):
            faults.append(f"“{key}”: no method {call} with options in the interface")

    return faults, len(table), len(methods)


def main():
    faults, n_options, n_methods = check()
    for fault in faults:
        print(f"check-options: {fault}", file=sys.stderr)
    if n_options == 0 or n_methods == 0:
        print("check-options: nothing was read", file=sys.stderr)
        return 1
    print(f"check-options: {n_options} options of {n_methods} methods, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
