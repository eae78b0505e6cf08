"""A gallery of functions for the audits of exercise 6: sound ones, and ones with a single fault each."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Function = Callable[..., Any]


@dataclass(frozen=True)
class Exhibit:
    """One function of the gallery. says: what is particular about it, in words. sound: whether it has no fault."""

    says: str
    sound: bool
    make: Callable[[], Function]

    def new(self) -> Function:
        """Give the function afresh, without name and words: an audit must judge it by what it does."""
        function = self.make()

        def candidate(*arguments: Any) -> Any:
            return function(*arguments)

        return candidate


class Gallery:
    """The exhibits of one kind, in the order in which they were hung."""

    def __init__(self) -> None:
        self.exhibits: list[Exhibit] = []

    def sound(self, says: str, fresh: bool = False) -> Callable[[Function], Function]:
        """Decorate a sound function; with `fresh`, the function that makes one."""
        return self._hang(says, True, fresh)

    def faulty(self, says: str, fresh: bool = False) -> Callable[[Function], Function]:
        """Decorate a function with one fault; with `fresh`, the function that makes one."""
        return self._hang(says, False, fresh)

    def _hang(self, says: str, sound: bool, fresh: bool) -> Callable[[Function], Function]:
        def take(function: Function) -> Function:
            self.exhibits.append(Exhibit(says, sound, function if fresh else lambda: function))
            return function

        return take
