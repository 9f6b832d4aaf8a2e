#!/usr/bin/env python3
"""sbom.py [VERSIONS]: what libdlock consists of, as CycloneDX 1.5 in JSON.

VERSIONS: versions.txt of a bundle, whose parts are inside the wheels and the source distribution. Without it, the parts are left out:
packages of a distribution link the distribution's. SOURCE_DATE_EPOCH is the time in it.
"""
from __future__ import annotations

import datetime
import json
import os
import pathlib
import sys
import uuid
from typing import Any

import version

LICENSES = {"hiredis": "BSD-3-Clause", "nghttp2": "MIT", "protobuf-c": "BSD-2-Clause"}


def part(name: str, number: str, licence: str, where: str) -> dict[str, Any]:
    return {"type": "library", "bom-ref": f"{name}@{number}", "name": name, "version": number, "purl": f"pkg:{where}/{name}@{number}",
            "licenses": [{"license": {"id": licence}}]}


def document(number: str, versions: str, time: int) -> dict[str, Any]:
    parts = []
    for line in versions.split():
        name, _, inside = line.partition("_")
        parts.append({**part(name, inside, LICENSES[name], "deb/debian"), "scope": "required", "description": "compiled into wheels and bundles"})
    whole = part("libdlock", number, "MIT", "github/libdlock")
    return {
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1, "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, f'libdlock/{number}')}",
        "metadata": {"timestamp": datetime.datetime.fromtimestamp(time, datetime.timezone.utc).isoformat(), "component": whole},
        "components": parts, "dependencies": [{"ref": whole["bom-ref"], "dependsOn": [one["bom-ref"] for one in parts]}],
    }  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 2:
        sys.exit(__doc__)
    text = pathlib.Path(sys.argv[1]).read_text() if sys.argv[1:] else ""
    print(json.dumps(document(version.current(), text, int(os.environ.get("SOURCE_DATE_EPOCH", "0"))), indent=1))
