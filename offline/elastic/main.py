# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prepares a model so that the service can answer with parts of it: puts heads and neurons in order
of importance, says how many of them each level has, and trains adapters for the levels."""
import argparse
import os
import sys

from modelfile import blocks
from modelfile.partial import describe
from modelfile.reader import GgufError

from .source import Source
from .state import State, hash_file


class Parser(argparse.ArgumentParser):
    def error(self, message):
        print(f"{self.prog}: {message}", file=sys.stderr)
        sys.exit(2)


def make_parser():
    parser = Parser("llmsvc-elastic", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("folder", metavar="FOLDER")

    def add(name, kind, default, meta, text):
        parser.add_argument(f"--{name}", type=kind, default=default, metavar=meta, help=text)

    add("text", str, None, "FILE", "calibration text, as the model's prompts are written")
    add("windows", str, None, "FILE", "the same as tokens of 16 bits, in windows")
    add("window", int, 1025, "N", "tokens of a window (1025)")
    add("context", int, 512, "N", "tokens of a window that are used (512)")
    add("calibration", int, 96, "N", "windows that importances are measured on (96)")
    add("tokens", int, 1_000_000, "N", "tokens that adapters of each level are trained on "
        "(1,000,000; 0: no adapters)")
    add("rank", int, 8, "N", "rank of the adapters (8)")
    add("batch", int, 4, "N", "windows in a step of training (4)")
    add("type", str, None, "TYPE", f"type of the matrices written: {', '.join(blocks.TYPES)} "
        "(the model's own)")
    add("seed", int, 1, "N", "other random numbers (1)")
    add("threads", int, 0, "N", "threads (all processors)")
    add("tool", str, "llmsvc-tool", "FILE", "the llmsvc-tool that is used (from PATH)")
    parser.add_argument("--forward-only", action="store_true", dest="forward_only",
                        help="measure importances without gradients, and train no adapters")
    return parser


def parse(arguments):
    parser = make_parser()
    options = parser.parse_args(arguments)
    if (options.text is None) == (options.windows is None):
        parser.error("one of --text FILE and --windows FILE is needed")
    for name in ("window", "calibration", "rank", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if options.window < 8 or options.context < 8:
        parser.error("--window and --context must be at least 8")
    if options.tokens < 0 or options.threads < 0:
        parser.error("--tokens and --threads must be at least 0")
    if options.type is not None and options.type not in blocks.TYPES:
        parser.error(f"--type {options.type}: {', '.join(blocks.TYPES)} are possible")
    if options.forward_only:
        options.tokens = 0
    return options


def open_state(source, options):
    text = options.windows or options.text
    run = {"model": hash_file(options.model), "text": hash_file(text), "window": options.window,
           "context": options.context, "calibration": options.calibration,
           "forward-only": options.forward_only}
    return State(os.path.join(options.folder, source.name + ".state"), run)


def main(arguments):
    options = parse(arguments)
    try:
        source = Source(options.model)
        if options.type is not None and source.is_quantized():
            raise GgufError(f"{options.model} is quantized already: --type is for F32 and F16")
        path = os.path.join(options.folder, source.name + ".gguf")
        if os.path.exists(path) and os.path.samefile(path, options.model):
            raise GgufError(f"{options.folder} is the folder of the model itself: give another")
        state = open_state(source, options)
        try:
            from . import prepare
        except ImportError as error:
            raise GgufError(f"{error.name} is missing: install python3-torch, python3-numpy and "
                            "libopenblas0") from error
        prepare.run(source, options, state, path)
    except GgufError as error:
        print(f"llmsvc-elastic: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"llmsvc-elastic: {describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nllmsvc-elastic: stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0
