#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Writes tests/fuzz/corpus/translate: small files of translations, good and bad, with the
messages of tests/fuzz/fuzz-translate.c."""

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


PLAIN = [HEADER, ("No model", "Kein Modell")]
ALL = "%s: %s is %u of %g [%c] %%"
FORMATS = [HEADER, ("key %s", "Schlüssel %s"), (ALL, "%5$c %% %2$s: %1$s %04u %g"), *PLAIN[1:]]

CASES = {
    "plain": make_mo(PLAIN),
    "swapped": make_mo(PLAIN, ">"),
    "formats": make_mo(FORMATS),
    "unfit": make_mo([HEADER, ("key %s", "%2$s"), (ALL, "%*d %n %0$s %")]),
    "short": make_mo(FORMATS)[:60],
    "offsets": make_mo(PLAIN)[:28] + b"\xff" * 32 + make_mo(PLAIN)[60:],
    "many": struct.pack("<7I", 0x950412DE, 0, 0xFFFFFFFF, 28, 28, 0, 0),
    "empty": b"",
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
