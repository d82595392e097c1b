"""The test command fails if one of its checks does."""

from __future__ import annotations

import pytest

from tests.run import exit_code


@pytest.mark.parametrize(("codes", "expected"), [((0, 0), 0), ((0, 1), 1), ((0, -15), 1), ((-9,), 1), ((130, 0), 1)])
def test_one_failing_check_fails_all(codes: tuple[int, ...], expected: int) -> None:
    assert exit_code(codes) == expected
