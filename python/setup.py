# SPDX-License-Identifier: Apache-2.0
"""Builds the native module. Its sources are in src/, and the loader's client library and the headers
in the tree around this folder; a source distribution carries a copy of those in bundled/."""
import os
import shutil

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

HERE = os.path.dirname(os.path.abspath(__file__))
BUNDLED = "bundled"

OWN = ["core", "errors", "mark", "record", "scope", "session", "span", "text"]
CLIENT = ["user/client/client.c", "user/client/loader.c", "user/service/proto.c", "user/base/buf.c",
          "user/base/clock.c", "user/base/error.c", "user/base/text.c"]
HEADERS = ["user/client/loader.h", "user/service/proto.h", "user/base/base.h", "include/clika/client.h",
           "include/clika/markers.h"]


def tree():
    """Where user/ and include/ are."""
    for folder in (os.path.join(HERE, BUNDLED), os.path.dirname(HERE)):
        if os.path.exists(os.path.join(folder, CLIENT[0])):
            return folder
    raise SystemExit("the sources of the client library are missing: build from the project's tree, or "
                     "from a source distribution")


class BuildExt(build_ext):
    def build_extension(self, ext):
        # Copied, so that what the compiler makes of them goes to the build folder and nowhere else.
        place = os.path.join(self.build_temp, "tree")
        for name in CLIENT + HEADERS:
            to = os.path.join(place, name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(os.path.join(tree(), name), to)
        ext.sources = ext.sources + [os.path.join(place, name) for name in CLIENT]
        ext.include_dirs = [place, os.path.join(place, "include")]
        super().build_extension(ext)


class Sdist(sdist):
    def make_release_tree(self, base_dir, files):
        super().make_release_tree(base_dir, files)
        for name in CLIENT + HEADERS:
            to = os.path.join(base_dir, BUNDLED, name)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            shutil.copy2(os.path.join(tree(), name), to)


class Wheel(bdist_wheel):
    def finalize_options(self):
        super().finalize_options()
        self.py_limited_api = "cp39"


setup(
    ext_modules=[Extension(
        "clika_runtime._core",
        sources=[f"src/{name}.c" for name in OWN],
        depends=["src/core.h", "src/mark.h", "src/record.h", "src/text.h"],
        define_macros=[("Py_LIMITED_API", "0x03090000"), ("_GNU_SOURCE", "")],
        extra_compile_args=["-std=gnu11", "-O2", "-fvisibility=hidden", "-Wall", "-Wextra"],
        py_limited_api=True,
    )],
    cmdclass={"build_ext": BuildExt, "sdist": Sdist, "bdist_wheel": Wheel},
)
