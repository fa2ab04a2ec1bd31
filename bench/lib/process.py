# SPDX-License-Identifier: LGPL-2.1-or-later
"""Processes of the benchmarks: ended with the benchmark, whatever ends that; what /proc says.

Run as a program, it enters control groups and becomes another program.
"""
import ctypes
import mmap
import os
import pathlib
import signal
import subprocess
import sys
import time

BENCH = pathlib.Path(__file__).resolve().parents[1]
PR_SET_PDEATHSIG = 1
MIB = 1 << 20


def die_with_parent():
    """This process ends with its parent, and leaves Ctrl+C to it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == 1:
        sys.exit(1)


def spawn_self(*arguments, **more):
    """A part of a benchmark in a process of its own, which begins with die_with_parent()."""
    return subprocess.Popen([sys.executable, "-B", BENCH / "run.py", *map(str, arguments)], **more)


def make_command(groups, score=None, ends="with its parent"):
    """What stands before a program's command line, so that it enters @groups (files
    cgroup.procs) first. ends: "by itself" where what starts it may be gone before it."""
    return [sys.executable, "-B", __file__, ends, str(score or ""), *map(str, groups), "--"]


def spawn_program(argv, log=os.devnull, groups=(), score=None, env=None):
    """Another program, after it has entered @groups (files cgroup.procs)."""
    with open(log, "wb") as output:
        return subprocess.Popen([*make_command(groups, score), *argv], stdout=output,
                                stderr=output, env=env)


def end(process, seconds=30):
    """Ends a child in order, or by force when that takes too long."""
    if process is None or process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        kill(process)


def kill(process):
    if process is not None:
        process.kill()
        process.wait()


def read_busy_s():
    """Processors' time that all of the machine has taken."""
    fields = pathlib.Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()[1:]
    busy = sum(map(int, fields[:8])) - int(fields[3]) - int(fields[4])
    return busy / os.sysconf("SC_CLK_TCK")


def read_own_s(pid):
    """That @pid, this program and its children that have ended took."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") + sum(os.times()[:4])


class OtherLoad:
    """What else the machine does while the process @pid is measured: processors that others take, on
    average."""

    def __init__(self, pid):
        self.pid, self.begun = pid, time.monotonic()
        self.others = read_busy_s() - read_own_s(pid)

    def get(self):
        taken = read_busy_s() - read_own_s(self.pid) - self.others
        return max(taken, 0) / max(time.monotonic() - self.begun, 1e-3)


def has_ended(pid):
    """Gone, or dead and not yet waited for by its parent."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def stop(pid, seconds=10):
    """Ends a process that is another's child, and waits until it is gone."""
    if pid <= 1:
        return
    try:
        os.kill(pid, signal.SIGTERM)
    except ProcessLookupError:
        return
    until = time.monotonic() + seconds
    while not has_ended(pid) and time.monotonic() < until:
        time.sleep(0.002)


def read_fields(path):
    """Bytes by key of a file like /proc/meminfo; empty when it can't be read."""
    try:
        lines = pathlib.Path(path).read_text().splitlines()
    except OSError:
        return {}
    fields = (line.split() for line in lines)
    return {words[0].rstrip(":"): int(words[1]) * 1024 for words in fields
            if len(words) == 3 and words[2] == "kB"}


def drop_from_cache(path):
    """The files below @path are on the disk only."""
    path = pathlib.Path(path)
    for file in path.rglob("*") if path.is_dir() else [path]:
        if file.is_file():
            fd = os.open(file, os.O_RDONLY)
            os.fdatasync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(fd)


def count_cached(path):
    """The share of a file's pages that is in the page cache."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as pages:
        states = ctypes.create_string_buffer((len(pages) + mmap.PAGESIZE - 1) // mmap.PAGESIZE)
        start = ctypes.c_char.from_buffer(pages)
        status = ctypes.CDLL(None).mincore(ctypes.byref(start), ctypes.c_size_t(len(pages)), states)
        del start
        if status != 0:
            raise OSError(f"{path}: the kernel does not tell what is in the page cache")
        return sum(state & 1 for state in states.raw) / len(states)


def main(ends, score, *arguments):
    at = arguments.index("--")
    if ends == "with its parent":
        die_with_parent()
    for procs in arguments[:at]:
        pathlib.Path(procs).write_text("0")
    if score:
        pathlib.Path("/proc/self/oom_score_adj").write_text(score)
    try:
        os.execvp(arguments[at + 1], arguments[at + 1:])
    except OSError as error:
        sys.exit(f"{arguments[at + 1]}: {error.strerror}")


if __name__ == "__main__":
    main(*sys.argv[1:])
