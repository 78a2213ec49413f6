"""What the tests with Slurm have besides tests/conftest.py."""

from tests.lib.guest.plugin import pytest_configure, pytest_pyfunc_call, pytest_runtest_logreport

__all__ = ["pytest_configure", "pytest_pyfunc_call", "pytest_runtest_logreport"]
