# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the makers of man pages and of the site share: Markdown as lines, outside of code."""

import re

# “# llmctl(1): ask the language model”
MAN_TITLE = re.compile(r"# ([\w.-]+)\((\d)\): (.+)")
TITLE = re.compile(r"# (.+)")


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def write(path, text):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def split_code(text):
    """Yields (is_code, lines) in turn; indented and fenced blocks are code, without the
    indentation or fences. An indented block stands after an empty line, outside of lists."""
    lines, block, mode, in_list = [], [], "text", False

    def take(is_code):
        nonlocal block
        taken, block = block, []
        while is_code and taken and not taken[-1]:
            taken.pop()
        return (is_code, taken)

    previous = ""
    for line in text.splitlines():
        if mode == "fenced":
            if line.startswith("```"):
                yield take(True)
                mode = "text"
            else:
                block.append(line)
        elif line.startswith("```"):
            if block:
                yield take(mode == "indented")
            mode = "fenced"
        elif mode == "indented" and (line.startswith("    ") or not line):
            block.append(line[4:])
        else:
            if mode == "indented":
                yield take(True)
                block.append("")
                mode = "text"
            if line.startswith("    ") and not previous and not in_list:
                if block:
                    yield take(False)
                mode = "indented"
                block.append(line[4:])
            else:
                block.append(line)
                if re.match(r"([-*]|\d+\.) ", line):
                    in_list = True
                elif line and not line.startswith(" "):
                    in_list = False
        previous = line
    if block:
        yield take(mode != "text")
