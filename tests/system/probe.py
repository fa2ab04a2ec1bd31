#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""The system tests, inside a booted Debian: the project's own packages under a real systemd.

Run by probe.service at each boot. The file stage says which boot it is; the last one ends with the
plan. scripts/test-system.sh makes the system, boots it and reads the result.
"""

import ctypes
import json
import os
import pathlib
import pwd
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import rig
from rig import ask, call, export, get, main_pid, run, run_ok, show, wait_until

DEBS = rig.FOLDER / "debs"
BEFORE = rig.FOLDER / "files-before.json"
CONF = pathlib.Path("/etc/llmsvc/llmsvc.conf")
EXPORTED = rig.FOLDER / "exported.json"
METRICS = "/run/llmsvc/metrics.socket"
MARKER = "/tmp/of-the-machine"
POLKIT_RULE = pathlib.Path("/etc/polkit-1/rules.d/10-llmsvc-test.rules")
LINKED = "/usr/share/llmsvc/systemd/user/llmsvc.service"
PTRACE_INTERRUPT, PTRACE_SEIZE = 0x4207, 0x4206
WAIT_ALL = 0x40000000  # __WALL
MANY_CRASHES = 8
EXPOSURE = "10"  # tenths


def install(version, *packages):
    files = [str(next((DEBS / version).glob(f"{package}_*.deb"))) for package in packages]
    # what they depend on was downloaded before, or is there
    return run_ok("apt-get", "-qq", "-y", "--no-install-recommends", "install", *files)


# --- the first boot ---

def test_install(tap):
    """Installation: folders, the user, nothing started"""
    BEFORE.write_text(json.dumps(sorted(rig.list_files())), encoding="utf-8")
    install("v1", "libllmsvc-0", "gir1.2-llmsvc-0", "llmsvc")
    entry = pwd.getpwnam("llmsvc")
    tap.check("there is a user llmsvc, who can't log in", entry.pw_shell.endswith("nologin"), entry)
    mode = rig.STATE.stat()
    tap.check("the state folder is that user's alone",
              stat.S_IMODE(mode.st_mode) == 0o700 and mode.st_uid == entry.pw_uid, oct(mode.st_mode))
    models = (rig.STATE / "models").stat()
    tap.check("the folder for models is the administrator's",
              stat.S_IMODE(models.st_mode) == 0o755 and models.st_uid == 0, oct(models.st_mode))
    tap.check("the service is not running", show("ActiveState") == "inactive", show("ActiveState"))
    tap.check("the unit is loaded without a complaint", show("LoadState") == "loaded", show("LoadState"))
    done = run("systemd-analyze", "verify", str(rig.UNIT_FILE))
    tap.check("systemd finds no fault in it", "llmsvc.service" not in re.sub(r".*man .*", "", done.stderr),
              done.stderr)
    for name in ("alice", "bob"):
        run_ok("adduser", "--disabled-password", "--gecos", "", name)
        run_ok("loginctl", "enable-linger", name)
        path = pathlib.Path(f"/run/user/{pwd.getpwnam(name).pw_uid}/bus")
        wait_until(path.exists, f"{name}'s bus")


def test_session_rests(tap):
    """The system's service is there for everybody, so the single users' rests"""
    done = call("Get", "org.llm.Service", "Availability", user="alice", session=True,
                interface="org.freedesktop.DBus.Properties")
    tap.check("a call on the session bus is refused at once", done.returncode != 0 and "masked" in done.stderr,
              done.stderr or done.stdout)


def test_says_system(tap):
    """What alice is told is what the system's service reads and lets her do"""
    for words in (("doctor",), ("pull", "some-model"), ("serve",)):
        done = run("llmctl", *words, user="alice", session=True)
        said = done.stdout + done.stderr
        tap.check(f"llmctl {words[0]} names no folder and no unit of a user",
                  ".local/share" not in said and "systemctl --user start" not in said, said)
        # wrapped for people, at spaces
        tap.check(f"llmctl {words[0]} names what root does",
                  "/var/lib/llmsvc/models" in said or "sudo systemctl start llmsvc" in said, said)
    done = run("llmctl", "doctor", "--json", user="alice", session=True)
    tap.check("doctor tells that the users' unit is masked on purpose",
              "on purpose" in done.stdout and f"systemctl --user link {LINKED}" in done.stdout, done.stdout)
    done = run("llmctl", "ask", "--session-bus", "Hello", user="alice", session=True)
    tap.check("a call for a service of her own says how to have one",
              done.returncode == 4 and f"systemctl --user link {LINKED}" in done.stderr, done.stderr)


def test_no_model(tap):
    """The first call starts the service, which says what is missing"""
    tap.check("the call is answered", get("Availability", user="alice") in ("loading", "no-model"))
    wait_until(lambda: get("Availability", user="alice") == "no-model", "no model")
    tap.check("with a reason", "model" in get("AvailabilityReason", user="alice"),
              get("AvailabilityReason", user="alice"))
    tap.check("it runs", show("ActiveState") == "active", show("ActiveState"))
    pid = main_pid()
    tap.check("as the user llmsvc", os.stat(f"/proc/{pid}").st_uid == pwd.getpwnam("llmsvc").pw_uid, pid)
    done = call("Complete", "Hello", "{}", user="alice")
    tap.check("a question fails with NoModel", "org.llm.Service.Error.NoModel" in done.stderr, done.stderr)
    done = run("llmctl", "ask", "--system-bus", "Hello", user="alice")
    tap.check("llmctl tells by its status", done.returncode == 4, (done.returncode, done.stderr))
    install("v1", "llmsvc-model-demo")
    tap.check("with a model installed it answers, without a restart",
              len(ask("Find me a comedy movie.", "alice")) > 10 and main_pid() == pid, main_pid())


def test_installed(tap):
    """The package's own test, on a private session bus without systemd"""
    done = run("/opt/llmsvc-test/session", user="alice")
    tap.check("debian/tests/session passes", done.returncode == 0, done.stderr + done.stdout)


def sandbox_unit(arguments):
    """The installed unit with our program in the service's place."""
    lines = []
    for line in rig.UNIT_FILE.read_text(encoding="utf-8").splitlines():
        key = line.split("=")[0]
        if key == "ExecStart":
            line = f"ExecStart=/usr/bin/python3 -B /opt/llmsvc-test/sandbox.py {arguments}"
        elif key == "ExecPaths":
            line += " /usr/bin"
        elif key == "Type":
            line = "Type=oneshot"
        elif key in ("BusName", "Restart", "WatchdogSec", "NotifyAccess"):
            continue
        lines.append(line)
    return "\n".join(lines + ["StandardOutput=append:/opt/llmsvc-test/sandbox.out"]) + "\n"


def run_in_sandbox(arguments, more=""):
    """What it printed, and how it ended."""
    path = pathlib.Path("/run/systemd/system/llmsvc-inside.service")
    output = rig.FOLDER / "sandbox.out"
    output.write_text("", encoding="utf-8")
    path.write_text(sandbox_unit(arguments) + more, encoding="utf-8")
    run_ok("systemctl", "daemon-reload")
    run("systemctl", "start", "llmsvc-inside.service")
    result = show("Result", "llmsvc-inside.service"), show("ExecMainStatus", "llmsvc-inside.service")
    run("systemctl", "reset-failed", "llmsvc-inside.service")
    path.unlink()
    run_ok("systemctl", "daemon-reload")
    return output.read_text(encoding="utf-8"), result


def test_sandbox(tap):
    """The sandbox, seen from inside by a program in the service's place"""
    run_ok("systemctl", "stop", rig.UNIT)
    pathlib.Path(MARKER).write_text("x", encoding="utf-8")
    other = run_ok("pgrep", "--uid", "alice", "--newest", "systemd")
    text, result = run_in_sandbox(f"{other} {MARKER}")
    for line in text.splitlines():
        if line.startswith("#"):
            tap.note(line[2:])
        else:
            good, _, rest = line.partition("ok ")
            name, _, why = rest.partition(": ")
            tap.check(f"the sandbox {name}", good == "", why)
    tap.check("the sandbox was looked at to the end", result == ("success", "0") and len(text) > 1000,
              (result, text[-300:]))
    done = run("systemd-analyze", "security", "--offline=true", f"--threshold={EXPOSURE}", "--no-pager",
               str(rig.UNIT_FILE))
    tap.check("systemd's exposure level is at most 1.0", done.returncode == 0, done.stdout[-300:])
    tap.note(done.stdout.strip().splitlines()[-1].lstrip("→ "))


def test_real_process(tap):
    """The same of the service itself, from outside"""
    get("Availability", user="alice")
    pid = main_pid()
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    for name, value in {"CapEff": "0" * 16, "CapBnd": "0" * 16, "NoNewPrivs": "1", "Seccomp": "2"}.items():
        found = re.search(rf"^{name}:\t(\S+)$", status, re.M).group(1)
        tap.check(f"its {name} is {value}", found == value, found)
    for space in ("net", "mnt", "user", "ipc", "uts"):
        theirs, ours = (os.readlink(f"/proc/{which}/ns/{space}") for which in (pid, "self"))
        tap.check(f"it has a name space of its own: {space}", theirs != ours, theirs)
    # what systemd mounts is seen through the process's own root
    barred = {path: os.statvfs(f"/proc/{pid}/root{path}").f_flag & os.ST_NOEXEC for path in
              ("/", "/usr/bin", "/etc", "/run", "/tmp", "/var/tmp", "/dev/shm", "/run/llmsvc",
               str(rig.STATE), str(rig.CACHE))}
    tap.check("it can run no other program, nor what it writes", all(barred.values()), barred)
    needed = {path: os.statvfs(f"/proc/{pid}/root{path}").f_flag & os.ST_NOEXEC for path in
              ("/usr/libexec/llmsvcd", "/usr/lib")}
    tap.check("only itself and its libraries", not any(needed.values()), needed)
    limits = pathlib.Path(f"/proc/{pid}/limits").read_text(encoding="utf-8")
    tap.check("it leaves no dump of its memory", re.search(r"^Max core file size +0 ", limits, re.M), limits)


def read_metrics():
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(METRICS)
        connection.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
        with connection.makefile("rb") as pipe:
            return pipe.read().decode()


def exercise(user):
    """Most of what the service does that asks the kernel for anything."""
    ask("Find me a comedy movie.", user, "--context", "exercise")
    ask("Another one, please.", user, "--context", "exercise", "--option", "slo=background")
    export("exercise", user)
    run_ok("llmctl", "memory", "--system-bus", user=user)
    run_ok("llmctl", "stats", "--system-bus", user=user)
    for level in ("low", "medium", "critical"):
        done = call("Trim", level, "{}", interface="org.llm.Service.Memory")
        if done.returncode != 0:
            raise rig.Failed(done.stderr)
    ask("And now?", user, "--context", "exercise")
    # what is written ahead of time is, and read back by the next process
    time.sleep(2)
    restart_pid = rig.restart()
    ask("And after that?", user, "--context", "exercise")
    run_ok("llmctl", "context", "rm", "--system-bus", "exercise", user=user)
    return restart_pid


def test_filter(tap):
    """No system call is missing: with the units of a development build a refused one kills"""
    conf = CONF.read_text(encoding="utf-8")
    CONF.write_text(conf + "\n[service]\nmetrics=on\n", encoding="utf-8")
    set_kill = (rig.FOLDER / "development.conf").read_text(encoding="utf-8")
    rig.set_drop_in("50-development", set_kill)
    rig.restart()
    pid = exercise("bob")
    tap.check("the service lives on after all kinds of calls", main_pid() == pid and show("NRestarts") == "0",
              (pid, main_pid(), show("Result")))
    ask("Find me a comedy movie.", "bob")
    text = read_metrics()
    tap.check("the figures are on their socket", text.endswith("# EOF\n") and "llmsvc_" in text, text[-300:])
    done = run("python3", "-c", f"import socket; socket.socket(socket.AF_UNIX).connect('{METRICS}')", user="bob")
    tap.check("which is not for every user", "PermissionError" in done.stderr, done.stderr)
    tap.check("all that without a forbidden call", main_pid() == pid, (pid, main_pid(), show("Result")))
    CONF.write_text(conf, encoding="utf-8")
    rig.set_drop_in("50-development", None)
    rig.restart()
    text, result = run_in_sandbox("forbidden", set_kill)
    tap.check("a call outside the filter kills there", result[0] in ("signal", "core-dump") and
              result[1] == str(int(signal.SIGSYS)), (text, result))
    text, result = run_in_sandbox("forbidden")
    tap.check("and is refused as installed", result == ("success", "0") and "came back" in text,
              (text, result))


def test_contexts(tap):
    """Contexts belong to a user and an application"""
    ask("I want a restaurant in San Jose.", "alice", "--context", "notes")
    text = export("notes", "alice")
    tap.check("a context has its turn", "San Jose" in text, text)
    names = run_ok("llmctl", "context", "list", "--system-bus", "--json", user="bob")
    tap.check("another user does not see it", "notes" not in names, names)
    path = re.search(r"'(/org/llm/Service/contexts/[^']+)'",
                     call("OpenContext", "notes", "{}", user="alice").stdout).group(1)
    mine = call("GetMessages", "0", "0", "{}", user="alice", path=path, interface="org.llm.Service.Context")
    tap.check("its owner reads it by its path", "San Jose" in mine.stdout, mine.stderr)
    for who in ("bob", None):
        done = call("GetMessages", "0", "0", "{}", user=who, path=path, interface="org.llm.Service.Context")
        tap.check(f"{who or 'root'} finds no object there",
                  done.returncode != 0 and "San Jose" not in done.stdout + done.stderr,
                  done.stdout + done.stderr)
    done = run("cat", str(next(rig.STATE.glob("*.db*"), rig.STATE)), user="alice")
    tap.check("a user can't read what lies on the disk", done.returncode != 0, done.stdout[:80])
    EXPORTED.write_text(text, encoding="utf-8")


def test_journal(tap):
    """What the journal says of answers, and what it does not"""
    run_ok("journalctl", "--sync")
    lines = run_ok("journalctl", "--unit", rig.UNIT, "--boot", "--output=json", "--no-pager").splitlines()
    uid = str(pwd.getpwnam("alice").pw_uid)
    records = [record for record in map(json.loads, lines) if record.get("LLM_UID") == uid]
    tap.check("there is a record of each answer, with its figures",
              any(int(record.get("LLM_OUTPUT_TOKENS", 0)) > 0 and "LLM_TTFT_MS" in record
                  for record in records), lines[-1:])
    for word in ("San Jose", "comedy", "notes", "exercise"):
        tap.check(f"the journal does not have the user's “{word}”",
                  not any(word in line for line in lines), [line for line in lines if word in line][:1])


def test_sleep(tap):
    """The machine waits with sleeping until contexts are written"""
    get("Availability", user="alice")
    wait_until(lambda: "llmsvc" in run("systemd-inhibit", "--list", "--no-legend", "--no-pager").stdout,
               "a lock against sleeping", 20)
    locks = run_ok("systemd-inhibit", "--list", "--no-legend", "--no-pager")
    lock = next(line.split() for line in locks.splitlines() if line.startswith("llmsvc"))
    tap.check("the service's lock delays, and does not forbid", "sleep" in lock and lock[-1] == "delay", lock)


def test_restart(tap):
    """A crash: the service is there again, and so is what it kept"""
    get("Availability", user="alice")
    pid = main_pid()
    os.kill(pid, signal.SIGSEGV)
    rig.wait_for_other_pid(pid)
    tap.check("it was restarted", int(show("NRestarts")) >= 1, show("NRestarts"))
    tap.check("with its contexts", export("notes", "alice") == EXPORTED.read_text(encoding="utf-8"))
    for _ in range(MANY_CRASHES):
        pid = main_pid()
        os.kill(pid, signal.SIGSEGV)
        rig.wait_for_other_pid(pid)
    tap.check(f"{MANY_CRASHES} more crashes do not switch it off", export("notes", "alice"), show("Result"))
    dumps = [path for path in list(rig.STATE.rglob("core*")) + list(pathlib.Path("/").glob("core*"))]
    tap.check("without a dump", not dumps, dumps)
    conf = CONF.read_text(encoding="utf-8")
    CONF.write_text(conf + "\n[service]\nno-such-key=1\n", encoding="utf-8")
    run("systemctl", "restart", rig.UNIT)
    time.sleep(2)
    tap.check("a wrong configuration is tried once", show("ActiveState") == "failed", show("ActiveState"))
    CONF.write_text(conf, encoding="utf-8")
    tap.check("and the next call tries again", get("Availability", user="alice") != "")


def test_watchdog(tap):
    """The watchdog: a service that stands still, and one whose computing thread hangs"""
    rig.set_drop_in("50-watchdog", "[Service]\nWatchdogSec=2s\n")
    pid = rig.restart()
    get("Availability", user="alice")
    os.kill(pid, signal.SIGSTOP)
    pid = rig.wait_for_other_pid(pid)
    tap.check("a stopped service is replaced", int(show("NRestarts")) == 1, show("NRestarts"))
    get("Availability", user="alice")

    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
    thread = rig.find_thread(pid, "llm-executor")
    if libc.ptrace(PTRACE_SEIZE, thread, None, None) < 0:
        raise rig.Failed(f"ptrace: {os.strerror(ctypes.get_errno())}")
    libc.ptrace(PTRACE_INTERRUPT, thread, None, None)
    os.waitpid(thread, WAIT_ALL)
    get("Availability", user="alice")
    tap.check("with its computing thread stopped the service still answers", main_pid() == pid, main_pid())
    # killed, it is its tracer's to bury: the process is not gone before
    rig.wait_until(lambda: os.waitpid(thread, WAIT_ALL | os.WNOHANG)[0] == thread, "the end of the thread")
    rig.wait_for_other_pid(pid)
    tap.check("and is replaced as well", int(show("NRestarts")) == 2, show("NRestarts"))
    log = run_ok("journalctl", "--unit", rig.UNIT, "--no-pager", "--output=cat")
    tap.check("the journal says why", "hangs" in log and "Watchdog timeout" in log, log[-300:])
    rig.set_drop_in("50-watchdog", None)
    rig.restart()
    tap.check("contexts survive both", export("notes", "alice") == EXPORTED.read_text(encoding="utf-8"))


def in_session(user, *command):
    """Runs it in a login session of the user's, at the machine's seat."""
    return run("systemd-run", "--quiet", "--wait", "--pipe", "--collect", f"--uid={user}",
               "--property=PAMName=login", "--setenv=XDG_SEAT=seat0", "--setenv=XDG_SESSION_TYPE=wayland",
               *command)


def test_polkit(tap):
    """Who may do what: polkit is asked for real"""
    memory = {"interface": "org.llm.Service.Memory"}
    admin = {"interface": "org.llm.Service.Admin"}
    calls = {
        "SetBudget": (("{'bytes': <uint64 1000000000>}",), memory),
        "Trim": (("low", "{}"), memory),
        "SelectModel": (("llmsvc-demo-8M-Q8_0", "{}"), {}),
        "SetQuota": (("org.example.App", "{'contexts': <uint32 3>}"), admin),
    }
    for name, (arguments, where) in calls.items():
        done = call(name, *arguments, user="bob", **where)
        tap.check(f"a user who is not at the machine may not {name}",
                  "org.llm.Service.Error.NotAuthorized" in done.stderr, done.stderr or done.stdout)
        done = call(name, *arguments, **where)
        tap.check(f"root may {name}", done.returncode == 0, done.stderr)
    call("SetBudget", "{'bytes': <uint64 0>}", **memory)

    done = run("llmctl", "model", "use", "llmsvc-demo-8M-Q8_0", user="alice")
    tap.check("llmctl names the remedy", done.returncode == 5 and
              "As root: sudo llmctl model use llmsvc-demo-8M-Q8_0" in done.stderr, (done.returncode, done.stderr))

    trim = ("gdbus", "call", "--system", "--dest", "org.llm.Service", "--object-path", rig.OBJECT,
            "--method", "org.llm.Service.Memory.Trim", "low", "{}")
    done = in_session("alice", *trim)
    tap.check("the user of the active session may Trim", done.returncode == 0, done.stderr)
    POLKIT_RULE.write_text("""polkit.addRule(function (action, subject) {
  if (action.id == "org.llm.Service.set-budget" && subject.user == "alice")
    return polkit.Result.YES;
});
""", encoding="utf-8")
    POLKIT_RULE.chmod(0o644)
    budget = "{'bytes': <uint64 0>}"
    wait_until(lambda: call("SetBudget", budget, user="alice", **memory).returncode == 0,
               "polkit read its new rule", 20)
    tap.check("an administrator's rule opens one action to one user", True)
    done = call("SetBudget", budget, user="bob", **memory)
    tap.check("and not to another", "NotAuthorized" in done.stderr, done.stderr or done.stdout)
    done = call("SetQuota", "org.example.App", "{'contexts': <uint32 3>}", user="alice", **admin)
    tap.check("nor another action", "NotAuthorized" in done.stderr, done.stderr or done.stdout)
    POLKIT_RULE.unlink()
    done = run("busctl", "--system", "call", "org.llm.Service", rig.OBJECT, "org.freedesktop.DBus.Debug.Stats",
               "GetStats", user="bob")
    tap.check("the bus lets no other interface through", done.returncode != 0, done.stdout)


def test_weights_of_one(tap):
    """Two users of the system's service, one copy of the weights"""
    for user in ("alice", "bob"):
        ask("Find me a comedy movie.", user)
    pids = run_ok("pgrep", "--exact", "llmsvcd").split()
    tap.check("one process serves both", len(pids) == 1, pids)
    weights = rig.mapped_weights(pids[0])
    tap.note(f"weights mapped: {[(name[0], rss) for name, (rss, _) in weights.items()]}")
    size = max((rss for rss, _ in weights.values()), default=0)
    tap.check("with the weights mapped from a file", size > 4 << 20, weights)


def test_weights_of_two(tap):
    """Two services of single users, one copy of the weights"""
    pids = []
    for user in ("alice", "bob"):
        run_ok("systemctl", "--user", "link", LINKED, user=user, session=True)
        ask("Find me a comedy movie.", user, "--context", "own", session=True)
        tap.check(f"{user} has a service again after “systemctl --user link”",
                  "movie" in export("own", user, session=True))
        pids.append(run_ok("systemctl", "--user", "show", "--property", "MainPID", "--value", rig.UNIT,
                           user=user, session=True))
        status = pathlib.Path(f"/proc/{pids[-1]}/status").read_text(encoding="utf-8")
        tap.check(f"{user}'s has a filter and no new privileges",
                  re.search(r"^Seccomp:\t2$", status, re.M) and re.search(r"^NoNewPrivs:\t1$", status, re.M))
    first, second = (rig.mapped_weights(pid) for pid in pids)
    # of answers, and of prompts with 8 bits
    shared = sorted(name for name in set(first) & set(second) if name[0].startswith(str(rig.CACHE)))
    tap.check("both map the same two files, which the system's service made", len(shared) == 2,
              (list(first), list(second)))
    for name in shared:
        rss = max(first[name][0], second[name][0])
        pss = first[name][1] + second[name][1]
        tap.note(f"{name[0]}: Rss {first[name][0]} and {second[name][0]}, Pss together {pss}")
        tap.check("which is in memory once", rss > 4 << 20 and pss <= rss * 1.1, (rss, pss))
    for user in ("alice", "bob"):
        run_ok("systemctl", "--user", "stop", rig.UNIT, user=user, session=True)
        run_ok("systemctl", "--user", "disable", rig.UNIT, user=user, session=True)


def test_before_reboot(tap):
    """Before the reboot"""
    answer = ask("Italian food, please.", "alice", "--context", "notes")
    text = export("notes", "alice")
    tap.check("the context has another turn", "Italian" in text and len(answer) > 0, text)
    EXPORTED.write_text(text, encoding="utf-8")
    time.sleep(2)


# --- the second boot ---

def test_after_reboot(tap):
    """After the reboot"""
    tap.check("the service is not running", show("ActiveState") == "inactive", show("ActiveState"))
    tap.check("the context is there, word for word",
              export("notes", "alice") == EXPORTED.read_text(encoding="utf-8"))
    done = run("llmctl", "ask", "--system-bus", "--context", "notes", "--json", "Thank you.", user="alice")
    results = done.stdout.strip().splitlines()[-1] if done.stdout else done.stderr
    reused = re.search(r'"cached-tokens": ?(\d+)', results)
    tap.check("and goes on without computing it again", reused and int(reused.group(1)) > 16, results)
    EXPORTED.write_text(export("notes", "alice"), encoding="utf-8")


def test_upgrade(tap):
    """An upgrade while the service runs"""
    old = get("Version", user="alice")
    pid = main_pid()
    CONF.write_text(CONF.read_text(encoding="utf-8") + "\n# the administrator's\n", encoding="utf-8")
    install("v2", "libllmsvc-0", "gir1.2-llmsvc-0", "llmsvc", "llmsvc-model-demo")
    tap.check("the new one runs", main_pid() not in (0, pid), main_pid())
    new = get("Version", user="alice")
    tap.check("and is the new one", new not in ("", old), (old, new))
    tap.note(f"{old} became {new}")
    tap.check("contexts are kept", export("notes", "alice") == EXPORTED.read_text(encoding="utf-8"))
    ask("Goodbye.", "alice", "--context", "notes")
    tap.check("and go on", "Goodbye" in export("notes", "alice"))
    tap.check("the administrator's configuration is kept",
              "# the administrator's" in CONF.read_text(encoding="utf-8"))
    run_ok("systemctl", "stop", rig.UNIT)
    install("v2", "llmsvc")
    tap.check("what did not run is not started", show("ActiveState") == "inactive", show("ActiveState"))


def test_remove(tap):
    """Removal and purge"""
    get("Availability", user="alice")
    kept = rig.STATE / "models" / "own.gguf"
    shutil.copy("/usr/share/llmsvc/models/llmsvc-demo-8M-Q8_0.gguf", kept)
    run_ok("dpkg", "--remove", "llmsvc")
    tap.check("removed, it is stopped", run("pgrep", "--exact", "llmsvcd").returncode == 1)
    tap.check("and what it kept is there", (rig.STATE / "chunks").exists() and CONF.exists())
    done = call("Complete", "Hello", "{}", user="alice")
    tap.check("a call finds no service", "ServiceUnknown" in done.stderr, done.stderr)
    run_ok("dpkg", "--purge", "llmsvc", "llmsvc-model-demo", "gir1.2-llmsvc-0", "libllmsvc-0")
    # what apt brought for them
    run_ok("apt-get", "-qq", "-y", "--purge", "autoremove")
    tap.check("purged, an administrator's model stays", kept.exists())
    left = [path for path in rig.list_files() if path.startswith(str(rig.STATE))]
    tap.check("and nothing else in the state folder",
              sorted(left) == [str(rig.STATE), str(kept.parent), str(kept)], left)
    shutil.rmtree(rig.STATE)
    # users outlive packages, so that nobody else's files become theirs; adduser and polkit write beside
    allowed = re.compile(r"/etc/(passwd|group|shadow|gshadow|subuid|subgid)-?$|/var/lib/(polkit-1|dbus)/|"
                         r"/etc/systemd/system/llmsvc.service.d$|/var/cache/private|/var/lib/private|"
                         r"/etc/(\.pwd\.lock|machine-id|hostname|resolv\.conf)$|/var/mail")
    left = sorted(path for path in rig.list_files() - set(json.loads(BEFORE.read_text(encoding="utf-8")))
                  if not allowed.match(path))
    tap.check("there is nothing on the disk that was not there before", not left, left[:20])
    tap.check("nor a unit", run("systemctl", "cat", rig.UNIT).returncode != 0)


BOOTS = {
    "1": [test_install, test_session_rests, test_no_model, test_says_system, test_installed, test_sandbox,
          test_real_process, test_filter, test_contexts, test_journal, test_sleep, test_restart, test_watchdog, test_polkit,
          test_weights_of_one, test_weights_of_two, test_before_reboot],
    "2": [test_after_reboot, test_upgrade, test_remove],
}


def main():
    stage = rig.FOLDER / "stage"
    boot = stage.read_text(encoding="utf-8").strip()
    tap = rig.Tap()
    tap.note(f"boot {boot}: {run_ok('systemctl', '--version').splitlines()[0]}, "
             f"kernel {os.uname().release}")
    tap.run(BOOTS[boot])
    log = subprocess.run(["journalctl", "--no-pager", "--boot"], capture_output=True, text=True, check=False)
    (rig.FOLDER / f"journal-{boot}.log").write_text(log.stdout, encoding="utf-8")
    print(f"1..{tap.count}", flush=True)
    stage.write_text(str(int(boot) + 1), encoding="utf-8")


if __name__ == "__main__":
    main()
