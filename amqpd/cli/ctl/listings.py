"""Lists of what moves messages: queues, exchanges, bindings, and who is connected.

The column names are those of `rabbitmqctl`. What is a process of the Erlang machine
there (`pid`) is the name here, which is what close_connection takes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from amqpd.cli.ctl.listing import Listing, chosen, field_of, listed
from amqpd.cli.ctl.table import Answer, Table
from amqpd.cli.ctl.verb import Call, Option, Verb

_QUEUES: Final = Listing(
    "queues",
    "name messages",
    "name vhost type durable auto_delete exclusive arguments state policy "
    "operator_policy effective_policy_definition messages messages_ready "
    "messages_unacknowledged messages_persistent messages_ram messages_ready_ram "
    "messages_unacknowledged_ram messages_paged_out message_bytes "
    "message_bytes_ready message_bytes_unacknowledged message_bytes_ram "
    "message_bytes_persistent message_bytes_paged_out head_message_timestamp consumers "
    "consumer_utilisation consumer_capacity exclusive_consumer_tag "
    "single_active_consumer_tag memory idle_since disk_reads=message_stats.disk_reads "
    "disk_writes=message_stats.disk_writes pid=name owner_pid=owner_pid_details.name "
    "exclusive_consumer_pid=exclusive_consumer_tag slave_pids synchronised_slave_pids "
    "leader members online",
)
_EXCHANGES: Final = Listing(
    "exchanges",
    "name type",
    "name vhost type durable auto_delete internal arguments policy "
    "user_who_performed_action publish_in=message_stats.publish_in "
    "publish_out=message_stats.publish_out",
)
_BINDINGS: Final = Listing(
    "bindings",
    "source_name source_kind destination_name destination_kind routing_key arguments",
    "source_name=source source_kind=source_kind destination_name=destination "
    "destination_kind=destination_type routing_key arguments vhost properties_key",
)
_CONSUMERS: Final = Listing(
    "consumers",
    "queue_name channel_pid consumer_tag ack_required prefetch_count active arguments",
    "queue_name=queue.name channel_pid=channel_details.name consumer_tag ack_required "
    "prefetch_count active activity_status arguments exclusive consumer_timeout "
    "user=channel_details.user",
)
_CONNECTIONS: Final = Listing(
    "connections",
    "user peer_host peer_port state",
    "pid=name name user user_provided_name vhost host port peer_host peer_port state "
    "channels protocol auth_mechanism ssl ssl_protocol ssl_key_exchange ssl_cipher "
    "ssl_hash peer_cert_subject peer_cert_issuer peer_cert_validity timeout frame_max "
    "channel_max client_properties connected_at recv_oct recv_cnt send_oct send_cnt "
    "send_pend node",
    is_per_vhost=False,
)
_CHANNELS: Final = Listing(
    "channels",
    "pid user consumer_count messages_unacknowledged",
    "pid=name connection=connection_details.name name number user vhost state "
    "transactional confirm consumer_count messages_unacknowledged "
    "messages_uncommitted acks_uncommitted messages_unconfirmed prefetch_count "
    "global_prefetch_count idle_since node",
    is_per_vhost=False,
)
_LOCAL: Final = tuple(
    Option(name, "taken from scripts that ask a cluster; there is one node")
    for name in ("--local", "--online", "--offline")
)


def _lister(listing: Listing) -> Callable[[Call], Answer]:
    return lambda call: listed(call, listing)


def list_bindings(call: Call) -> Answer:
    """Return bindings; what they start from is always an exchange."""
    table = listed(call, _BINDINGS)
    rows = [
        {**row, "source_kind": "exchange"} if "source_kind" in row else row
        for row in table.rows
    ]
    return Table(table.columns, rows)


def list_consumers(call: Call) -> Answer:
    """Return consumers; their columns lie too deep for the API to choose them."""
    columns = chosen(call.said.column, _CONSUMERS)
    rows = [
        {column: field_of(item, _CONSUMERS.fields[column]) for column in columns}
        for item in call.api.get("consumers", call.vhost)
    ]
    return Table(columns, rows)


def list_unresponsive_queues(call: Call) -> Answer:
    """Return queues that do not answer: none, as long as the broker does."""
    columns = chosen(call.said.column, _QUEUES) if call.said.column else ["name"]
    call.api.get("queues", call.vhost, query={"columns": "name"})
    return Table(columns, [])


VERBS: Final = (
    Verb(
        "list_queues",
        _lister(_QUEUES),
        "queues",
        "column*",
        columns=tuple(_QUEUES.fields),
        options=_LOCAL,
        banner="Timeout: 60.0 seconds ...\nListing queues for vhost {vhost} ...",
    ),
    Verb(
        "list_exchanges",
        _lister(_EXCHANGES),
        "exchanges",
        "column*",
        columns=tuple(_EXCHANGES.fields),
        banner="Listing exchanges for vhost {vhost} ...",
    ),
    Verb(
        "list_bindings",
        list_bindings,
        "bindings",
        "column*",
        columns=tuple(_BINDINGS.fields),
        banner="Listing bindings for vhost {vhost}...",
    ),
    Verb(
        "list_connections",
        _lister(_CONNECTIONS),
        "connections",
        "column*",
        columns=tuple(_CONNECTIONS.fields),
        banner="Listing connections ...",
    ),
    Verb(
        "list_channels",
        _lister(_CHANNELS),
        "channels",
        "column*",
        columns=tuple(_CHANNELS.fields),
        banner="Listing channels ...",
    ),
    Verb(
        "list_consumers",
        list_consumers,
        "consumers",
        "column*",
        columns=tuple(_CONSUMERS.fields),
        banner="Listing consumers in vhost {vhost} ...",
    ),
    Verb(
        "list_unresponsive_queues",
        list_unresponsive_queues,
        "queues that do not answer",
        "column*",
        options=_LOCAL,
        columns=tuple(_QUEUES.fields),
        banner="Listing unresponsive queues for vhost {vhost} ...",
    ),
)
