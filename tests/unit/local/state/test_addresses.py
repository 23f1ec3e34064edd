"""Leases of addresses and ports, and the hosts file that names them."""

from __future__ import annotations

import re
import socket
import sqlite3
from collections.abc import Iterator

import pytest

from support.golden import Wording
from tfjob.local.state import addresses
from tfjob.local.state.addresses import AddressError


@pytest.fixture
def database() -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.executescript(addresses.SCHEMA)
    yield connection
    connection.close()


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    """A service of the host on every address, at a port of the system's choice."""
    with socket.socket() as server:
        server.bind(("0.0.0.0", 0))
        server.listen(1)
        yield server


def test_every_holder_has_an_address_of_its_own_and_keeps_it(database: sqlite3.Connection) -> None:
    leased = {
        (owner, holder): addresses.lease_address(database, owner, holder)
        for owner in ("job-1", "job-2")
        for holder in ("chief-0", "worker-0", "worker-1")
    }
    assert len(set(leased.values())) == 6
    assert all(ip.startswith("127.77.") for ip in leased.values())
    for (owner, holder), ip in leased.items():
        assert addresses.lease_address(database, owner, holder) == ip


def test_many_holders_never_share(database: sqlite3.Connection) -> None:
    leased = {addresses.lease_address(database, "job", f"worker-{number}") for number in range(1000)}
    assert len(leased) == 1000
    for ip in leased:
        *_, high, low = map(int, ip.split("."))
        assert 0 <= high <= 255
        assert 1 <= low <= 254


def test_a_released_lease_is_gone(database: sqlite3.Connection) -> None:
    for holder in ("a", "b"):
        addresses.lease_address(database, "job", holder)
        addresses.lease_port(database, "job", holder, 2222)
    addresses.release(database, "job", "a")
    assert database.execute("select holder from addresses union all select holder from ports").fetchall() == [
        ("b",),
        ("b",),
    ]
    addresses.release_owner(database, "job")
    assert database.execute("select holder from addresses union all select holder from ports").fetchall() == []


def test_an_address_whose_port_is_taken_is_passed_over(database: sqlite3.Connection) -> None:
    first = addresses.lease_address(database, "job", "a")
    addresses.release(database, "job", "a")
    with socket.socket() as server:
        server.bind((first, 0))
        server.listen(1)
        port = server.getsockname()[1]
        second = addresses.lease_address(database, "job", "a", [port])
    assert second != first
    assert addresses.is_free(second, port)


def test_a_port_that_the_host_serves_on_every_address_is_told(
    database: sqlite3.Connection, listener: socket.socket, wording: Wording
) -> None:
    port = listener.getsockname()[1]
    with pytest.raises(AddressError, match=str(port)) as caught:
        addresses.lease_address(database, "job", "a", [port])
    problem = addresses.taken_port(port)
    assert str(port) in problem[0]
    told = (caught.value.message, caught.value.hint, *problem)
    wording(
        *(re.sub(r"by \S+ \(process \d+\)", "by NAME (process PID)", one.replace(str(port), "PORT")) for one in told)
    )
    assert database.execute("select * from addresses").fetchall() == []


def test_a_connection_that_winds_down_does_not_hold_its_port() -> None:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(("127.77.3.3", 0))
    server.listen(1)
    port = server.getsockname()[1]
    client = socket.create_connection(("127.77.3.3", port))
    accepted, _ = server.accept()
    accepted.close()  # the side that closes first keeps the address for a while
    client.close()
    server.close()
    assert addresses.is_free("127.77.3.3", port)


def test_ports_are_unique_free_and_stay_with_their_holder(database: sqlite3.Connection) -> None:
    ports = {
        (holder, wanted): addresses.lease_port(database, "job", holder, wanted)
        for holder in ("a", "b")
        for wanted in (2222, 6006)
    }
    assert len(set(ports.values())) == 4
    assert all(20000 <= port <= 29999 for port in ports.values())
    assert addresses.lease_port(database, "job", "a", 2222) == ports["a", 2222]


def test_a_port_in_use_is_not_leased(database: sqlite3.Connection) -> None:
    first = addresses.lease_port(database, "job", "a", 2222)
    addresses.release_owner(database, "job")
    with socket.socket() as server:
        server.bind(("127.0.0.1", first))
        server.listen(1)
        assert addresses.lease_port(database, "job", "a", 2222) != first


@pytest.mark.parametrize("port", [-1, 99999])
def test_a_number_that_is_no_port_is_not_free(port: int) -> None:
    assert not addresses.is_free("127.0.0.1", port)
