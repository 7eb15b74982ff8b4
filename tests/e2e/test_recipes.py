# SPDX-License-Identifier: Apache-2.0
"""recipes: the verb, the files of recipes/, and a recipe of a user's own."""
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest

import jsonschema

import lib

RECIPES = [f for f in sorted(glob.glob(os.path.join(lib.ROOT, "recipes", "*.json")))
           if not f.endswith(".schema.json")]

SOURCE = """
namespace rt {
struct Kernel { long state; static long run(Kernel *k, long n); long step(long n); };
__attribute__((noinline)) long Kernel::run(Kernel *k, long n) { return k->state + n; }
__attribute__((noinline)) long Kernel::step(long n) { return state - n; }
}
extern "C" long *rt_state(rt::Kernel *k) { return &k->state; }
extern "C" long rt_open(const char *path) { return path[0]; }
"""

RECIPE = """// a runtime of our own
{
  "recipe": 1, "name": "own", "title": "Our own runtime", "records": "kernels",
  "libraries": [ { "id": "rt", "file": "librt-own*.so", "exports": ["rt_open"] } ],
  "layouts": [ { "name": "kernel.state", "accessor": "rt_state" } ],
  "functions": [
    { "match": "rt::Kernel::*", "except": "*::step", "name": "kernel $1", /* $1: what the star stands for */
      "args": [ { "name": "n", "from": "arg1", "type": "i64" } ] },
    { "match": ["rt_open", "rt_close"], "off": "once a process", "group": "files" }
  ]
}
"""


def without_comments(text):
    return re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', lambda m: m[0] if m[0][0] == '"' else " ", text,
                  flags=re.S)


def strict(text):
    def once(pairs):
        keys = [k for k, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"a key is there twice: {keys}")
        return dict(pairs)
    return json.loads(without_comments(text), object_pairs_hook=once)


def schema():
    text = subprocess.run([lib.TOOL, "schema", "recipe"], check=True, capture_output=True, text=True).stdout
    return json.loads(text)


def validator():
    # Releases before 4.0 know neither 2020-12 nor all of its keys: they check what they know.
    kind = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)
    if kind is not jsonschema.Draft7Validator:
        kind.check_schema(schema())
    return kind(schema())


class OurRecipes(unittest.TestCase):
    def test_every_file_fits_the_schema(self):
        self.assertTrue(RECIPES)
        check = validator()
        for path in RECIPES:
            with self.subTest(path), open(path, encoding="utf-8") as f:
                bad = [f"{list(e.absolute_path)}: {e.message[:300]}" for e in check.iter_errors(strict(f.read()))]
                self.assertEqual(bad, [])

    def test_every_file_is_part_of_the_program(self):
        built_in = {r["name"]: r for r in json.loads(lib.tool("recipes", "--json").stdout) if r["from"] == "built in"}
        self.assertEqual(sorted(built_in), [os.path.basename(p)[:-5] for p in RECIPES])
        for path in RECIPES:
            with self.subTest(path), open(path, encoding="utf-8") as f:
                text = f.read()
                says = strict(text)
                has = built_in[says["name"]]
                self.assertEqual(has["automatic"], says.get("automatic", True))
                self.assertEqual(has["functions"], len(says["functions"]))
                self.assertEqual(has["off"], sum("off" in fn for fn in says["functions"]))
                self.assertEqual(lib.tool("recipes", "show", says["name"], "--json").stdout, text)

    def test_schema_and_program_know_the_same_keys(self):
        """The program names all keys of an object when it is given one that is like none of them."""
        head = '{"recipe": 1, "name": "x", "libraries": [{"id": "l", "file": "l"}], '
        arg = '"name": "a", "from": "arg0", "type": "i32"'
        defs = schema()["$defs"]
        for where, text in (
                (schema(), '{"@": 1}'),
                (defs["library"], '{"recipe": 1, "name": "x", "libraries": [{"@": 1}]}'),
                (defs["layout"], head + '"layouts": [{"@": 1}]}'),
                (defs["table"], head + '"tables": [{"@": 1}]}'),
                (defs["function"], head + '"functions": [{"@": 1}]}'),
                (defs["argument"], head + '"functions": [{"match": "f", "args": [{"@": 1}]}]}'),
                (defs["condition"], head + '"functions": [{"match": "f", "args": [{%s, "if": {"@": 1}}]}]}' % arg),
                (defs["kept"], head + '"functions": [{"match": "f", "args": [{%s}], "keep": {"@": 1}}]}' % arg),
                *((m, head + '"functions": [{"match": "f", "does": [{"what": "%s", "@": 1}]}]}' % what)
                  for m in defs["meaning"]["oneOf"]
                  for what in m["properties"]["what"].get("enum", [m["properties"]["what"].get("const")]))):
            with self.subTest(text):
                self.assertEqual(known_after(text), sorted(where["properties"]))
        whats = [w for m in defs["meaning"]["oneOf"]
                 for w in m["properties"]["what"].get("enum", [m["properties"]["what"].get("const")])]
        self.assertEqual(known_after(head + '"functions": [{"match": "f", "does": [{"what": "@"}]}]}'), sorted(whats))
        hows = head + '"layouts": [{"name": "n", "accessor": "a", "how": "@"}]}'
        self.assertEqual(known_after(hows), sorted(defs["layout"]["properties"]["how"]["enum"]))


def known_after(text):
    """What the program says there are, of a recipe with a mistake."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
        f.write(text)
        f.flush()
        done = subprocess.run([lib.TOOL, "recipes", "check", f.name], capture_output=True, text=True, check=False)
    there = re.search(r"\(there are: (.*)\)$", done.stderr.strip())
    return sorted(there[1].split(", ")) if there else done.stderr


class Verb(lib.Case):
    def setUp(self):
        super().setUp()
        self.dir = self.tmp()
        self.config = os.path.join(self.dir, "config")
        self.library = os.path.join(self.dir, "librt-own.so")
        self.recipe = os.path.join(self.dir, "own.json")
        with open(self.recipe, "w", encoding="utf-8") as f:
            f.write(RECIPE)
        source = os.path.join(self.dir, "own.cpp")
        with open(source, "w", encoding="utf-8") as f:
            f.write(SOURCE)
        subprocess.run([os.environ.get("CXX", "c++"), "-O1", "-fPIC", "-shared", "-o", self.library, source],
                       check=True)

    def run_tool(self, *args):
        env = {k: v for k, v in os.environ.items() if k not in ("SUDO_UID", "PKEXEC_UID")}
        return subprocess.run([lib.TOOL, "recipes", *args], capture_output=True, text=True,
                              env={**env, "XDG_CONFIG_HOME": self.config}, check=False)

    def install(self, mode=0o644):
        folder = os.path.join(self.config, "clika-bpf-prof", "recipes")
        os.makedirs(folder, 0o755, exist_ok=True)
        os.chmod(folder, 0o755)
        path = shutil.copy(self.recipe, os.path.join(folder, "own.json"))
        os.chmod(path, mode)
        return path

    def test_lists_recipes_of_the_user(self):
        path = self.install()
        done = self.run_tool()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        line = [l for l in done.stdout.splitlines() if l.startswith("own ")]
        self.assertEqual(line[0].split(None, 6), ["own", "by", "itself", "1", "1", path, "Our own runtime"])

    def test_says_which_file_is_passed_over(self):
        path = self.install(0o666)
        done = self.run_tool()
        self.assertEqual(done.returncode, 0)
        self.assertNotIn("\nown ", done.stdout)
        self.assertIn(f"{path}: others may write it", done.stderr)

    def test_shows_what_a_recipe_says(self):
        self.install()
        done = self.run_tool("show", "own")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        for text in ("own: Our own runtime", "file librt-own*.so; exports rt_open", "kernel.state",
                     "from the code of rt_state (what it returns)", "rt::Kernel::*", "kernel $1", "n (i64)",
                     "once a process (turn on with --recipe own:files)"):
            self.assertIn(text, done.stdout)
        self.assertEqual(self.run_tool("show", "own", "--json").stdout, RECIPE)

    def test_tells_what_is_found_in_a_library(self):
        done = self.run_tool("check", self.recipe, self.library)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn(f"{self.recipe}: a recipe without mistakes", done.stdout)
        self.assertIn(f"{self.library}: own, as rt\n", done.stdout)
        counts = dict(reversed(l.split(None, 1)) for l in done.stdout.splitlines() if re.match(r"^  +\d+  \S", l))
        self.assertEqual(counts, {"rt::Kernel::*": "1", "rt_open (off)": "1", "rt_close (off)  <-- none": "0"})
        self.assertIn("number     kernel.state: 0 by its code", done.stdout)
        self.assertIn("2 functions, 1 patterns that find none", done.stdout)

    def test_says_when_the_file_is_stripped(self):
        subprocess.run(["strip", self.library], check=True)
        done = self.run_tool("check", self.recipe, self.library)  # what it exports is still there
        self.assertIn("2 functions", done.stdout)

    def test_says_when_a_result_cannot_be_seen(self):
        source = os.path.join(self.dir, "jumps.c")
        with open(source, "w", encoding="utf-8") as f:
            f.write("#include <stdlib.h>\nvoid *rt_open(size_t n) { return malloc(n); }\n"
                    "void *rt_close(size_t n) { void *p = malloc(n); if (p) *(char *)p = 1; return p; }\n")
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-fPIC", "-shared", "-o", self.library, source], check=True)
        with open(self.recipe, "w", encoding="utf-8") as f:
            f.write(RECIPE.replace('"off": "once a process", "group": "files"',
                                   '"args": [ { "name": "p", "from": "return", "type": "pointer" } ]'))
        done = self.run_tool("check", self.recipe, self.library)
        self.assertIn("  1  rt_open  <-- 1 end in a jump to another function", done.stdout)
        self.assertIn("  1  rt_close\n", done.stdout)

    def test_tells_the_line_of_a_mistake(self):
        with open(self.recipe, "w", encoding="utf-8") as f:
            f.write(RECIPE.replace('"except"', '"exept"'))
        for args in (["check", self.recipe], ["show", self.recipe]):
            done = self.run_tool(*args)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"{self.recipe}:7: a function has no 'exept' (did you mean 'except'?)", done.stderr)

    def test_has_exit_codes_of_the_other_verbs(self):
        for args, code, says in ((["check", "/no/such/file"], 4, "/no/such/file: No such file"),
                                 (["check", self.library], 4, "no recipe fits"),
                                 (["check", "/etc/hostname"], 1, "not an ELF file"),
                                 (["check", os.path.join(self.dir, "no.json")], 4, "no.json: No such file"),
                                 (["show", "nosuch"], 4, "there is no recipe 'nosuch'"),
                                 (["show", "nosuch.json"], 4, "nosuch.json: No such file"),
                                 (["show"], 2, "show which one?"),
                                 (["check"], 2, "check which file?"),
                                 (["shew", "x"], 2, "neither show nor check"),
                                 (["--nosuch"], 2, "nosuch")):
            with self.subTest(args):
                done = self.run_tool(*args)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertIn(says, done.stderr)


if __name__ == "__main__":
    unittest.main()
