#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The monitor window on the bus and display it finds, with the demo model.

    check-monitor.py figures LLMCTL MONITOR…    shows what the bus says, and then that the service went
    check-monitor.py pages LLMCTL MONITOR…      what it shows where there are no figures; it starts nothing
    check-monitor.py picture PNG LLMCTL MONITOR…    takes the picture of the documentation
    check-monitor.py installed SOURCE           the files of the package name the same program

It reads what `--text` prints: every label of the window, and what stands for its pictures.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

import gi

gi.require_version("Gdk", "4.0")
from gi.repository import Gdk, Gio, GLib

PROMPT = "I want a restaurant in San Jose."


def ask_bus(method, *arguments):
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    reply = bus.call_sync("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus", method,
                          GLib.Variant("(s)", arguments), None, Gio.DBusCallFlags.NONE, -1, None)
    return reply.unpack()[0]


def is_running():
    return ask_bus("NameHasOwner", "org.llm.Service")


def get_property(interface, name):
    bus = Gio.bus_get_sync(Gio.BusType.SESSION, None)
    return bus.call_sync("org.llm.Service", "/org/llm/Service", "org.freedesktop.DBus.Properties", "Get",
                         GLib.Variant("(ss)", (interface, name)), None, Gio.DBusCallFlags.NONE, -1, None
                         ).unpack()[0]


class Window:
    """The program, and what it has printed so far."""

    def __init__(self, command, *options, **environment):
        self.process = subprocess.Popen([*command, "--text", *options], stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **environment})
        self.text = ""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.process.stdout.close()

    def read_until(self, *wanted):
        """Until one text has all of @wanted, regular expressions. Meson's limit ends it otherwise."""
        lines = []
        for line in self.process.stdout:
            if line != "\n":
                lines.append(line)
                continue
            self.text = "".join(lines)
            lines = []
            if all(re.search(expression, self.text, re.M) for expression in wanted):
                return self.text
        raise AssertionError(f"the window ended without {wanted}:\n{self.text}")


def make_contexts(llmctl):
    def run(*arguments):
        subprocess.run([llmctl, *arguments], check=True, capture_output=True)

    run("context", "new", "notes", "--system", "You are brief.")
    run("ask", "--context", "notes", "--max-tokens", "40", "--temperature", "0", "What can you help me with?")
    for prompt in (PROMPT, "Italian food, please.", "What is the address?"):
        run("ask", "--context", "restaurant", "--max-tokens", "60", "--temperature", "0", prompt)


def check_figures(llmctl, command):
    make_contexts(llmctl)
    with Window(command) as window:
        text = window.read_until(r"^notes$", r"^restaurant$", r"^Tokens per second: [0-9]",
                                 r"^\(without a name\)\n2\n0$")  # both contexts, no call under way
        assert get_property("org.llm.Service", "Availability") == "ready"
        assert re.search(r"^Memory pressure: none; held [0-9.]+\s[KMG]iB", text, re.M), text
        weights = GLib.format_size_full(get_property("org.llm.Service.Memory", "Weights"),
                                        GLib.FormatSizeFlags.IEC_UNITS)
        if f"weights\n{weights}\n" not in text:  # the kernel was asked again in between
            text = window.read_until(rf"^weights\n{re.escape(weights)}$")
        chunks = re.findall(r"^(notes|restaurant): (\d+) chunks?: (\d+) in memory, (\d+) in memory and on storage, "
                            r"(\d+) on storage, (\d+) only as text$", text, re.M)
        assert sorted(name for name, *_ in chunks) == ["notes", "restaurant"], text
        for _name, n, *places in chunks:
            assert int(n) > 0 and sum(map(int, places)) == int(n), chunks
        assert "llmsvc-demo-8M (in use)\n" in text and re.search(r"8\.1\sMiB", text), text
        assert re.search(r"^Level: the whole model$", text, re.M), text

        # a context of another application is not shown, its application is
        other = Gio.DBusConnection.new_for_address_sync(
            os.environ["DBUS_SESSION_BUS_ADDRESS"],
            Gio.DBusConnectionFlags.AUTHENTICATION_CLIENT | Gio.DBusConnectionFlags.MESSAGE_BUS_CONNECTION,
            None, None)
        for method, arguments in (("Register", GLib.Variant("(sa{sv})", ("org.example.Other", {}))),
                                  ("OpenContext", GLib.Variant("(sa{sv})", (
                                      "secret", {"create": GLib.Variant("b", True)})))):
            other.call_sync("org.llm.Service", "/org/llm/Service", "org.llm.Service", method, arguments, None,
                            Gio.DBusCallFlags.NONE, -1, None)
        text = window.read_until(r"^org\.example\.Other\n1$")
        assert "secret" not in text, text

        os.kill(ask_bus("GetConnectionUnixProcessID", "org.llm.Service"), signal.SIGTERM)
        text = window.read_until(r"^The service is not running$")
        assert "notes" not in text, text
    assert not is_running()


def check_pages(command):
    with Window(command) as window:
        text = window.read_until(r"^The service is not running$")
        assert "The first request of an application starts it." in text
    assert not is_running(), "the window has started the service"
    nothing = "unix:path=/nonexistent"
    with Window(command, DBUS_SESSION_BUS_ADDRESS=nothing, DBUS_SYSTEM_BUS_ADDRESS=nothing) as window:
        window.read_until(r"^No connection to the bus$|^The service is not installed$")


def take_picture(picture, llmctl, command):
    with subprocess.Popen([*command, "--screenshot", picture]) as window:
        while window.poll() is None:
            subprocess.run([llmctl, "ask", "--max-tokens", "200", PROMPT], check=True, capture_output=True)
    assert window.returncode == 0
    texture = Gdk.Texture.new_from_filename(picture)
    assert texture.get_width() >= 600 and texture.get_height() >= 600
    pixels = texture.save_to_tiff_bytes().get_data()
    assert len({pixels[i:i + 3] for i in range(0, len(pixels), 97)}) > 20, "the picture is next to empty"



def check_installed(source):
    folder = pathlib.Path(source) / "clients/monitor"
    program = (folder / "main.js").read_text(encoding="utf-8")
    app = re.search(r"const APP_ID = '(.+)'", program).group(1)
    desktop = (folder / f"{app}.desktop").read_text(encoding="utf-8")
    info = ElementTree.parse(folder / f"{app}.metainfo.xml").getroot()
    assert f"\nIcon={app}\n" in desktop and "\nExec=llmsvc-monitor\n" in desktop
    assert info.findtext("id") == app and info.findtext("launchable") == f"{app}.desktop"
    assert ElementTree.parse(folder / f"{app}.svg").getroot().get("viewBox") == "0 0 128 128"
    build = (folder / "meson.build").read_text(encoding="utf-8")
    modules = {path.name for path in folder.glob("*.js")}
    assert set(re.findall(r"'(\w+\.js)'", build)) == modules, "meson.build installs other modules"
    sources = [path.read_text(encoding="utf-8") for path in folder.glob("*.js")]
    assert sum(text.count("\n") for text in sources) <= 1500
    page = (pathlib.Path(source) / "docs/man/llmsvc-monitor.1.md").read_text(encoding="utf-8")
    options = set(re.findall(r"^        \['(\w+)', _\(", program, re.M)) | {"screenshot"}
    assert set(re.findall(r"^- `--(\w+)", page, re.M)) == options, "the man page has other options"


def main():
    kind, *arguments = sys.argv[1:]
    if kind == "figures":
        check_figures(arguments[0], arguments[1:])
        print("figures, then none")
    elif kind == "pages":
        check_pages(arguments[1:])
    elif kind == "picture":
        make_contexts(arguments[1])
        take_picture(*arguments[:2], arguments[2:])
    else:
        check_installed(arguments[0])


main()
