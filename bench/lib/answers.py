# SPDX-License-Identifier: LGPL-2.1-or-later
"""Measurements that llmsvc-bench makes itself, so that Python adds no time to them."""
import json
import subprocess

from lib import model


def run(address, prompt, n_tokens, n, *model_file):
    """What llmsvc-bench answers prints, as a list of @n."""
    lines = subprocess.run([model.find_bench(), "answers", address, prompt, str(n_tokens), str(n),
                            *model_file], check=True, stdout=subprocess.PIPE, text=True).stdout
    return list(map(json.loads, lines.splitlines()))


def time_first_bytes(bus, prompt, n_tokens, n=1):
    """Milliseconds from calls to the first byte of answers that stream, all of which comes."""
    return run(bus.address, prompt, n_tokens, n)
