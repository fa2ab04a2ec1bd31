# SPDX-License-Identifier: LGPL-2.1-or-later
"""A program that takes memory in steps, uses it and lets go: a process of its own in a group.

It grows to a level, then goes round: gives a part of the memory back and takes it anew, writes to
each page of all, reads a file of its own. A step works on a MiB at once, within one call of the
interpreter, so that the time of a step is the kernel's.
"""
import gc
import itertools
import mmap
import os
import pathlib
import struct
import tempfile
import time

from lib import process
from lib.figures import Random
from lib.process import MIB

PAGE = mmap.PAGESIZE
# Growing goes in so many steps,
N_STEPS = 40
# and a round renews one of so many parts.
N_PARTS = 16
ROUND_S = 0.1
IDLE_S = 0.005
SEED = 7
ONES = b"\1" * (MIB // PAGE)
# What both processes see. Each field is written by one side only, but for the two figures that the
# child clears when it sees a new order.
FIELDS = ("level", "order", "seen", "held", "rounds", "longest_ns")
NORESERVE = 0x4000


class Shared:
    """Numbers in a file that both processes have mapped."""

    def __init__(self, path, makes=False):
        if makes:
            pathlib.Path(path).write_bytes(bytes(8 * len(FIELDS)))
        with open(path, "r+b") as file:
            object.__setattr__(self, "words", memoryview(mmap.mmap(file.fileno(), 0)).cast("Q"))

    def __getattr__(self, name):
        return self.words[FIELDS.index(name)]

    def __setattr__(self, name, value):
        self.words[FIELDS.index(name)] = value


class Child:
    """The process that eats."""

    def __init__(self, shared, most, path, grow_s):
        self.shared = Shared(shared)
        self.most = (most + PAGE - 1) // PAGE * PAGE
        self.memory = mmap.mmap(-1, self.most,
                                flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE)
        # Pages of one size, so that a step is the same everywhere.
        self.memory.madvise(mmap.MADV_NOHUGEPAGE)
        self.file = os.open(path, os.O_RDONLY)
        self.buffer = bytearray(MIB)
        self.step_s = grow_s / N_STEPS

    def is_over(self):
        return self.shared.order != self.shared.seen

    def note_time(self, begin_ns):
        spent = time.monotonic_ns() - begin_ns
        if spent > self.shared.longest_ns:
            self.shared.longest_ns = spent

    def touch(self, begin, end):
        for at in range(begin, end, MIB):
            if self.is_over():
                return
            stop = min(at + MIB, end)
            begin_ns = time.monotonic_ns()
            self.memory[at:stop:PAGE] = ONES[:(stop - at) // PAGE]
            self.note_time(begin_ns)

    def grow(self, level):
        begin = time.monotonic()
        before = 0
        for step in range(1, N_STEPS + 1):
            if self.is_over():
                return
            end = level * step // N_STEPS // PAGE * PAGE
            self.touch(before, end)
            self.shared.held = before = end
            time.sleep(max(begin + step * self.step_s - time.monotonic(), 0))

    def read_file(self):
        for at in itertools.count(0, MIB):
            begin_ns = time.monotonic_ns()
            if self.is_over() or os.preadv(self.file, [self.buffer], at) == 0:
                return
            self.note_time(begin_ns)

    def go_round(self, level, part):
        begin, end = (level * at // N_PARTS // PAGE * PAGE for at in (part, part + 1))
        if end > begin:
            self.memory.madvise(mmap.MADV_DONTNEED, begin, end - begin)
        self.touch(0, level // PAGE * PAGE)
        self.read_file()

    def let_go(self):
        self.memory.madvise(mmap.MADV_DONTNEED)
        os.posix_fadvise(self.file, 0, 0, os.POSIX_FADV_DONTNEED)
        self.shared.held = 0

    def run_level(self):
        shared = self.shared
        order, level = shared.order, min(shared.level, self.most)
        shared.rounds = shared.longest_ns = 0
        shared.seen = order
        if level == 0:
            self.let_go()
            return
        self.grow(level)
        for part in itertools.cycle(range(N_PARTS)):
            if self.is_over():
                return
            end = time.monotonic() + ROUND_S
            self.go_round(level, part)
            if not self.is_over():
                shared.rounds += 1
            # Who is late does not catch up.
            while not self.is_over() and (left := end - time.monotonic()) > 0:
                time.sleep(min(left, IDLE_S))

    def run(self):
        while True:
            if self.is_over():
                self.run_level()
            time.sleep(IDLE_S)


def run_child(shared, most, path, grow_s, *groups):
    """In a process of its own, until that is killed."""
    process.die_with_parent()
    child = Child(shared, int(most), path, float(grow_s))
    gc.disable()
    for group in groups:
        pathlib.Path(group).write_text("0")
    child.run()


def make_file(path, n_bytes):
    """Random bytes, on the disk only."""
    random = Random(SEED)
    block = b"".join(struct.pack("<Q", random.next()) for _ in range(MIB // 8))
    with open(path, "wb") as file:
        for at in range(0, n_bytes, MIB):
            # No two blocks are the same.
            file.write((struct.pack("<Q", at) + block[8:])[:n_bytes - at])
    process.drop_from_cache(path)


class Eater:
    """most: bytes of its highest level. path: of the file that it reads."""

    def __init__(self, group, most, path, file_bytes, grow_s):
        make_file(path, file_bytes)
        with tempfile.NamedTemporaryFile() as file:
            self.shared = Shared(file.name, makes=True)
            self.process = process.spawn_self("storm", "--eat", file.name, most, path, grow_s,
                                              *group.procs["eater"])
            self.set_level(0)
            # It is in the group before anything is counted.
            while self.is_alive() and self.shared.order != self.shared.seen:
                time.sleep(IDLE_S)

    def set_level(self, n_bytes):
        self.shared.level = n_bytes
        self.shared.order += 1

    def is_alive(self):
        return self.process.poll() is None

    def close(self):
        process.kill(self.process)
