"""Definitions, exported to a file and imported from one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

from amqpd.cli.ctl.errors import EXIT_DATA, Failure, no_such_vhost
from amqpd.cli.ctl.progress import Bar
from amqpd.cli.ctl.table import Answer, as_json
from amqpd.cli.ctl.verb import Call, Option, Verb

#: Importing thousands of queues takes longer than any other request.
IMPORT_TIMEOUT_S: Final = 600.0
_FORMAT: Final = Option(
    "--format", "of the file", choices=("json", "JSON"), default="json"
)


def export_definitions(call: Call) -> Answer:
    """Write users, virtual hosts, policies, queues and so on to a file."""
    names = ["definitions", *([] if call.said.vhost is None else [call.vhost])]
    missing = None if call.said.vhost is None else no_such_vhost(call.vhost)
    with Bar("exporting", None, is_bytes=True) as bar:
        definitions = call.api.get(*names, missing=missing, on_bytes=bar.advance)
    text = as_json(definitions, None) + "\n"
    if call.said.file == "-":
        sys.stdout.write(text)
        return None
    try:
        Path(call.said.file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise _unusable(call.said.file, error) from error
    call.note(f"exported: {_counted(definitions)}")
    return None


def import_definitions(call: Call) -> Answer:
    """Add what a file defines; what is there already and differs is overwritten."""
    data = _read(call.said.file)
    definitions = _checked(data, call.said.file)
    names = ["definitions", *([] if call.said.vhost is None else [call.vhost])]
    patience_s = max(call.timeout_s, IMPORT_TIMEOUT_S)
    bar = Bar("importing", len(data), is_bytes=True)
    with bar, call.api.with_timeout(patience_s) as api:
        api.upload(*names, data=data, on_bytes=bar.advance)
    call.note(f"imported: {_counted(definitions)}")
    return None


def _read(name: str | None) -> bytes:
    if name in (None, "-"):
        return sys.stdin.buffer.read()
    try:
        return Path(str(name)).read_bytes()
    except OSError as error:
        raise _unusable(str(name), error) from error


def _checked(data: bytes, name: str | None) -> dict[str, Any]:
    """Return what the file says, before the broker is asked to read it.

    Raises:
        Failure: those are not definitions.
    """
    where = "standard input" if name in (None, "-") else name
    try:
        definitions = json.loads(data)
    except ValueError as error:
        raise Failure(f"{where} is not JSON: {error}", EXIT_DATA) from error
    if not isinstance(definitions, dict):
        raise Failure(f"{where} holds no definitions: not a JSON object", EXIT_DATA)
    return definitions


def _unusable(name: str, error: OSError) -> Failure:
    return Failure(f"{name}: {error.strerror}", EXIT_DATA)


def _counted(definitions: dict[str, Any]) -> str:
    counts = [
        f"{len(value):,} {key.replace('_', ' ')}"
        for key, value in definitions.items()
        if isinstance(value, list) and value
    ]
    return ", ".join(counts) or "nothing"


VERBS: Final = (
    Verb(
        "export_definitions",
        export_definitions,
        "write all definitions to a file, or those of the virtual host -p; - is "
        "standard output",
        "file",
        (_FORMAT,),
        banner='Exporting definitions in JSON to a file at "{file}" ...',
    ),
    Verb(
        "import_definitions",
        import_definitions,
        "read definitions from a file, or from standard input",
        "file?",
        (
            _FORMAT,
            Option(
                "--skip-if-unchanged",
                "taken from scripts; importing twice changes nothing anyway",
            ),
        ),
        banner="Importing definitions in JSON from a file at {file} ...",
    ),
)
