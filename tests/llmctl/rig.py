# SPDX-License-Identifier: LGPL-2.1-or-later
"""The real llmsvcd on a private bus, and llmctl against it: as a process and on a terminal.

The environment names the programs: LLMCTL, LLM_DAEMON, LLM_TOOL, LLM_MODEL_DIR. Waiting has
limits for what would hang, and nothing here says how fast anything is.
"""
import fcntl
import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time

LLMCTL = os.environ["LLMCTL"]
DAEMON = os.environ["LLM_DAEMON"]
TOOL = os.environ["LLM_TOOL"]
MODEL = os.path.join(os.environ["LLM_MODEL_DIR"], "llmsvc-demo-8M-Q8_0.gguf")
COMPANION = os.path.join(os.environ["LLM_MODEL_DIR"], "companion", "llmsvc-demo-8M-Q8_0.llmsvc.gguf")
LIMIT_S = 120

BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>session</type>
  <listen>unix:tmpdir={folder}</listen>
  <servicedir>{folder}/services</servicedir>
  <policy context="default">
    <allow send_destination="*" eavesdrop="true"/>
    <allow eavesdrop="true"/>
    <allow own="*"/>
  </policy>
</busconfig>
"""


class Rig:
    """A bus with a service that answers from a script, or with the demo model, or as it is installed, with
    its companion; with `systemd` that starts what the bus is to start."""

    def __init__(self, script=None, activatable=False, systemd=False, has_companion=False):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="llmctl-test-"))
        self.home = self.folder / "home"
        self.home.mkdir()
        (self.folder / "services").mkdir()
        (self.folder / "bus.conf").write_text(BUS_CONFIG.format(folder=self.folder))
        (self.folder / "llmsvc.conf").write_text("")
        self.daemon = None
        self.command = [DAEMON, "--session", "--config", str(self.folder / "llmsvc.conf"),
                        "--state-dir", str(self.folder / "state")]
        if script is not None:
            path = self.folder / "script.json"
            path.write_text(json.dumps(dict(script, version=1)))
            self.command += ["--mock", str(path)]
        else:
            self.command += ["--model", self.link_model() if has_companion else MODEL]
        if activatable:
            (self.folder / "services" / "org.llm.Service.service").write_text(
                "[D-BUS Service]\nName=org.llm.Service\nExec=" +
                " ".join(f'"{word}"' for word in self.command) + "\n" +
                ("SystemdService=llmsvc.service\n" if systemd else ""))

        self.bus_log = self.folder / "bus.log"
        with open(self.bus_log, "wb") as log:
            self.bus = subprocess.Popen(
                ["dbus-daemon", "--config-file", str(self.folder / "bus.conf"), "--nofork",
                 "--print-address=1", *(["--systemd-activation"] if systemd else [])], stdout=subprocess.PIPE, stderr=log, text=True,
                env=dict(os.environ, G_DEBUG="fatal-criticals"))
        self.environment = dict(
            os.environ, DBUS_SESSION_BUS_ADDRESS=self.bus.stdout.readline().strip(),
            DBUS_SYSTEM_BUS_ADDRESS="unix:path=/nonexistent/bus", HOME=str(self.home),
            XDG_STATE_HOME=str(self.home / "state"), LC_ALL="C.UTF-8", LANGUAGE="",
            PATH=os.path.dirname(TOOL) + os.pathsep + os.environ["PATH"])
        for name in ("NO_COLOR", "INPUTRC"):
            self.environment.pop(name, None)
        if not activatable:
            self.start()

    def link_model(self):
        for path in (MODEL, COMPANION):
            (self.folder / os.path.basename(path)).symlink_to(path)
        return str(self.folder / os.path.basename(MODEL))

    def start(self):
        self.daemon = subprocess.Popen(
            self.command, env=dict(self.environment, G_DEBUG="fatal-criticals"),
            stderr=subprocess.DEVNULL)
        subprocess.run(["gdbus", "wait", "--session", "--timeout", str(LIMIT_S),
                        "org.llm.Service"], env=self.environment, check=True)

    def stop(self, by=signal.SIGTERM):
        """Ends the service, in order unless a signal says otherwise."""
        if self.daemon is not None:
            self.daemon.send_signal(by)
            self.daemon.wait(LIMIT_S)
            self.daemon = None

    def close(self):
        self.stop()
        pid = self.get_pid()
        if pid:
            os.kill(pid, signal.SIGTERM)
        self.bus.terminate()
        self.bus.wait(LIMIT_S)
        self.bus.stdout.close()
        # One that the bus started writes its files until it is gone.
        while pid and os.path.exists(f"/proc/{pid}") and not is_zombie(pid):
            time.sleep(0.01)
        shutil.rmtree(self.folder)

    def get_pid(self):
        """The process of the service, 0 for none."""
        done = subprocess.run(
            ["gdbus", "call", "--session", "--dest", "org.freedesktop.DBus", "--object-path",
             "/org/freedesktop/DBus", "--method",
             "org.freedesktop.DBus.GetConnectionUnixProcessID", "org.llm.Service"],
            env=self.environment, capture_output=True, text=True, check=False)
        found = re.search(r"uint32 (\d+)", done.stdout)
        return int(found.group(1)) if found else 0

    def run(self, *arguments, input=None, **environment):
        """llmctl in a pipe; `input` None is an empty standard input."""
        data = None if input is None else input if isinstance(input, bytes) else input.encode()
        done = subprocess.run(
            [LLMCTL, *arguments], input=data,
            stdin=subprocess.DEVNULL if data is None else None,
            capture_output=True, env=dict(self.environment, **environment), timeout=LIMIT_S,
            check=False)
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    def spawn(self, *arguments, **options):
        return subprocess.Popen([LLMCTL, *arguments], env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)

    def terminal(self, *arguments, term="dumb", columns=100):
        return Terminal([LLMCTL, *arguments], dict(self.environment, TERM=term), columns)

    def json(self, *arguments, **options):
        """What is printed, without the version that all of it has."""
        outcome = self.run(*arguments, "--json", **options)
        assert outcome.status == 0, outcome
        printed = json.loads(outcome.output)
        assert printed.pop("version") == 1, outcome
        return printed


class Outcome:
    def __init__(self, status, output, complaint):
        self.status = status
        self.output = output
        self.complaint = complaint

    def __repr__(self):
        return f"status {self.status}\n--- output\n{self.output}--- complaint\n{self.complaint}---"


def is_zombie(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


class Terminal:
    """A program on a pseudo-terminal; what it writes is `text`, searched in order."""

    def __init__(self, command, environment, columns=100, rows=30):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, env=environment,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        os.close(slave)
        self.text = ""
        self.at = 0
        self.half = b""

    def read(self, limit_s):
        """FALSE at the end or when nothing came."""
        if not select.select([self.master], [], [], limit_s)[0]:
            return False
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        if not data:
            return False
        self.half += data
        try:
            self.text += self.half.decode()
            self.half = b""
        except UnicodeDecodeError as error:
            self.text += self.half[:error.start].decode()
            self.half = self.half[error.start:]
        return True

    def expect(self, *wanted):
        """Waits for each text behind the one before. Returns what came up to the last."""
        begin = self.at
        for text in wanted:
            while True:
                found = self.text.find(text, self.at)
                if found >= 0:
                    self.at = found + len(text)
                    break
                if not self.read(LIMIT_S):
                    raise AssertionError(f"{text!r} did not come; all of it:\n{self.text}")
        return self.text[begin:self.at]

    def send(self, text):
        os.write(self.master, text.encode())

    def say(self, text):
        """A line at the prompt, which is waited for."""
        self.expect("> ")
        self.send(text + "\r")

    def finish(self):
        """The exit status, with everything read."""
        while self.read(LIMIT_S):
            pass
        status = self.process.wait(LIMIT_S)
        os.close(self.master)
        return status
