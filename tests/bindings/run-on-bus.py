#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Runs a program on a private session bus that starts the real service.

    run-on-bus.py [--display] LLMSVCD MODEL COMMAND…

MODEL is a model file, or a script (*.json) for llmsvcd --mock. The service has its files in a
temporary folder, which is gone afterwards like the bus and the service. With --display there is
an X server without a screen, too.
"""

import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
  "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <keep_umask/>
  <listen>unix:path={folder}/bus</listen>
  <auth>EXTERNAL</auth>
  <servicedir>{folder}</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""
SERVICE = """[D-BUS Service]
Name=org.llm.Service
Exec="{daemon}" --session --config "{folder}/llmsvc.conf" --state-dir "{folder}/state" \
{what} "{model}"
"""


def end_service():
    """SIGTERM to the service, and waits until it is gone: its folder is about to go."""
    def ask(method, arguments):
        done = subprocess.run(
            ["gdbus", "call", "--session", "--dest", "org.freedesktop.DBus", "--object-path",
             "/org/freedesktop/DBus", "--method", f"org.freedesktop.DBus.{method}", arguments],
            capture_output=True, text=True, check=False)
        return done.stdout.strip("(), \n") if done.returncode == 0 else ""

    pid = ask("GetConnectionUnixProcessID", "org.llm.Service").replace("uint32 ", "")
    if not pid:
        return
    os.kill(int(pid), signal.SIGTERM)
    stat = pathlib.Path(f"/proc/{pid}/stat")
    while True:
        try:
            if stat.read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] in "ZX":
                return
        except (FileNotFoundError, ProcessLookupError):
            return
        time.sleep(0.005)


def run_inside(command):
    try:
        return subprocess.run(command, check=False).returncode
    finally:
        end_service()


def start_display():
    """Xvfb takes a free number and says which."""
    reader, writer = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(writer), "-screen", "0", "1024x768x24", "-nolisten", "tcp"],
        pass_fds=[writer], stderr=subprocess.DEVNULL)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        number = pipe.readline().strip()
    if not number:
        sys.exit("run-on-bus: Xvfb does not start")
    return server, f":{number}"


def main():
    arguments = sys.argv[1:]
    if arguments and arguments[0] == "--inside":
        return run_inside(arguments[1:])
    has_display = arguments[:1] == ["--display"]
    if has_display:
        del arguments[0]
    if len(arguments) < 3:
        sys.exit(__doc__)
    # Ended for taking too long: the folder goes all the same.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    daemon, model, *command = arguments
    server = None

    with tempfile.TemporaryDirectory(prefix="llmsvc-test-") as name:
        folder = pathlib.Path(name)
        what = "--mock" if model.endswith(".json") else "--model"
        (folder / "bus.conf").write_text(BUS.format(folder=folder), encoding="utf-8")
        (folder / "llmsvc.conf").write_text("", encoding="utf-8")
        (folder / "org.llm.Service.service").write_text(
            SERVICE.format(daemon=daemon, folder=folder, what=what, model=model), encoding="utf-8")
        environment = dict(
            os.environ,
            DBUS_SYSTEM_BUS_ADDRESS=f"unix:path={folder}/no-system-bus",
            G_DEBUG="fatal-warnings",
            GDK_BACKEND="x11",
            GSK_RENDERER="cairo",
            GTK_A11Y="none",
            HOME=name,
            LC_ALL="C.UTF-8",
            XDG_CACHE_HOME=f"{name}/cache",
            XDG_CONFIG_HOME=f"{name}/config",
            XDG_DATA_HOME=f"{name}/data",
            XDG_RUNTIME_DIR=name,
        )
        try:
            if has_display:
                server, environment["DISPLAY"] = start_display()
            return subprocess.run(
                ["dbus-run-session", f"--config-file={folder}/bus.conf", "--",
                 sys.executable, "-B", __file__, "--inside", *command],
                env=environment, check=False).returncode
        finally:
            if server is not None:
                server.terminate()
                server.wait()


sys.exit(main())
