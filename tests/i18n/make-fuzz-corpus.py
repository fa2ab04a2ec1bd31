#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes tests/fuzz/corpus/translate: small files of translations, good and bad,
with messages behind them, as tests/fuzz/fuzz-translate.c reads them."""

import pathlib
import struct
import sys

HEADER = ("", "Content-Type: text/plain; charset=UTF-8\n")


def make_mo(entries, order="<"):
    ids = [entry[0].encode() for entry in entries]
    texts = [entry[1].encode() for entry in entries]
    at = 28 + 16 * len(entries)
    tables, strings = b"", b""
    for text in ids + texts:
        tables += struct.pack(order + "II", len(text), at + len(strings))
        strings += text + b"\0"
    head = struct.pack(order + "7I", 0x950412DE, 0, len(entries), 28, 28 + 8 * len(entries), 0, 0)
    return head + tables + strings


def make_case(mo, *messages):
    return struct.pack(">H", len(mo)) + mo + "\n".join(messages).encode()


PLAIN = [HEADER, ("The context was closed", "Kontext geschlossen")]
FORMATS = [
    HEADER,
    ("%u turns, %u held", "%2$u gehalten, %1$u"),
    ("“%s”: %s", "„%s“: %s"),
    ("%s has type %u", "%s hat den Typ %u"),
    ("key %s", "Schlüssel %s"),
    ("U+%04X is %g of %.1f, %c, 100 %%", "%5$c U+%1$04X"),
]
SLOW = [HEADER, ("%sa%sa%sa%sa%sa%sb", "%s%s%s%s%s%s"), ("%s%s%s%s:%s", "%5$s%5$s%5$s%5$s")]

CASES = {
    "plain": make_case(make_mo(PLAIN), "The context was closed", "something else", ""),
    "swapped": make_case(make_mo(PLAIN, ">"), "The context was closed"),
    "formats": make_case(
        make_mo(FORMATS), "3 turns, 4 held", "“a.gguf”: key “x” has type 7",
        "U+00AD is -1.5e-07 of 2.0, ß, 100 %", "%s%n"),
    "slow": make_case(make_mo(SLOW), "a" * 500, "a" * 500 + "b", ":" * 200),
    "unfit": make_case(
        make_mo([HEADER, ("one %s", "%2$s"), ("two %*d", "%n"), ("three %", "%0$s")]),
        "one a", "two 2", "three %"),
    "short": make_case(make_mo(FORMATS)[:60], "key a"),
    "offsets": make_case(make_mo(PLAIN)[:28] + b"\xff" * 32 + make_mo(PLAIN)[60:], "a"),
    "many": make_case(struct.pack("<7I", 0x950412DE, 0, 0xFFFFFFFF, 28, 28, 0, 0), "a"),
    "empty": b"\0\0",
}


def main():
    folder = pathlib.Path(__file__).resolve().parents[1] / "fuzz" / "corpus" / "translate"
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in CASES.items():
        (folder / name).write_bytes(content)
    print(f"{len(CASES)} files")
    return 0


if __name__ == "__main__":
    sys.exit(main())
