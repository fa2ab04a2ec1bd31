# SPDX-License-Identifier: LGPL-2.1-or-later
"""Prepares a model so that the service can answer with parts of it: puts heads and neurons in order
of importance, says how many of them each level has, and trains adapters for the levels."""
import argparse
import os

from modelfile import blocks
from modelfile.reader import GgufError

from . import table as tables
from .options import Parser, guard
from .source import Source
from .state import State, hash_file


def read_levels(text):
    """Parts below the whole, and the whole."""
    try:
        levels = [int(word) for word in text.split(",")]
    except ValueError:
        levels = []
    levels += [100] if levels and levels[-1] < 100 else []
    if (not levels or levels[0] < 1 or levels[-1] > 100 or len(levels) > tables.MAX_LEVELS
            or sorted(set(levels)) != levels):
        raise argparse.ArgumentTypeError(f"{text}: at most {tables.MAX_LEVELS - 1} rising numbers "
                                         "from 1 to 99 are possible")
    return tuple(levels)


def make_parser():
    parser = Parser("llmsvc-elastic", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("folder", metavar="FOLDER")
    parser.add_texts(96, "importances are measured on")
    add = parser.add
    add("levels", read_levels, tables.LEVELS, "N,N…", "parts of the model in percent, rising "
        "(20,30,40,50,60,70,80,90)")
    parser.add_argument("--learn", choices=("whole", "next"), default="whole", help="adapters learn "
                        "what the whole model says of the next token, or the token (whole)")
    add("tokens", int, 1_000_000, "N", "tokens that adapters of each level are trained on "
        "(1,000,000; 0: no adapters)")
    add("rank", int, 8, "N", "rank of the adapters (8)")
    add("batch", int, 4, "N", "windows in a step of training (4)")
    add("type", str, None, "TYPE", f"type of the matrices written: {', '.join(blocks.TYPES)} "
        "(the model's own)")
    add("seed", int, 1, "N", "other random numbers (1)")
    parser.add_argument("--forward-only", action="store_true", dest="forward_only",
                        help="measure importances without gradients, and train no adapters")
    return parser


def parse(arguments):
    parser = make_parser()
    options = parser.parse_args(arguments)
    parser.check_texts(options)
    for name in ("rank", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if options.tokens < 0:
        parser.error("--tokens must be at least 0")
    if options.type is not None and options.type not in blocks.TYPES:
        parser.error(f"--type {options.type}: {', '.join(blocks.TYPES)} are possible")
    if options.forward_only:
        options.tokens = 0
    return options


def open_state(source, options):
    texts = [hash_file(path) for path in options.windows + options.text]
    run = {"model": hash_file(options.model), "texts": texts, "own": options.own,
           "window": options.window, "context": options.context, "calibration": options.calibration,
           "forward-only": options.forward_only}
    return State(os.path.join(options.folder, source.name + ".state"), run)


def main(arguments):
    options = parse(arguments)

    def work():
        source = Source(options.model)
        if options.type is not None and source.is_quantized():
            raise GgufError(f"{options.model} is quantized already: --type is for F32 and F16")
        path = os.path.join(options.folder, source.name + ".gguf")
        if os.path.exists(path) and os.path.samefile(path, options.model):
            raise GgufError(f"{options.folder} is the folder of the model itself: give another")
        state = open_state(source, options)
        from . import prepare
        prepare.run(source, options, state, path)
    return guard("llmsvc-elastic", "the same command goes on", work)
