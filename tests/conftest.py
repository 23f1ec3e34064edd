"""Rules for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from support.installed import Installed, for_ordinary_user, own

pytest_plugins = ["support.at_once", "support.long_form", "support.bad_cases", "support.clusters"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("tfjob", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfjob")

REQUIRE = os.environ.get("TFJOB_TEST_REQUIRE") == "1"
"""Set in CI: whatever a test needs must be there, so a skip is a failure."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_configure() -> None:
    # A shell or nohup that runs the tests in the background ignores these. The tool, like any program, keeps ignoring
    # what its parent ignores (only containers do not), but tests interrupt it.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    os.umask(0o022)  # what a test writes for an ordinary user must be readable for one


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs root without it."""
    for item in items:
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _no_skip((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    return _no_skip((yield))


def _no_skip(report: Report) -> Report:
    if REQUIRE and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"{reason} (TFJOB_TEST_REQUIRE=1 allows no skip)"
    return report


@pytest.fixture(scope="session")
def tool() -> Installed:
    """The tool of this interpreter, called by whoever runs the tests."""
    return own()


@pytest.fixture(scope="session")
def user_tool(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    """The tool where everybody can read it, called by an ordinary user; only root can become one."""
    return for_ordinary_user(tmp_path_factory.mktemp("everyone"))
