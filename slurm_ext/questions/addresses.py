"""The advisor's addresses: from dlqueue.toml, else from Slurm's own configuration."""

import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from slurm_ext.core.errors import AdvisorError, InputError, SlurmError
from slurm_ext.core.settings.document import Settings

PORT = 6829
SLURM_ANSWERS_S = 5.0
CONFIGLESS = Path("/run/slurm/conf/slurm.conf")  # where slurmd or sackd keep the fetched one
_HOST = re.compile(r"([^\s()]+)(?:\(([^\s()]+)\))?")
_UID = re.compile(r"\((\d+)\)")

Address = tuple[str, int]


class AdvisorAddresses:
    """Addresses to ask in turn, and the users whose word an answer may be."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @property
    def configured(self) -> bool:
        """True if dlqueue.toml says where questions are answered, and not Slurm alone."""
        keys = ("advisor.address", "advisor.listen_questions")
        return any(self.settings[key] for key in keys)

    @cached_property
    def all(self) -> tuple[Address, ...]:
        """Empty where neither dlqueue.toml nor Slurm knows one. Raises InputError, AdvisorError."""
        named = self.settings["advisor.address"]
        if named:
            return tuple(self._address("advisor.address", name) for name in named.split(","))
        return tuple((host, self._port) for host in controllers(self._slurm))

    def trusted(self, uid: int) -> bool:
        """True if an answer that `uid` signed is the advisor's: root's, SlurmUser's."""
        return uid in (0, *self.settings["advisor.trusted_uids"]) or uid == self._slurm_uid

    @property
    def _port(self) -> int:
        listens = self.settings["advisor.listen_questions"]
        return self._address("advisor.listen_questions", listens)[1] if listens else PORT

    @cached_property
    def _slurm_uid(self) -> int | None:
        match = _UID.search(self._slurm.get("SlurmUser", ""))
        return int(match[1]) if match else None

    @cached_property
    def _slurm(self) -> Mapping[str, str]:
        """Slurm's configuration; empty on a machine that belongs to no cluster."""
        from slurm_ext.core.settings.slurm_conf import slurm_conf
        from slurm_ext.core.settings.slurm_place import command_path, slurm_bin

        settings = self.settings
        if slurm_conf(settings) is None and not CONFIGLESS.exists():
            return {}
        if not command_path("scontrol", slurm_bin(settings)):
            return {}
        from slurm_ext.slurm import CommandClient

        client = CommandClient(
            bin_dir=slurm_bin(settings),
            slurm_conf=settings["paths.slurm_conf"],
            timeout_s=SLURM_ANSWERS_S,
        )
        try:
            return client.config()
        except SlurmError as error:
            raise AdvisorError(f"Slurm does not say where its controller is: {error}") from None

    def _address(self, key: str, text: str) -> Address:
        host, _, port = text.strip().rpartition(":")
        if not host or not port.isdecimal() or not 0 < int(port) < 65536:
            raise InputError(self.settings.source, f"{key} = {text!r} is not host:port")
        return host.strip("[]"), int(port)


def controllers(config: Mapping[str, str]) -> Iterator[str]:
    """Hosts of slurmctld, the primary first: `SlurmctldHost[0] = name(address)`."""
    for key, value in config.items():
        match = _HOST.match(value)
        if key.startswith("SlurmctldHost[") and match:
            yield match[2] or match[1]
