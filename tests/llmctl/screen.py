# SPDX-License-Identifier: LGPL-2.1-or-later
"""What an xterm would show of the sequences that a program sends it. Any other is an error: it
might change what is not shown here."""
import re

SEQUENCE = re.compile(r"\x1b(?:\[(\??)([\d;]*)([@A-Za-z])|\([0B]|[=>])")


class Screen:
    def __init__(self, columns, rows):
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.row = self.column = 0
        self.modes = {"7": True, "25": True, "1049": False}
        self.styles = set()
        self.fed = 0
        self.last = " "
        self.overflown = False
        self.top, self.bottom = 0, rows - 1  # what scrolls

    def scroll(self, n, top=None):
        """The lines from `top` on go up by `n`, or down by -n; empty ones follow."""
        top = self.top if top is None else top
        lines = self.cells[top:self.bottom + 1]
        empty = [[" "] * self.columns for _ in range(min(abs(n), len(lines)))]
        lines = lines[n:] + empty if n > 0 else (empty + lines)[:len(lines)]
        self.cells[top:self.bottom + 1] = lines

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
                if found.group(3):
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
        elif c == "\b":
            self.column -= 1
        elif c == "\t":
            self.column = min(self.column // 8 * 8 + 8, self.columns - 1)
        elif c == "\n":
            if self.row == self.bottom:
                self.overflown |= self.bottom - self.top + 1 == self.rows
                self.scroll(1)
            else:
                self.row += 1
        else:
            # the one that breaks no line stands between a number and its unit
            self.last = c = " " if c == "\xa0" else c
            assert c.isprintable(), f"a control character on the screen: {c!r}"
            if self.column >= self.columns:
                self.overflown |= self.modes["7"]
                return
            self.cells[self.row][self.column] = c
            self.column += 1

    def apply(self, private, numbers, final):
        first, _, second = numbers.partition(";")
        n = int(first or 1)
        if private:
            assert final in "hl" and numbers in ("1", "12", *self.modes), (numbers, final)
            if numbers in self.modes:
                self.modes[numbers] = final == "h"
        elif final == "H":
            self.row, self.column = n - 1, int(second or 1) - 1
        elif final == "d":
            self.row = n - 1
        elif final == "G":
            self.column = n - 1
        elif final in "AB":
            self.row += n if final == "B" else -n
        elif final in "CD":
            self.column += n if final == "C" else -n
        elif final in "KX":
            end = self.columns if final == "K" else self.column + n
            begin, end = (0, self.column + 1) if numbers == "1" and final == "K" else (self.column,
                                                                                      end)
            self.cells[self.row][begin:end] = [" "] * (min(end, self.columns) - begin)
        elif final in "@P":
            line = self.cells[self.row]
            if final == "@":
                line[self.column:self.column] = [" "] * n
            else:
                line[self.column:self.column + n] = []
            self.cells[self.row] = (line + [" "] * n)[:self.columns]
        elif final == "J":
            if numbers == "2":
                self.overflown = False  # what was sent for another size is gone
            else:
                self.apply("", "", "K")
            for row in range(0 if numbers == "2" else self.row + 1, self.rows):
                self.cells[row] = [" "] * self.columns
        elif final == "b":
            for _ in range(n):
                self.put(self.last)
        elif final == "r":
            self.top, self.bottom = n - 1, min(int(second or self.rows), self.rows) - 1
            self.row = self.column = 0
        elif final in "ST":
            self.scroll(n if final == "S" else -n)
        elif final in "LM":
            self.scroll(n if final == "M" else -n, self.row)
        elif final == "m":
            self.styles.update(numbers.split(";"))
        else:
            # titles; nothing is inserted
            assert numbers in ("4", "22;0;0", "23;0;0"), (numbers, final)
        self.row = max(0, min(self.row, self.rows - 1))

    @property
    def lines(self):
        return ["".join(row).rstrip() for row in self.cells]

    @property
    def text(self):
        return "\n".join(self.lines)
