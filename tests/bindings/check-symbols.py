#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The symbol map, the library and the GIR have the same functions.

    check-symbols.py MAP LIBRARY GIR

What the map has and the library does not would be lost silently by the linker; what the GIR does
not have, other languages can't call. Types stand in the GIR by the function that registers them.
"""

import re
import subprocess
import sys
import xml.etree.ElementTree as ET

C = "{http://www.gtk.org/introspection/c/1.0}"
GLIB = "{http://www.gtk.org/introspection/glib/1.0}"
VERSION = re.compile(
    r"(LLMSVC_\d+\.\d+) \{\nglobal:\n((?:  \w+;\n)+)(?:local:\n  \*;\n)?\}( \w[\w.]*)?;")


def read_map(path):
    """Returns {symbol: version}, and what is wrong with the file."""
    with open(path, encoding="utf-8") as file:
        text = re.sub(r"/\*.*?\*/\n", "", file.read(), flags=re.S)
    symbols, faults = {}, []
    rest = VERSION.sub("", text).strip()
    if rest:
        faults.append(f"the map has something else than versions: {rest!r}")
    for version, body, _before in VERSION.findall(text):
        names = re.findall(r"\w+", body)
        if names != sorted(names):
            faults.append(f"{version} of the map is not in order")
        for name in names:
            if name in symbols:
                faults.append(f"{name} is in the map twice")
            symbols[name] = version
    return symbols, faults


def read_library(path):
    """Returns {symbol: version} of what it exports."""
    output = subprocess.run(["nm", "--dynamic", "--defined-only", "--format=posix", path],
                            capture_output=True, text=True, check=True).stdout
    symbols = {}
    for line in output.splitlines():
        name, kind = line.split()[:2]
        if kind != "A":
            symbol, _, version = name.partition("@@")
            symbols[symbol] = version
    return symbols


def read_gir(path):
    root = ET.parse(path).getroot()
    functions = {element.get(C + "identifier") for element in root.iter()
                 if element.get(C + "identifier") is not None and "type" not in element.attrib
                 and element.tag.rsplit("}", 1)[1] in ("function", "method", "constructor")}
    types = {element.get(GLIB + "get-type") for element in root.iter()} - {None, "intern"}
    return functions | types


def compare(what, left, right):
    return ([f"{name}: {what[0]}, not {what[1]}" for name in sorted(set(left) - set(right))] +
            [f"{name}: {what[1]}, not {what[0]}" for name in sorted(set(right) - set(left))])


def main():
    symbols, faults = read_map(sys.argv[1])
    exported = read_library(sys.argv[2])
    described = read_gir(sys.argv[3])
    faults += compare(("in the map", "in the library"), symbols, exported)
    faults += compare(("in the map", "in the GIR"), symbols, described)
    faults += [f"{name}: {symbols[name]} in the map, {version or 'no version'} in the library"
               for name, version in sorted(exported.items())
               if name in symbols and symbols[name] != version]
    print("\n".join(faults))
    print(f"{len(symbols)} symbols, {len(faults)} faults")
    return 1 if faults or not symbols else 0


sys.exit(main())
