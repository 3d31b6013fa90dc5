"""Setting and clearing parameters, policies and limits: checked, committed, in force.

    changes.put(parameter, done)        raises what is wrong with it, at once
      > row > commit > objects          a policy is in force when `done` is called

What a component means is known here: a policy becomes one of its virtual host's and is
applied to what it is for, a limit is looked at from then on, anything else is a value.
The same way leads into memory when the broker starts and when definitions come.
"""

import logging
from collections.abc import Callable
from typing import Final, cast, final

from amqpd.auth.users import UserRegistry
from amqpd.broker.catalogue.catalogue import Catalogue, CommitWaiter
from amqpd.broker.catalogue.statements import delete_parameter, put_parameter
from amqpd.broker.clients.admission import Admission
from amqpd.broker.errors import AmqpError, NotFound, ResourceError
from amqpd.broker.events import Events
from amqpd.broker.policies.number_limits import check_user_limits, check_vhost_limits
from amqpd.broker.policies.parameters import (
    GLOBAL,
    NO_VHOST,
    OPERATOR_POLICY,
    POLICY,
    USER_LIMITS,
    VHOST_LIMITS,
    Parameter,
    ParameterTable,
)
from amqpd.broker.policies.policy import ParameterInvalid, Policy
from amqpd.broker.vhosts.vhost import VirtualHost
from amqpd.wire.tables import Table

logger = logging.getLogger(__name__)

#: How the keys of events begin; all others are parameters.
_EVENTS: Final = {
    POLICY: "policy",
    VHOST_LIMITS: "vhost.limits",
    USER_LIMITS: "user.limits",
}

# Called with None when it is done.
Done = Callable[[AmqpError | None], None]


@final
class ParameterChanges:
    """All that may be set while the broker runs."""

    def __init__(
        self,
        catalogue: Catalogue,
        vhosts: dict[str, VirtualHost],
        users: UserRegistry,
        admission: Admission,
        events: Events,
    ) -> None:
        self._events = events
        self.parameters = ParameterTable()
        self.admission = admission
        self._catalogue = catalogue
        self._vhosts = vhosts
        self._users = users

    # -- changes --------------------------------------------------------------

    def put(self, parameter: Parameter, done: Done) -> None:
        """Set a value; `done` is called when it is in force.

        Raises:
            ParameterInvalid: it cannot be; nothing happens.
            NotFound: there is no such virtual host or user.
        """
        self.check(parameter)
        kept = checked(parameter)
        statements = put_parameter(kept.vhost, kept.component, kept.name, kept.value)
        self._catalogue.stage(statements, _Setting(self, kept, done))

    def remove(self, vhost: str, component: str, name: str, done: Done) -> None:
        """Clear a value; what is not there is cleared already."""
        statements = delete_parameter(vhost, component, name)
        waiter = _Clearing(self, vhost, component, name, done)
        self._catalogue.stage(statements, waiter)

    def check(self, parameter: Parameter) -> None:
        """Check a value, and that what it is for exists.

        Raises:
            ParameterInvalid: it cannot be.
            NotFound: there is no such virtual host or user.
        """
        checked(parameter)
        if parameter.component == USER_LIMITS:
            if self._users.get(parameter.name) is None:
                raise NotFound(f"no user '{parameter.name}'")
        elif parameter.component != GLOBAL and parameter.vhost not in self._vhosts:
            raise NotFound(f"vhost '{parameter.vhost}' not found")

    # -- memory ---------------------------------------------------------------

    def adopt(self, parameters: list[Parameter]) -> None:
        """Let values that the catalogue has be in force."""
        for vhost in sorted(self._adopt_all(parameters)):
            self._vhosts[vhost].topology.apply_policies(_nobody_waits)

    def adopt_one(self, parameter: Parameter, done: Done) -> None:
        """Let one value be in force; `done` is called when it is everywhere."""
        self._apply(self._adopt_all([parameter]), done)

    def _apply(self, vhosts: set[str], done: Done) -> None:
        """Apply the policies of at most one virtual host."""
        for vhost in vhosts:
            self._vhosts[vhost].topology.apply_policies(lambda: done(None))
        if not vhosts:
            done(None)

    def _adopt_all(self, parameters: list[Parameter]) -> set[str]:
        """Return the virtual hosts whose policies are others now."""
        changed: set[str] = set()
        for parameter in parameters:
            if not self._has_owner(parameter):
                # It went while this was on its way to the disk: so does this.
                self._catalogue.stage_errand(
                    delete_parameter(
                        parameter.vhost, parameter.component, parameter.name
                    )
                )
                continue
            try:
                self._adopt(parameter)
            except ParameterInvalid as error:
                # Another version has let it in.
                logger.error(
                    "%s '%s' in vhost '%s' is not applied: %s",
                    parameter.component,
                    parameter.name,
                    parameter.vhost,
                    error,
                )
            if parameter.component in (POLICY, OPERATOR_POLICY):
                changed.add(parameter.vhost)
        return changed

    def forget_one(self, vhost: str, component: str, name: str, done: Done) -> None:
        """Let a value be in force no more; `done` is called when it is nowhere."""
        self.parameters.remove(vhost, component, name)
        changed: set[str] = set()
        if component in (POLICY, OPERATOR_POLICY):
            there = self._vhosts.get(vhost)
            if there is not None:
                there.topology.policies.remove(name, component == OPERATOR_POLICY)
                changed.add(vhost)
        elif component == VHOST_LIMITS:
            self.admission.vhost_limits.pop(vhost, None)
        elif component == USER_LIMITS:
            self.admission.user_limits.pop(name, None)
        self._apply(changed, done)

    def forget_user(self, name: str) -> None:
        """A user is gone, or has no limits any more."""
        self.parameters.remove(NO_VHOST, USER_LIMITS, name)
        self.admission.user_limits.pop(name, None)

    def forget_vhost(self, vhost: str) -> None:
        """A virtual host is gone, and its rows with it."""
        for parameter in self.parameters.of_vhost(vhost):
            self.parameters.remove(vhost, parameter.component, parameter.name)
        self.admission.vhost_limits.pop(vhost, None)

    def tell_set(self, parameter: Parameter) -> None:
        """Note that a value was set, for whoever gets events."""
        headers: Table = {"name": parameter.name, "vhost": parameter.vhost}
        if parameter.component == POLICY and isinstance(parameter.value, dict):
            headers |= parameter.value
        else:
            headers["component"] = parameter.component
            headers["value"] = parameter.value
        self._events.tell(
            _EVENTS.get(parameter.component, "parameter") + ".set", headers
        )

    def tell_cleared(self, vhost: str, component: str, name: str) -> None:
        """Note that a value was cleared."""
        headers: Table = {"name": name, "vhost": vhost}
        if component != POLICY:
            headers["component"] = component
        self._events.tell(_EVENTS.get(component, "parameter") + ".cleared", headers)

    def _has_owner(self, parameter: Parameter) -> bool:
        if parameter.component == USER_LIMITS:
            return self._users.get(parameter.name) is not None
        return parameter.component == GLOBAL or parameter.vhost in self._vhosts

    def _adopt(self, parameter: Parameter) -> None:
        component = parameter.component
        if component in (POLICY, OPERATOR_POLICY):
            policy = _policy(parameter)
            self._vhosts[parameter.vhost].topology.policies.put(policy)
            if policy.removed_keys():
                logger.warning(
                    "policy '%s' in vhost '%s': %s: there are no mirrored queues any "
                    "more, this has no effect",
                    policy.name,
                    parameter.vhost,
                    ", ".join(policy.removed_keys()),
                )
        elif component == VHOST_LIMITS:
            limits = check_vhost_limits(parameter.value)
            self.admission.vhost_limits[parameter.vhost] = limits
        elif component == USER_LIMITS:
            limits = check_user_limits(parameter.value)
            self.admission.user_limits[parameter.name] = limits
        self.parameters.put(parameter)


def checked(parameter: Parameter) -> Parameter:
    """Return a value in the form in which it is kept.

    Raises:
        ParameterInvalid: it cannot be.
    """
    component = parameter.component
    value = parameter.value
    if component in (POLICY, OPERATOR_POLICY):
        value = _policy(parameter).value()
    elif component == VHOST_LIMITS:
        value = dict(check_vhost_limits(value))
    elif component == USER_LIMITS:
        value = dict(check_user_limits(value))
    return Parameter(parameter.vhost, component, parameter.name, value)


def _policy(parameter: Parameter) -> Policy:
    if not isinstance(parameter.value, dict):
        raise ParameterInvalid(f"policy '{parameter.name}' should be an object")
    fields = cast(dict[str, object], parameter.value)
    return Policy(parameter.name, fields, parameter.component == OPERATOR_POLICY)


@final
class _Setting(CommitWaiter):
    """A value on its way to the disk."""

    def __init__(
        self, changes: ParameterChanges, parameter: Parameter, done: Done
    ) -> None:
        self._changes = changes
        self._parameter = parameter
        self._done = done

    def on_committed(self, row_ids: list[int]) -> None:
        """It is set."""
        self._changes.tell_set(self._parameter)
        self._changes.adopt_one(self._parameter, self._done)

    def on_commit_failed(self, error: Exception) -> None:
        """Nothing has changed."""
        self._done(_refused_by_disk(error))


@final
class _Clearing(CommitWaiter):
    """A value that goes."""

    def __init__(
        self,
        changes: ParameterChanges,
        vhost: str,
        component: str,
        name: str,
        done: Done,
    ) -> None:
        self._changes = changes
        self._vhost = vhost
        self._component = component
        self._name = name
        self._done = done

    def on_committed(self, row_ids: list[int]) -> None:
        """It is gone."""
        self._changes.tell_cleared(self._vhost, self._component, self._name)
        self._changes.forget_one(self._vhost, self._component, self._name, self._done)

    def on_commit_failed(self, error: Exception) -> None:
        """Nothing has changed."""
        self._done(_refused_by_disk(error))


def _nobody_waits() -> None:
    """Nothing more is to be done."""


def _refused_by_disk(error: Exception) -> AmqpError:
    return ResourceError(f"the change could not be stored: {error}")
