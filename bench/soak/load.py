# SPDX-License-Identifier: LGPL-2.1-or-later
"""The load of a soak: many applications, each a thread with its own connection and contexts."""
import math
import threading
import time

from soak.app import LOSSES, OPERATIONS, App

MAX_COMPLAINTS = 20
# However busy the machine is, a call that takes longer is lost somewhere.
MAX_CALL_S = 90
# Whatever it is, it is a complaint: a thread that ends would be waited for.
FAILURES = Exception


class Load:
    """Made, paused and asked by the main thread. Starts the applications; each makes its contexts
    first."""

    def __init__(self, options, address):
        self.options = options
        self.address = address
        self.seed = options.seed
        self.n_contexts = options.contexts // options.apps
        self.counts = {name: 0 for name, _, _ in OPERATIONS}
        self.ending = threading.Event()
        self.changed = threading.Condition()
        # Guarded by changed.
        self.n_active = 0       # applications with a call under way
        self.is_paused = self.expects_loss = False
        self.epoch = 0          # grows with each service that is expected
        self.n_compared = self.n_reopened = 0
        self.n_tokens = self.n_turns = self.n_refused = self.n_complaints = 0
        self.complaints = []
        self.apps = [App(self, i) for i in range(options.apps)]
        self.threads = [threading.Thread(target=self.run, args=(app,)) for app in self.apps]
        for thread in self.threads:
            thread.start()

    # --- for the applications ---

    def add(self, **numbers):
        with self.changed:
            for name, number in numbers.items():
                setattr(self, name, getattr(self, name) + number)
            self.changed.notify_all()

    def count(self, name):
        with self.changed:
            self.counts[name] += 1

    def complain(self, app, text):
        with self.changed:
            self.n_complaints += 1
            if len(self.complaints) < MAX_COMPLAINTS:
                self.complaints.append(f"{app.id}, call {app.n_calls}: {text}")

    def is_lost(self, error):
        """Whether the service being gone is what is expected."""
        with self.changed:
            return self.expects_loss and getattr(error, "name", None) in LOSSES

    def begin_call(self):
        """Waits until a call may begin. Of which service it is; None at the end."""
        with self.changed:
            self.changed.wait_for(lambda: not self.is_paused or self.ending.is_set())
            if self.ending.is_set():
                return None
            self.n_active += 1
            return self.epoch

    def think(self, app):
        share = -math.log(1 - app.random.get())
        self.ending.wait(min(share, 5) * self.options.think / 1000)

    def open_again(self, app):
        try:
            app.open()
            for slot in app.slots:
                if slot.name is not None:
                    self.try_compare(app, slot, "after a restart")
                    self.add(n_compared=1)
        except FAILURES as error:
            self.complain(app, f"can't open its contexts after a restart: {error}")
        self.add(n_reopened=1)

    def try_compare(self, app, slot, when):
        try:
            app.compare(slot)
        except FAILURES as error:
            self.complain(app, f"{when}: {error}")

    def run(self, app):
        epoch = 0
        try:
            app.open()
        except FAILURES as error:
            self.complain(app, f"can't begin: {error}")
        while (epoch_now := self.begin_call()) is not None:
            if epoch != epoch_now:
                self.open_again(app)
            epoch = epoch_now
            failure = None
            app.n_calls += 1
            begin = time.monotonic()
            try:
                app.act()
            except FAILURES as error:
                failure = error
            if time.monotonic() - begin > MAX_CALL_S:
                self.complain(app, f"took {time.monotonic() - begin:.0f} s")
            is_lost = failure is not None and self.is_lost(failure)
            self.add(n_active=-1)
            if is_lost:
                with self.changed:
                    self.changed.wait_for(lambda: self.epoch != epoch or
                                          self.ending.is_set())
                continue
            if failure is not None:
                self.complain(app, str(failure))
            self.think(app)

    # --- for the main thread ---

    def close(self):
        """Ends the applications after the call that each is at."""
        with self.changed:
            self.ending.set()
            self.changed.notify_all()
        for thread in self.threads:
            thread.join()
        for app in self.apps:
            if app.connection is not None:
                app.connection.close()

    def pause(self):
        """Returns when no application has a call under way; none begins one until go_on()."""
        with self.changed:
            self.is_paused = True
            self.changed.wait_for(lambda: self.n_active == 0)

    def go_on(self):
        with self.changed:
            self.is_paused = False
            self.changed.notify_all()

    def expect_loss(self):
        """Calls that fail because the service is gone are no complaints from now on; applications
        wait, with their contexts in doubt, until reopen()."""
        with self.changed:
            self.expects_loss = True

    def reopen(self):
        """All connect anew and compare their named contexts; the load goes on afterwards. Returns
        the number of contexts compared."""
        # Who thinks, or waits to begin, has not noticed; all others have.
        self.pause()
        with self.changed:
            self.n_compared = self.n_reopened = 0
            self.epoch += 1
            self.expects_loss = self.is_paused = False
            self.changed.notify_all()
            self.changed.wait_for(lambda: self.n_reopened == len(self.apps))
            return self.n_compared

    def compare(self):
        """Compares all contexts; the load must be paused. Returns their number."""
        slots = [(app, slot) for app in self.apps for slot in app.slots if slot.path is not None]
        for app, slot in slots:
            self.try_compare(app, slot, "at the end")
        return len(slots)
