"""Definitions: everything that is set up here, written down, and read in again.

An export is RabbitMQ's, so that it goes into RabbitMQ too; what only exists as long as
a connection is not in it, and neither is what every virtual host has from its
beginning. Hashes of passwords are as they are kept: RabbitMQ does not know those of
ours that are called `amqpd_...` (see `amqpd.auth.passwords`).

An import is checked as a whole before anything is changed, and is one change on the
disk. Whoever is about a name that is in it waits until it is done.
"""

from __future__ import annotations

import asyncio
import email.parser
import email.policy
from collections.abc import Callable, Iterable
from typing import Any, Final

from amqpd.broker.definition_file import (
    Definitions,
    DefinitionsInvalid,
    read_definitions,
    read_vhost_definitions,
)
from amqpd.broker.definitions import Loading, NameHold, hash_passwords
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.http.answer import NO_CONTENT, Answer, encode
from amqpd.http.api import definition_export as export
from amqpd.http.call import Call
from amqpd.http.columns import Facts
from amqpd.http.endpoint import Endpoint, Need
from amqpd.http.errors import BadRequest
from amqpd.http.json_text import parse
from amqpd.http.pace import Pace

_FORM: Final = "multipart/form-data"
#: How many queues of a file were not made, if any; the log names them.
LEFT_OUT: Final = "Amqpd-Left-Out"


# -- export ---------------------------------------------------------------------


async def export_all(call: Call) -> Answer:
    """Everything."""
    broker, identity = call.broker, call.room.identity
    vhosts = [broker.vhosts[name] for name in sorted(broker.vhosts)]
    sections: dict[str, Iterable[Facts]] = {
        "users": export.users(broker),
        "vhosts": map(export.vhost_facts, vhosts),
        "permissions": export.permissions(broker),
        "topic_permissions": export.topic_permissions(broker),
        "parameters": export.parameters(broker, [vhost.name for vhost in vhosts]),
        "global_parameters": export.global_parameters(broker),
        **_topology(vhosts),
    }
    return await _written(call, export.cluster_head(identity), sections)


async def export_vhost(call: Call) -> Answer:
    """What is set and declared in one virtual host, without its name."""
    broker, vhost = call.broker, call.vhost()
    sections: dict[str, Iterable[Facts]] = {
        "parameters": export.parameters(broker, [vhost.name]),
        **_topology([vhost]),
    }
    nameless: dict[str, Iterable[Facts]] = {
        name: map(export.without_vhost, items) for name, items in sections.items()
    }
    head = export.vhost_head(call.room.identity, broker, vhost)
    return await _written(call, head, nameless)


def _topology(vhosts: list[VirtualHost]) -> dict[str, Iterable[Facts]]:
    return {
        "policies": export.policies(vhosts),
        "queues": export.queues(vhosts),
        "exchanges": export.exchanges(vhosts),
        "bindings": export.bindings(vhosts),
    }


async def _written(
    call: Call, head: Facts, sections: dict[str, Iterable[Facts]]
) -> Answer:
    pace = Pace()
    pieces = [encode(head)[:-1]]
    for name, items in sections.items():
        written = []
        for item in items:
            written.append(encode(item))
            await pace.step()
        pieces.append(b',"%s":[%s]' % (name.encode(), b",".join(written)))
    pieces.append(b"}")
    headers = {}
    download = call.query.get("download")
    if download and download.isprintable():
        headers["Content-Disposition"] = f"attachment; filename={download}"
    return Answer(b"".join(pieces), headers=headers)


# -- import ---------------------------------------------------------------------


async def import_all(call: Call) -> Answer:
    """Make everything that a file defines."""
    return await _import(call, read_definitions)


async def import_into_vhost(call: Call) -> Answer:
    """Make in one virtual host what a file sets and declares."""
    name = call.vhost().name
    return await _import(call, lambda parsed: read_vhost_definitions(parsed, name))


async def _import(call: Call, read: Callable[[Any], Definitions]) -> Answer:
    octets = await call.octets()
    content_type = call.headers.get("Content-Type", "")

    def prepare() -> Definitions:
        definitions = read(_parsed(octets, content_type))
        hash_passwords(call.broker, definitions)
        return definitions

    try:
        # A file may be long: the loop goes on meanwhile.
        loading = Loading(call.broker, await asyncio.to_thread(prepare))
        await _load(call, loading)
    except DefinitionsInvalid as error:
        raise BadRequest(str(error)) from error
    count = loading.left_out_count
    return Answer(status=204, headers={LEFT_OUT: str(count)}) if count else NO_CONTENT


async def _load(call: Call, loading: Loading) -> None:
    held: list[NameHold] = []
    names = loading.names()
    try:
        # In one order, so that two imports do not wait for each other.
        for vhost in sorted(names):
            held.append(await _hold(call, loading, vhost, names[vhost]))
        await _paced(loading.plan())
        row_ids = await call.ask(list, loading.stage)
        await _paced(loading.make(row_ids))
    finally:
        loading.end()
        for hold in held:
            hold.end()
        call.room.wake()


async def _hold(call: Call, loading: Loading, vhost: str, names: set[str]) -> NameHold:
    made: list[NameHold] = []

    def begin(done: Callable[[Any], None]) -> None:
        line = loading.line_of(vhost)
        if line is None:
            raise DefinitionsInvalid(f"there is no vhost '{vhost}'")
        hold = NameHold(names, done)
        made.append(hold)
        line.submit(hold)

    await call.change(begin)
    return made[0]


async def _paced(steps: Iterable[None]) -> None:
    pace = Pace()
    for _ in steps:
        await pace.step()


def _parsed(octets: bytes, content_type: str) -> Any:
    """Return the JSON of a body, which may be a form's file."""
    if content_type.startswith(_FORM):
        octets = _file_in(octets, content_type)
    try:
        return parse(octets)
    except (ValueError, RecursionError):
        raise BadRequest("failed_to_parse_json") from None


def _file_in(octets: bytes, content_type: str) -> bytes:
    head = f"Content-Type: {content_type}\r\n\r\n".encode()
    parser = email.parser.BytesParser(policy=email.policy.HTTP)
    for part in parser.parsebytes(head + octets).walk():
        if part.get_param("name", header="content-disposition") == "file":
            content = part.get_payload(decode=True)
            return content if isinstance(content, bytes) else b""
    raise BadRequest("the form has no file")


_ALL = "/api/definitions"
_OLD = "/api/all-configuration"
_ADMIN = Need.ADMINISTRATOR

ENDPOINTS = (
    Endpoint("GET", _ALL, _ADMIN, export_all),
    Endpoint("POST", _ALL, _ADMIN, import_all),
    Endpoint("GET", _OLD, _ADMIN, export_all),
    Endpoint("POST", _OLD, _ADMIN, import_all),
    Endpoint("GET", _ALL + "/{vhost}", _ADMIN, export_vhost),
    Endpoint("POST", _ALL + "/{vhost}", _ADMIN, import_into_vhost),
)
