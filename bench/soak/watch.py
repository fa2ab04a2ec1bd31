# SPDX-License-Identifier: LGPL-2.1-or-later
"""Readings: what the service holds, how long a property takes; and callers that are killed."""
import gc
import os
import pathlib
import struct
import tempfile
import time

from lib import bus, process
from lib.figures import Random
from lib.wire import Wire, make_blob

PROBE_INTERVAL_S = 0.02
PROBE = struct.Struct("ddd")
MAX_STREAMS = 6
# What the service holds, by unit.
HELD = {
    "resident": "MiB", "proportional": "MiB", "not backed by files": "MiB", "heap in use": "MiB",
    "descriptors": "", "threads": "", "contexts": "", "calls": "", "applications": "",
    "state folder": "MiB",
}


def sum_folder(path):
    """Bytes on the disk: files may have holes."""
    total = 0
    for folder, _, files in os.walk(path):
        for name in files:
            try:
                total += os.lstat(os.path.join(folder, name)).st_blocks * 512
            except FileNotFoundError:
                pass
    return total


def take_sample(connection, pid, state, begin_s):
    """A dictionary with the keys of HELD, and "seconds"."""
    statistics = connection.get_statistics()
    proc = pathlib.Path(f"/proc/{pid}")
    status, rollup = (process.read_fields(proc / name) for name in ("status", "smaps_rollup"))
    mib = process.MIB
    return {
        "seconds": time.monotonic() - begin_s,
        "resident": status.get("VmRSS", 0) / mib,
        "proportional": rollup.get("Pss", 0) / mib,
        "not backed by files": status.get("RssAnon", 0) / mib,
        "heap in use": statistics.get("heap-bytes", 0) / mib,
        "descriptors": float(len(os.listdir(proc / "fd"))),
        "threads": float(len(os.listdir(proc / "task"))),
        "contexts": float(statistics.get("contexts", 0)),
        "calls": float(statistics.get("calls", 0)),
        "applications": float(statistics.get("apps", 0)),
        "state folder": sum_folder(state) / mib,
    }


class Probe:
    """A process that reads a property every 20 ms, and asks the bus itself right after it: what the
    second takes is the machine's and the bus's part."""

    def __init__(self, address):
        self.file = tempfile.TemporaryFile()
        self.process = process.spawn_self("soak", "--probe-at", address, stdout=self.file)

    def read(self):
        """(when, milliseconds of the service, of the bus), since the start."""
        data = os.pread(self.file.fileno(), 1 << 30, 0)
        return list(PROBE.iter_unpack(data[:len(data) // PROBE.size * PROBE.size]))

    def close(self):
        process.kill(self.process)


def run_probe(address):
    """In a process of its own, until that is killed."""
    process.die_with_parent()
    wire = Wire(address)
    of_service = make_blob(bus.PROPERTIES, "Get", "(ss)", (bus.MEMORY, "Resident"))
    of_bus = make_blob("bus", "GetId")
    gc.freeze()
    gc.disable()
    while True:
        begin = time.monotonic()
        wire.call(of_service)
        middle = time.monotonic()
        wire.call(of_bus)
        end = time.monotonic()
        os.write(1, PROBE.pack(begin, (middle - begin) * 1000, (end - middle) * 1000))
        time.sleep(max(begin + PROBE_INTERVAL_S - time.monotonic(), 0))


def sum_up(probes, from_s, to_s, pauses=(), of_bus=False):
    """Percentiles in ms of the readings between both times, but for those in @pauses."""
    times = sorted(probe[2 if of_bus else 1] for probe in probes if from_s <= probe[0] < to_s and
                   not any(begin <= probe[0] < end for begin, end in pauses))
    shares = {"p50-ms": 0.5, "p99-ms": 0.99, "p99.9-ms": 0.999, "most-ms": 1}
    return {**{name: times[int(share * (len(times) - 1))] if times else 0.0
               for name, share in shares.items()}, "n": len(times)}


def run_caller(address, seed):
    """In a process of its own: begins answers that it never reads, until it is killed."""
    process.die_with_parent()
    random = Random.derive(seed, 0xca11)
    connection = bus.Connection(address, f"org.example.Killed{random.range(0, 3)}")
    streams = []
    while not connection.gio.is_closed():
        try:
            streams.append(bus.Stream(
                connection, connection.create_context(), "I want a restaurant in San Jose.",
                {"max-tokens": bus.option("u", random.range(1, 100))}))
        except bus.CallError:
            pass
        del streams[:-MAX_STREAMS]
        time.sleep(random.range(10, 200) / 1000)
