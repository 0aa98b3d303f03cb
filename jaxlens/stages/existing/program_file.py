"""Reads a program from a file or bytes, of a kind that the content says and not the name.

HLO is text, StableHLO text or MLIR bytecode, and `jax.export.Exported.serialize` writes a
flatbuffer around bytecode.
"""

from pathlib import Path

from jaxlens.captures import Capture, load
from jaxlens.errors import ReadError, first_line, missing_package
from jaxlens.ir.stablehlo import reader as stablehlo
from jaxlens.reading import read_file
from jaxlens.stages.child.first_in_child import tried
from jaxlens.stages.existing.exported import of_exported
from jaxlens.stages.existing.module_text import is_program_text, of_text, stablehlo_capture

_LARGEST = 1 << 30  # bytes of a file
_CAPTURE, _EXPORTED = b"PK\x03\x04", b"ML\xefR"
_KINDS = (
    "the text of an HLO or StableHLO module, StableHLO bytecode, what serialize() of a "
    "jax.export.Exported gave, a saved capture, or a folder of XLA's dumps"
)


def is_program_bytes(data: bytes | bytearray) -> bool:
    """Whether bytes begin as a program does, or have one in them."""
    return _EXPORTED in data or is_program_text(_text(bytes(data[:4096])))


def of_file(path: Path, target: str | None, name: str) -> Capture:
    """Returns the capture of the program in a file; the arguments are those of `of_bytes`.

    Raises:
        ReadError: It cannot be read, or holds no program.
    """
    try:
        data = read_file(path, _LARGEST)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ReadError(f"cannot read {path.name}: {reason}; check the path") from None
    if data.startswith(_CAPTURE):
        return load(path)
    return of_bytes(data, target, name, path.name)


def of_bytes(data: bytes, target: str | None, name: str, where: str = "") -> Capture:
    """Returns the capture of a program from the bytes of a file.

    Args:
        data: The bytes.
        target: The platform of this process to compile for.
        name: Name of the program; by default the module's.
        where: Name of the file.

    Raises:
        ReadError: They are no program.
        PackageError: An Exported is read with a package that is not installed.
    """
    if _EXPORTED in data and not stablehlo.is_bytecode(data):
        return of_exported(_exported(data, where), name)
    if stablehlo.is_bytecode(data):
        tried(data)
        return stablehlo_capture(stablehlo.parse(data), target or "", name, "StableHLO bytecode")
    text = _text(data)
    if not is_program_text(text):
        raise ReadError(f"{where or 'what was given'} is no program: give {_KINDS}")
    return of_text(text, target, name)


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


def _exported(data: bytes, where: str) -> object:
    from jax import export

    try:
        return export.deserialize(bytearray(data))
    except ImportError:  # JAX's names no package
        gone = ModuleNotFoundError(name="flatbuffers")
        raise missing_package("a serialised jax.export.Exported", gone) from None
    except Exception as error:  # of flatbuffers and JAX, any where the bytes are damaged
        raise ReadError(
            f"{where or 'what was given'} looks like a serialised jax.export.Exported, which this "
            f"jax cannot read ({type(error).__name__}: {first_line(error)}): serialize it again"
        ) from None
