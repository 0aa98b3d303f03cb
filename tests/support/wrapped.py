"""A driver that answers some questions itself and leaves the others to another driver."""

from collections.abc import Callable, Mapping
from typing import Any

from jaxlens.ir.driver import Driver


class Wrapped:
    """Another driver, with some of its answers replaced.

    Attributes:
        asked: What was asked, by name.
    """

    def __init__(
        self,
        driver: Driver,
        stages: Mapping[str, Callable[[], Any]] | None = None,
        facts: Mapping[str, Callable[[Any], Any]] | None = None,
    ) -> None:
        self._driver, self._stages, self._facts = driver, stages or {}, facts or {}
        self.asked: list[str] = []

    def stage(self, name: str) -> Any:
        self.asked.append(name)
        return self._stages[name]() if name in self._stages else self._driver.stage(name)

    def fact(self, row: Any) -> Any:
        self.asked.append(row.name)
        found = self._driver.fact
        return self._facts[row.name](found) if row.name in self._facts else found(row)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._driver, name)
