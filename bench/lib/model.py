# SPDX-License-Identifier: LGPL-2.1-or-later
"""What a model file says of itself, and the tokens of a text, by llmsvc-bench tokens."""
import json
import os
import pathlib
import subprocess


def find_bench():
    return os.environ["LLMSVC_BENCH"]


class ModelError(Exception):
    pass


class Model:
    """n_ctx: positions of a context. eos: token that ends answers, -1 for none. ends: all such."""

    def __init__(self, path):
        self.process = subprocess.Popen([find_bench(), "tokens", path], text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
        line = self.process.stdout.readline()
        if not line:
            _, complaint = self.process.communicate()
            raise ModelError(complaint.strip().removeprefix("llmsvc-bench: "))
        data = json.loads(line)
        self.n_ctx, self.eos, self.ends = data["context"], data["eos"], data["ends"]

    def tokenize(self, text):
        """@text has no line breaks."""
        print(text, file=self.process.stdin, flush=True)
        return json.loads(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.communicate()


def drop_cache(*paths):
    """What is in the page cache already counts in no group."""
    for path in paths:
        for file in [path, *pathlib.Path(path).glob("weights/*")]:
            if not os.path.isfile(file):
                continue
            fd = os.open(file, os.O_RDONLY)
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)
