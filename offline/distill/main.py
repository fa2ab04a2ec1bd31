# SPDX-License-Identifier: LGPL-2.1-or-later
"""The program: what goes wrong is one line on stderr and a status of 1."""
import sys

from modelfile.partial import describe

from . import files, folder
from .options import parse


def main(arguments):
    options = parse(arguments)
    try:
        from . import stages
    except ImportError as error:
        print(f"llmsvc-distill-draft: {error.name} is missing: install python3-torch and "
              "libopenblas0", file=sys.stderr)
        return 1
    try:
        stages.run(options)
    except (files.GgufError, folder.FolderError) as error:
        print(f"llmsvc-distill-draft: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"llmsvc-distill-draft: {describe(error)}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("llmsvc-distill-draft: stopped; the same command goes on", file=sys.stderr)
        return 130
    return 0
