#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What packages say a second time is what the source says; and the units are strict.

    check-packages.py SYSTEM-UNIT USER-UNIT

Compared: version, license text, packages to build with, the Flatpak example with the program in it,
and the two units' filters. The units are those of the build. systemd's exposure level of the system's
is at most 1.0.
"""

import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEBIAN = ROOT / "debian"
FLATPAK = ROOT / "examples/flatpak"
THRESHOLD = 10  # tenths
# What apps need to reach the service; the rest is for a window on the screen.
REACH = {"--talk-name=org.llm.Service", "--system-talk-name=org.llm.Service"}
WINDOW = {"--socket=wayland", "--socket=fallback-x11", "--share=ipc", "--device=dri"}
# Of scripts/packages.sh: what every build of a Debian package has, or what a dependency brings.
IMPLIED = {"gcc", "libc6-dev", "ninja-build", "pkg-config", "libglib2.0-bin", "dbus-bin"}

faults = []


def read(path):
    return (ROOT / path).read_text(encoding="utf-8")


def want(good, fault):
    if not good:
        faults.append(fault)


def check_version():
    version = re.search(r"^  version: '(.+)',$", read("meson.build"), re.M).group(1)
    newest = re.match(r"llmsvc \((.+)\) ", read("debian/changelog")).group(1)
    want(newest == version, f"debian/changelog begins with {newest}, meson.build says {version}")


def check_license():
    text = read("data/models/CC-BY-SA-4.0.txt").rstrip().splitlines()
    wanted = [f" {line.rstrip()}" if line.strip() else " ." for line in text]
    found = read("debian/copyright").split("\nLicense: CC-BY-SA-4.0\n")[-1].rstrip().splitlines()
    want(found == wanted, "debian/copyright does not end with data/models/CC-BY-SA-4.0.txt")


def check_dependencies():
    listed = set()
    for name in ("BUILD_PACKAGES", "BINDING_PACKAGES"):
        listed |= set(re.search(rf'^{name}="([^"]+)"', read("scripts/packages.sh"), re.M).group(1).split())
    field = re.search(r"^Build-Depends:\n((?: .+\n)+)", read("debian/control"), re.M).group(1)
    needed = {re.match(r" ([\w.+-]+)", line).group(1) for line in field.splitlines()}
    for name in sorted(listed - needed - IMPLIED):
        faults.append(f"scripts/packages.sh has {name}, the Build-Depends of debian/control have not")
    for name in sorted(name for name in needed - listed if name.endswith("-dev")):
        faults.append(f"the Build-Depends of debian/control have {name}, scripts/packages.sh has not")


def check_flatpak():
    manifest = json.loads((FLATPAK / "org.llm.ExampleChat.json").read_text(encoding="utf-8"))
    app = manifest["id"]
    arguments = set(manifest["finish-args"])
    want(arguments == REACH | WINDOW, f"{app}: finish-args {sorted(arguments ^ (REACH | WINDOW))}")
    options = set(re.findall(r"^option\('(\w+)'", read("meson_options.txt"), re.M))
    for module in manifest["modules"]:
        for source in module["sources"]:
            want((FLATPAK / source["path"]).exists(), f"{app}: there is no {source['path']}")
        for option in module.get("config-opts", []):
            want(re.match(r"-D(\w+)=", option).group(1) in options, f"{app}: there is no option {option}")
    program = read("examples/gjs/chat.js")
    want(f"const APP_ID = '{app}'" in program, f"{app} is not what examples/gjs/chat.js calls itself")
    desktop = (FLATPAK / f"{app}.desktop").read_text(encoding="utf-8")
    want(f"\nExec={manifest['command']}\n" in desktop, f"{app}.desktop does not run {manifest['command']}")
    metainfo = (FLATPAK / f"{app}.metainfo.xml").read_text(encoding="utf-8")
    want(f"<id>{app}</id>" in metainfo, f"{app}.metainfo.xml is of another app")


def check_units(system, user):
    texts = [pathlib.Path(path).read_text(encoding="utf-8") for path in (system, user)]
    keys = ("SystemCallFilter", "SystemCallErrorNumber", "Restart", "RestartSec", "StartLimitIntervalSec",
            "RestartPreventExitStatus", "WatchdogSec", "LimitNOFILE", "LimitCORE")
    for key in keys:
        first, second = (re.findall(rf"^{key}=(.*)$", text, re.M) for text in texts)
        want(first and first == second, f"{key}= differs between the units: {first}, {second}")
    done = subprocess.run(["systemd-analyze", "security", "--offline=true", "--no-pager",
                           f"--threshold={THRESHOLD}", system], capture_output=True, text=True, check=False)
    lines = done.stdout.strip().splitlines()
    want(done.returncode == 0 and lines, f"{system}: {lines[-1] if lines else done.stderr}")
    return lines[-1].lstrip("→ ") if lines else ""


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    check_version()
    check_license()
    check_dependencies()
    check_flatpak()
    score = check_units(*sys.argv[1:])
    for fault in faults:
        print(f"check-packages: {fault}", file=sys.stderr)
    print(f"check-packages: {score}; {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
