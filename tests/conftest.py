"""Rules for all tests."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

from support.installed import Installed, for_ordinary_user, own

pytest_plugins = ["support.at_once", "support.bad_cases", "support.clusters"]

# How long an example takes says more about the machine than about the code.
settings.register_profile("tfjob", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("tfjob")

REQUIRE = os.environ.get("TFJOB_TEST_REQUIRE") == "1"
"""Set in CI: whatever a test needs must be there, so a skip is a failure."""

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--long` runs the full matrix; without it the tests marked `long` are not there at all."""
    parser.addoption("--long", action="store_true", help="every example at every level, with real TensorFlow")
    parser.addoption("--seed", type=int, default=1, help="what the suites of faults draw their cases from")


def pytest_configure(config: pytest.Config) -> None:
    # A shell or nohup that runs the tests in the background ignores these, and whatever a test starts inherits that.
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)
    config.addinivalue_line("markers", "long: part of the full matrix, which CI does not run (pytest --long)")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What needs root is left out without it."""
    if not config.getoption("--long"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("long")])
        items[:] = [item for item in items if not item.get_closest_marker("long")]
    for item in items:
        if os.geteuid() != 0 and item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root"))


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """What a suite of faults draws its cases from; printed by each test, so that one that fails can be repeated."""
    given = int(request.config.getoption("--seed"))
    print(f"seed {given}")
    return given


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
