#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Puts the code of the examples into a page.

    include-code.py PAGE.md EXAMPLES OUTPUT.md DEPFILE

A line “<!-- code of c/ask.c -->” becomes the code of that file of the folder EXAMPLES, without the
comment that it begins with. DEPFILE says which files those were.
"""

import pathlib
import re
import sys

MARKER = re.compile(r"<!-- code of (\S+) -->")
LANGUAGES = {".c": "c", ".js": "javascript", ".py": "python", ".vala": "vala"}
# The shebang, the licence and what the program is about, in each language's form.
HEAD = re.compile(
    r'\A(?:#![^\n]*\n)?(?:/\*[^\n]*\*/|//[^\n]*|#[^\n]*)\n\n'
    r'(?:/\*\n.*?\*/\n|(?://[^\n]*\n)+|""".*?"""\n)\n', re.S)


def read_code(path):
    text = path.read_text(encoding="utf-8")
    code, n_heads = HEAD.subn("", text)
    if n_heads != 1:
        sys.exit(f"include-code: {path} does not begin with its licence and a comment")
    return ["```" + LANGUAGES[path.suffix], *code.splitlines(), "```"]


def main():
    if len(sys.argv) != 5:
        sys.exit(__doc__)
    page, examples, output, depfile = map(pathlib.Path, sys.argv[1:])
    out, read = [], []
    for line in page.read_text(encoding="utf-8").splitlines():
        match = MARKER.fullmatch(line)
        if match:
            read.append(examples / match.group(1))
            out += read_code(read[-1])
        else:
            out.append(line)
    output.write_text("\n".join(out) + "\n", encoding="utf-8")
    depends = " ".join(str(path).replace(" ", "\\ ") for path in [page, *read])
    depfile.write_text(f"{output.name}: {depends}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
