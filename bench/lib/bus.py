# SPDX-License-Identifier: LGPL-2.1-or-later
"""The service on a private bus, calls to it, and answers that stream."""
import json
import os
import pathlib
import re
import select
import shutil
import tempfile
import time

import gi
gi.require_version("Gio", "2.0")
from gi.repository import Gio, GLib

from lib import process

NAME = "org.llm.Service"
PATH = "/org/llm/Service"
SERVICE = NAME
MEMORY = NAME + ".Memory"
CONTEXT = NAME + ".Context"
GENERATION = NAME + ".Generation"
ERROR = NAME + ".Error."
BUS = ("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")
PROPERTIES = "org.freedesktop.DBus.Properties"
NONE = {}
FOREVER = 0x7fffffff


class CallError(Exception):
    """A call that failed. name: of the error, without the service's prefix."""

    def __init__(self, name, message):
        super().__init__(f"{name}: {message}")
        self.name = name

    @classmethod
    def from_glib(cls, error):
        match = re.match(r"GDBus\.Error:([\w.]+): ?(.*)", error.message, re.DOTALL)
        name, text = match.groups() if match else (f"{error.domain} {error.code}", error.message)
        return cls(name.removeprefix(ERROR), text)


def option(kind, value):
    return GLib.Variant(kind, value)


def message(text):
    """The messages of a turn of the user."""
    return [("user", text, NONE)]


def greedy(n_tokens, **more):
    return {"temperature": option("d", 0.0), "max-tokens": option("u", n_tokens), **more}


def make_bias(tokens):
    """An option that lets no answer end early: @tokens never come."""
    return {"logit-bias": option("a{ud}", {token: -100.0 for token in tokens})}


class Connection:
    """A connection of its own to a bus, under @app_id if there is one. Any thread."""

    def __init__(self, address, app_id=None, timeout_ms=FOREVER):
        flags = Gio.DBusConnectionFlags
        self.timeout_ms = timeout_ms
        try:
            self.gio = Gio.DBusConnection.new_for_address_sync(
                address, flags.AUTHENTICATION_CLIENT | flags.MESSAGE_BUS_CONNECTION, None, None)
        except GLib.Error as error:
            raise CallError.from_glib(error) from None
        if app_id is not None:
            self.call(SERVICE, "Register", "(sa{sv})", app_id, NONE)

    def call(self, interface, method, kind=None, *arguments, path=PATH, name=NAME):
        """The reply as a tuple."""
        parameters = GLib.Variant(kind, arguments) if kind else None
        try:
            return self.gio.call_sync(name, path, interface, method, parameters, None,
                                      Gio.DBusCallFlags.NONE, self.timeout_ms, None).unpack()
        except GLib.Error as error:
            raise CallError.from_glib(error) from None

    def call_bus(self, method, kind=None, *arguments):
        name, path, interface = BUS
        return self.call(interface, method, kind, *arguments, path=path, name=name)[0]

    def get(self, interface, key, path=PATH):
        return self.call(PROPERTIES, "Get", "(ss)", interface, key, path=path)[0]

    def get_statistics(self):
        return self.call(SERVICE, "GetStatistics", "(a{sv})", NONE)[0]

    def find_levels(self):
        """Sub-models of the model in use below the whole one, in percent, rising. Loads it."""
        self.call(SERVICE, "Complete", "(sa{sv})", "Hello", greedy(1))
        info = self.get(NAME + ".Model", "Info", path=self.get(SERVICE, "ActiveModel"))
        return [int(level) for level in info.get("sub-models", ()) if int(level) < 100]

    def create_context(self):
        return self.call(SERVICE, "CreateContext", "(a{sv})", NONE)[0]

    def find_pid(self, name=NAME):
        """0: the name has no owner."""
        try:
            return self.call_bus("GetConnectionUnixProcessID", "(s)", name)
        except CallError:
            return 0

    def begin(self, context, said, options, streams):
        """Calls for an answer, and does not wait for the reply."""
        parameters = (GLib.Variant("(a(ssa{sv})a{sv})", (message(said), options)) if streams
                      else GLib.Variant("(sa{sv})", (said, options)))
        self.gio.call(NAME, context, CONTEXT, "Generate" if streams else "Ask", parameters, None,
                      Gio.DBusCallFlags.NONE, -1, None, None)
        self.gio.flush_sync(None)

    def close(self):
        try:
            self.gio.close_sync(None)
        except GLib.Error:
            pass


class Stream:
    """An answer that comes through a pipe, as lines or as text. One thread.

    text: so far. results: of its last line. failure: the error's name, failure_text what it says.
    first_s, last_s: when text came. n_lines: of text.
    """

    def __init__(self, connection, context, prompt, options, is_text=False):
        parameters = GLib.Variant("(a(ssa{sv})a{sv})", (message(prompt), options))
        try:
            reply, fds = connection.gio.call_with_unix_fd_list_sync(
                NAME, context, CONTEXT, "Generate", parameters, GLib.VariantType("(oh)"),
                Gio.DBusCallFlags.NONE, connection.timeout_ms, None, None)
            self.fd = fds.get(reply.unpack()[1])
        except GLib.Error as error:
            raise CallError.from_glib(error) from None
        self.generation = reply.unpack()[0]
        self.is_text = is_text
        self.rest = b""
        self.pieces = []
        self.results = self.failure = self.failure_text = None
        self.first_s = self.last_s = 0
        self.n_lines = 0
        self.has_ended = False

    @property
    def text(self):
        return "".join(self.pieces) if not self.is_text else self.rest.decode()

    def take(self, data):
        now = time.monotonic()
        self.rest += data
        if self.is_text:
            self.first_s, self.last_s = self.first_s or now, now
            return
        *lines, self.rest = self.rest.split(b"\n")
        for line in map(json.loads, lines):
            if "t" in line:
                self.pieces.append(line["t"])
                self.n_lines += 1
                self.first_s, self.last_s = self.first_s or now, now
            elif "done" in line and self.results is None:
                self.results = line["done"]
            elif "error" in line and self.failure is None:
                self.failure = line["error"]["name"].removeprefix(ERROR)
                self.failure_text = line["error"]["message"]

    def read_once(self):
        """Waits for something to come."""
        data = os.read(self.fd, 4096)
        self.has_ended = not data
        self.take(data)

    def read(self, until_s=None):
        """Takes what comes, until the end or @until_s (of time.monotonic())."""
        poll = select.poll()
        poll.register(self.fd, select.POLLIN)
        while not self.has_ended:
            left_ms = 1 if until_s is None else (until_s - time.monotonic()) * 1000
            if until_s is not None and (left_ms <= 0 or not poll.poll(left_ms)):
                return
            self.read_once()

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
        self.fd = -1

    def __del__(self):
        if getattr(self, "fd", -1) >= 0:
            os.close(self.fd)


class PrivateBus:
    """A bus of its own that starts @daemon with @model when it is called. Main thread.

    config: text of a configuration. cache: folder of prepared weights, if it is to outlive the bus.
    groups: files cgroup.procs that the daemon enters.
    """

    def __init__(self, daemon, model, config=None, cache=None, groups=()):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmsvc-bench-"))
        self.state = self.folder / "state"
        words = process.make_command(groups, ends="by itself") if groups else []
        words += ["/usr/bin/env", f"CACHE_DIRECTORY={cache or self.folder / 'cache'}"]
        if config is not None:
            (self.folder / "llmsvc.conf").write_text(config)
            words.append(f"LLMSVC_CONFIG={self.folder / 'llmsvc.conf'}")
        words += [os.path.abspath(daemon), "--model", os.path.abspath(model), "--state-dir",
                  self.state]
        command = " ".join(f'"{word}"' for word in words)
        (self.folder / f"{NAME}.service").write_text(
            f"[D-BUS Service]\nName={NAME}\nExec={command}\n")
        self.dbus = Gio.TestDBus.new(Gio.TestDBusFlags.NONE)
        self.dbus.add_service_dir(str(self.folder))
        self.dbus.up()
        self.address = self.dbus.get_bus_address()
        self.connection = Connection(self.address)

    def find_daemon(self):
        return self.connection.find_pid()

    def close(self):
        process.stop(self.find_daemon())
        self.connection.close()
        self.dbus.down()
        shutil.rmtree(self.folder, ignore_errors=True)
