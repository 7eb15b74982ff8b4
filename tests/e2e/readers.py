# SPDX-License-Identifier: Apache-2.0
"""Programs of others that read our formats: fetched once into the build folder, run on files."""
import os
import subprocess
import tempfile
import unittest

import lib

TOOLS = os.path.join(lib.ROOT, "tests", "tools")
NPM = os.path.join(lib.BUILD, "tools", "npm-readers", "node_modules")
UNREACHABLE = 75


def fetch(script, folder=TOOLS):
    """Runs a set-up script. Only a registry that cannot be reached skips the test."""
    path = os.path.join(folder, script)
    run = subprocess.run([path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=1500)
    if run.returncode == UNREACHABLE:
        raise unittest.SkipTest(f"{script} could not reach its registry")
    if run.returncode:
        raise AssertionError(f"{script}:\n{run.stdout}")


def run(argv, env=None, timeout=120, check=True):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout,
                          env={**os.environ, **(env or {})})
    if check and done.returncode:
        raise AssertionError(f"{' '.join(argv)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return done


def node(script, *args, **kw):
    return run(["node", os.path.join(TOOLS, script), *args], env={"NODE_PATH": NPM}, **kw)


def chromium():
    return run([os.path.join(lib.ROOT, "tools", "find-chromium.sh")]).stdout.strip()


def page(address, *flags):
    """The document as Chromium has it after its scripts ran. No network: what a page asks for fails."""
    with tempfile.TemporaryDirectory() as home:
        done = run([chromium(), "--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}",
                    "--host-resolver-rules=MAP * ~NOTFOUND", "--allow-file-access-from-files",
                    "--virtual-time-budget=10000", *flags, "--dump-dom", address], env={"HOME": home})
    return done.stdout
