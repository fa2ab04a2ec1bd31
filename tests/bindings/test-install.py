#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later

"""What developers of apps get: installs into a folder and builds programs from there.

    test-install.py MESON BUILD PREFIX LIBDIR INCLUDEDIR DATADIR COMMAND…

The folders as meson has them, the last three below the prefix. COMMAND runs a program on a bus
with a service that answers “Hello.”.
"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MESON, BUILD, PREFIX, LIBDIR, INCLUDEDIR, DATADIR, *ON_BUS = sys.argv[1:]
ROOT = pathlib.Path(__file__).resolve().parents[2]
WARNINGS = ["-Wall", "-Wextra", "-Wno-unused-parameter", "-Werror"]


def run(command, **more):
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          check=False, **more)
    if done.returncode != 0:
        raise AssertionError(f"{command}\n{done.stdout}{done.stderr}")
    return done.stdout


class InstallTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory(prefix="llmsvc-install-")
        cls.folder = pathlib.Path(cls.temporary.name)
        run([MESON, "install", "-C", BUILD, "--no-rebuild", "--quiet", "--destdir",
             cls.folder / "staged"])
        cls.prefix = cls.folder / "staged" / PREFIX.lstrip("/")
        cls.libdir = cls.prefix / LIBDIR
        cls.headers = cls.prefix / INCLUDEDIR / "llmsvc-1"

        # The file speaks of where all of it will be in the end; here it is somewhere else.
        text = (cls.libdir / "pkgconfig" / "llmsvc-1.pc").read_text(encoding="utf-8")
        assert f"prefix={PREFIX}\n" in text, text
        (cls.folder / "llmsvc-1.pc").write_text(
            text.replace(f"prefix={PREFIX}\n", f"prefix={cls.prefix}\n"), encoding="utf-8")
        cls.environment = dict(
            os.environ,
            PKG_CONFIG_PATH=f"{cls.folder}:{os.environ.get('PKG_CONFIG_PATH', '')}",
            LD_LIBRARY_PATH=str(cls.libdir),
            GI_TYPELIB_PATH=str(cls.libdir / "girepository-1.0"))
        cls.cflags = cls.pkg_config("--cflags").split()
        cls.libs = cls.pkg_config("--libs").split()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    @classmethod
    def pkg_config(cls, *arguments):
        return run(["pkg-config", *arguments, "llmsvc-1"], env=cls.environment)

    def test_places(self):
        for path in (self.libdir / "libllmsvc-1.so",
                     self.libdir / "libllmsvc-1.so.0",
                     self.libdir / "girepository-1.0" / "Llmsvc-1.typelib",
                     self.prefix / DATADIR / "gir-1.0" / "Llmsvc-1.gir",
                     self.prefix / DATADIR / "vala" / "vapi" / "llmsvc-1.vapi",
                     self.prefix / DATADIR / "vala" / "vapi" / "llmsvc-1.deps"):
            self.assertTrue(path.is_file(), path)

    def test_headers(self):
        """All that the one header names are there, and nothing of the inside is."""
        installed = {path.name for path in self.headers.iterdir()}
        included = {line.split('"')[1]
                    for line in (self.headers / "llmsvc.h").read_text(encoding="utf-8").splitlines()
                    if line.startswith('#include "')}
        self.assertEqual(installed, included | {"llmsvc.h"})

    def test_each_header_alone(self):
        for compiler, language in (("cc", "c"), ("c++", "c++")):
            for header in sorted(self.headers.iterdir()):
                with self.subTest(language=language, header=header.name):
                    source = self.folder / f"alone.{language}"
                    source.write_text(f"#include <{header.name}>\n", encoding="utf-8")
                    run([compiler, "-x", language, "-fsyntax-only", *WARNINGS, *self.cflags,
                         source])

    def compile(self, source, *flags):
        program = self.folder / "program"
        run(["cc", "-std=c11", *WARNINGS, *flags, *self.cflags, source, "-o", program, *self.libs])
        return program

    def test_version_macros(self):
        source = ROOT / "examples" / "c" / "ask.c"
        self.compile(source, "-DLLMSVC_VERSION_MAX_ALLOWED=LLMSVC_VERSION_0_1",
                     "-DLLMSVC_VERSION_MIN_REQUIRED=LLMSVC_VERSION_0_1")
        with self.assertRaisesRegex(AssertionError, "Not available before 0.1"):
            self.compile(source, "-DLLMSVC_VERSION_MAX_ALLOWED=G_ENCODE_VERSION(0,0)")

    def test_c(self):
        program = self.compile(ROOT / "examples" / "c" / "ask.c")
        self.assertEqual(run([*ON_BUS, program, "Hello!"], env=self.environment), "Hello.\n")

    def test_python(self):
        program = ROOT / "examples" / "python" / "ask.py"
        self.assertEqual(run([*ON_BUS, sys.executable, "-B", program, "Hello!"],
                             env=self.environment), "Hello.\n")

    def test_vala(self):
        run(["valac", "--ccode", "--directory", self.folder, "--fatal-warnings",
             "--vapidir", self.prefix / DATADIR / "vala" / "vapi", "--pkg", "llmsvc-1",
             ROOT / "examples" / "vala" / "ask.vala"], env=self.environment)
        program = self.compile(self.folder / "ask.c", "-Wno-error", "-w")
        self.assertEqual(run([*ON_BUS, program, "Hello!"], env=self.environment), "Hello.\n")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
