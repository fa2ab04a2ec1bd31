# SPDX-License-Identifier: LGPL-2.1-or-later
"""A bar on stderr: on a terminal in place, elsewhere a line for every tenth."""
import sys
import time

WIDTH = 24


class Progress:
    def __init__(self, what):
        self.what, self.tenths, self.begin, self.first = what, 0, time.monotonic(), None
        self.is_terminal = sys.stderr.isatty()

    def report(self, share, loss=None):
        if self.first is None:
            self.first = share
        note = "" if loss is None else f", loss {loss:.3f}"
        if self.is_terminal:
            n = int(share * WIDTH)
            print(f"\r\x1b[K{self.what} [{'#' * n}{' ' * (WIDTH - n)}] {share:4.0%}{note}"
                  f"{self.say_rest(share)}", end="\n" if share >= 1 else "", file=sys.stderr,
                  flush=True)
        elif int(share * 10) > self.tenths:
            self.tenths = int(share * 10)
            print(f"{self.what}: {self.tenths * 10} %{note}", file=sys.stderr, flush=True)

    def say_rest(self, share):
        """What it will take: from what was done in this run."""
        done = share - self.first
        if done <= 0 or share >= 1:
            return ""
        rest = (time.monotonic() - self.begin) * (1 - share) / done
        return f", {rest / 60:.0f} min left"
