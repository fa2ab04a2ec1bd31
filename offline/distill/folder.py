# SPDX-License-Identifier: LGPL-2.1-or-later
"""The folder of a run: what was made so far, and with what settings, so that a run that was stopped
goes on and one with other settings does not mix with it."""
import hashlib
import json
import pathlib
import typing
import zipfile

import numpy
from modelfile.arrays import save as save_arrays
from modelfile.partial import describe, replacing
from modelfile.reader import GgufError


class FolderError(GgufError):
    pass


def digest(path):
    """What tells a file from another one."""
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


class Answers(typing.NamedTuple):
    """What one document became. tokens: its text (n_text of them), then the answers one behind the
    other. begins: how much of the text an answer sees; lengths: of its tokens. learned: rows whose
    next token's distribution is known; ids, chances: that."""
    n_text: numpy.ndarray
    tokens: numpy.ndarray
    begins: numpy.ndarray
    lengths: numpy.ndarray
    learned: numpy.ndarray
    ids: numpy.ndarray
    chances: numpy.ndarray


class Folder:
    def __init__(self, path, settings):
        """@settings: what all that lies in the folder depends on, by the names of options."""
        self.path = pathlib.Path(path)
        kept = self.path / "settings.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if not kept.exists():
                with replacing(kept) as partial:
                    pathlib.Path(partial).write_text(json.dumps(settings, indent=1))
            was = json.loads(kept.read_text())
        except OSError as error:
            raise FolderError(describe(error)) from error
        except ValueError as error:
            raise FolderError(f"{kept} is damaged; take another folder, or remove this one"
                              ) from error
        for name, value in settings.items():
            if not isinstance(was, dict) or was.get(name) != value:
                raise FolderError(f"{path} was begun with another --{name}; take the same, or "
                                  "another folder")

    def get_answers_path(self, name):
        return self.path / f"{name}.npz"

    def save_answers(self, name, documents):
        save_arrays(self.get_answers_path(name),
                    {f"{i}.{field}": array for i, answers in enumerate(documents)
                     for field, array in zip(answers._fields, answers)})

    def load_answers(self, name):
        """None where there are none."""
        path = self.get_answers_path(name)
        if not path.exists():
            return None
        try:
            with numpy.load(path) as arrays:
                n = len(arrays.files) // len(Answers._fields)
                return [Answers(*(arrays[f"{i}.{field}"] for field in Answers._fields))
                        for i in range(n)]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            raise FolderError(f"{path} is damaged; remove it, it is made again") from error
