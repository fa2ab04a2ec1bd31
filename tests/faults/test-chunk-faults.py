#!/usr/bin/python3
# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service is killed at random moments while chunks of contexts are packed, written and read
back, and what lies on storage is damaged between two lives of it.

Whatever happens there: every acknowledged turn is found again, each context goes on with its
text, and no file of a context stays behind that nobody will use. Without compression
(`exact`) the answers must be those of an undisturbed service, word for word; with it (`packed`)
an answer may differ where a chunk came back computed anew, that is with other bits, but rarely.

Usage: test-chunk-faults.py exact|packed [ROUNDS [SEED]]
"""
import os
import pathlib
import random
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "llmctl"))

import gi  # noqa: E402

gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib  # noqa: E402

from rig import LIMIT_S, Rig  # noqa: E402

N_CONTEXTS = 6
MAX_TURNS = 9
# Of the answers asked with packed contexts, this part must equal the undisturbed ones.
MIN_EQUAL = 0.7

FACTS = ["The meeting is at nine in room four.", "I want to fly to Lisbon on Friday.",
         "Please book a table for six people tonight.", "My sister lives in Portland, Oregon.",
         "The doctor wants to see me next Tuesday.", "I am looking for an action movie.",
         "The rent is eight hundred dollars a month.", "We need two rooms for three nights."]
QUESTION = "What did I ask for, and when is it?"


def make_text(random_source):
    """Some sentences: enough tokens that a turn fills several chunks."""
    return " ".join(random_source.choice(FACTS) for _ in range(random_source.randint(2, 8)))


class Service:
    """One that can be killed, and its contexts as calls on the bus."""

    def __init__(self, settings):
        self.rig = Rig(activatable=True)
        (self.rig.folder / "llmsvc.conf").write_text(settings)
        self.chunks = self.rig.folder / "state" / "chunks"
        self.connect()

    def connect(self):
        self.bus = Gio.DBusConnection.new_for_address_sync(
            self.rig.environment["DBUS_SESSION_BUS_ADDRESS"],
            Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT |
            Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION, None, None)
        self.bus.set_exit_on_close(False)

    def call(self, path, interface, method, arguments, reply=None):
        return self.bus.call_sync("org.llm.Service", path, interface, method, arguments,
                                  reply and GLib.VariantType(reply), Gio.DBusCallFlags.NONE,
                                  LIMIT_S * 1000, None)

    def open(self, name):
        path = "/org/llm/Service"
        try:
            reply = self.call(path, "org.llm.Service", "OpenContext",
                              GLib.Variant("(sa{sv})", (name, {})))
        except GLib.Error as error:
            if "NotFound" not in Gio.dbus_error_get_remote_error(error):
                raise
            reply = self.call(path, "org.llm.Service", "CreateContext",
                              GLib.Variant("(a{sv})", ({"name": GLib.Variant("s", name)},)))
        return reply.unpack()[0]

    def get_revision(self, path):
        return self.call(path, "org.freedesktop.DBus.Properties", "Get",
                         GLib.Variant("(ss)", ("org.llm.Service.Context", "Revision"))).unpack()[0]

    def get_messages(self, path):
        reply = self.call(path, "org.llm.Service.Context", "GetMessages",
                          GLib.Variant("(uua{sv})", (0, 0, {})))
        return [(role, text) for role, text, _ in reply.unpack()[0]]

    def start_ask(self, path, prompt):
        """The answer comes in the list that is returned: (text, error)."""
        options = {"max-tokens": GLib.Variant("u", 12), "temperature": GLib.Variant("d", 0.0)}
        answers = []

        def on_asked(bus, result):
            try:
                answers.append((bus.call_finish(result).unpack()[0], None))
            except GLib.Error as error:
                answers.append((None, error))

        self.bus.call("org.llm.Service", path, "org.llm.Service.Context", "Ask",
                      GLib.Variant("(sa{sv})", (prompt, options)), None,
                      Gio.DBusCallFlags.NONE, LIMIT_S * 1000, None, on_asked)
        return answers

    def ask(self, path, prompt):
        answers = self.start_ask(path, prompt)
        while not answers:
            GLib.MainContext.default().iteration(True)
        text, error = answers[0]
        if error is not None:
            raise error
        return text

    def rollback(self, path):
        self.call(path, "org.llm.Service.Context", "Rollback",
                  GLib.Variant("(ua{sv})", (1, {})))

    def close_context(self, path):
        self.call(path, "org.llm.Service.Context", "Close", GLib.Variant("(a{sv})", ({},)))

    def kill(self):
        """SIGKILL; FALSE when it was not running."""
        pid = self.rig.get_pid()
        if pid == 0:
            return False
        os.kill(pid, signal.SIGKILL)
        deadline = time.monotonic() + LIMIT_S
        while self.rig.get_pid() == pid:
            assert time.monotonic() < deadline, "a killed service still has its name"
            time.sleep(0.001)
        return True

    def list_files(self):
        return sorted(p for p in self.chunks.rglob("*") if p.is_file() and not p.is_symlink())

    def list_contexts_files(self):
        """Not what is remembered of models, beside their folders."""
        return [p for p in self.list_files() if p.parent != self.chunks]


def spin(seconds):
    """Lets answers come for a while."""
    context = GLib.MainContext.default()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        while context.pending():
            context.iteration(False)
        time.sleep(0.0005)


def damage(service, random_source):
    """One of the things that happen to files; FALSE when there was none."""
    files = service.list_files()
    if not files:
        return False
    path = random_source.choice(files)
    size = path.stat().st_size
    kind = random_source.choice(["flip", "flip", "zero", "cut", "empty", "remove", "swap", "stray"])
    if kind in ("flip", "zero") and size > 0:
        with open(path, "r+b") as file:
            for _ in range(random_source.randint(1, 4)):
                at = random_source.randrange(size)
                file.seek(at)
                old = file.read(1)
                file.seek(at)
                file.write(bytes([old[0] ^ 1 << random_source.randrange(8)])
                           if kind == "flip" else bytes(min(4096, size - at)))
    elif kind == "cut":
        os.truncate(path, random_source.randrange(size + 1))
    elif kind == "empty":
        os.truncate(path, 0)
    elif kind == "remove":
        path.unlink()
    elif kind == "swap":
        other = random_source.choice(files)
        first, second = path.read_bytes(), other.read_bytes()
        path.write_bytes(second)
        other.write_bytes(first)
    else:
        stray = path.with_name(path.name + ".part")
        stray.write_bytes(b"left behind")
    return True


class Talk:
    """What is known of one context: the turns that were acknowledged."""

    def __init__(self, name):
        self.name = name
        self.turns = []     # (prompt, answer)
        self.unsure = None  # a prompt whose answer did not come

    def get_messages(self):
        return [message for prompt, answer in self.turns
                for message in (("user", prompt), ("assistant", answer))]


def check_turns(service, talk):
    """Acknowledged turns are there; the one that was under way is there whole or not at all."""
    path = service.open(talk.name)
    messages = [m for m in service.get_messages(path) if m[0] != "system"]
    expected = talk.get_messages()
    assert messages[:len(expected)] == expected, \
        f"{talk.name}: acknowledged turns are gone or changed"
    rest = messages[len(expected):]
    if rest:
        assert talk.unsure is not None and len(rest) == 2 and rest[0] == ("user", talk.unsure), \
            f"{talk.name}: {rest} were never said"
        talk.turns.append((talk.unsure, rest[1][1]))
    talk.unsure = None
    return path


class Comparison:
    """The same said to a service that nothing happens to."""

    def __init__(self, service, is_exact):
        self.service = service
        self.is_exact = is_exact
        self.n_asked = self.n_equal = 0

    def count(self, there, here):
        self.n_asked += 1
        self.n_equal += there == here
        assert there == here or not self.is_exact, f"{there!r}, and undisturbed {here!r}"

    def follow(self, talk):
        """Says what the talk has and the undisturbed context has not; FALSE when they differ."""
        path = self.service.open(talk.name)
        messages = [m for m in self.service.get_messages(path) if m[0] != "system"]
        for prompt, answer in talk.turns[len(messages) // 2:]:
            here = self.service.ask(path, prompt)
            self.count(answer, here)
            messages += [("user", prompt), ("assistant", here)]
        return messages == talk.get_messages()

    def ask(self, talk, prompt, there):
        path = self.service.open(talk.name)
        self.count(there, self.service.ask(path, prompt))
        self.service.rollback(path)

    def close(self, talk):
        self.service.close_context(self.service.open(talk.name))


def run(mode, n_rounds, seed):
    random_source = random.Random(seed)
    settings = "[contexts]\nratio=off\n" if mode == "exact" else ""
    service = Service(settings)
    calm = Comparison(Service(settings), mode == "exact")
    talks = [Talk(f"talk-{i}") for i in range(N_CONTEXTS)]
    n_kills = n_damaged = n_cut = 0

    try:
        for _ in range(n_rounds):
            talk = random_source.choice(talks)
            path = check_turns(service, talk)
            if not calm.follow(talk) or len(talk.turns) >= MAX_TURNS:
                service.close_context(path)
                calm.close(talk)
                talk.turns.clear()
                path = service.open(talk.name)
            elif talk.turns and random_source.random() < 0.4:
                calm.ask(talk, QUESTION, service.ask(path, QUESTION))
                service.rollback(path)

            # A turn, and the end of the service somewhere in it or in what it does afterwards.
            talk.unsure = make_text(random_source)
            answers = service.start_ask(path, talk.unsure)
            if random_source.random() < 0.5:
                spin(random_source.random() ** 2 * 0.15)
            else:
                while not answers:
                    GLib.MainContext.default().iteration(True)
                spin(random_source.random() ** 2 * 0.1)
            n_cut += not answers
            n_kills += service.kill()
            while not answers:
                GLib.MainContext.default().iteration(True)
            if answers[0][1] is None:
                talk.turns.append((talk.unsure, answers[0][0]))
                talk.unsure = None
            while random_source.random() < 0.4:
                n_damaged += damage(service, random_source)

        # Nothing of the dead is left when all contexts are gone.
        for talk in talks:
            path = check_turns(service, talk)
            service.ask(path, QUESTION)
            service.close_context(path)
        spin(0.5)
        service.kill()
        service.call("/org/llm/Service", "org.llm.Service", "ListContexts",
                     GLib.Variant("(a{sv})", ({},)))
        deadline = time.monotonic() + LIMIT_S
        while service.list_contexts_files() and time.monotonic() < deadline:
            time.sleep(0.05)
        left = service.list_contexts_files()
        assert not left, f"files of contexts that are gone: {left}"
    finally:
        service.rig.close()
        calm.service.rig.close()

    print(f"{mode}: {n_rounds} rounds, {n_kills} kills ({n_cut} within an answer), {n_damaged} "
          f"damages, {calm.n_equal} of {calm.n_asked} answers as undisturbed")
    assert n_kills >= n_rounds * 0.9
    assert calm.n_asked > 0 and calm.n_equal >= MIN_EQUAL * calm.n_asked


if __name__ == "__main__":
    run(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 40,
        int(sys.argv[3]) if len(sys.argv) > 3 else 20261121)
