"""Decoded requests, kept for a while: users submit the same job again and again."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b

from slurm_ext.advisor.pipeline.decide import Recommendation
from slurm_ext.advisor.sharing.gpu_request import WholeGpuRequest, whole_gpu_request
from slurm_ext.core.job_keys import keys_of
from slurm_ext.core.records import Level, Submission
from slurm_ext.core.settings.document import Settings
from slurm_ext.core.wire import decode_request

_MOST_REQUESTS, _MOST_REQUEST_BYTES = 4096, 16 * 1024 * 1024  # kept in memory


@dataclass(slots=True)
class CachedRequest:
    """A decoded request, and what was last recommended for it."""

    kind: str
    job: Submission  # without its script, which may be large
    keys: Mapping[Level, int]
    settings: Settings  # with which it was decoded
    whole: WholeGpuRequest | str | None = None  # with sharing on; a text: why it cannot share
    basis: tuple[object, ...] = ()  # what `recommendation` rests on
    recommendation: Recommendation | None = None


class Requests:
    """Requests by a hash of their lines."""

    def __init__(self) -> None:
        self._kept: dict[bytes, CachedRequest] = {}
        self._bytes = 0  # of the lines behind them

    def __len__(self) -> int:
        return len(self._kept)

    def of(self, line: bytes, settings: Settings) -> CachedRequest | None:
        """The request of a line, None for a ping. Raises WireError."""
        digest = blake2b(line, digest_size=16).digest()
        request = self._kept.get(digest)
        if request is not None and request.settings is settings:
            return request
        kind, job = decode_request(line)
        if job is None:
            return None
        self._bytes += len(line)
        if len(self._kept) >= _MOST_REQUESTS or self._bytes > _MOST_REQUEST_BYTES:
            self._kept.clear()
            self._bytes = len(line)
        request = self._kept[digest] = CachedRequest(
            kind=kind,
            job=replace(job, script=None if job.script is None else ""),
            keys=keys_of(job),
            settings=settings,
            whole=whole_gpu_request(job) if settings["sharing.mode"] != "off" else None,
        )
        return request
