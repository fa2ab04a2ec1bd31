# SPDX-License-Identifier: LGPL-2.1-or-later
"""A language model's server under a storm: the service on a private bus, or another program."""
import os
import pathlib
import signal
import sys
import time

from lib import bus, process
from lib.bus import Gio
from lib.peer import Peer, PeerError
from storm.plan import N_ANSWER, N_APPS

# What a server writes, in its folder.
LOG = "log"
# The highest there is: when the kernel has to kill, it is the server, never the eater.
VICTIM_SCORE = 1000
MAX_LINES = 20
START_S = 60


class ServerError(Exception):
    """A server that did not start, or an answer that did not come."""


class Setup:
    """How a server starts. folder: for what it keeps; empty. group: None for no limits."""

    def __init__(self, program, model, folder, threads, group):
        self.program, self.model, self.threads = program, str(model), threads
        self.folder = pathlib.Path(folder)
        self.group = group

    def get_spawn_options(self):
        groups = self.group.procs["server"] if self.group else []
        return {"log": self.folder / LOG, "groups": list(map(str, groups)),
                "score": VICTIM_SCORE if self.group else None}


class Server:
    """process: a child. ask() comes from one thread for each app."""

    def is_alive(self):
        return self.process.poll() is None

    def describe_end(self, folder):
        """How one that is gone ended, and what it wrote last."""
        lines = pathlib.Path(folder, LOG).read_text(errors="replace").splitlines()[-MAX_LINES:]
        status = self.process.poll()
        how = (f"ended by signal {-status} ({signal.strsignal(-status)})" if status < 0 else
               f"ended with status {status}")
        return f"{how}; it said last:\n" + "\n".join(lines)


class Service(Server):
    """The real program on a private bus, a connection for each app."""

    def __init__(self, setup, plan):
        self.plan = plan
        folder = setup.folder
        config = folder / "llmsvc.conf"
        # With all bits of the KV cache, so that answers can be compared word for word.
        config.write_text(f"[service]\nbudget={plan.budget}\nthreads={setup.threads or 0}\n"
                          "[contexts]\nratio=off\n")
        self.options = bus.greedy(N_ANSWER, **bus.make_bias([plan.eos] if plan.eos >= 0 else []))
        self.contexts = [None] * N_APPS
        self.dbus = Gio.TestDBus.new(Gio.TestDBusFlags.NONE)
        self.dbus.up()
        address = self.dbus.get_bus_address()
        self.connections = [bus.Connection(address) for _ in range(N_APPS)]
        env = {"G_MESSAGES_DEBUG": "llm-governor llm-engine", **os.environ,
               "CACHE_DIRECTORY": str(folder / "cache"), "DBUS_SESSION_BUS_ADDRESS": address}
        self.process = process.spawn_program(
            [os.path.abspath(setup.program), "--session", "--config", str(config), "--model",
             setup.model, "--state-dir", str(folder / "state")], env=env,
            **setup.get_spawn_options())
        try:
            self.await_name()
            for i, connection in enumerate(self.connections, 1):
                connection.call(bus.SERVICE, "Register", "(sa{sv})", f"org.example.Storm{i}",
                                bus.NONE)
        except (ServerError, bus.CallError) as error:
            self.close()
            raise ServerError(str(error)) from None
        if setup.group:
            print("llmsvc-bench: the service can be looked at with "
                  f"DBUS_SESSION_BUS_ADDRESS={address}", file=sys.stderr)

    def await_name(self):
        until = time.monotonic() + START_S
        while self.is_alive() and time.monotonic() < until:
            if self.connections[0].call_bus("NameHasOwner", "(s)", bus.NAME):
                return
            time.sleep(0.02)
        raise ServerError("the service did not start")

    def ask(self, app, turn, count):
        """An answer, greedy. count(n): as tokens come."""
        connection = self.connections[app]
        place = self.plan.get_place(turn)
        try:
            if turn == 0:
                self.contexts[app] = connection.create_context()
            elif place == 1 and turn > 1:
                connection.call(bus.CONTEXT, "Rollback", "(ua{sv})", self.plan.n_turns, bus.NONE,
                                path=self.contexts[app])
            stream = bus.Stream(connection, self.contexts[app], self.plan.texts[app][place][0],
                                self.options)
        except bus.CallError as error:
            raise ServerError(str(error)) from None
        n_counted = 0
        while not stream.has_ended:
            stream.read_once()
            count(stream.n_lines - n_counted)
            n_counted = stream.n_lines
        if stream.failure is not None:
            raise ServerError(f"{stream.failure}: {stream.failure_text}")
        if stream.results is None:
            raise ServerError("the stream ended before the answer did")
        # A line may hold more than a token.
        count(max(stream.results.get("output-tokens", 0) - n_counted, 0))
        return stream.text

    def close(self):
        process.end(self.process)
        for connection in self.connections:
            connection.close()
        self.dbus.down()


class Other(Server):
    """A program with the interface of llama-server, a slot for each app."""

    def __init__(self, setup, plan):
        self.plan = plan
        try:
            self.peer = Peer(setup.program, setup.model, N_APPS, N_APPS * plan.n_ctx, setup.threads,
                             **setup.get_spawn_options())
        except (PeerError, OSError) as error:
            raise ServerError(str(error)) from None
        self.process = self.peer.process

    def ask(self, app, turn, count):
        """The context so far is sent each time and found again in the slot. Which tokens the
        answers had is not told, so a text of their length stands for each."""
        place = self.plan.get_place(turn)
        prompt = list(self.plan.texts[app][0][1])
        for i in range(1, place + 1):
            prompt += self.plan.filler[1] + self.plan.texts[app][i][1]
        n_events = 0

        def on_piece(_):
            nonlocal n_events
            n_events += 1
            count(1)

        try:
            last = self.peer.ask({"prompt": prompt, "n_predict": N_ANSWER, "id_slot": app,
                                  "cache_prompt": True}, on_piece)
        except PeerError as error:
            raise ServerError(str(error)) from None
        count(max(last.get("tokens_predicted", 0) - n_events, 0))
        return ""

    def close(self):
        self.peer.close()
