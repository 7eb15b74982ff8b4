# SPDX-License-Identifier: Apache-2.0
"""report.json and memory_stats.json against their JSON Schemas, as the tool prints them."""
import functools
import json
import subprocess

import jsonschema

import lib

SCHEMA_OF = {"clika-bpf-prof report": "report", "clika-bpf-prof memory statistics": "memory"}
FILES = ("report.json", "memory_stats.json")


def no_constants(name):
    raise ValueError(f"{name} is no JSON")


def load(path):
    """Strict: no NaN, no key twice."""
    def once(pairs):
        keys = [k for k, _ in pairs]
        if len(set(keys)) != len(keys):
            raise ValueError(f"{path}: a key is there twice: {keys}")
        return dict(pairs)
    with open(path, encoding="utf-8") as f:
        return json.load(f, parse_constant=no_constants, object_pairs_hook=once)


@functools.lru_cache(None)
def validator(name):
    text = subprocess.run([lib.TOOL, "schema", name], check=True, capture_output=True, text=True).stdout
    schema = json.loads(text)
    # Releases before 4.0 do not know 2020-12; nothing in the schemas is newer than draft 7.
    kind = getattr(jsonschema, "Draft202012Validator", jsonschema.Draft7Validator)
    if kind is not jsonschema.Draft7Validator:
        kind.check_schema(schema)
    return kind(schema)


def check(path):
    """The document; fails when it does not fit its schema."""
    document = load(path)
    errors = [f"{'.'.join(map(str, e.absolute_path))}: {e.message[:300]}"
              for e in validator(SCHEMA_OF[document["format"]]).iter_errors(document)]
    if errors:
        raise AssertionError(f"{path} does not fit its schema:\n" + "\n".join(errors[:5]))
    return document
