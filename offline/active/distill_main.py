# SPDX-License-Identifier: LGPL-2.1-or-later
"""Trains a model's weights so that answers that leave inputs out (llmsvc-active) say what the whole model
said. Writes another model, with its companion."""
import os

from elastic.options import Parser, guard
from elastic.source import Source
from elastic.state import State, hash_file
from modelfile import blocks
from modelfile.reader import GgufError


def parse(arguments):
    parser = Parser("llmsvc-distill", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf")
    parser.add_argument("out", metavar="OUT.gguf")
    parser.add_texts(8, "thresholds and shares are found on")
    parser.add("tokens", int, 1_000_000, "N", "tokens that are trained on (1,000,000)")
    parser.add("batch", int, 4, "N", "windows in a step of training (4)")
    parser.add("type", str, None, "TYPE", f"type of the matrices written: {', '.join(blocks.TYPES)} "
               "(the model's own)")
    parser.add("step", int, 5, "PERCENT", "inputs of an operator that are given up at a time (5)")
    parser.add("seed", int, 1, "N", "other random numbers (1)")
    options = parser.parse_args(arguments)
    parser.check_texts(options)
    for name in ("tokens", "batch"):
        if getattr(options, name) < 1:
            parser.error(f"--{name} must be at least 1")
    if not 1 <= options.step <= 50:
        parser.error("--step must be 1 to 50")
    if options.type is not None and options.type not in blocks.TYPES:
        parser.error(f"--type {options.type}: {', '.join(blocks.TYPES)} are possible")
    options.uniform = False
    return options


def open_state(options):
    texts = [hash_file(path) for path in options.windows + options.text]
    run = {"model": hash_file(options.model), "texts": texts, "own": options.own,
           "window": options.window, "context": options.context, "calibration": options.calibration,
           "step": options.step}
    return State(options.out.removesuffix(".gguf") + ".state", run)


def main(arguments):
    options = parse(arguments)

    def work():
        source = Source(options.model)
        if os.path.exists(options.out) and os.path.samefile(options.out, options.model):
            raise GgufError(f"{options.out} is the model itself: give another file")
        state = open_state(options)
        from . import distill
        distill.run(source, options, state)
    return guard("llmsvc-distill", "the same command goes on", work)
