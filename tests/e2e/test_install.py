# SPDX-License-Identifier: Apache-2.0
"""What `make install` leaves, and that another program can be built on it. Needs no root."""
import os
import re
import shutil
import subprocess
import unittest

import lib

PROGRAM = r"""
#include <clika/prof.h>
#include <clika/markers.h>
#include <stdio.h>

int main(void)
{
	CLIKA_SPAN("installed");
	printf("%s %d\n", clika_prof_version(), clika_format__name(0) != NULL);
	return 0;
}
"""


class InstallTest(lib.Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.root = os.path.join(lib.BUILD, "test-install")
        shutil.rmtree(cls.root, ignore_errors=True)
        subprocess.run(["make", "-C", lib.ROOT, "install", f"DESTDIR={cls.root}", "PREFIX=/usr"],
                       check=True, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **lib.as_owner())
        cls.addClassCleanup(shutil.rmtree, cls.root, True)

    def path(self, *parts):
        return os.path.join(self.root, "usr", *parts)

    def test_tool_library_headers_and_manual_are_where_they_belong(self):
        for name in ("bin/clika-bpf-prof", "lib/libclika-prof.a", "lib/libclika-prof.so",
                     "lib/libclika-prof.so.0", "lib/pkgconfig/libclika-prof.pc",
                     "include/clika/markers.h", "include/clika/prof.h",
                     "share/man/man1/clika-bpf-prof.1", "share/man/man1/clika-bpf-prof-record.1",
                     "share/clika-bpf-prof/recipes/recipe.schema.json",
                     "share/bash-completion/completions/clika-bpf-prof", "lib/sysusers.d/clika-prof.conf",
                     "lib/systemd/system/clika-bpf-prof.socket", "lib/systemd/system/clika-bpf-prof.service"):
            self.assertTrue(os.path.exists(self.path(name)), name)

    def test_the_service_starts_the_installed_tool(self):
        with open(self.path("lib/systemd/system/clika-bpf-prof.service")) as f:
            unit = f.read()
        self.assertIn("\nExecStart=/usr/bin/clika-bpf-prof serve\n", unit)
        self.assertNotIn("@", unit)

    def test_the_installed_tool_runs(self):
        done = subprocess.run([self.path("bin/clika-bpf-prof"), "--version"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_the_library_has_a_soname_and_shows_its_own_names_alone(self):
        so = self.path("lib/libclika-prof.so")
        dynamic = subprocess.run(["readelf", "-dW", so], capture_output=True, text=True, check=True).stdout
        self.assertIn("[libclika-prof.so.0]", dynamic)
        table = subprocess.run(["readelf", "--dyn-syms", "-W", so], capture_output=True, text=True,
                               check=True).stdout
        shown = {m.group(2) for m in re.finditer(r" (GLOBAL|WEAK) +DEFAULT +\d+ (\S+)", table)}
        self.assertIn("clika_recorder__new@@CLIKA_0.1", shown)
        foreign = {s for s in shown if not s.startswith(("clika_", "CLIKA_0.1"))}
        self.assertEqual(foreign, set())

    def test_every_function_of_the_header_is_in_the_library(self):
        with open(self.path("include/clika/prof.h")) as f:
            text = f.read()
        declared = set(re.findall(r"^CLIKA_API [^;(]*?(\w+)\(", text, re.M))
        self.assertGreater(len(declared), 20)
        table = subprocess.run(["readelf", "--dyn-syms", "-W", self.path("lib/libclika-prof.so")],
                               capture_output=True, text=True, check=True).stdout
        defined = set(re.findall(r"DEFAULT +\d+ (\w+)@@CLIKA_0.1", table))
        self.assertEqual(declared - defined, set())

    def test_a_program_is_built_with_pkg_config_s_words(self):
        with open(self.path("lib/pkgconfig/libclika-prof.pc")) as f:
            pc = f.read()
        self.assertIn("prefix=/usr\n", pc)
        self.assertNotIn("@", pc)
        source = os.path.join(self.tmp(), "program.c")
        with open(source, "w") as f:
            f.write(PROGRAM)
        program = source[:-2]
        subprocess.run([lib.compiler(), "-std=c11", "-Wall", "-Wextra", "-Werror", "-I" + self.path("include"),
                        source, "-o", program, "-L" + self.path("lib"), "-lclika-prof"], check=True)
        done = subprocess.run([program], env={**os.environ, "LD_LIBRARY_PATH": self.path("lib")},
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"^\d+\.\d+\.\d+ 1\n$")


if __name__ == "__main__":
    unittest.main()
