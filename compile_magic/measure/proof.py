"""The proof that a bench has put everything back, made of fingerprints: without what remembers and restores.

Two checks. What there is after each restore that is looked at is what there was before the first run, exactly. And what
the last, plain run leaves is what the first run of the bench left, but for values that are other ones in each run.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from dataclasses import field
from dataclasses import replace

from compile_magic.bench_model import BenchCheck
from compile_magic.measure.state.fingerprint import Difference
from compile_magic.measure.state.fingerprint import Fingerprint
from compile_magic.measure.state.fingerprint import Looker

# So many differences are told by name.
_MOST_TOLD = 3
NAME = "state"


@dataclass(frozen=True)
class Expected:
    """What one run leaves, of which `unsteady` are the paths whose values are other ones in each run.

    `comparable` is False where only eager runs were looked at, and the plain one runs code that the user has compiled.
    """

    once: Fingerprint
    unsteady: frozenset[str] = frozenset()
    comparable: bool = True

    def otherwise(self, now: Fingerprint) -> list[Difference]:
        """Return what is otherwise now than after one run."""
        found = self.once.changes(now, same_objects=False)
        # What a callback does that a bench does not call, the cell may have asked for.
        values = not (self.once.called or now.called)
        return [one for one in found if one.shape or (values and one.path not in self.unsteady)]

    def after(self, look: Looker, check: BenchCheck, *, ended: bool) -> tuple[BenchCheck, str]:
        """Return the check on the state after the plain run, and an alarm, "" if there is none.

        Args:
            look: looks at what there is now.
            check: what was found before the plain run.
            ended: whether that has run to its end.
        """
        if not self.comparable:
            words = f"{check.words}; not compared with one run, as it runs code that you have compiled"
            return replace(check, words=words), ""
        if not ended:
            return replace(
                check, words=f"{check.words}; not compared with one run, as the cell has not run to its end"
            ), ""
        found = self.otherwise(look())
        if not found:
            aside = f", {_values(len(self.unsteady))} from run to run apart" if self.unsteady else ""
            return replace(check, words=f"{check.words}, after it as one run leaves it{aside}"), ""
        words = told([str(one) for one in found])
        alarm = f"this bench left `{found[0].path}` otherwise than one run: {words}"
        return BenchCheck(NAME, passed=False, words=alarm, figure=len(found), threshold=0), alarm


@dataclass
class Proof:
    """Looks at the state before the first run, after runs, and after it was put back.

    `left` says what a restore has not put back, and `apart` what two runs from the same state leave otherwise.
    """

    look: Looker
    left: dict[str, None] = field(default_factory=dict)
    apart: list[Difference] = field(default_factory=list)
    _compared: str = ""
    _once: Fingerprint | None = None
    _written: Fingerprint | None = None

    def __post_init__(self) -> None:
        self._before = self.look()

    def ran(self, *, as_written: bool = False) -> None:
        """Take note of what a run from the remembered state has left, in eager or with what the user has compiled."""
        now = self.look()
        if as_written:
            self._written = now
        elif self._once is None:
            self._once = now
        else:
            self.apart += self._once.changes(now, same_objects=False)

    @property
    def sizes_apart(self) -> list[Difference]:
        """What two runs leave with another size or kind, though they began alike: a restore that misses something."""
        return [one for one in self.apart if one.shape]

    def restored(self) -> None:
        """Compare with the state before the first run, now that everything is put back."""
        now = self.look()
        self.left |= dict.fromkeys(map(str, self._before.changes(now, same_objects=True)))
        self._compared = str(now)

    def forget(self) -> None:
        """Let go of what there is to look at; what was seen stays."""
        self.look = Looker({}, frozenset())

    @property
    def expected(self) -> Expected | None:
        """What one run leaves, None if there was none to the end."""
        if self._once is None:
            return None
        comparable = self._written is not None or not self._once.compiled
        unsteady = frozenset(one.path for one in self.apart if not one.shape)
        return Expected(self._written or self._once, unsteady, comparable)

    def closed(self, left_over: Iterable[str] = ()) -> BenchCheck:
        """Return the check at the end, when all is put back; `left_over` is what is known not to be."""
        try:
            self.restored()
        except Exception as error:  # noqa: BLE001 - what was put back is there; that it can't be shown is said
            self._compared = ""
            left_over = (*left_over, f"the state could not be looked at: {type(error).__name__}: {error}")
        problems = [*dict.fromkeys((*left_over, *self.left))]
        if not self._compared:
            problems.append("the state was not compared with that before the bench")
        words = told(problems) if problems else f"state as before the bench ({self._compared} compared)"
        return BenchCheck(NAME, not problems, words, len(problems), 0)


def told(problems: list[str]) -> str:
    """Return the first problems in words, and how many more there are."""
    more = len(problems) - _MOST_TOLD
    return "; ".join(problems[:_MOST_TOLD]) + (f"; and {more} more" if more > 0 else "")


def _values(count: int) -> str:
    return f"{count} value{' that differs' if count == 1 else 's that differ'}"
