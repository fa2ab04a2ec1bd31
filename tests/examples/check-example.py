#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs an example on the bus it finds and looks at what it does.

    check-example.py answer COMMAND…       with the demo model
    check-example.py interrupt COMMAND…    with tests/bindings/mock.json
    check-example.py fail COMMAND…         likewise
    check-example.py battery COMMAND…      with tests/examples/tools.json
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


def check_battery(command):
    """The program reads the battery because the model asks for it, and says what comes of it."""
    reads = []
    loop = GLib.MainLoop()
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)

    def read(_bus, _sender, _path, _interface, name):
        reads.append(name)
        return GLib.Variant("d", 7)

    def on_done(program, result):
        done.append((program.communicate_utf8_finish(result), program.get_exit_status()))
        loop.quit()

    done = []
    bus.register_object("/org/freedesktop/UPower/devices/DisplayDevice",
                        Gio.DBusNodeInfo.new_for_xml(UPOWER).interfaces[0], None, read, None)
    Gio.bus_own_name_on_connection(bus, "org.freedesktop.UPower", Gio.BusNameOwnerFlags.NONE,
                                   lambda *_: None, lambda *_: None)
    launcher = Gio.SubprocessLauncher.new(Gio.SubprocessFlags.STDOUT_PIPE
                                          | Gio.SubprocessFlags.STDERR_PIPE)
    launcher.setenv("DBUS_SYSTEM_BUS_ADDRESS", os.environ["DBUS_SESSION_BUS_ADDRESS"], True)
    program = launcher.spawnv(command)
    program.communicate_utf8_async(None, None, on_done)
    loop.run()
    (_ok, text, errors), status = done[0]
    assert (status, text, errors) == (0, "The battery is nearly empty.\n", ""), done
    assert reads == ["Percentage"], reads
    print(text)


CHECKS = {"answer": check_answer, "interrupt": check_interrupt, "fail": check_fail,
          "battery": check_battery}
CHECKS[sys.argv[1]](sys.argv[2:])
