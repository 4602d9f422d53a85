"""Checks, before any process of a local cluster is started, that each would accept its settings. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ..broker.config import BrokerConfig
from ..controller.config import ControllerConfig
from ..model.config import config_schema, load_config
from ..model.errors import ConfigError, InvalidParameter
from ..namesrv.config import NameServerConfig
from ..proxy.config import ProxyConfig
from .cluster_plan import arguments_of
from .cluster_record import BROKER, CONTROLLER, NAME_SERVER, PROXY, ZOOKEEPER, ClusterRecord, ProcessRecord

CONFIGS: Final[Mapping[str, type[Any]]] = {
    NAME_SERVER: NameServerConfig,
    CONTROLLER: ControllerConfig,
    BROKER: BrokerConfig,
    PROXY: ProxyConfig,
}


def check_planned(
    record: ClusterRecord, planned: Sequence[ProcessRecord], settings: Sequence[str], environ: Mapping[str, str]
) -> None:
    """Reads the configuration of each planned process as the process itself would.

    Raises InvalidParameter for one of `settings`, which are the brokers'; ConfigError for a value in `environ`.
    """
    given = [setting.partition("=")[0].strip() for setting in settings]
    for setting, key in zip(settings, given, strict=True):
        if "=" not in setting:
            raise InvalidParameter("--set", setting, "key=value")
        _check_role(setting, key)
    for process in planned:
        record = record.with_process(process)
        if process.role == ZOOKEEPER:
            record = replace(record, zookeeper=process.address)
        elif process.role == NAME_SERVER:
            record = replace(record, namesrv=process.address)
    for process in planned:
        if process.role not in CONFIGS:
            continue
        try:
            arguments = arguments_of(record, process)
            load_config(CONFIGS[process.role], process.role, environ=environ, overrides=arguments)
        except ConfigError as error:
            if error.key not in given:
                raise
            raise InvalidParameter("--set", f"{error.key}={error.value}", error.expected) from None


def _check_role(setting: str, key: str) -> None:
    """Raises InvalidParameter for a key that only another role has."""
    schemas = {role: {info.key: info for info in config_schema(config)} for role, config in CONFIGS.items()}
    if key in schemas[BROKER]:
        return
    for role, schema in schemas.items():
        if key in schema:
            expected = (
                f"a key of the broker; this one is of the {role}, which takes it from ${schema[key].environment(role)}"
            )
            raise InvalidParameter("--set", setting, expected)
