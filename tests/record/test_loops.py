"""The loops around a call, and which of them turned, as frames and bytecode show: no torch is needed to tell."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator

from advisor.record.loops import Loops, loops_of


class Watched:
    """Looks from where it is called; ``log`` holds, for each call, the functions of its loops, in capitals if they turned."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self._loops = Loops()

    def __call__(self) -> None:
        turns = self._loops.look(sys._getframe(1))
        names = [(code.co_name, turned) for (code, _), turned in turns if code.co_name in {"inner", "outer"}]
        self.log.append(" ".join(name.upper() if turned else name for name, turned in names))

    def of(self, program: Callable[[Watched], None]) -> list[str]:
        program(self)
        return self.log


def test_a_loop_that_calls_a_loop() -> None:
    def inner(call: Watched) -> None:
        for _ in range(2):
            call()

    def outer(call: Watched) -> None:
        for _ in range(2):
            inner(call)

    assert Watched().of(outer) == ["outer inner", "outer INNER", "OUTER inner", "outer INNER"]


def test_loops_in_one_function_turn_by_their_variables() -> None:
    def outer(call: Watched) -> None:
        for _, (_a, _b) in enumerate(zip("xy", "uv", strict=True)):
            for _t in range(2):
                call()

    # As the outer one turns, the inner one's variable goes back from 1 to 0.
    assert Watched().of(outer) == ["outer outer", "outer OUTER", "OUTER OUTER", "outer OUTER"]


def test_loops_whose_variables_share_a_name_turn_as_the_inner_one_begins_anew() -> None:
    def outer(call: Watched) -> None:
        for _ in range(2):
            for _ in range(2):
                call()

    assert Watched().of(outer) == ["outer outer", "outer OUTER", "OUTER OUTER", "outer OUTER"]


def test_a_loop_is_named_by_its_function_and_variables_wherever_it_stands() -> None:
    def program(call: Callable[[], None]) -> None:
        for _ in range(2):
            for _step, (_a, _b) in enumerate(zip("xy", "uv", strict=True)):
                call()
        for _step in range(2):
            left = [1, 1]
            while left:
                left.pop()
                call()
        for _step in range(2):
            call()

    names: list[str] = []
    loops = Loops()
    program(lambda: names.extend(loops.name(turn.loop).rpartition(".")[2] for turn in loops.look(sys._getframe(1))))
    own = {name for name in names if name.startswith("program")}  # pytest has loops, too
    assert own == {"program(_)", "program(_step, _a, _b)", "program(_step)", "program()", "program(_step)#2"}


def test_a_while_loop_turns_as_its_frame_comes_back() -> None:
    def inner(call: Watched) -> None:
        call()
        call()

    def outer(call: Watched) -> None:
        left = 2
        while left:
            inner(call)
            left -= 1

    assert Watched().of(outer) == ["outer", "outer", "OUTER", "outer"]


def test_a_while_loop_with_two_calls_turns_once() -> None:
    def outer(call: Watched) -> None:
        left = 2
        while left:
            call()
            call()
            left -= 1

    assert Watched().of(outer) == ["outer", "outer", "OUTER", "outer"]


def test_a_while_loop_around_a_for_turns_as_that_begins_anew() -> None:
    def outer(call: Watched) -> None:
        left = 2
        while left:
            for _ in range(2):
                call()
            left -= 1

    assert Watched().of(outer) == ["outer outer", "outer OUTER", "OUTER OUTER", "outer OUTER"]


def test_a_comprehension_is_a_loop() -> None:
    def outer(call: Watched) -> None:
        for _ in range(2):
            assert [call() for _ in range(2)] == [None, None]

    log = Watched().of(outer)
    # Before Python 3.12 a comprehension has a frame of its own, which has another name.
    assert [words.split()[0] for words in log] == ["outer", "outer", "OUTER", "outer"]


def test_a_loop_that_was_left_and_entered_again_has_not_turned() -> None:
    def inner(call: Watched) -> None:
        for _ in range(1):
            call()

    def outer(call: Watched) -> None:
        inner(call)
        inner(call)

    assert Watched().of(outer) == ["inner", "inner"]


def test_what_awaits_and_yields_repeats_nothing() -> None:
    def outer(call: Watched) -> Iterator[None]:
        yield from iter([None])
        call()

    assert loops_of(outer.__code__) == ()


def test_calls_from_no_loop() -> None:
    def outer(call: Watched) -> None:
        call()
        call()

    assert Watched().of(outer) == ["", ""]


def test_a_loop_still_to_come_stands_in_a_function_around() -> None:
    found: list[bool] = []
    loops = Loops()

    def call() -> None:
        loops.look(sys._getframe(1))
        found.append(loops.ahead())

    def fill() -> None:
        for _ in range(2):
            call()
        for _ in range(2):
            pass

    def program() -> None:
        fill()
        for _ in range(2):
            fill()
        fill()

    thread = threading.Thread(target=program)  # what runs the tests stands in loops of its own
    thread.start()
    thread.join()
    # The loop behind in the same function is none around it, and in the last call nothing comes any more.
    assert found == [True, True, False, False, False, False, False, False]
