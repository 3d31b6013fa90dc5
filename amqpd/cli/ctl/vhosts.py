"""Virtual hosts, and whether what passes through them is traced."""

from __future__ import annotations

from typing import Any, Final

from amqpd.cli.ctl.errors import Failure, no_such_vhost
from amqpd.cli.ctl.listing import Listing, listed
from amqpd.cli.ctl.table import Answer
from amqpd.cli.ctl.verb import Call, Option, Verb

_KEPT: Final = ("description", "tags", "default_queue_type", "tracing")
_NOTHING: Final = (None, "", "undefined")
_DESCRIPTION: Final = Option("--description", "what it is for", "TEXT")
_TAGS: Final = Option("--tags", "tags, with commas between them", "TAGS")
_QUEUE_TYPE: Final = Option(
    "--default-queue-type", "the type of queues declared without one", "TYPE"
)
_COLUMNS: Final = (
    "name tracing description tags default_queue_type metadata cluster_state "
    "protected_from_deletion"
)
_VHOSTS: Final = Listing("vhosts", "name", _COLUMNS, is_per_vhost=False)


def list_vhosts(call: Call) -> Answer:
    """Return the virtual hosts."""
    return listed(call, _VHOSTS)


def add_vhost(call: Call) -> Answer:
    """Make a virtual host in which nobody may do anything yet."""
    name = call.said.virtual_host
    is_there = _find(call, name) is not None
    said = {key: vars(call.said).get(key) for key in _KEPT}
    call.api.put("vhosts", name, body={k: v for k, v in said.items() if v is not None})
    if not is_there:
        # The API lets the user in who asked; a command line asks for nobody.
        call.api.delete("permissions", name, call.api.user)
    return None


def delete_vhost(call: Call) -> Answer:
    """Take a virtual host away, with everything in it."""
    name = call.said.virtual_host
    call.api.delete("vhosts", name, missing=no_such_vhost(name))
    return None


def set_vhost_tags(call: Call) -> Answer:
    """Replace the tags."""
    return _change(call, call.said.virtual_host, {"tags": ",".join(call.said.tag)})


def update_vhost_metadata(call: Call) -> Answer:
    """Change what is said of it, and nothing else."""
    said = vars(call.said)
    change = {key: said[key] for key in _KEPT if said.get(key) is not None}
    return _change(call, call.said.virtual_host, change)


def trace_on(call: Call) -> Answer:
    """Copy every message to amq.rabbitmq.trace."""
    _change(call, call.vhost, {"tracing": True})
    return f"Trace enabled for vhost {call.vhost}"


def trace_off(call: Call) -> Answer:
    """Copy none any more."""
    _change(call, call.vhost, {"tracing": False})
    return f"Trace disabled for vhost {call.vhost}"


def protect(call: Call) -> Answer:
    """Refuse to delete it."""
    name = call.said.virtual_host
    missing = no_such_vhost(name)
    call.api.post("vhosts", name, "deletion", "protection", missing=missing)
    return None


def unprotect(call: Call) -> Answer:
    """Let it be deleted."""
    name = call.said.virtual_host
    missing = no_such_vhost(name)
    call.api.delete("vhosts", name, "deletion", "protection", missing=missing)
    return None


def restart_vhost(call: Call) -> Answer:
    """Start what does not run; here a virtual host runs or is not there."""
    missing = no_such_vhost(call.vhost)
    node = call.api.get("overview")["node"]
    call.api.post("vhosts", call.vhost, "start", node, missing=missing)
    return f"Successfully restarted vhost '{call.vhost}' on node '{node}'"


def _find(call: Call, name: str) -> Any:
    missing = no_such_vhost(name)
    try:
        return call.api.get("vhosts", name, missing=missing)
    except Failure as error:
        if error is missing:
            return None
        raise


def _change(call: Call, name: str, change: dict[str, object]) -> Answer:
    """Send everything else back as it is: the API takes what is left out for empty."""
    there = call.api.get("vhosts", name, missing=no_such_vhost(name))
    body = {key: there[key] for key in _KEPT if there.get(key) not in _NOTHING}
    if isinstance(body.get("tags"), list):
        body["tags"] = ",".join(body["tags"])
    call.api.put("vhosts", name, body=body | change)
    return None


VERBS: Final = (
    Verb(
        "list_vhosts",
        list_vhosts,
        "virtual hosts",
        "column*",
        columns=tuple(_VHOSTS.fields),
        banner="Listing vhosts ...",
    ),
    Verb(
        "add_vhost",
        add_vhost,
        "make a virtual host; nobody has permissions in it yet",
        "virtual_host",
        (_DESCRIPTION, _TAGS, _QUEUE_TYPE),
        banner='Adding vhost "{virtual_host}" ...',
    ),
    Verb(
        "delete_vhost",
        delete_vhost,
        "take a virtual host away, with everything in it",
        "virtual_host",
        banner='Deleting vhost "{virtual_host}" ...',
    ),
    Verb(
        "update_vhost_metadata",
        update_vhost_metadata,
        "change description, tags or default queue type",
        "virtual_host",
        (_DESCRIPTION, _TAGS, _QUEUE_TYPE),
        banner='Updating metadata of vhost "{virtual_host}" ...',
    ),
    Verb(
        "set_vhost_tags",
        set_vhost_tags,
        "replace a virtual host's tags",
        "virtual_host tag*",
        banner='Setting tags for vhost "{virtual_host}" to [{tag}] ...',
    ),
    Verb(
        "enable_vhost_protection_from_deletion",
        protect,
        "refuse to delete a virtual host",
        "virtual_host",
        banner='Protecting virtual host "{virtual_host}" from removal...',
    ),
    Verb(
        "disable_vhost_protection_from_deletion",
        unprotect,
        "let a virtual host be deleted again",
        "virtual_host",
        banner='Removing deletion protection from virtual host "{virtual_host}"...',
    ),
    Verb(
        "restart_vhost",
        restart_vhost,
        "start a virtual host that failed",
        banner="Trying to restart vhost '{vhost}' ...",
    ),
    Verb(
        "trace_on",
        trace_on,
        "publish a copy of every message to amq.rabbitmq.trace",
        banner='Starting tracing for vhost "{vhost}" ...',
    ),
    Verb(
        "trace_off",
        trace_off,
        "no more copies to amq.rabbitmq.trace",
        banner='Stopping tracing for vhost "{vhost}" ...',
    ),
)
