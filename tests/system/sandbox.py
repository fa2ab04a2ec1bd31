#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Looks at the sandbox from inside: the service's unit runs this in place of the service.

    sandbox.py OTHER-PID MARKER
    sandbox.py forbidden

OTHER-PID is a process of another user, MARKER a file in the machine's /tmp. Prints a line
“ok NAME” or “not ok NAME: WHY” for each border. With “forbidden” it only makes a system call that
the filter does not let through, and says so when it came back.
"""

import ctypes
import errno
import mmap
import os
import pathlib
import socket
import stat
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
# What the machine's architecture calls them does not matter through libc's syscall() alone.
SYSCALLS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "keyctl": 250, "init_module": 175,
               "process_vm_readv": 310, "userfaultfd": 323, "io_uring_setup": 425, "reboot": 169},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "keyctl": 219, "init_module": 105,
                "process_vm_readv": 270, "userfaultfd": 282, "io_uring_setup": 425, "reboot": 142},
}[os.uname().machine]
CLONE_NEWUSER = 0x10000000
PRIO_PROCESS = 0


def call(name, *arguments):
    """The errno of a system call, 0 when it worked."""
    ctypes.set_errno(0)
    result = LIBC.syscall(SYSCALLS[name], *arguments)
    return 0 if result >= 0 else ctypes.get_errno()


def refused(function, *arguments):
    """What kept @function from working, or None when nothing did."""
    try:
        function(*arguments)
    except OSError as error:
        return error
    except ValueError as error:
        return error
    return None


def status():
    text = pathlib.Path("/proc/self/status").read_text(encoding="utf-8")
    return dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)


def check(name, good, why=""):
    print(f"ok {name}" if good else f"not ok {name}: {why}", flush=True)


def check_process():
    fields = status()
    check("is not root, and nobody else's user", os.getuid() not in (0, 65534), os.getuid())
    for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb"):
        check(f"has no capability ({name})", int(fields[name], 16) == 0, fields[name])
    check("gets no new privileges", fields["NoNewPrivs"] == "1", fields["NoNewPrivs"])
    check("has a filter for system calls", fields["Seccomp"] == "2", fields["Seccomp"])
    check("becomes no other user", refused(os.setuid, 0) is not None)
    users = pathlib.Path("/proc/self/uid_map").read_text(encoding="utf-8").split()
    check("has users of its own", users[-1] != "4294967295", users)


def check_network():
    for family in (socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK, socket.AF_PACKET):
        error = refused(socket.socket, family, socket.SOCK_RAW if family == socket.AF_NETLINK
                        else socket.SOCK_DGRAM)
        check(f"has no {family.name}", error is not None and error.errno == errno.EAFNOSUPPORT, error)
    devices = pathlib.Path("/proc/self/net/dev").read_text(encoding="utf-8").splitlines()[2:]
    names = [line.split(":")[0].strip() for line in devices]
    check("sees no network but its own loop", names == ["lo"], names)


def can_write(folder):
    path = pathlib.Path(folder) / "llmsvc-sandbox-probe"
    error = refused(path.write_bytes, b"x")
    if error is None:
        path.unlink()
    return error


def check_files(marker):
    for folder in ("/home", "/root", "/run/user"):
        try:
            there = os.listdir(folder)
        except OSError as error:
            there = []
            good = error.errno in (errno.EACCES, errno.EPERM, errno.ENOENT)
        else:
            good = True
        check(f"sees nothing in {folder}", good and not there, there)
    for folder in ("/", "/etc", "/usr", "/usr/libexec", "/opt", "/var", "/var/lib", "/boot", "/srv",
                   "/var/lib/llmsvc/models", "/run", "/dev", "/proc/sys/kernel", "/sys/fs/cgroup"):
        if pathlib.Path(folder).exists():
            error = can_write(folder)
            check(f"writes nothing in {folder}", error is not None, "it did")
    for folder in ("/var/lib/llmsvc", "/var/cache/llmsvc", "/run/llmsvc", "/tmp"):
        error = can_write(folder)
        check(f"writes in {folder}", error is None, error)
    check("has a /tmp of its own", not pathlib.Path(marker).exists(), marker)
    for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/core_pattern", "/proc/kmsg", "/dev/kmsg"):
        error = refused(lambda p=path: os.close(os.open(p, os.O_RDWR)))
        check(f"can't open {path}", error is not None, "it did")


def check_devices():
    nodes = []
    for folder, _, names in os.walk("/dev"):
        for name in names:
            path = os.path.join(folder, name)
            mode = os.lstat(path).st_mode
            if stat.S_ISBLK(mode) or stat.S_ISCHR(mode):
                nodes.append(path)
    harmless = {"/dev/" + name for name in ("null", "zero", "full", "random", "urandom", "tty", "ptmx",
                                            "pts/ptmx")}
    other = sorted(path for path in nodes if path not in harmless and not path.startswith("/dev/pts/"))
    check("has no devices but the harmless ones", not other, other)
    error = refused(os.mknod, "/tmp/device", stat.S_IFBLK | 0o600, os.makedev(8, 0))
    check("makes no devices", error is not None, "it did")


def check_memory():
    page = mmap.PAGESIZE
    error = refused(mmap.mmap, -1, page, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS,
                    mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    check("has no memory that is written and executed", error is not None, "it has")
    memory = mmap.mmap(-1, page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    done = LIBC.mprotect(address, page, mmap.PROT_READ | mmap.PROT_EXEC)
    check("makes none executable afterwards", done < 0, "it did")


def check_calls(other):
    buffer = ctypes.create_string_buffer(4096)
    check("makes no name spaces", LIBC.unshare(CLONE_NEWUSER) < 0, "it did")
    check("mounts nothing", LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None) < 0, "it did")
    for name, arguments in {
        "bpf": (0, None, 0),
        "perf_event_open": (buffer, 0, -1, -1, 0),
        "keyctl": (0, -3, 0),
        "init_module": (buffer, 0, b""),
        "process_vm_readv": (int(other), None, 0, None, 0, 0),
        "userfaultfd": (0,),
        "reboot": (0, 0, 0, 0),
    }.items():
        code = call(name, *arguments)
        check(f"may not {name}", code in (errno.EPERM, errno.ENOSYS), errno.errorcode.get(code, code))
    ctypes.memset(buffer, 0, 120)
    code = call("io_uring_setup", 4, buffer)
    # some kernels and their administrators have none of it; the service then uses threads
    check("may use io_uring where the kernel has it", code in (0, errno.ENOSYS),
          errno.errorcode.get(code, code))
    check("takes a lower priority", refused(os.setpriority, PRIO_PROCESS, 0, 19) is None, "it may not")
    check("takes no higher priority", refused(os.setpriority, PRIO_PROCESS, 0, -5) is not None,
          "it did")
    error = refused(os.sched_setscheduler, 0, os.SCHED_FIFO, os.sched_param(1))
    check("takes no time from others", error is not None, "it did")


def check_needed(other):
    """What the service reads outside, and has to be able to."""
    for path in ("/proc/meminfo", "/proc/self/cgroup", "/proc/self/smaps_rollup", "/proc/cpuinfo",
                 f"/proc/{other}/cgroup", f"/proc/{other}/stat", "/sys/fs/cgroup"):
        good = os.access(path, os.R_OK)
        check(f"reads {path.replace(other, 'PID')}", good, "it can't")
    if pathlib.Path("/proc/pressure/memory").exists():
        check("reads /proc/pressure/memory", os.access("/proc/pressure/memory", os.R_OK), "it can't")
        error = refused(set_trigger)
        # a kernel may refuse them to all but its administrator, and so does a container's; then it polls
        print(f"# a trigger on /proc/pressure/memory: {error or 'taken'}", flush=True)


def set_trigger():
    fd = os.open("/proc/pressure/memory", os.O_RDWR | os.O_NONBLOCK)
    try:
        os.write(fd, b"some 150000 2000000\0")
    finally:
        os.close(fd)


def main():
    if sys.argv[1:] == ["forbidden"]:
        LIBC.mount(b"none", b"/tmp", b"tmpfs", 0, None)
        print("the call came back", flush=True)
        return
    other, marker = sys.argv[1:]
    check_process()
    check_network()
    check_files(marker)
    check_devices()
    check_memory()
    check_calls(other)
    check_needed(other)


if __name__ == "__main__":
    main()
