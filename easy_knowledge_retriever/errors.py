"""The one error tree.

    EKRError                      code, hint, exit_code
      ConfigError                 a bad setting, mode or argument (also a ValueError)
        MissingExtraError         an optional package is not installed
      StorageError                a store could not do what it was asked
        StorageNotOpenError       used before it was opened or after it was closed
        StoreCorruptError         the bytes on disk are not what was written
        StoreVersionError         written by a newer version of this library
        EmbeddingMismatchError    the vectors were made by another embedding model
        WorkingDirLockedError     another process is writing
      ParseError                  a file cannot be read as a document
      UpstreamError               a model endpoint failed
        RateLimited               too many requests; ``retry_after`` seconds if told
        UpstreamTimeout           no answer in time
        UpstreamUnavailable       no connection, or a fault on its side: another try may help
        UpstreamAuth              the key was refused
        ContextTooLong            the request is longer than the model allows
        BadResponse               the answer is not what the protocol promises
        ContentRefused            the model declined
      IngestionError              a document was not ingested; ``__cause__`` says why
        IngestionStopped          a spending ceiling was reached (also a BudgetExceeded)
      LimitExceeded               an input is larger than a configured limit
        BudgetExceeded            a spending ceiling would be passed
      NotFound                    no such document, entity or relation

Adapters translate the errors of their vendor here, ``from`` the cause. Cancellation stays ``asyncio.CancelledError``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from easy_knowledge_retriever.types import Usage

__all__ = [
    "BadResponse",
    "BudgetExceeded",
    "ConfigError",
    "ContentRefused",
    "ContextTooLong",
    "EKRError",
    "EmbeddingMismatchError",
    "IngestionError",
    "IngestionStopped",
    "LimitExceeded",
    "MissingExtraError",
    "NotFound",
    "ParseError",
    "RateLimited",
    "StorageError",
    "StorageNotOpenError",
    "StoreCorruptError",
    "StoreVersionError",
    "UpstreamAuth",
    "UpstreamError",
    "UpstreamTimeout",
    "UpstreamUnavailable",
    "WorkingDirLockedError",
]


class EKRError(Exception):
    """Root of every error this library raises.

    Args:
        message: What happened and where; values by their ``repr``.
        hint: What the reader can do about it.
    """

    code: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} ({self.hint})" if self.hint else self.message


class ConfigError(EKRError, ValueError):
    """A setting, a mode or an argument cannot be used."""

    code = "config"
    exit_code = 6


class MissingExtraError(ConfigError):
    """An optional package is needed and not installed.

    Args:
        package: The package that could not be imported.
        extra: The extra of this library that installs it.
    """

    code = "missing_extra"

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"{package!r} is not installed", hint=f"pip install 'easy-knowledge-retriever[{extra}]'")
        self.package = package
        self.extra = extra


class StorageError(EKRError):
    """A store could not do what it was asked; the last commit is still readable."""

    code = "storage"
    exit_code = 9


class StorageNotOpenError(StorageError):
    """A storage was used before it was opened or after it was closed."""

    code = "storage_not_open"


class StoreCorruptError(StorageError):
    """What is on disk is not what was written; nothing was changed."""

    code = "store_corrupt"


class StoreVersionError(StorageError):
    """The store was written by a newer version of this library; nothing was changed."""

    code = "store_version"


class EmbeddingMismatchError(StorageError):
    """The store holds vectors of another embedding model than the one configured."""

    code = "embedding_mismatch"


class WorkingDirLockedError(StorageError):
    """Another process is writing to the store."""

    code = "locked"
    exit_code = 7


class ParseError(EKRError):
    """A file cannot be read as a document.

    Args:
        message: What is wrong with which file.
        code: ``unsupported``, ``empty``, ``encrypted``, ``corrupt``, ``no_text``, ``encoding``, ``too_large`` or ``not_found``.
        hint: What the reader can do about it.
    """

    exit_code = 3

    def __init__(self, message: str, *, code: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.reason = code


class UpstreamError(EKRError):
    """A model endpoint failed."""

    code = "upstream"
    exit_code = 8


class RateLimited(UpstreamError):
    """The endpoint asks for fewer requests.

    Args:
        message: What was refused.
        retry_after: Seconds to wait, where the endpoint says so.
    """

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class UpstreamTimeout(UpstreamError):
    """The endpoint did not answer in time."""

    code = "upstream_timeout"


class UpstreamUnavailable(UpstreamError):
    """The endpoint cannot be reached or has a fault of its own (5xx); another try may help.

    Args:
        message: What failed.
        retry_after: Seconds to wait, where the endpoint says so.
    """

    code = "upstream_unavailable"

    def __init__(self, message: str, *, retry_after: float | None = None, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.retry_after = retry_after


class UpstreamAuth(UpstreamError):
    """The endpoint refused the key."""

    code = "upstream_auth"


class ContextTooLong(UpstreamError):
    """The request is longer than the model allows."""

    code = "context_too_long"


class BadResponse(UpstreamError):
    """The endpoint answered something its protocol does not allow."""

    code = "bad_response"


class ContentRefused(UpstreamError):
    """The model declined to answer."""

    code = "content_refused"


class IngestionError(EKRError):
    """A document was not ingested; the version before it, if any, is untouched.

    Args:
        message: What failed.
        document: Name of the document.
        stage: Step of the pipeline that failed.
        hint: What the reader can do about it.
        usage: What it took until then.
        cost: What that cost; None if it is not known.
    """

    code = "ingestion"
    exit_code = 3

    def __init__(
        self,
        message: str,
        *,
        document: str,
        stage: str,
        hint: str = "",
        usage: Usage | None = None,
        cost: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.document = document
        self.stage = stage
        self.usage = usage
        self.cost = cost


class LimitExceeded(EKRError):
    """An input is larger than a configured limit."""

    code = "limit"
    exit_code = 10


class BudgetExceeded(LimitExceeded):
    """The next call would pass a spending ceiling; it was not sent."""

    code = "budget"


class IngestionStopped(IngestionError, BudgetExceeded):
    """A spending ceiling was reached during an ingest: nothing is wrong with the document, it stands as *interrupted*.

    What was paid for is kept: ingesting it again, with a higher ceiling, goes on where it stopped.
    """

    code = "ingestion_stopped"
    exit_code = 10


class NotFound(EKRError):
    """There is no such document, entity or relation."""

    code = "not_found"
    exit_code = 4
