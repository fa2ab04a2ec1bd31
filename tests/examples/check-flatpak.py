#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""Builds the client library as the Flatpak example does, and uses what that installs.

    check-flatpak.py MESON GJS

There may be no flatpak-builder here: the manifest's options for meson are taken, the rest is what it
would do. The typelib that an app in the sandbox has is loaded.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANIFEST = ROOT / "examples/flatpak/org.llm.ExampleChat.json"
PROGRAM = "import Llmsvc from 'gi://Llmsvc?version=1'; print(new Llmsvc.Options({max_tokens: 5}).max_tokens);"


def main():
    meson, gjs = sys.argv[1:]
    modules = json.loads(MANIFEST.read_text(encoding="utf-8"))["modules"]
    options = next(module["config-opts"] for module in modules if module["buildsystem"] == "meson")
    with tempfile.TemporaryDirectory() as folder:
        build, prefix = os.path.join(folder, "build"), os.path.join(folder, "app")
        for command in ([meson, "setup", build, str(ROOT), f"--prefix={prefix}", "--libdir=lib", *options],
                        [meson, "compile", "-C", build], [meson, "install", "--quiet", "-C", build]):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"check-flatpak: {' '.join(command)}:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        others = sorted(path.name for path in pathlib.Path(prefix).iterdir())
        if not set(others) <= {"include", "lib", "share"}:
            sys.exit(f"check-flatpak: more than a library was installed: {others}")
        program = pathlib.Path(folder) / "program.js"
        program.write_text(PROGRAM, encoding="utf-8")
        libraries = os.path.join(prefix, "lib")
        environment = {**os.environ, "LD_LIBRARY_PATH": libraries,
                       "GI_TYPELIB_PATH": os.path.join(libraries, "girepository-1.0")}
        done = subprocess.run([gjs, "-m", str(program)], env=environment, capture_output=True, text=True,
                              check=False)
        if done.stdout.strip() != "5":
            sys.exit(f"check-flatpak: {done.stdout} {done.stderr}")
    print("check-flatpak: the library stands alone")


if __name__ == "__main__":
    main()
