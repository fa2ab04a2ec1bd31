# SPDX-License-Identifier: LGPL-2.1-or-later
"""Sparse answers beside whole weights, of a model that a control group does not hold: the command draft with other
methods and fewer, short answers; all its options are possible. docs/streaming.md says what the figures mean."""
from draft import main as draft

DEFAULTS = ["--methods", "plain;active:30;active:50;active:70", "--prompts", "1", "--tokens", "24", "--runs", "1"]


def main(arguments):
    return draft.main(DEFAULTS + arguments, "active")
