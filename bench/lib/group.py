# SPDX-License-Identifier: LGPL-2.1-or-later
"""A control group with a limit on memory, with the server and the eater in it.

Of version 2 with the memory controller; or of version 1, and a hierarchy of version 2 for the
stalls.
"""
import errno
import itertools
import os
import pathlib
import time


SIDES = ("server", "eater")
REMOVE_STEP_S, REMOVE_STEPS = 0.02, 250
numbers = itertools.count()


class NoGroup(Exception):
    """Why none can be made here."""


def find_mount(controller=None):
    """Of the hierarchy of version 2, or of version 1 with @controller; None without."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        # "ID PARENT DEVICE ROOT POINT OPTIONS … - TYPE SOURCE OPTIONS"
        fields, _, rest = line.partition(" - ")
        kind, _, options = rest.split(" ", 2)
        if kind == ("cgroup" if controller else "cgroup2") and \
                (not controller or controller in options.split(",")):
            return pathlib.Path(fields.split()[4])
    return None


def find_own(mount, controller=""):
    """This process' folder below @mount, or @mount where it can't be seen."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        folder = mount / path.lstrip("/")
        if controller in controllers.split(",") and folder.is_dir():
            return folder
    return mount


def read_number(path, key=""):
    """The number behind @key at the beginning of a line; without @key the file's only one."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line[len(key):].split()[0]) for line in lines if line.startswith(key)), 0)


def read_stalls(path):
    """Microseconds in which some and in which all tasks waited for memory, since the start."""
    try:
        lines = path.read_text().splitlines()
    except OSError:
        return {"some-us": 0, "full-us": 0}
    totals = {line.split()[0]: int(line.rpartition("total=")[2]) for line in lines}
    return {"some-us": totals.get("some", 0), "full-us": totals.get("full", 0)}


class Group:
    """version: of the memory controller. procs: by side, the files that a process enters."""

    def __init__(self, limit):
        self.folders = []       # in the order in which they are made
        name = f"llmsvc-storm-{os.getpid()}-{next(numbers)}"
        try:
            self.make(name, limit)
        except OSError as error:
            self.close()
            raise NoGroup(f"{error.filename}: {error.strerror}") from None
        except NoGroup:
            self.close()
            raise

    def make(self, name, limit):
        mount = find_mount()
        if mount is None:
            raise NoGroup("no hierarchy of control groups of version 2 is mounted")
        own = find_own(mount)
        controllers = own / "cgroup.controllers"
        self.procs = {side: [] for side in SIDES}
        if controllers.exists() and "memory" in controllers.read_text().split():
            self.version = 2
            (own / "cgroup.subtree_control").write_text("+memory")
            parent = self.memory = self.make_folder(own / name)
            (self.memory / "memory.max").write_text(str(limit))
        else:
            self.version = 1
            mount = find_mount("memory")
            if mount is None:
                raise NoGroup("no memory controller is to be had, of neither version")
            self.memory = self.make_folder(find_own(mount, "memory") / name)
            (self.memory / "memory.limit_in_bytes").write_text(str(limit))
            for side in SIDES:
                self.procs[side].append(self.memory / "cgroup.procs")
            parent = self.make_folder(own / name)
        self.sides = {side: self.make_folder(parent / side) for side in SIDES}
        for side, folder in self.sides.items():
            if not (folder / "memory.pressure").exists():
                raise NoGroup(f"{folder / 'memory.pressure'}: this kernel counts no stalls (PSI)")
            self.procs[side].append(folder / "cgroup.procs")

    def make_folder(self, path):
        path.mkdir()
        self.folders.append(path)
        return path

    def read(self):
        """usage, cache: bytes. oom-kills. server, eater: stalls."""
        if self.version == 2:
            names = ("memory.current", "memory.events", "")
        else:
            names = ("memory.usage_in_bytes", "memory.oom_control", "total_")
        usage, events, prefix = names
        return {
            "usage": read_number(self.memory / usage),
            "cache": sum(read_number(self.memory / "memory.stat", f"{prefix}{kind}_file ")
                         for kind in ("active", "inactive")),
            "oom-kills": read_number(self.memory / events, "oom_kill "),
            **{side: read_stalls(folder / "memory.pressure")
               for side, folder in self.sides.items()},
        }

    def close(self):
        for folder in reversed(self.folders):
            for _ in range(REMOVE_STEPS):
                try:
                    folder.rmdir()
                    break
                except OSError as error:
                    if error.errno != errno.EBUSY:
                        break
                    time.sleep(REMOVE_STEP_S)
        self.folders = []


def read_system():
    """Of the whole machine: stalls, and bytes."""
    meminfo = pathlib.Path("/proc/meminfo")
    return {**read_stalls(pathlib.Path("/proc/pressure/memory")),
            "available": read_number(meminfo, "MemAvailable:") * 1024,
            "total": read_number(meminfo, "MemTotal:") * 1024}


