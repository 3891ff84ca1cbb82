"""How much is held, who is refused, and who is cut off to make room."""

import time
from contextlib import ExitStack

import pytest

from elmore.serve.config import ServeConfig
from elmore.serve.memory import Memory, NoRoomError


def memory(stall_seconds: float = 5.0) -> Memory:
    """600 bytes for everybody, and 200 more for requests of at most 12 bytes."""
    return Memory(ServeConfig(held_bytes=800, stall_seconds=stall_seconds))


def test_what_requests_hold_is_counted_until_they_end():
    held = memory()
    with held.hold() as a:
        a.add(300)
        with held.hold() as b:
            b.add(200)
            assert held.used == 500
        assert held.used == 300
    assert held.used == 0


def test_more_than_the_limit_is_refused_and_not_counted():
    held = memory()
    with held.hold() as a, held.hold() as b:
        a.add(400)
        with pytest.raises(NoRoomError):
            b.add(201)
        assert held.used == 400
        b.add(200)


def test_a_request_above_the_limit_is_taken_while_others_hold_little():
    held = memory()
    with held.hold() as a, held.hold() as b:
        b.add(100)
        a.add(2000)
        with pytest.raises(NoRoomError):
            b.add(1)


def test_small_requests_have_room_beside_large_ones_that_nobody_reads():
    """Up to a quarter of the limit; then they too are refused."""
    held = memory()
    with ExitStack() as stack:
        large = stack.enter_context(held.hold())
        large.add(5000)
        for _ in range(16):
            stack.enter_context(held.hold()).add(12)
        with pytest.raises(NoRoomError):
            stack.enter_context(held.hold()).add(12)
        with pytest.raises(NoRoomError):
            stack.enter_context(held.hold()).add(13)


def test_the_client_that_has_not_read_for_longest_is_cut_off_for_others():
    held, cut = memory(stall_seconds=0.01), []
    with held.hold() as reads, held.hold() as a, held.hold() as b, held.hold() as new:
        for i, hold in enumerate((a, b)):
            hold.add(200)
            hold.waiting_since = time.monotonic() - 2 + i
            hold.cut_off = lambda hold=hold: cut.append(hold)  # type: ignore[misc]
        reads.add(200)
        reads.waiting_since = time.monotonic() + 5  # it has only now been sent something
        new.add(200)
        assert cut == [a]
        new.add(200)
        assert cut == [a, b]
        with pytest.raises(NoRoomError):
            new.add(201)
