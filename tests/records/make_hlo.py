"""Makes the records of one compile: the gradient of a scan, as XLA:CPU printed it.

    python -m tests.records.make_hlo

Paths are cut to base names. `hlo_words.json` is not made: it lists words of XLA's source.
"""

import re
import tempfile
from pathlib import Path

import jax

from tests.support import programs

HERE = Path(__file__).resolve().parent
KEPT = {
    "cpu_after_optimizations.txt": "scan_grad.hlo.txt",
    "cpu_after_optimizations-buffer-assignment.txt": "scan_grad.buffers.txt",
    "cpu_after_optimizations-live-range.txt": "scan_grad.live.txt",
}


def nameless(text: str) -> str:
    """The text with base names in place of absolute paths."""
    return re.sub(r'"/[^"]*/([^"/]+)"', r'"\1"', text)


def main() -> None:
    f, args = programs.scan_rnn()
    with tempfile.TemporaryDirectory() as folder:
        jax.jit(f).lower(*args).compile(compiler_options={"xla_dump_to": folder})
        for ending, record in KEPT.items():
            paths = sorted(path for path in Path(folder).iterdir() if path.name.endswith(ending))
            text = "\n".join(path.read_text() for path in paths[:2])
            (HERE / record).write_text(nameless(text))


if __name__ == "__main__":
    main()
