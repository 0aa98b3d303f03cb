"""A program written to a file."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Reproducer:
    """A program as one file of Python that needs jax alone.

    Attributes:
        path: The file.
        code: What it holds.
        data: The file with the arguments' values; "" where they are drawn.
    """

    path: str
    code: str = field(repr=False)
    data: str = ""

    def __str__(self) -> str:
        lines = self.code.count("\n")
        values = f"reads its arguments from {self.data}" if self.data else "draws its arguments"
        what = f"{lines:,} lines that need jax alone; it {values}"
        return f"{self.path}: {what}. Run: python {self.path}"
