# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a terminal would show of the few sequences that llmctl sends. Anything else is an error:
a real terminal might not know it either."""
import re

SEQUENCE = re.compile(r"\x1b\[(\??)([\d;]*)([A-Za-z])")


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.modes = {"7": True, "25": True, "1049": False}
        self.styles = set()
        self.fed = 0
        self.overflown = False

    def feed(self, text):
        """`text` is all that ever came; what is new of it is taken."""
        at = self.fed
        while at < len(text):
            c = text[at]
            if c == "\x1b":
                found = SEQUENCE.match(text, at)
                if not found:
                    if len(text) - at < 16:
                        break  # the rest is still to come
                    raise AssertionError(f"unknown sequence: {text[at:at + 16]!r}")
                self.apply(*found.groups())
                at = found.end()
                continue
            self.put(c)
            at += 1
        self.fed = at
        return self

    def put(self, c):
        if c == "\r":
            self.column = 0
        elif c == "\n":
            if self.row + 1 == self.rows:
                self.overflown = True
                self.cells = self.cells[1:] + [[" "] * self.columns]
            else:
                self.row += 1
        else:
            # the one that breaks no line stands between a number and its unit
            c = " " if c == "\xa0" else c
            assert c.isprintable(), f"a control character on the screen: {c!r}"
            if self.column >= self.columns:
                self.overflown = True
                return
            self.cells[self.row][self.column] = c
            self.column += 1

    def apply(self, private, numbers, final):
        if private and final in "hl":
            assert numbers in self.modes, numbers
            self.modes[numbers] = final == "h"
        elif final == "H" and not numbers:
            self.row = self.column = 0
        elif final == "K":
            self.cells[self.row][self.column:] = [" "] * (self.columns - self.column)
        elif final == "J":
            first = 0 if numbers == "2" else self.row + 1
            for row in range(first, self.rows):
                self.cells[row] = [" "] * self.columns
            if numbers != "2":
                self.apply("", "", "K")
        elif final == "m":
            self.styles.add(numbers)
        else:
            raise AssertionError(f"unknown sequence: {private}{numbers}{final}")

    @property
    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    @property
    def text(self):
        return "\n".join(self.lines)
