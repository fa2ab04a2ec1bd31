# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program: what goes wrong is one line on stderr and a status of 1."""
from elastic.options import guard

from .options import parse


def main(arguments):
    options = parse(arguments)

    def work():
        from . import stages
        stages.run(options)
    return guard("llmsvc-distill-draft", "the same command goes on", work)
