"""Places where a test makes an ingest fail, to see that nothing is lost."""

from __future__ import annotations

import os
import signal

from easy_knowledge_retriever.errors import StorageError
from easy_knowledge_retriever.settings import failpoints

__all__ = ["failpoint"]


def failpoint(name: str) -> None:
    """Fails here if ``EKR_FAILPOINTS`` asks for it: ``kill`` ends the process at once, ``raise`` is a failing storage."""
    action = failpoints().get(name)
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "raise":
        raise StorageError(f"failpoint {name!r}")
