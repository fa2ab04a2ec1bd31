#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""Each message of the service, printed with arguments, is found again by the service's
own look-up and comes out in the other language with the same arguments.

usage: check-round-trip.py TRANSLATE FOLDER: the program and the built translations"""

import re
import subprocess
import sys

import po

# llmsvcd's own --help and llmsvc-tool speak to a terminal, not to a caller.
NOT_SERVICE = ("service/main.c", "service/tool/")
SERVICE = ("service/", "libllmsvc/common/", "po/system-messages.h")
# Sentences about options and parts of a stream that the service does not send.
NOT_SENT = ("libllmsvc/common/llmsvc-option-table.c",)

CONVERSION = re.compile(r"%(?:(\d+)\$)?([-+ #0']*)([\d.]*)(?:hh|h|ll|l|j|z|t)?([a-zA-Z%])")
SAMPLES = {"s": ["first", "second.part", "third-3", "“4”", "…", "x/y", "7", "8", "9"],
           "d": ["-1", "22", "333", "-4444"], "i": ["-5"],
           "u": ["1", "22", "333", "4444", "55555", "666666", "7", "8", "9"],
           "x": ["00ad"], "X": ["00AD"], "c": ["ß"],
           "f": ["1", "2", "3", "4"], "g": ["0.5", "-1e-07", "3"]}


def print_format(text, arguments=None):
    """The text with sample arguments, and these; a translation takes them by place."""
    taken, out, at = [] if arguments is None else arguments, [], 0
    used, n = {}, 0
    for match in CONVERSION.finditer(text):
        position, letter = match.group(1), match.group(4)
        out.append(text[at:match.start()])
        at = match.end()
        if letter == "%":
            out.append("%")
            continue
        if arguments is None:
            index = used.get(letter, 0)
            used[letter] = index + 1
            taken.append(SAMPLES[letter][index])
        out.append(taken[int(position) - 1 if position else n])
        n += 1
    return "".join(out) + text[at:], taken


def is_sent(entry):
    return any(reference.startswith(SERVICE) and not reference.startswith(NOT_SERVICE + NOT_SENT)
               for reference in entry.references)


def look_up(program, path, messages):
    given = "".join(message + "\0" for message in messages).encode()
    found = subprocess.run([program, path], input=given, capture_output=True, check=True).stdout
    return found.decode().split("\0")[:-1]


def check(program, folder, language):
    entries = [entry for entry in po.read(po.PO / f"{language}.po")
               if is_sent(entry) and entry.context is None and entry.plural is None]
    messages, expected = [], []
    for entry in entries:
        if "c-format" in entry.flags:
            message, arguments = print_format(entry.id)
            messages.append(message)
            expected.append(print_format(entry.text, arguments)[0])
        else:
            messages.append(entry.id)
            expected.append(entry.text)

    found = look_up(program, f"{folder}/{language}/LC_MESSAGES/llmsvc.mo", messages)
    assert len(found) == len(messages)
    faults = [f"{language}: “{message}” became “{now}”, not “{wanted}”"
              for message, now, wanted in zip(messages, found, expected) if now != wanted]
    # a translation that is its message tells nothing
    same = sum(message == now for message, now in zip(messages, found))
    print(f"{language}: {len(messages)} messages, {same} of them the same in English")
    return faults if len(messages) > 150 and same < 10 else faults + [f"{language}: too few"]


def main():
    program, folder = sys.argv[1:]
    faults = [fault for language in po.LANGUAGES for fault in check(program, folder, language)]
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
