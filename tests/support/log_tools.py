"""Verifying and repairing a written log, as `amqpd store` does."""

from store.log_survey import LogSurvey
from store.repair import Repair, move_aside
from store.verification import Verification
from tests.support.written_log import DIRECTORY, UUID, WrittenLog


def survey_of(log: WrittenLog) -> LogSurvey:
    return LogSurvey(log.filesystem, DIRECTORY, UUID, log.known, log.highest)


def verified(log: WrittenLog) -> Verification:
    """Read everything."""
    verification = Verification(survey_of(log))
    while not verification.advance():
        pass
    return verification


def damages(log: WrittenLog) -> list[str]:
    """Return what a verification calls damaged, a line each."""
    survey = verified(log).survey
    lines = [one.text for one in survey.findings if one.is_damage]
    assert survey.is_damaged == bool(lines)
    return lines


def notes(log: WrittenLog) -> list[str]:
    """Return what a verification only mentions."""
    return [one.text for one in verified(log).survey.findings if not one.is_damage]


def repair(log: WrittenLog) -> list[str]:
    """Repair what is damaged; return what was done."""
    survey = verified(log).survey
    lines = move_aside(log.filesystem, DIRECTORY, survey.foreign)
    work = Repair(survey_of(log))
    while not work.advance():
        pass
    return lines + work.lines
