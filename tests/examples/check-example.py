#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs an example on the bus it finds and looks at what it does.

    check-example.py answer COMMAND…       with the demo model
    check-example.py interrupt COMMAND…    with tests/bindings/mock.json
    check-example.py fail COMMAND…         likewise
    check-example.py assistant COMMAND…    with tests/examples/tools.json
"""

import os
import signal
import subprocess
import sys

from gi.repository import Gio, GLib

PROMPT = "Find me a comedy movie."


def call(method, arguments):
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    return bus.call_sync("org.llm.Service", "/org/llm/Service", "org.llm.Service", method,
                         arguments, None, Gio.DBusCallFlags.NONE, 60000, None).unpack()


def check_answer(command):
    """It prints what the service answers to a plain call, and nothing else."""
    options = {"temperature": GLib.Variant("d", 0), "max-tokens": GLib.Variant("u", 64)}
    text, _results = call("Complete", GLib.Variant("(sa{sv})", (PROMPT, options)))
    assert len(text) > 20, text
    done = subprocess.run([*command, PROMPT], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, text + "\n", ""), done
    print(done.stdout)


def check_interrupt(command):
    """Ctrl-C in the middle of an answer stops it at the service as well."""
    with subprocess.Popen([*command, "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True) as program:
        first = program.stdout.read(len("One moment"))
        program.send_signal(signal.SIGINT)
        rest, message = program.communicate()
    assert (program.returncode, first, rest) == (1, "One moment", ""), (program, first, rest)
    assert message.strip() and "Traceback" not in message, message
    # The service hears of it by the end of the pipe, when it writes next; no time is promised.
    while call("GetStatistics", GLib.Variant("(a{sv})", ({},)))[0]["cancelled"] == 0:
        pass
    print(message)


def check_fail(command):
    """An error of the service is told, and shows in the exit status."""
    done = subprocess.run([*command, "fail"], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    assert "there is no room" in done.stderr and "Traceback" not in done.stderr, done
    print(done.stderr)


UPOWER = """<node><interface name="org.freedesktop.UPower.Device">
  <property name="Percentage" type="d" access="read"/></interface></node>"""
CALENDAR = """<node><interface name="org.gnome.Shell.CalendarServer">
  <method name="SetTimeRange"><arg type="x" direction="in"/><arg type="x" direction="in"/>
    <arg type="b" direction="in"/></method>
  <signal name="EventsAddedOrUpdated"><arg type="a(ssxxa{sv})"/></signal></interface></node>"""
CALENDAR_NAME = "org.gnome.Shell.CalendarServer"
CALENDAR_PATH = "/org/gnome/Shell/CalendarServer"
DAY_S = 86400


class Desktop:
    """UPower and the calendar as far as the examples ask them, on the bus it finds."""

    def __init__(self):
        self.reads, self.ranges = [], []
        self.bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
        self.own("org.freedesktop.UPower", "/org/freedesktop/UPower/devices/DisplayDevice", UPOWER,
                 None, self.read)
        self.own(CALENDAR_NAME, CALENDAR_PATH, CALENDAR, self.find_events, None)

    def own(self, name, path, interface, on_call, on_read):
        self.bus.register_object(path, Gio.DBusNodeInfo.new_for_xml(interface).interfaces[0],
                                 on_call, on_read, None)
        Gio.bus_own_name_on_connection(self.bus, name, Gio.BusNameOwnerFlags.NONE,
                                       lambda *_: None, lambda *_: None)

    def read(self, _bus, _sender, _path, _interface, name):
        self.reads.append(name)
        return GLib.Variant("d", 7)

    def find_events(self, _bus, _sender, _path, _interface, _method, arguments, invocation):
        since, until, _reload = arguments.unpack()
        self.ranges.append(until - since)
        invocation.return_value(None)
        # in two parts, behind the reply, as the desktop's calendar does
        for key, summary, start in (("a", "Dentist", since + 600), ("b", "Choir", since + 7200)):
            events = GLib.Variant("(a(ssxxa{sv}))", ([(key, summary, start, start + 60, {})],))
            self.bus.emit_signal(None, CALENDAR_PATH, CALENDAR_NAME, "EventsAddedOrUpdated", events)


def check_assistant(command):
    """The program asks the desktop because the model calls its functions, and says what the model makes of
    that."""
    desktop = Desktop()
    loop = GLib.MainLoop()
    done = []

    def on_done(program, result):
        done.append((program.communicate_utf8_finish(result), program.get_exit_status()))
        loop.quit()

    launcher = Gio.SubprocessLauncher.new(Gio.SubprocessFlags.STDOUT_PIPE
                                          | Gio.SubprocessFlags.STDERR_PIPE)
    launcher.setenv("DBUS_SYSTEM_BUS_ADDRESS", os.environ["DBUS_SESSION_BUS_ADDRESS"], True)
    program = launcher.spawnv(command)
    program.communicate_utf8_async(None, None, on_done)
    loop.run()
    (_ok, text, errors), status = done[0]
    assert (status, errors) == (0, ""), done
    assert text == "You see the dentist soon, and the battery is nearly empty.\n", text
    assert desktop.reads == ["Percentage"], desktop.reads
    assert desktop.ranges == [2 * DAY_S], desktop.ranges
    print(text)


CHECKS = {"answer": check_answer, "interrupt": check_interrupt, "fail": check_fail,
          "assistant": check_assistant}
CHECKS[sys.argv[1]](sys.argv[2:])
