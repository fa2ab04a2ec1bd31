# SPDX-License-Identifier: LGPL-2.1-or-later
"""What the command lines of these programs have in common."""
import argparse
import sys

from modelfile.partial import describe
from modelfile.reader import GgufError


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)

    def add(self, name, kind, default, meta, text):
        self.add_argument(f"--{name}", type=kind, default=default, metavar=meta, help=text)

    def add_texts(self, n_calibration, what):
        """@what: is found on so many windows."""
        for name, text in (("text", "calibration text, as the model's prompts are written; several "
                            "count alike"), ("windows", "the same as tokens of 16 bits, in windows")):
            self.add_argument(f"--{name}", action="append", default=[], metavar="FILE", help=text)
        self.add("own", int, 0, "N", "windows of text that the model draws itself, as one more (0)")
        self.add("window", int, 1025, "N", "tokens of a window (1025)")
        self.add("context", int, 512, "N", "tokens of a window that are used (512)")
        self.add("calibration", int, n_calibration, "N",
                 f"windows that {what} ({n_calibration})")
        self.add("threads", int, 0, "N", "threads (all processors)")
        self.add("tool", str, "llmsvc-tool", "FILE", "the llmsvc-tool that is used (from PATH)")

    def check_texts(self, options):
        if not options.text and not options.windows and options.own == 0:
            self.error("--text FILE, --windows FILE or --own N is needed")
        for name in ("window", "context"):
            if getattr(options, name) < 8:
                self.error(f"--{name} must be at least 8")
        if options.calibration < 1:
            self.error("--calibration must be at least 1")
        for name in ("own", "threads"):
            if getattr(options, name) < 0:
                self.error(f"--{name} must be at least 0")


def guard(program, interrupted, work):
    """What the program exits with. @work: may import PyTorch, and fail. @interrupted: what is said then."""
    try:
        work()
    except ImportError as error:
        print(f"{program}: {error.name} is missing: install python3-torch, python3-numpy and "
              "libopenblas0", file=sys.stderr)
        return 1
    except GgufError as error:
        print(f"{program}: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"{program}: {describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\n{program}: stopped; {interrupted}", file=sys.stderr)
        return 130
    return 0
