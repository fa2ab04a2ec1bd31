# SPDX-License-Identifier: LGPL-2.1-or-later

"""The limits that pages tell are those of the sources."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = "docs/structured-output.md"

# What the page says, with a number; where that is from.
LIMITS = (
    (r"(\d+) levels,", "libllmsvc/common/llmsvc-json.h", r"LLMSVC_JSON_MAX_DEPTH (\d+)"),
    (r"([\d,]+) values,", "service/base/llm-json.c", r"\.values = (\d+)"),
    (r"([\d,]+) states of one automaton", "service/constraints/llm-automaton.h",
     r"LLM_AUTOMATON_MAX_STATES (\d+)"),
    (r"([\d,]+) of all;", "service/constraints/llm-grammar.h", r"LLM_GRAMMAR_MAX_STATES (\d+)"),
    (r"(\d+) seconds of the processor's time", "service/constraints/llm-compile-work.h",
     r"LLM_COMPILE_MAX_S (\d+)"),
    (r"(\d+) MiB of memory\.", "service/constraints/llm-compile-work.h",
     r"LLM_COMPILE_MAX_MIB (\d+)"),
    (r"(\d+) alternatives or fewer", "service/constraints/schema/llm-schema-shape.c",
     r"MAX_ALTERNATIVES (\d+)"),
)


def find(path, pattern):
    found = re.findall(pattern, (ROOT / path).read_text())
    if len(found) != 1:
        sys.exit(f"{path} has “{pattern}” {len(found)} times")
    return int(found[0].replace(",", ""))


def main():
    for said, path, pattern in LIMITS:
        page, source = find(PAGE, said), find(path, pattern)
        if page != source:
            sys.exit(f"{PAGE} says {page} where {path} has {source} ({pattern})")


main()
