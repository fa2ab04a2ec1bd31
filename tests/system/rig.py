# SPDX-License-Identifier: LGPL-2.1-or-later

"""What the system tests share: commands as one user or another, the bus, and TAP."""

import os
import pathlib
import pwd
import subprocess
import sys
import time
import traceback

FOLDER = pathlib.Path("/opt/llmsvc-test")
UNIT = "llmsvc.service"
UNIT_FILE = pathlib.Path("/lib/systemd/system/llmsvc.service")
DROP_INS = pathlib.Path("/etc/systemd/system/llmsvc.service.d")
STATE = pathlib.Path("/var/lib/llmsvc")
CACHE = pathlib.Path("/var/cache/llmsvc")
OBJECT = "/org/llm/Service"
WAIT_S = 60


class Failed(Exception):
    """A check did not hold; the text says which."""


class Tap:
    """Counts checks; each is a line at once, so that a boot that hangs shows how far it came."""

    def __init__(self):
        self.count = 0
        self.failed = 0

    def check(self, name, good, why=""):
        self.count += 1
        if good:
            print(f"ok {self.count} - {name}", flush=True)
        else:
            self.failed += 1
            print(f"not ok {self.count} - {name}: {' '.join(str(why).split())[:400]}", flush=True)
        return bool(good)

    def note(self, text):
        print(f"# {text}", flush=True)

    def run(self, tests):
        for test in tests:
            self.note(test.__doc__.strip().splitlines()[0])
            begin = time.monotonic()
            try:
                test(self)
            except Exception as error:  # whatever it is, the other tests go on
                traceback.print_exc()
                self.check(f"{test.__name__} came to its end", False, error)
            print(f"{test.__name__}: {time.monotonic() - begin:.1f} s", file=sys.stderr, flush=True)


def run(*command, user=None, session=False, timeout=120, text=None):
    """Runs it, as @user and on that user's session bus if asked for; a failure is told by its
    returncode."""
    environment = {"PATH": "/usr/bin:/bin:/usr/sbin:/sbin", "LC_ALL": "C.UTF-8"}
    prefix = []
    if user is not None:
        entry = pwd.getpwnam(user)
        environment["HOME"] = entry.pw_dir
        prefix = ["runuser", "-u", user, "--"]
    if session:
        runtime = f"/run/user/{entry.pw_uid}"
        environment["XDG_RUNTIME_DIR"] = runtime
        environment["DBUS_SESSION_BUS_ADDRESS"] = f"unix:path={runtime}/bus"
    return subprocess.run([*prefix, *command], env=environment, capture_output=True, text=True,
                          timeout=timeout, check=False, input=text, cwd="/")


def run_ok(*command, **options):
    done = run(*command, **options)
    if done.returncode != 0:
        raise Failed(f"{' '.join(command)}: {done.returncode}: {done.stderr.strip()} {done.stdout.strip()}")
    return done.stdout.strip()


def call(method, *arguments, user=None, session=False, path=OBJECT, interface="org.llm.Service"):
    """A call with gdbus; its arguments are GVariant text."""
    return run("gdbus", "call", "--session" if session else "--system", "--timeout", "100", "--dest",
               "org.llm.Service", "--object-path", path, "--method", f"{interface}.{method}",
               "--", *arguments, user=user, session=session)


def get(name, user=None, session=False, interface="org.llm.Service"):
    """A property's value, as GVariant text without its wrapping."""
    done = call("Get", interface, name, user=user, session=session,
                interface="org.freedesktop.DBus.Properties")
    if done.returncode != 0:
        raise Failed(f"{name}: {done.stderr.strip()}")
    return done.stdout.strip()[2:-3].strip("'")


def ask(prompt, user, *options, session=False):
    """What llmctl prints of an answer."""
    return run_ok("llmctl", "ask", "--session-bus" if session else "--system-bus", "--seed", "7",
                  "--max-tokens", "24", *options, prompt, user=user, session=session)


def export(context, user, session=False):
    return run_ok("llmctl", "context", "export", "--session-bus" if session else "--system-bus", context,
                  user=user, session=session)


def show(name, unit=UNIT):
    return run_ok("systemctl", "show", "--property", name, "--value", unit)


def main_pid():
    return int(show("MainPID"))


def wait_until(condition, what, seconds=WAIT_S):
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > end:
            raise Failed(f"{what} did not happen within {seconds} s")
        time.sleep(0.1)


def wait_for_other_pid(pid, seconds=WAIT_S):
    return wait_until(lambda: main_pid() not in (0, pid) and show("ActiveState") == "active"
                      and main_pid(), "another process of the service", seconds)


def restart():
    run_ok("systemctl", "restart", UNIT)
    return main_pid()


def set_drop_in(name, text):
    """Text None takes it away again."""
    DROP_INS.mkdir(parents=True, exist_ok=True)
    path = DROP_INS / f"{name}.conf"
    if text is None:
        path.unlink()
    else:
        path.write_text(text, encoding="utf-8")
    run_ok("systemctl", "daemon-reload")
    run_ok("systemctl", "reset-failed", UNIT)


def find_thread(pid, name):
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        if (task / "comm").read_text(encoding="utf-8").strip() == name:
            return int(task.name)
    raise Failed(f"{pid} has no thread {name}")


def mapped_weights(pid):
    """Bytes of the model or its prepared copy that the process maps: {file: (Rss, Pss)}."""
    found = {}
    name = None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text(encoding="utf-8").splitlines():
        fields = line.split(maxsplit=5)
        if "-" in fields[0] and len(fields) >= 5 and not fields[0].endswith(":"):
            path = fields[5] if len(fields) > 5 else ""
            is_weights = path.startswith(str(CACHE)) or path.endswith(".gguf")
            name = (path, fields[3], fields[4]) if is_weights else None
        elif name is not None and fields[0] in ("Rss:", "Pss:"):
            rss, pss = found.get(name, (0, 0))
            size = int(fields[1]) * 1024
            found[name] = (rss + size, pss) if fields[0] == "Rss:" else (rss, pss + size)
    return found


def list_files():
    """What is on the disk, but for what the running system writes."""
    skipped = {"/proc", "/sys", "/dev", "/run", "/tmp", "/home", "/root", "/opt", "/var/log",
               "/var/tmp", "/var/lib/apt", "/var/lib/dpkg", "/var/lib/systemd", "/var/cache/apt", "/var/cache/ldconfig"}
    files = set()
    for folder, folders, names in os.walk("/"):
        folders[:] = [name for name in folders if os.path.join(folder, name) not in skipped
                      and name != "__pycache__"]
        files.update(os.path.join(folder, name) for name in folders + names)
    return files
