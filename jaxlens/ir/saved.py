"""Loads a capture that `saving.save` wrote: no JAX device is needed, nor JAX itself."""

import os

from jaxlens.errors import CaptureFileError
from jaxlens.ir import saved_file
from jaxlens.ir.capture import Capture
from jaxlens.ir.saved_driver import SavedDriver


def load(path: str | os.PathLike[str]) -> Capture:
    """Reads a capture that `save` wrote. JAX is not imported.

    Raises:
        CaptureFileError: The file is no saved capture, is damaged, or is of a later version.
    """
    archive = saved_file.read(path)
    manifest = archive.json("manifest.json")
    if not isinstance(manifest, dict) or manifest.get("format") != saved_file.FORMAT:
        raise archive.wrong("its manifest is not a capture's")
    if manifest.get("version") != saved_file.VERSION:
        raise CaptureFileError(
            f"expected version {saved_file.VERSION} of the file format, got "
            f"{manifest.get('version')!r} in {archive.where}; use the jaxlens that wrote it"
        )
    driver = SavedDriver(archive, manifest)
    return Capture(driver.program, driver)
