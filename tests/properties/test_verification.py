"""What a store writes, whatever it does, is sound: crashes and power cuts included."""

import random

import pytest

from store.inspection import Inspection
from store.log_survey import LogSurvey
from store.verification import Verification
from tests.support.memory_filesystem import MemoryFileSystem
from tests.support.store_driver import DIRECTORY, UUID, StoreDriver


def survey_of(driver: StoreDriver) -> LogSurvey:
    return LogSurvey(
        driver.filesystem, DIRECTORY, UUID, driver.queues, driver.highest_queue_id
    )


def check_sound(driver: StoreDriver) -> None:
    """Everything is what was written; a quick look counts the same."""
    verification = Verification(survey_of(driver))
    while not verification.advance():
        pass
    survey = verification.survey
    assert [one.text for one in survey.findings if one.is_damage] == []
    inspection = Inspection(survey_of(driver))
    while not inspection.advance():
        pass
    for queue in inspection.queues():
        assert queue.count == survey.index.queues[int(queue.queue_id)].live_count


def act(driver: StoreDriver, chance: random.Random) -> None:
    """Do something that a broker does."""
    queue_id = chance.choice(sorted(driver.queues))
    live = driver.live(queue_id)
    kind = chance.randrange(10)
    if kind < 4:
        driver.append(*chance.sample(sorted(driver.queues), chance.choice([1, 1, 2])))
    elif kind == 4 and live:
        for key in live[: chance.randrange(1, 9)]:
            driver.settle(key)
    elif kind == 5 and live:
        driver.settle(chance.choice(live))
    elif kind == 6:
        driver.deliver(queue_id)
    elif kind == 7 and live:
        driver.give_back(chance.choice(live), chance.randrange(1, 5))
    elif kind == 8:
        driver.look_after()
    else:
        driver.sync()


@pytest.mark.parametrize("seed", range(10))
def test_a_log_is_sound_whenever_its_broker_ends(seed: int) -> None:
    chance = random.Random(seed)
    driver = StoreDriver(MemoryFileSystem())
    driver.open()
    for _ in range(4):
        for _ in range(chance.randrange(60)):
            act(driver, chance)
        how = chance.randrange(3)
        if how == 0:
            driver.tick()
            driver.stop()
        elif how == 1:
            driver.filesystem.restart()
        else:
            driver.filesystem.power_cut(chance)
        check_sound(driver)
        driver.reopen()
