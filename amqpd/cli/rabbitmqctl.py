"""What the scripts of `amqpctl install-shims` run: RabbitMQ's tools, by their names.

    rabbitmqctl, rabbitmq-diagnostics, ...   the verbs of amqpctl, printed as there:
                                             banners, tabs, "Error:"
    rabbitmq-plugins                         what is built in is enabled

Compose files and test suites call these tools for what amqpd does by itself, so what
has nothing to do here succeeds. What would do harm if it silently did nothing
(`join_cluster`, `eval`) fails.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from amqpd.cli.ctl.command_line import find_verb, run
from amqpd.cli.ctl.errors import EXIT_OK, EXIT_UNAVAILABLE, EXIT_USAGE

#: Plugins whose work amqpd does.
BUILT_IN: Final = (
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_event_exchange",
    "rabbitmq_management",
    "rabbitmq_management_agent",
    "rabbitmq_prometheus",
    "rabbitmq_random_exchange",
    "rabbitmq_recent_history_exchange",
    "rabbitmq_sharding",
)
#: Verbs that have nothing to do here.
_NOTHING_TO_DO: Final = (
    "await_online_nodes",
    "await_online_quorum_plus_one",
    "force_gc",
    "hipe_compile",
    "post_upgrade",
    "rebalance",
    "rotate_logs",
    "sync_queue",
)
_OTHER_NAMES: Final = {
    "stop": "shutdown",
    "wait": "await_startup",
    "enable_vhost_deletion_protection": "enable_vhost_protection_from_deletion",
    "disable_vhost_deletion_protection": "disable_vhost_protection_from_deletion",
    "check_if_node_is_mirror_sync_critical": "check_if_node_is_quorum_critical",
}
#: They may be told the file that the process writes its number to.
_GIVEN_A_FILE: Final = ("stop", "wait")
_PLUGIN_VERBS: Final = ("list", "enable", "disable", "set", "is_enabled")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool that the first argument names, and return the exit code."""
    tool, *words = sys.argv[1:] if arguments is None else arguments
    if tool == "rabbitmq-plugins":
        return _plugins(words)
    verb, rest = find_verb(words)
    if verb in _NOTHING_TO_DO:
        return EXIT_OK
    if verb in _GIVEN_A_FILE:
        _, rest = find_verb(rest)
    if verb is not None:
        words = [_OTHER_NAMES.get(verb, verb), *rest]
    return run(tool, [*_place(words), *words], is_rabbitmqctl=True)


def _place(words: list[str]) -> list[str]:
    """Return the option that says where the broker is, if another machine is meant.

    `-n rabbit@host` is another node for RabbitMQ's tools; to do what is asked for to
    the broker on this machine instead would be worse than to fail.
    """
    node = next((b for a, b in pairwise(words) if a in ("-n", "--node")), "")
    host = node.partition("@")[2]
    if "AMQPCTL_URL" in os.environ or host.split(".")[0] in ("", *_here()):
        return []
    return ["--url", f"http://guest:guest@{host}:15672"]


def _here() -> tuple[str, str]:
    return "localhost", os.uname().nodename.split(".")[0]


def _plugins(words: list[str]) -> int:
    said = [word for word in words if not word.startswith("-")]
    verb, *names = said or [""]
    if verb not in _PLUGIN_VERBS:
        text = f"usage: rabbitmq-plugins {'|'.join(_PLUGIN_VERBS)} [PLUGIN]..."
        print(text, file=sys.stderr)
        return EXIT_USAGE
    if verb == "list":
        return _list_plugins(set(words))
    if verb == "is_enabled":
        return _is_enabled(names)
    for name in names:
        if verb != "disable" and name not in BUILT_IN:
            print(f"amqpd has no {name}: nothing is enabled", file=sys.stderr)
        elif verb == "disable" and name in BUILT_IN:
            print(f"amqpd cannot disable {name}: it stays", file=sys.stderr)
        else:
            print(f"{name} is {'off' if verb == 'disable' else 'built in'}")
    return EXIT_OK


def _list_plugins(words: set[str]) -> int:
    is_minimal = bool({"-m", "--minimal"} & words)
    if not is_minimal and not {"-q", "--quiet", "-s", "--silent"} & words:
        print("Listing plugins, all of them built in ...")
    for name in BUILT_IN:
        print(name if is_minimal else f"[E*] {name}")
    return EXIT_OK


def _is_enabled(names: list[str]) -> int:
    missing = [name for name in names if name not in BUILT_IN]
    if missing:
        print(f"Plugin {', '.join(missing)} is not enabled", file=sys.stderr)
        return EXIT_UNAVAILABLE
    print(f"Plugin {', '.join(names)} is enabled")
    return EXIT_OK
