"""Work on a Dask cluster that runs already: its workers read and analyze, wherever they are, and only results come here."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence

from advisor.errors import UsageError
from advisor.execution import messages
from advisor.reading import remote
from advisor.results.version import __version__

_ANSWER_S = 15
_LOGGERS = ("distributed", "tornado", "asyncio")


def cluster(
    addresses: Sequence[str], settings: messages.Settings, scheduler: str, say: Callable[[str], None]
) -> Iterator[tuple[int, messages.Result]]:
    """Work on the traces; results come in the order in which they are done.

    A task whose worker dies is done again on another, as often as Dask allows.

    Raises ``UsageError`` where the packages, the scheduler, or the advisor on the workers are missing.
    """
    try:
        import distributed
    except ImportError:
        raise UsageError(f"--scheduler needs Dask, which is not installed: {remote.NEEDS}") from None
    scheduler = scheduler if "://" in scheduler else f"tcp://{scheduler}"
    shown = remote.shown(scheduler)
    for name in _LOGGERS:  # what matters of it is said here, in our words
        logging.getLogger(name).setLevel(logging.CRITICAL)
    try:
        asyncio.run(_knock(scheduler))
        client = distributed.Client(scheduler, timeout=_ANSWER_S, set_as_default=False)
    except Exception as error:  # noqa: BLE001  (each protocol has exceptions of its own)
        raise UsageError(
            f"--scheduler {shown}: no Dask scheduler answers ({remote.message_of(error, scheduler)}). Start one with "
            "`dask scheduler`, and give the address that it prints, such as tcp://host:8786."
        ) from None
    from advisor.execution import task

    with client:
        if not client.scheduler_info()["workers"]:
            say(f"waiting for workers of {shown}")
        shared = client.submit(
            bytes, messages.encode(settings), pure=False
        )  # a task, and no scattered data: it can be redone
        futures = {
            client.submit(task.work, _absolute(address), shared, address, pure=False): index
            for index, address in enumerate(addresses)
        }
        done = distributed.as_completed(futures, loop=client.loop)
        for future in done:
            index = futures.pop(future)
            yield index, _result(future, addresses[index], shown)
            future.release()


async def _knock(scheduler: str) -> None:
    """Open a connection and close it: a client that gets none waits for half a minute, and ends in a traceback."""
    from distributed.comm import connect
    from distributed.security import Security

    comm = await connect(scheduler, timeout=_ANSWER_S, **Security().get_connection_args("client"))
    await comm.close()


def _absolute(address: str) -> str:
    """Return a path as workers with the same disks find it, whatever folder they run in."""
    return address if remote.is_url(address) else os.path.abspath(address)


def _result(future: object, address: str, shown: str) -> messages.Result:
    import distributed

    try:
        result = messages.decode(future.result())  # type: ignore[attr-defined]
    except distributed.KilledWorker:
        return messages.Result(
            error=f"{remote.shown(address)}: every worker that read it died. Have the workers too little memory?"
        )
    except ImportError as error:
        raise UsageError(
            f"--scheduler {shown}: the workers cannot run the advisor ({remote.message_of(error, address)}). "
            f"Install it there: in a checkout of version {__version__}, pip install '.[cluster]'"
        ) from None
    except Exception as error:  # noqa: BLE001  (whatever went wrong over there is this one trace's loss)
        reason = f"{type(error).__name__}: {remote.message_of(error, address)}"
        return messages.Result(error=f"{remote.shown(address)}: failed on a worker: {reason}")
    if result.version != __version__:
        raise UsageError(
            f"--scheduler {shown}: the workers run advisor {result.version}, this is {__version__}. "
            "Install the same version on both."
        )
    return result
