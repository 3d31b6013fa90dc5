"""Scripts called `rabbitmqctl` and so on, for what calls RabbitMQ's tools by name.

They are written into a directory of the user's choice and never installed by
themselves: on a machine that has RabbitMQ, too, the names are taken.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import Final

from amqpd.cli.ctl.errors import EXIT_DATA, Failure
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Option, Verb

TOOLS: Final = (
    "rabbitmqctl",
    "rabbitmq-diagnostics",
    "rabbitmq-plugins",
    "rabbitmq-queues",
    "rabbitmq-upgrade",
)
#: Where this package lies, which -I keeps out of the path if it is a source tree.
_ROOT: Final = Path(__file__).resolve().parents[3]
_CODE: Final = (
    "import sys; sys.path.insert(0, sys.argv.pop(1));"
    " from amqpd.cli.rabbitmqctl import main; sys.exit(main())"
)
_MARK: Final = "# A shim of amqpd: speaks to the broker at AMQPCTL_URL."


def install_shims(call: Call) -> Answer:
    """Write the scripts; what is there under a name and is none of ours stays.

    Raises:
        Failure: it cannot be written, or is somebody else's.
    """
    directory = Path(call.said.directory)
    paths = [directory / tool for tool in TOOLS]
    try:
        directory.mkdir(parents=True, exist_ok=True)
        foreign = [path for path in paths if not call.said.force and _is_foreign(path)]
        if foreign:
            text = f"{foreign[0]} is there already, and no shim"
            raise Failure(text, EXIT_DATA, "--force overwrites it")
        for path in paths:
            path.write_text(script(path.name), encoding="utf-8")
            path.chmod(0o755)
    except OSError as error:
        raise Failure(f"{error.filename}: {error.strerror}", EXIT_DATA) from error
    if str(directory.resolve()) not in os.environ.get("PATH", "").split(os.pathsep):
        call.note(f'to use them: export PATH="{directory.resolve()}:$PATH"')
    return "\n".join(str(path) for path in paths)


def _is_foreign(path: Path) -> bool:
    return path.exists() and _MARK not in path.read_text(errors="replace")


def script(tool: str) -> str:
    """Return the script that stands for one of RabbitMQ's tools."""
    words = [sys.executable, "-I", "-c", _CODE, str(_ROOT), tool]
    return f'#!/bin/sh\n{_MARK}\nexec {shlex.join(words)} "$@"\n'


VERBS: Final = (
    Verb(
        "install-shims",
        install_shims,
        f"write scripts called {', '.join(TOOLS)} that drive this broker",
        "directory",
        (Option("--force", "overwrite what is there under these names"),),
    ),
)
