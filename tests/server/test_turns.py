"""The queue: clients in turn, limits, and waiting that is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from core.server.requests.refusals import Refusal
from core.server.turns import Turns


class Scene:
    """Requests that wait for their turn; `order` is who got one."""

    def __init__(self, turns: Turns) -> None:
        self.turns = turns
        self.order: list[str] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.hold = asyncio.Event()

    async def ask(self, client: str) -> None:
        async def work() -> None:
            async with self.turns.turn(client):
                self.order.append(client)
                await self.hold.wait()

        self.tasks.append(asyncio.ensure_future(work()))
        await asyncio.sleep(0)

    async def finish(self) -> list[object]:
        self.hold.set()
        return [*await asyncio.gather(*self.tasks, return_exceptions=True)]


def play(scene: Callable[[Scene], Awaitable[None]], **limits: int) -> Scene:
    async def whole() -> Scene:
        acted = Scene(Turns(**limits))
        await scene(acted)
        await acted.finish()
        assert acted.turns.num_waiting == 0
        async with asyncio.timeout(60), acted.turns.turn("after"):
            return acted

    return asyncio.run(whole())


def test_clients_take_turns() -> None:
    async def scene(scene: Scene) -> None:
        for client in ("a", "a", "a", "a", "b", "c", "b"):
            await scene.ask(client)

    assert "".join(play(scene).order) == "aabcaba"


def test_too_many_are_refused_in_all_and_of_one_client() -> None:
    async def scene(scene: Scene) -> None:
        for client in ("a", "a", "a", "b", "c"):
            await scene.ask(client)
        # One "a" runs and one waits; so does "b".
        refusals = [task.exception() for task in scene.tasks if task.done()]
        assert [getattr(each, "status", None) for each in refusals] == [429, 429]
        assert all(isinstance(each, Refusal) and each.retry_s for each in refusals)

    assert "".join(play(scene, most=2, most_of_one=1).order) == "aab"


@pytest.mark.parametrize("gone", [0, 1, 2, 3])
def test_one_who_goes_leaves_the_rest_in_order(gone: int) -> None:
    async def scene(scene: Scene) -> None:
        for client in "abcd":
            await scene.ask(client)
        scene.tasks[gone].cancel()

    order = "".join(play(scene).order)
    assert order == ("abcd" if gone == 0 else "abcd".replace("abcd"[gone], ""))


def test_one_who_goes_as_its_turn_comes_passes_it_on() -> None:
    async def scene(scene: Scene) -> None:
        for client in "abc":
            await scene.ask(client)
        scene.hold.set()
        # The turn of "a" ends, "b" is called, and goes before it has noticed.
        await asyncio.wait({scene.tasks[0]})
        scene.tasks[1].cancel()

    assert play(scene).order[-1] == "c"
