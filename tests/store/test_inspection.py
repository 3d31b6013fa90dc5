"""What an inspection of a log says that it holds."""

from store.inspection import Inspection
from store.segment_index import index_path
from tests.support.log_tools import survey_of
from tests.support.written_log import LOG, WrittenLog

FIRST = f"{LOG}/00000001.seg"


def inspected(log: WrittenLog) -> Inspection:
    inspection = Inspection(survey_of(log))
    while not inspection.advance():
        pass
    return inspection


def two_segments() -> WrittenLog:
    log = WrittenLog()
    log.messages(1, 1, 2, 3)
    log.messages(2, 1)
    log.seal()
    log.settle(1, 1, 2)
    log.messages(1, 4)
    return log


def counts(log: WrittenLog) -> dict[str, int]:
    return {one.name: int(one.references) for one in inspected(log).segments()}


def test_each_segment_has_what_queues_still_need_of_it() -> None:
    log = two_segments()
    first, second = inspected(log).segments()
    assert [first.name, second.name] == ["00000001.seg", "00000002.seg"]
    assert [first.references, second.references] == [2, 1]
    assert first.file_size == log.filesystem.size(FIRST)
    assert 0 < first.live_size < first.file_size


def test_each_queue_has_its_counts() -> None:
    one, two = inspected(two_segments()).queues()
    assert [one.queue_id, one.count, one.run_count, one.first_seq] == [1, 2, 2, 3]
    assert [one.upper_seq, two.queue_id, two.count] == [4, 2, 1]
    assert one.size > two.size > 0


def test_the_counts_are_the_same_after_a_checkpoint_and_a_clean_stop() -> None:
    log = two_segments()
    before = counts(log)
    log.checkpoint()
    assert counts(log) == before
    log.stop()
    assert counts(log) == before
    assert inspected(log).file_count == 0


def test_a_missing_index_file_makes_no_difference() -> None:
    log = two_segments()
    before = counts(log)
    log.filesystem.remove(index_path(FIRST))
    assert counts(log) == before


def test_queues_that_are_gone_are_not_shown() -> None:
    log = two_segments()
    log.known.discard(2)
    assert [queue.queue_id for queue in inspected(log).queues()] == [1]


def test_what_a_start_would_refuse_is_a_finding() -> None:
    log = two_segments()
    log.checkpoint()
    log.filesystem.remove(FIRST)
    (finding,) = [one for one in inspected(log).survey.findings if one.is_damage]
    assert finding.text == f"{FIRST} is missing, and queues need 2 messages of it"


def test_damage_that_is_met_on_the_way_is_a_finding() -> None:
    log = two_segments()
    log.filesystem.remove(index_path(FIRST))
    log.filesystem.damage(FIRST, 200)
    findings = inspected(log).survey.findings
    assert any("a record is damaged" in one.text for one in findings)


def test_nothing_is_touched() -> None:
    log = two_segments()
    log.filesystem.calls.clear()
    inspected(log)
    reading = {"list_directory", "open_for_reading", "read", "read_file", "size"}
    assert set(log.filesystem.calls) <= reading


def test_progress_goes_from_none_to_all_segments() -> None:
    inspection = Inspection(survey_of(two_segments()))
    done = [int(inspection.files_done)]
    while not inspection.advance():
        done.append(int(inspection.files_done))
    done.append(int(inspection.files_done))
    assert done == [0, 1, 2]
    assert inspection.file_count == 2


def test_an_empty_log_holds_nothing() -> None:
    log = WrittenLog()
    inspection = inspected(log)
    assert inspection.segments() == []
    assert inspection.queues() == []
