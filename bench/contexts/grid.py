# SPDX-License-Identifier: LGPL-2.1-or-later
"""Replays of traces in virtual time, of many points at once, and what comes out of each."""
import collections
import concurrent.futures
import json
import os
import subprocess

from lib import model

PATTERNS = ("random", "markov", "gaussian")
# share: the budget, of the bytes of 16 contexts with 8 bits. chunk, longest: tokens of a chunk, and
# of a context at most. interval: seconds between calls.
Point = collections.namedtuple("Point", "shape device pattern share contexts policy seed chunk "
                               "longest interval")
# Seconds between calls, where nothing else is said: what a call takes matters little then.
INTERVAL = 300


class PartError(Exception):
    """A part has failed and said why. status: of its exit."""

    def __init__(self, status):
        super().__init__(status)
        self.status = status


def run_part(name, **options):
    """What llmsvc-bench contexts-part prints; lists are given one by one."""
    words = [model.find_bench(), "contexts-part", name]
    for option, value in options.items():
        for one in value if isinstance(value, (list, tuple, dict)) else [value]:
            if one is not None:
                words.append(f"--{option}={one}")
    done = subprocess.run(words, stdout=subprocess.PIPE)
    if done.returncode != 0:
        raise PartError(done.returncode)
    return json.loads(done.stdout)


class Grid:
    """cells: by point, in the order in which they were asked for. All policies of a cell see the
    same trace."""

    def __init__(self, names, n_jobs, **settings):
        self.names, self.settings = names, settings
        self.n_jobs = n_jobs or os.cpu_count()
        self.cells = {}
        self.n_calls = 0

    def point(self, shape, device, pattern, share, contexts, policy, seed):
        return Point(shape, device, pattern, share, contexts, policy, seed, 16,
                     self.names["shapes"][shape][1], INTERVAL)

    def run(self, points):
        """Runs those that are not there yet. Points that differ in their device alone share a
        replay where neither what the policy does nor when calls begin depends on it."""
        replays = {}
        for point in points:
            if point not in self.cells:
                self.cells[point] = None
                plans = self.names["policies"].get(point.policy, True)
                is_own = plans or point.interval != INTERVAL
                key = point if is_own else point._replace(device=None)
                replays.setdefault(key, []).append(point)
        with concurrent.futures.ThreadPoolExecutor(self.n_jobs) as pool:
            try:
                list(pool.map(self.replay, replays.values()))
            except PartError:
                pool.shutdown(cancel_futures=True)
                raise

    def replay(self, points):
        first = points[0]
        result = run_part("replay", **self.settings, device=[point.device for point in points],
                          **{name: value for name, value in first._asdict().items()
                             if name != "device"})
        self.n_calls += result["calls"]
        for point, cell in zip(points, result["cells"]):
            self.cells[point] = cell

    def to_json(self):
        names = {"share": "budget-share", "chunk": "chunk-slots", "longest": "max-slots",
                 "interval": "interval-s"}
        return [{**{names.get(key, key): value for key, value in point._asdict().items()},
                 **{key: value for key, value in cell.items() if key != "waits"}}
                for point, cell in self.cells.items()]
