# SPDX-License-Identifier: LGPL-2.1-or-later
"""Storms over one server: it starts in a group of its own, the apps begin their contexts, then the
eater grows, stays and lets go, again and again."""
import bisect
import signal
import sys
import threading
import time

from lib import process
from lib.group import SIDES, Group, read_system
from storm.eater import Eater
from storm.plan import N_APPS
from storm.servers import Other, ServerError, Service

STEP_S = 0.05
SAMPLE_S = 0.1
# Before the first storm, and as long at the end.
WARM_S = 10
# Speed is that of so long, and back at so much of what it was; so is memory.
WINDOW_S = 2
SHARE_BACK = 0.8
# How long is waited for both after the last storm.
SETTLE_S = 90
# The eater alone needs no time to recover.
ALONE_PAUSE_S = 1
START_S = 900
# A server that does not finish the last answers in this time is ended.
FINISH_S = 300
# How long a crash may take.
END_S = 2
COMPARE_S = 7200

is_interrupted = threading.Event()


def catch_signals():
    """What runs ends soon, in order, and nothing else begins: groups, processes and the copy of the
    model are not to be left behind."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: is_interrupted.set())


class Apps:
    """Each a thread that asks one turn after the other. answers, failures: by app."""

    def __init__(self, server, n_turns=None):
        """n_turns: of each app; without, until they are stopped."""
        self.server = server
        self.is_stopping = threading.Event()
        self.lock = threading.Lock()
        self.tokens = 0
        self.answers = [[] for _ in range(N_APPS)]
        self.failures = [None] * N_APPS
        self.threads = [threading.Thread(target=self.run, args=(app, n_turns and n_turns[app]))
                        for app in range(N_APPS)]
        for thread in self.threads:
            thread.start()

    def count(self, n):
        with self.lock:
            self.tokens += n

    def run(self, app, n_turns):
        turn = 0
        while turn < n_turns if n_turns is not None else not self.is_stopping.is_set():
            try:
                self.answers[app].append(self.server.ask(app, turn, self.count))
            except Exception as error:
                self.failures[app] = f"turn {turn + 1}: {error}"
                return
            turn += 1

    def has_begun(self):
        return all(self.answers)

    def count_ended(self):
        return sum(not thread.is_alive() for thread in self.threads)

    def finish(self, seconds):
        """Behind the turn that each is at. After @seconds the server is ended, with turns under
        way."""
        self.is_stopping.set()
        until = time.monotonic() + seconds
        while self.count_ended() < N_APPS and time.monotonic() < until and \
                not is_interrupted.is_set():
            time.sleep(STEP_S)
        if self.count_ended() < N_APPS:
            process.end(self.server.process)
        for thread in self.threads:
            thread.join()


class Series:
    """Readings, ten a second, on a thread of its own. Times are seconds since its start."""

    def __init__(self, group, eater, server, apps):
        self.group, self.eater, self.apps = group, eater, apps
        self.pid = server.process.pid if server else None
        self.begin = time.monotonic()
        self.is_stopping = threading.Event()
        self.samples = []
        self.take()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def get_now(self):
        return time.monotonic() - self.begin

    def take(self):
        status = process.read_fields(f"/proc/{self.pid}/status") if self.pid else {}
        self.samples.append({
            "at-s": self.get_now(), "anonymous": status.get("RssAnon", 0),
            "mapped": status.get("RssFile", 0), "held": self.eater.shared.held,
            "tokens": self.apps.tokens if self.apps else 0, "system": read_system(),
            **self.group.read(),
        })

    def run(self):
        next_s = self.begin
        while not self.is_stopping.is_set():
            next_s += SAMPLE_S
            time.sleep(max(next_s - time.monotonic(), 0.001))
            self.take()

    def stop(self):
        self.is_stopping.set()
        self.thread.join()

    def find(self, at_s):
        """The last sample not behind @at_s, or the first."""
        return max(bisect.bisect(self.samples, at_s, key=lambda sample: sample["at-s"]) - 1, 0)

    def get_speed(self, begin_s, end_s):
        """Tokens a second."""
        begin, end = self.samples[self.find(begin_s)], self.samples[self.find(end_s)]
        seconds = end["at-s"] - begin["at-s"]
        return (end["tokens"] - begin["tokens"]) / seconds if seconds > 0 else 0.0

    def get_resident(self, begin_s, end_s):
        """Bytes of the server, the mean."""
        samples = self.samples[self.find(begin_s):self.find(end_s) + 1]
        return sum(sample["anonymous"] + sample["mapped"] for sample in samples) / len(samples)


class Run:
    """One server, or None for the eater alone. result: as the JSON has it."""

    def __init__(self, plan, group, eater, server):
        self.plan, self.group, self.eater, self.server = plan, group, eater, server
        self.apps = Apps(server) if server else None
        self.series = Series(group, eater, server, self.apps)
        self.get_now = self.series.get_now
        self.result = {
            "group-version": group.version, "killed-in-storm": 0, "oom-kills": 0,
            "eater-lived": True, "start-s": 0.0, "tokens-per-second-before": 0.0,
            "tokens-per-second-after": 0.0, "resident-bytes-before": 0.0,
            "resident-bytes-after": 0.0, "resident-back-s": -1.0, "answers": 0, "different": -1,
            "storms": [],
        }

    def is_well(self):
        """False when the server or the eater is gone, an app had to give up, or a signal came."""
        return not is_interrupted.is_set() and self.eater.is_alive() and (
            self.server is None or self.server.is_alive() and self.apps.count_ended() == 0)

    def wait_until(self, at_s, look=lambda: False):
        """Or until @look is true. Whether all is well."""
        while self.get_now() < at_s and self.is_well() and not look():
            time.sleep(STEP_S)
        return self.is_well()

    def note_window(self, when):
        """Speed and memory of ten seconds from now."""
        begin = self.get_now()
        if not self.wait_until(begin + WARM_S):
            return False
        self.result[f"tokens-per-second-{when}"] = self.series.get_speed(begin, begin + WARM_S)
        self.result[f"resident-bytes-{when}"] = self.series.get_resident(begin, begin + WARM_S)
        return True

    def warm_up(self):
        self.wait_until(START_S, self.apps.has_begun)
        self.result["start-s"] = self.get_now()
        return self.note_window("before")

    def note_recovery(self, storm):
        """Whether speed and memory are back."""
        result, now = self.result, self.get_now()
        behind_s = now - storm["end-s"]
        if storm["back-s"] < 0 and self.series.get_speed(now - WINDOW_S, now) >= \
                SHARE_BACK * result["tokens-per-second-before"]:
            storm["back-s"] = behind_s
        # What was there before the storm has gone out of the window by then.
        if result["resident-back-s"] < 0 and behind_s > WINDOW_S and \
                self.series.get_resident(now - WINDOW_S, now) >= \
                SHARE_BACK * result["resident-bytes-before"]:
            result["resident-back-s"] = behind_s
        return storm["back-s"] >= 0 and result["resident-back-s"] >= 0

    def go_storm(self, level):
        """The storm and the pause behind it."""
        plan, shared = self.plan, self.eater.shared
        before = self.group.read()
        begin_s = self.get_now()
        self.eater.set_level(level)
        is_well = self.wait_until(begin_s + plan.grow_s + plan.hold_s)
        rounds, longest_ms = shared.rounds, shared.longest_ns / 1e6
        after = self.group.read()
        end_s = self.get_now()
        self.eater.set_level(0)
        self.result["resident-back-s"] = -1.0
        storm = {
            "level-bytes": level, "begin-s": begin_s, "end-s": end_s,
            **{f"{side}-stall": {key: after[side][key] - before[side][key] for key in after[side]}
               for side in SIDES},
            "rounds": rounds, "longest-ms": longest_ms,
            "tokens-per-second": self.series.get_speed(begin_s, end_s), "back-s": -1.0,
        }
        self.result["storms"].append(storm)
        if not is_well:
            return False
        if self.server is None:
            return self.wait_until(end_s + ALONE_PAUSE_S)
        return self.wait_until(end_s + plan.pause_s, lambda: self.note_recovery(storm) and False)

    def cool_down(self):
        storm = self.result["storms"][-1]
        self.wait_until(storm["end-s"] + SETTLE_S, lambda: self.note_recovery(storm))
        self.note_window("after")

    def go_storms(self):
        is_well = self.server is None or self.warm_up()
        number = 0
        for number, level in enumerate(self.plan.order, 1):
            if not is_well:
                number -= 1
                break
            is_well = self.go_storm(self.plan.levels[level])
        if self.server is None:
            return
        if is_well:
            number += 1
            self.cool_down()
        # Apps see the end of a server before it can be waited for.
        until = time.monotonic() + (0 if is_well else END_S)
        while self.server.is_alive() and time.monotonic() < until:
            time.sleep(STEP_S)
        if not self.server.is_alive():
            self.result["killed-in-storm"] = max(number, 1)

    def run(self):
        self.go_storms()
        result = self.result
        if self.apps is not None:
            self.apps.finish(FINISH_S)
            result["answers"] = sum(map(len, self.apps.answers))
            failures = [f"app {app}, {failure}" for app, failure in enumerate(self.apps.failures, 1)
                        if failure]
            if failures:
                result["failure"] = failures[0]
        self.series.stop()
        result["oom-kills"] = self.group.read()["oom-kills"]
        result["eater-lived"] = self.eater.is_alive()


def run(kind, setup, plan):
    """(the result, all samples, the answers by app). kind: None, Service or Other."""
    group = Group(plan.limit)
    eater = server = None
    try:
        eater = Eater(group, plan.levels[-1], setup.folder / "eaten", plan.file_bytes, plan.grow_s)
        setup.group = group
        server = kind(setup, plan) if kind else None
        one = Run(plan, group, eater, server)
        one.run()
        if one.result["killed-in-storm"] > 0:
            print(f"llmsvc-bench: in storm {one.result['killed-in-storm']} the server "
                  f"{server.describe_end(setup.folder)}", file=sys.stderr)
        return one.result, one.series.samples, one.apps.answers if one.apps else []
    finally:
        if server is not None:
            server.close()
        if eater is not None:
            eater.close()
        group.close()


def count_different(answers, setup, plan):
    """The same turns with no limit and no storm."""
    server = Service(setup, plan)
    try:
        apps = Apps(server, list(map(len, answers)))
        apps.finish(COMPARE_S)
    finally:
        server.close()
    for app, failure in enumerate(apps.failures, 1):
        if failure is not None:
            raise ServerError(f"undisturbed, app {app}, {failure}")
    return sum(found != wanted for mine, others in zip(answers, apps.answers)
               for found, wanted in zip(mine, others))


