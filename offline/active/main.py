# SPDX-License-Identifier: LGPL-2.1-or-later
"""Calibrates activation thresholds of a model: which inputs of its products are so small that tokens
of an answer can do without them, for several sparsities. Writes them into the model's companion."""
from elastic.options import Parser, guard
from elastic.source import Source


def parse(arguments):
    parser = Parser("llmsvc-active", description=__doc__, allow_abbrev=False)
    parser.add_argument("model", metavar="MODEL.gguf")

    parser.add_texts(8, "thresholds and shares are found on")
    parser.add("step", int, 5, "PERCENT", "inputs of an operator that are given up at a time (5)")
    parser.add_argument("--uniform", action="store_true",
                        help="the same share of the inputs of every operator, to compare with")
    options = parser.parse_args(arguments)
    parser.check_texts(options)
    if not 1 <= options.step <= 50:
        parser.error("--step must be 1 to 50")
    return options


def main(arguments):
    options = parse(arguments)

    def work():
        source = Source(options.model)
        from . import calibrate
        calibrate.run(source, options)
    return guard("llmsvc-active", "nothing was written", work)
