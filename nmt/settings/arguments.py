"""Type annotations with bounds, such as ``slots: Annotated[int, AtLeast(1)]``, and checks of values and lists of text.

Constructors check their arguments with it, and ``nmt.settings.build`` configurations, before any work starts.
"""

from __future__ import annotations

import functools
import inspect
import operator
import reprlib
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import MISSING, dataclass, fields, is_dataclass
from math import inf, isnan
from numbers import Integral, Real
from types import NoneType, SimpleNamespace, UnionType
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

type_hints: Callable[..., dict[str, Any]] = functools.cache(get_type_hints)
"""Evaluating the types of a class takes longer than a step of a small model."""


@dataclass(frozen=True)
class _Bound:
    """A bound with its words and its comparison."""

    limit: float
    words: ClassVar[str]
    compare: ClassVar[Any]

    def holds(self, value: float) -> bool:
        return bool(self.compare(value, self.limit))

    def __str__(self) -> str:
        return f"must be {self.words} {self.limit:.10g}"


class AtLeast(_Bound):
    """Bound: value ≥ limit."""

    words, compare = "at least", operator.ge


class Above(_Bound):
    """Bound: value > limit."""

    words, compare = "greater than", operator.gt


class AtMost(_Bound):
    """Bound: value ≤ limit."""

    words, compare = "at most", operator.le


class Below(_Bound):
    """Bound: value < limit."""

    words, compare = "less than", operator.lt


Count = Annotated[int, AtLeast(1)]
NonNegative = Annotated[float, AtLeast(0)]
Positive = Annotated[float, Above(0)]
Share = Annotated[float, AtLeast(0), Below(1)]
"""Of dropout and the like, which may be 0 but never 1."""
# Far above any useful model. Larger numbers are typing errors, or attempts to exhaust the memory.
Size = Annotated[int, AtLeast(1), AtMost(65_536)]
"""Numbers per state, key or embedding, and slots of a memory."""
Threads = Annotated[int, AtLeast(1), AtMost(1024)]  # torch crashes silently with many more
Layers = Annotated[int, AtLeast(1), AtMost(100)]
PairCount = Annotated[int, AtLeast(1), AtMost(10_000_000)]
"""Generated sentence pairs, all of which are held in memory."""


def violations(value: float, metadata: Iterable[Any]) -> list[str]:
    """Return one text for each bound in ``metadata`` that ``value`` violates; other annotations are skipped.

    Positive infinity violates every bound, and so does NaN. Whole numbers without an upper bound must fit 32 bits.
    """
    bounds = [item for item in metadata if hasattr(item, "holds")]
    if bounds and isinstance(value, int) and not any(isinstance(bound, AtMost | Below) for bound in bounds):
        bounds.append(AtMost(2**31 - 1))
    # "not holds", because every comparison with NaN is false.
    texts = [str(bound) for bound in bounds if not bound.holds(value)]
    return texts or (["must be finite"] if bounds and value == inf else [])


VARIABLE = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
Function = TypeVar("Function", bound=Callable[..., Any])
PLAIN: dict[Any, tuple[str, type[Any]]] = {
    int: ("a whole number", Integral),
    float: ("a number", Real),
    bool: ("true or false", bool),
    str: ("text", str),
}


class UnknownKey(str):
    """The problem of a key that its group does not have."""


class TypeCheck:
    """Finds the problems of a value whose type is annotated: plain types, bounds, choices, lists, and null.

    Values of other types, such as ``dict`` or a module, are accepted.
    """

    def problems(self, value: Any, schema: Any, name: str) -> Iterator[str]:
        """Yield one message for each mismatch between ``value``, which is called ``name``, and the type ``schema``."""
        origin = get_origin(schema)
        if origin is Annotated:
            yield from self._annotated(value, schema, name)
        elif origin in (Union, UnionType):
            yield from self._union(value, get_args(schema), name)
        elif origin is Literal:
            if value not in get_args(schema) or isinstance(value, bool):
                names = [str(choice) for choice in get_args(schema)]
                close = suggestion(str(value), names)
                yield f"{name}={self.show(value)}: must be {' | '.join(names)}{close}"
        elif origin is Callable:
            if not callable(value):
                yield f"{name}={self.show(value)}: must be a class or function"
        elif origin in (list, tuple):
            yield from self._list(value, schema, name)
        elif isinstance(origin, type) and issubclass(origin, dict):
            yield from self._mapping(value, schema, name)
        elif schema in PLAIN:
            description, kind = PLAIN[schema]
            if not isinstance(value, kind) or (isinstance(value, bool) and schema is not bool):
                yield f"{name}={self.show(value)}: must be {description}"

    def show(self, value: Any) -> str:
        """Return the value as messages show it."""
        return f"{value!r:.80}"

    def keys(self, value: Any, hints: Mapping[str, Any], optional: Container[str], key: str) -> Iterator[str]:
        """Yield the problems of a group whose keys have the types ``hints``."""
        if not isinstance(value, Mapping):
            yield f"{key}={self.show(value)}: must be a group of keys"
            return
        prefix = f"{key}." if key else ""
        for name, item in value.items():
            if name not in hints:
                yield UnknownKey(f"{prefix}{name}={self.show(item)}: no such key{suggestion(str(name), hints)}")
            elif item == "???":
                yield f"{prefix}{name}: must be given, as {prefix}{name}=…"
            else:
                yield from self.problems(item, hints[name], f"{prefix}{name}")
        for name in hints:
            if name not in value and name not in optional:
                yield f"{prefix}{name}: missing"

    def _annotated(self, value: Any, schema: Any, name: str) -> Iterator[str]:
        inner, *notes = get_args(schema)
        messages = list(self.problems(value, inner, name))
        if not messages and isinstance(value, Real):  # text may be allowed too, as in Annotated[int | str, …]
            number = int(value) if isinstance(value, Integral) else float(value)  # NumPy's numbers fit too
            bounds = violations(number, notes)
            if isinstance(number, float) and isnan(number):  # it violates every bound
                del bounds[1:]
            messages = [f"{name}={self.show(value)}: {message}" for message in bounds]
        yield from messages

    def _union(self, value: Any, choices: Sequence[Any], name: str) -> Iterator[str]:
        """Yield the problems with the only choice, or one message if none of several choices fits."""
        if value is None and NoneType in choices:
            return
        by_choice = list[list[str]]()
        for choice in choices:
            if choice is not NoneType:
                by_choice.append(list(self.problems(value, choice, name)))
                if not by_choice[-1]:  # the messages of other choices would import difflib
                    return
        if len(by_choice) == 1:
            yield from by_choice[0]
        else:
            prefix = f"{name}={self.show(value)}: "
            yield ", or ".join([by_choice[0][0], *(messages[0].removeprefix(prefix) for messages in by_choice[1:])])

    def _list(self, value: Any, schema: Any, name: str) -> Iterator[str]:
        if not isinstance(value, list | tuple):
            yield f"{name}={self.show(value)}: must be a list, such as [a,b]"
            return
        types = get_args(schema) or (Any,)
        if get_origin(schema) is tuple and ... not in types:
            if len(value) != len(types):
                yield f"{name}={self.show(value)}: must be a list of {len(types)}"
                return
        else:
            types = (types[0],) * len(value)
        for index, (item, kind) in enumerate(zip(value, types, strict=True)):
            yield from self.problems(item, kind, f"{name}[{index}]")

    def _mapping(self, value: Any, schema: Any, name: str) -> Iterator[str]:
        kind = int if get_origin(schema) is Counter else get_args(schema)[1]
        yield from self.keys(value, dict.fromkeys(value, kind) if isinstance(value, Mapping) else {}, (), name)


def optional_keys(schema: type) -> frozenset[str]:
    """Return the keys of a dataclass or TypedDict that may be missing."""
    if is_dataclass(schema):
        return frozenset(field.name for field in fields(schema) if field.default is not MISSING)
    return frozenset(getattr(schema, "__optional_keys__", ()))


def check_arguments(constructor: Function) -> Function:
    """Decorate an ``__init__`` so that it raises ValueError where an argument does not fit its annotation."""

    @functools.wraps(constructor)
    def checked(self: Any, *arguments: Any, **settings: Any) -> None:
        try:
            given = inspect.signature(constructor).bind(self, *arguments, **settings).arguments
        except TypeError:
            given = {}  # missing or unknown arguments: the call raises Python's own error
        hints = annotations_of(constructor)
        for name, value in given.items():
            if name in hints and (problem := next(TypeCheck().problems(value, hints[name], name), None)):
                raise ValueError(f"{type(self).__name__}: {problem}")
        constructor(self, *arguments, **settings)

    return checked  # type: ignore[return-value]


class CheckedArguments:
    """Base of classes whose subclasses check the arguments of their constructors; see ``check_arguments``."""

    def __init_subclass__(cls, **settings: Any) -> None:
        super().__init_subclass__(**settings)
        if "__init__" in vars(cls):
            cls.__init__ = check_arguments(cls.__init__)  # type: ignore[method-assign]


class Parameters(NamedTuple):
    """The arguments of a class or function by name. ``takes_any``: it accepts other names too."""

    named: dict[str, inspect.Parameter]
    takes_any: bool


def parameters_of(target: Callable[..., Any]) -> Parameters:
    """Return the arguments of a class or function. ``**rest`` of a constructor stands for those of its base class."""
    named: dict[str, inspect.Parameter] = {}
    functions = _with_constructors_of_rest(target)
    for function in functions:
        parameters = inspect.signature(function).parameters.values()
        named = {item.name: item for item in parameters if item.kind not in VARIABLE and item.name != "self"} | named
    return Parameters(named, takes_any=_takes_rest(functions[-1]))


def _with_constructors_of_rest(target: Callable[..., Any]) -> list[Any]:
    """Return the class or function, and the base constructors to which it passes ``**rest`` on, nearest first."""
    functions: list[Any] = [target]
    classes = target.__mro__[:-1] if isinstance(target, type) else ()
    constructors = [vars(base)["__init__"] for base in classes if "__init__" in vars(base)]
    for constructor in constructors[1:]:  # those that ``super().__init__`` calls
        if not _takes_rest(functions[-1]):
            break
        functions.append(constructor)
    return functions


def _takes_rest(function: Callable[..., Any]) -> bool:
    return any(item.kind is item.VAR_KEYWORD for item in inspect.signature(function).parameters.values())


def text_list(values: Any, name: str, *, what: str = "lines") -> list[str]:
    """Return the strings of an iterable as a list. Raises TypeError, which calls it ``name``, for anything else.

    One string is an iterable of letters, and a mapping one of its keys: neither is what a caller means.
    """
    return [text(value, f"{name}[{row}]") for row, value in enumerate(iterable(values, name, what=what))]


def text(value: Any, name: str) -> str:
    """Return ``value`` as a plain ``str``. Raises TypeError, which calls it ``name``, if it is not a string."""
    if not isinstance(value, str):
        raise TypeError(f"{name}={brief(value)}: {type(value).__name__}, not a string; give text")
    return value if type(value) is str else str.__str__(value)  # NumPy has its own class of strings


def iterable(values: Any, name: str, *, what: str) -> Iterable[Any]:
    """Return ``values`` if its items are what a caller means by a list of ``what``, in their order.

    Raises TypeError, which calls it ``name``, for one string, bytes, a mapping, a set, a table, and anything else that
    cannot be iterated.
    """
    unordered = isinstance(values, str | bytes | Mapping | set | frozenset)
    if unordered or hasattr(values, "columns") or not isinstance(values, Iterable):  # a DataFrame gives its columns
        raise TypeError(f"{name}={brief(values)}: {type(values).__name__}; give a list of {what}")
    return values


def brief(value: Any) -> str:
    """Return a value of a program as messages show it: on one line, and short even if the value is large."""
    return " ".join(reprlib.repr(value).split())[:80]


def annotations_of(target: Callable[..., Any]) -> dict[str, Any]:
    """Return the annotations of the arguments, except those whose types are imported under TYPE_CHECKING only."""
    hints: dict[str, Any] = {}
    constructor: Any = target
    first = constructor.__init__ if isinstance(target, type) else target
    for function in (first, *_with_constructors_of_rest(target)[1:]):
        hints = _annotations(inspect.unwrap(function)) | hints
    return hints


def _annotations(function: Any) -> dict[str, Any]:
    hints: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        with suppress(Exception):
            holder = SimpleNamespace(__annotations__={name: annotation})
            hints |= get_type_hints(holder, getattr(function, "__globals__", {}), include_extras=True)
    return hints


def is_missing(value: Any) -> bool:
    """Return whether a table has no value here: None, NaN, a masked cell, or NA of pandas."""
    missing = ("NAType", "NaTType", "MaskedConstant")  # of packages that need not be installed
    return value is None or type(value).__name__ in missing or (isinstance(value, Real) and value != value)


def suggestion(word: str, choices: Any) -> str:
    """Return "; did you mean X?", or nothing where no choice is similar."""
    from difflib import get_close_matches  # for messages only

    choices = list(choices)
    near = [choice for choice in choices if choice.lower() == word.lower()] or get_close_matches(
        word, choices, n=1, cutoff=0.6
    )
    return f"; did you mean {near[0]}?" if near else ""
