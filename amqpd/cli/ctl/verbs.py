"""All verbs, in the groups that help shows them in."""

from __future__ import annotations

from typing import Final

from amqpd.cli.ctl import (
    checks,
    completion,
    connections,
    definitions,
    facts,
    limits,
    listings,
    node,
    parameters,
    permissions,
    policies,
    queues,
    report,
    shims,
    status,
    users,
    vhosts,
)
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Verb


def _completion(call: Call) -> Answer:
    return completion.SCRIPTS[call.said.shell].rstrip("\n")


GROUPS: Final[tuple[tuple[str, tuple[Verb, ...]], ...]] = (
    ("The broker", (*status.VERBS, *facts.VERBS, *report.VERBS, *node.VERBS)),
    ("Checks, as rabbitmq-diagnostics has them", checks.VERBS),
    ("Lists", listings.VERBS),
    ("Queues and messages", queues.VERBS),
    ("Connections", connections.VERBS),
    ("Users", users.VERBS),
    ("Permissions", permissions.VERBS),
    ("Virtual hosts", vhosts.VERBS),
    ("Policies", policies.VERBS),
    ("Parameters", parameters.VERBS),
    ("Limits", limits.VERBS),
    ("Definitions", definitions.VERBS),
    (
        "This command",
        (
            Verb(
                "completion",
                _completion,
                'completion for your shell: eval "$(amqpctl completion bash)"',
                "shell",
            ),
            *shims.VERBS,
        ),
    ),
)
BY_NAME: Final = {verb.name: verb for _, verbs in GROUPS for verb in verbs}


def find(name: str) -> Verb | None:
    """Return the verb of that name."""
    return BY_NAME.get(name)


def nearest(program: str, name: str) -> str:
    """Return what to tell somebody who misspelt a verb."""
    from difflib import get_close_matches

    near = get_close_matches(name, BY_NAME, 3)
    if near:
        return f"did you mean {' or '.join(near)}?"
    return f"{program} help lists all verbs"
