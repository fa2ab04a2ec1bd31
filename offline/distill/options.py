# SPDX-License-Identifier: LGPL-2.1-or-later
"""The command line. Without PyTorch, so that wrong arguments are told without it."""
import argparse

from . import files

DESCRIPTION = """Teaches a draft model what its target says: the target answers prompts from
documents, and the draft learns the target's distributions on those answers. Stopped, the same command
goes on."""
HEADER = "<|im_start|>assistant\n"
BATCH = 4            # Documents of a step.


def parse(arguments):
    parser = argparse.ArgumentParser(prog="llmsvc-distill-draft", description=DESCRIPTION,
                                     allow_abbrev=False)
    add = parser.add_argument
    add("--target", metavar="FILE", required=True,
        help="The large model, GGUF; as exact as there is (F32, F16)")
    add("--draft", metavar="FILE", required=True,
        help="The draft to begin with, GGUF, of the same vocabulary (F32, F16)")
    add("--texts", metavar="FILE", required=True,
        help="Documents: windows of tokens of the vocabulary, 16 bit each")
    add("--window", metavar="N", type=int, default=1025, help="Tokens of a window (1025)")
    add("--check", metavar="FILE", help="More such documents, to compare before and after; nothing "
        "is learned of them")
    add("--work", metavar="FOLDER", required=True,
        help="Answers and checkpoints; a run that was stopped goes on from them")
    add("--out", metavar="FILE", required=True, help="The draft, GGUF")
    add("--type", choices=files.TYPES, default="F16", help="Of its weights (F16)")
    add("--documents", metavar="N", type=int, default=512, help="Documents that are answered (512)")
    add("--tokens", metavar="N", type=int, default=64, help="Of an answer at most (64)")
    add("--steps", metavar="N", type=int, default=640,
        help=f"Of training, {BATCH} documents each (640); more than before go on from "
        "where the learning rate began to fall")
    add("--rate", metavar="X", type=float, default=3e-4, help="Learning rate (0.0003)")
    add("--seed", metavar="N", type=int, default=1, help="Of all that is drawn (1)")
    add("--header", metavar="TEXT", default=HEADER,
        help="What a reply begins behind (that of ChatML)")
    add("--threads", metavar="N", type=int, default=2, help="That compute (2)")
    options = parser.parse_args(arguments)
    for name, least in (("window", 2), ("documents", 1), ("tokens", 2), ("steps", 1), ("seed", 0),
                        ("threads", 1)):
        if getattr(options, name) < least:
            parser.error(f"--{name} must be {least} or more")
    if not 0 < options.rate < 1:
        parser.error("--rate must be above 0 and below 1")
    if not options.header:
        parser.error("--header must not be empty")
    return options
