# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a run has found so far, in a folder beside its results: the same command goes on from it."""
import hashlib
import json
import os

import numpy
from modelfile import arrays
from modelfile.partial import replacing
from modelfile.reader import GgufError


def hash_file(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


class State:
    """@run: what must be the same for results to be good; a folder of another run is an error."""

    def __init__(self, folder, run):
        self.folder = folder
        os.makedirs(folder, exist_ok=True)
        path = self.get_path("run.json")
        if os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                found = json.load(file)
            for key, value in run.items():
                if found.get(key) != value:
                    raise GgufError(f"{folder} is of a run with another {key}: remove it, or give "
                                    "another folder")
        else:
            self.write_json("run.json", run)

    def get_path(self, name):
        return os.path.join(self.folder, name)

    def write_json(self, name, data):
        with (replacing(self.get_path(name)) as partial,
              open(partial, "w", encoding="utf-8") as file):
            json.dump(data, file, indent=1)

    def keep(self, name, make):
        """The arrays by name that make() returns, or those that it returned before."""
        path = self.get_path(name + ".npz")
        if not os.path.exists(path):
            arrays.save(path, make())
        with numpy.load(path) as found:
            return dict(found)
