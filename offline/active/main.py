# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calibrates activation thresholds of a model: which inputs of its products are so small that tokens
of an answer can do without them, for several sparsities. Writes them into the model's companion."""
import argparse
import sys

from elastic.source import Source
from modelfile.partial import describe
from modelfile.reader import GgufError


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def parse(arguments):
    parser = Parser("llmsvc-active", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf")

    def add(name, kind, default, meta, text):
        parser.add_argument(f"--{name}", type=kind, default=default, metavar=meta, help=text)

    add("text", str, None, "FILE", "calibration text, as the model's prompts are written")
    add("windows", str, None, "FILE", "the same as tokens of 16 bits, in windows")
    add("window", int, 1025, "N", "tokens of a window (1025)")
    add("context", int, 512, "N", "tokens of a window that are used (512)")
    add("calibration", int, 8, "N", "windows that thresholds and shares are found on (8)")
    add("step", int, 5, "PERCENT", "inputs of an operator that are given up at a time (5)")
    add("threads", int, 0, "N", "threads (all processors)")
    add("tool", str, "llmsvc-tool", "FILE", "the llmsvc-tool that is used (from PATH)")
    parser.add_argument("--uniform", action="store_true",
                        help="the same share of the inputs of every operator, to compare with")
    options = parser.parse_args(arguments)
    if (options.text is None) == (options.windows is None):
        parser.error("one of --text FILE and --windows FILE is needed")
    if options.calibration < 1 or not 1 <= options.step <= 50:
        parser.error("--calibration must be at least 1, --step 1 to 50")
    if options.window < 8 or options.context < 8:
        parser.error("--window and --context must be at least 8")
    if options.threads < 0:
        parser.error("--threads must be at least 0")
    return options


def main(arguments):
    options = parse(arguments)
    try:
        source = Source(options.model)
        try:
            from . import calibrate
        except ImportError as error:
            raise GgufError(f"{error.name} is missing: install python3-torch, python3-numpy and "
                            "libopenblas0") from error
        calibrate.run(source, options)
    except GgufError as error:
        print(f"llmsvc-active: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"llmsvc-active: {describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nllmsvc-active: stopped; nothing was written", file=sys.stderr)
        return 130
    return 0
