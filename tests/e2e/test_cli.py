# SPDX-License-Identifier: Apache-2.0
"""The command line: help, usage errors, exit codes. Nothing here needs root."""
import json
import os
import pwd
import re
import subprocess
import unittest

import lib

VERBS = ["record", "export", "list", "doctor"]


def run(*args, **kw):
    return lib.tool(*args, check=False, **kw)


def unprivileged():
    """Arguments for subprocess that take all privileges away, {} when there are none to begin with."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


class HelpTest(lib.Case):
    def test_help_begins_with_usage_and_examples(self):
        done = run("--help")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(done.stderr, "")
        self.assertTrue(done.stdout.startswith("Usage: clika-bpf-prof VERB"))
        self.assertLess(done.stdout.index("Examples:"), done.stdout.index("Options:"))
        for verb in VERBS:
            self.assertRegex(done.stdout, rf"(?m)^  {verb} +\S")

    def test_every_verb_has_help_with_examples_and_exit_status(self):
        for verb in VERBS:
            for args in ([verb, "--help"], [verb, "-h"], ["help", verb]):
                with self.subTest(args=args):
                    done = run(*args)
                    self.assertEqual((done.returncode, done.stderr), (0, ""))
                    self.assertIn(f"Usage: clika-bpf-prof {verb}", done.stdout)
                    self.assertIn("Examples:", done.stdout)
                    self.assertIn("Exit status:", done.stdout)

    def test_help_lists_every_format_with_its_file(self):
        text = run("export", "--help").stdout
        for fmt, name in (("chrome", "chrome_trace.json"), ("summary", "summary.txt")):
            self.assertRegex(text, rf"(?m)^\* {fmt} +{re.escape(name)} +\S")

    def test_help_fits_a_terminal_of_100_columns(self):
        for args in ([], *([v] for v in VERBS)):
            for line in run(*args, "--help").stdout.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_version_is_that_of_the_library(self):
        done = run("--version")
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stdout, r"^clika-bpf-prof \d+\.\d+\.\d+\n$")

    def test_a_full_disk_behind_standard_output_is_a_failure(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([lib.TOOL, "--help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1)
        self.assertIn("standard output", done.stderr)


class UsageTest(lib.Case):
    def assertUsage(self, *args):
        done = run(*args)
        self.assertEqual(done.returncode, 2, f"{args}: {done.stderr}")
        self.assertTrue(done.stderr.startswith("clika-bpf-prof"), done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    def test_no_verb_shows_how_it_is_used(self):
        done = run()
        self.assertEqual(done.returncode, 2)
        self.assertIn("Usage:", done.stderr)

    def test_an_unknown_verb_is_named(self):
        self.assertIn("'recrod'", self.assertUsage("recrod"))

    def test_unknown_options_are_named(self):
        for verb in VERBS:
            self.assertIn("--no-such-option", self.assertUsage(verb, "--no-such-option"))

    def test_bad_values_are_named_with_their_option(self):
        for option, value in (("--duration", "10x"), ("--duration", "0"), ("--max-time", "-1"),
                              ("--delay", "soon"), ("--min-duration", ""), ("--max-size", "big"),
                              ("--ring-size", "4K"), ("--ring-size", "2G"), ("--uid", "no such user"),
                              ("--probe", "no_colon"), ("--usdt", "no_colon"), ("--format", "nonsense"),
                              ("--format", "chrome,,summary")):
            with self.subTest(option=option, value=value):
                self.assertUsage("record", option, value)

    def test_bad_pids_are_named(self):
        for value in ("0", "-1", "x", "1,", "99999999999"):
            self.assertIn(f"'{value}'", self.assertUsage("record", f"--pid={value}"))

    def test_options_that_contradict_each_other_are_refused(self):
        for args in (["-p", "1", "--", "true"], ["--as-root", "-p", "1"], ["--flight-recorder"],
                     ["--no-markers", "--no-auto"], ["--no-export", "--format", "chrome"]):
            with self.subTest(args=args):
                self.assertUsage("record", *args)

    def test_one_argument_too_many_is_named(self):
        for verb in ("list", "doctor"):
            self.assertIn("'more'", self.assertUsage(verb, "more"))
        self.assertIn("'more'", self.assertUsage("export", "a", "more"))

    def test_usage_errors_leave_nothing_behind(self):
        out = os.path.join(self.tmp(), "out")
        self.assertUsage("record", "-o", out, "-d", "x")
        self.assertFalse(os.path.exists(out))

    def test_export_wants_a_recording_and_a_sensible_range(self):
        self.assertUsage("export")
        self.assertUsage("export", "x", "--from", "3s", "--to", "2s")
        self.assertUsage("export", "x", "--pid", "0")


class OutputTest(lib.Case):
    def test_record_refuses_a_link_as_its_folder(self):
        os.mkdir(os.path.join(self.tmp(), "real"))
        link = os.path.join(self.tmp(), "link")
        os.symlink("real", link)
        for path in (link, link + "/"):
            done = run("record", "-d", "1", "-o", path)
            self.assertEqual(done.returncode, 1)
            self.assertIn("symbolic link", done.stderr)
        self.assertEqual(os.listdir(os.path.join(self.tmp(), "real")), [])

    def test_record_never_writes_over_an_earlier_recording(self):
        for name in ("recording.clika", "chrome_trace.json"):
            with self.subTest(name=name):
                path = os.path.join(self.tmp(), name)
                with open(path, "w") as f:
                    f.write("precious")
                done = run("record", "-d", "1", "-o", self.tmp())
                self.assertEqual(done.returncode, 1)
                self.assertIn("--force", done.stderr)
                with open(path) as f:
                    self.assertEqual(f.read(), "precious")
                os.unlink(path)

    def test_export_of_what_is_no_recording_fails(self):
        path = os.path.join(self.tmp(), "x.clika")
        done = run("export", path)
        self.assertEqual(done.returncode, 1)
        self.assertIn("x.clika", done.stderr)
        with open(path, "wb") as f:
            f.write(b"\x7fELF, not a recording" * 1000)
        target = os.path.join(self.tmp(), "t.json")
        done = run("export", path, "--format", "chrome", "-o", target)
        self.assertEqual(done.returncode, 1)
        self.assertFalse(os.path.exists(target))

    def test_control_bytes_in_arguments_are_shown_escaped(self):
        done = run("\033[2Jclear")
        self.assertNotIn("\033", done.stderr)
        self.assertIn("\\x1b[2Jclear", done.stderr)


class PrivilegeTest(lib.Case):
    def test_recording_without_privilege_names_what_is_missing_and_how_to_get_it(self):
        folder = os.path.join(self.tmp(), "user")
        os.mkdir(folder)
        user = unprivileged()
        if user:
            os.chown(folder, user["user"], user["group"])
        done = run("record", "-d", "1", "-o", os.path.join(folder, "out"), **user)
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertRegex(done.stderr, r"CAP_\w+|root")
        self.assertIn("sudo", done.stderr)
        self.assertEqual(os.listdir(folder), [], "an empty folder is left behind")

    def test_doctor_without_privilege_says_that_recording_is_not_possible(self):
        done = run("doctor", **unprivileged())
        self.assertEqual(done.returncode, 3, done.stdout + done.stderr)
        self.assertIn("MISSING", done.stdout)
        self.assertIn("not possible", done.stdout)

    def test_doctor_ends_with_a_count_of_its_lines(self):
        out = run("doctor").stdout
        lines = [l for l in out.splitlines() if re.match(r"(ok|slower|MISSING) ", l)]
        counts = re.search(r"^(\d+) ok, (\d+) slower, (\d+) missing: ", out, re.M)
        self.assertIsNotNone(counts, out)
        self.assertEqual(sum(map(int, counts.groups())), len(lines))
        self.assertGreater(len(lines), 5)


class ListTest(lib.Case):
    def test_list_shows_a_process_with_markers(self):
        target = self.target("obeys")
        done = run("list")
        self.assertEqual(done.returncode, 0)
        row = [l for l in done.stdout.splitlines() if l.split()[:1] == [str(target.pid)]]
        self.assertEqual(len(row), 1, done.stdout)
        self.assertIn("batched", row[0])
        self.assertTrue(row[0].endswith("/obeys"), row[0])

    def test_list_writes_json(self):
        target = self.target("obeys")
        found = json.loads(run("list", "--json", "-p", target.pid).stdout)
        self.assertEqual([p["pid"] for p in found], [target.pid])
        self.assertEqual(found[0]["uid"], os.geteuid())
        self.assertEqual(found[0]["comm"], "obeys")
        self.assertEqual(os.path.realpath(found[0]["objects"][0]["path"]), os.path.realpath(target.path))
        self.assertTrue(found[0]["objects"][0]["batched"])
        self.assertFalse(found[0]["objects"][0]["deleted"])

    def test_list_names_markers_of_other_providers_on_request(self):
        target = self.target("sdt_plain", "--stay")
        self.assertEqual(json.loads(run("list", "--json", "-p", target.pid).stdout), [])
        found = json.loads(run("list", "--json", "--all-providers", "-p", target.pid).stdout)
        names = [m for o in found[0]["objects"] for m in o["markers"]]
        self.assertTrue(any(m.startswith("acme:") for m in names), names)

    def test_a_name_with_control_bytes_cannot_reach_the_terminal(self):
        evil = os.path.join(self.tmp(), "e\033[31mvil")
        with open(lib.fixture("obeys"), "rb") as f, open(evil, "wb") as to:
            to.write(f.read())
        os.chmod(evil, 0o755)
        target = lib.Target(self, evil)
        done = run("list")
        self.assertIn(str(target.pid), done.stdout)
        self.assertNotIn("\033", done.stdout)
        self.assertIn("\\x1b[31mvil", done.stdout)

    def test_list_of_a_process_that_does_not_exist_is_an_error_of_its_own(self):
        gone = self.target("obeys")
        gone.send("quit")
        gone.wait()
        self.assertEqual(run("list", "-p", gone.pid).returncode, 4)


if __name__ == "__main__":
    unittest.main()
