# SPDX-License-Identifier: LGPL-2.1-or-later
"""The companion with activation thresholds, for the widened model: copies of a value are as large as it
is, up to a sixth more or less. Which inputs of a sum are left out differs among the copies, so that such a
model reads as a large one would, and its text is not the small model's."""
import bisect

from active import companion, shares
from elastic import tool
from elastic.source import Source

PREFIX = companion.PREFIX


def has_thresholds(file):
    return PREFIX + "percent" in file.keys


def write(file, plan, path, tool_path):
    """@file: a Gguf, the companion. @plan: of the model that it lies beside. @path: the widened model,
    which is written. Returns the path."""
    n, values = len(shares.INPUTS), file.get_numbers(PREFIX + "thresholds")
    # layers that add nothing cost what the ones before them cost
    near = [bisect.bisect(plan.places, i) - 1 for i in range(plan.shape.n_layers)]
    sparsities = file.get_numbers(PREFIX + "percent")
    thresholds = [[values[(s * plan.n_layers + i) * n:(s * plan.n_layers + i + 1) * n] for i in near]
                  for s in range(len(sparsities))]
    kept = file.get_numbers(PREFIX + "kept")
    made = Source(path)
    return companion.write(made, None, tool.identify(tool_path, path),
                           [kept[s * n:(s + 1) * n] for s in range(len(sparsities))], thresholds,
                           file.get_numbers(PREFIX + "losses"))
