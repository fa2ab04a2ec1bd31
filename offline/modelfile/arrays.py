# SPDX-License-Identifier: LGPL-2.1-or-later
"""Arrays in a file, as numpy.load() reads them."""
import zipfile

import numpy

from .partial import replacing


def save(path, arrays):
    """What numpy.savez() does, which leaves its archive open when the disk is full: Python then
    prints a traceback of that as well."""
    with replacing(path) as partial, zipfile.ZipFile(partial, "w") as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
                numpy.lib.format.write_array(file, numpy.asanyarray(array), allow_pickle=False)
