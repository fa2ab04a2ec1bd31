# SPDX-License-Identifier: LGPL-2.1-or-later
"""A bar on stderr: on a terminal in place, elsewhere a line for every tenth."""
import sys
import time

WIDTH = 24


class Progress:
    def __init__(self, what, n, n_done=0):
        """@n_done of @n were there already."""
        self.what, self.n_begun, self.n, self.tenths = what, n_done, n, n_done * 10 // max(n, 1)
        self.begin, self.is_terminal = time.monotonic(), sys.stderr.isatty()

    def report(self, n_done, note=""):
        tenths = n_done * 10 // self.n
        if self.is_terminal:
            filled = n_done * WIDTH // self.n
            print(f"\r\x1b[K{self.what} [{'#' * filled}{' ' * (WIDTH - filled)}] {n_done} of "
                  f"{self.n}{note}{self.say_rest(n_done)}", end="\n" if n_done == self.n else "",
                  file=sys.stderr, flush=True)
        elif tenths > self.tenths:
            self.tenths = tenths
            print(f"{self.what}: {n_done} of {self.n}{note}{self.say_rest(n_done)}",
                  file=sys.stderr, flush=True)

    def say_rest(self, n_done):
        if n_done in (self.n_begun, self.n):
            return ""
        spent = time.monotonic() - self.begin
        return f", {spent / 60 * (self.n - n_done) / (n_done - self.n_begun):.0f} min left"
