"""What is known of a virtual host."""

import pytest

from amqpd.broker.policies.policy import ParameterInvalid
from amqpd.broker.policies.vhost_metadata import NO_METADATA, VhostMetadata


def test_metadata_comes_back_as_it_was_kept() -> None:
    metadata = VhostMetadata("d", ("a", "b"), "quorum", True, True)
    assert NO_METADATA.with_fields(metadata.fields()).fields() == metadata.fields()


def test_what_is_not_said_stays() -> None:
    metadata = VhostMetadata("d", ("a",), "quorum", True, True)
    changed = metadata.with_fields({"description": "e"})
    assert changed.fields() == {**metadata.fields(), "description": "e"}


def test_tags_may_be_one_text() -> None:
    assert NO_METADATA.with_fields({"tags": "a, b,"}).tags == ("a", "b")


def test_old_definitions_have_it_outside_and_new_ones_inside() -> None:
    found = NO_METADATA.with_fields(
        {"metadata": {"description": "in", "tags": ["t"]}, "description": "out"}
    )
    assert (found.description, found.tags) == ("out", ("t",))


@pytest.mark.parametrize("kind", [None, "", "undefined"])
def test_no_type_of_queues_is_said_in_several_ways(kind: object) -> None:
    metadata = VhostMetadata(default_queue_type="quorum")
    changed = metadata.with_fields({"default_queue_type": kind})
    assert changed.default_queue_type is None
    assert "default_queue_type" not in changed.described()


@pytest.mark.parametrize(
    "fields",
    [
        {"description": 5},
        {"tags": 5},
        {"tags": [5]},
        {"default_queue_type": "zz"},
        {"default_queue_type": 5},
        {"tracing": "x"},
        {"protected_from_deletion": 1},
    ],
)
def test_what_cannot_be_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ParameterInvalid):
        NO_METADATA.with_fields(fields)
