"""Test an attention by the laws that every attention of the toolkit keeps, before it is trained, and time it.

``check_attention`` runs all ``LAWS`` in float64 on random sources of different lengths. It finds mistakes that training
hides: a model that reads padding, or whose alignment is not the one that it used, still learns, only worse. ``cost``
measures an attention against the length of the source.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from copy import deepcopy
from statistics import linear_regression
from timeit import timeit
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd.gradcheck import GradcheckError

from nmt.attention.base import Attention, Memory, require_shapes
from nmt.attention.multi_head import MultiHeadAttention
from nmt.errors import SourceTooLong
from nmt.model.build import require_attributes
from nmt.settings.arguments import parameters_of

LENGTHS = (7, 1, 3, 5)
QUERIES = 3
TOLERANCE = 1e-10  # relative and absolute: rounding in float64 stays below 1e-13 for all attentions of the toolkit
GARBAGE = (0.0, 1e30, float("inf"), float("nan"))  # in padding
CUTS = ((0,), (1,), (3, 4), (2, 2, 6))  # positions where a source is cut into parts; some parts are empty


class BrokenLaw(AssertionError):
    """An attention breaks a law. The message names the problem, the largest difference and the usual cause."""


class Inputs(NamedTuple):
    """Ragged sources, padded with random numbers, and queries."""

    states: Tensor  #: (B, S, E)
    mask: Tensor  #: (B, S), True where real
    query: Tensor  #: (B, Q, H)

    @property
    def lengths(self) -> list[int]:
        """The number of states of each source."""
        lengths: list[int] = self.mask.sum(1).tolist()
        return lengths


Law = Callable[[Attention, Inputs], None]
NAMES = ("contexts", "read weights", "alignments")


def check_attention(
    attention: Attention | Callable[..., Attention],
    *,
    state_size: int = 6,
    query_size: int = 5,
    max_length: int = 5,
    skip: Collection[str] = (),
    **settings: Any,
) -> None:
    """Raise BrokenLaw, an AssertionError, with one line for each law that the attention breaks.

    ``attention`` is a class, a function that builds an attention, or an attention, of which a copy is tested. A class
    or function gets ``state_size``, ``query_size``, ``max_length`` if it has such a parameter, and ``settings``, the
    keys of its YAML file. Sources have up to 7 states, two more than ``max_length``, as can happen after training.
    ``skip`` names laws that are not tested; ``nmt.testing.LAWS`` has all of them.
    """
    if unknown := set(skip) - LAWS.keys():
        raise ValueError(f"skip={sorted(unknown)}: unknown; choose from {', '.join(LAWS)}")
    if isinstance(attention, Attention):
        if settings:
            raise TypeError(f"{', '.join(settings)}: an attention is already built; give its class, or remove them")
        tested = deepcopy(attention)
    else:
        sizes = {"state_size": state_size, "query_size": query_size, "max_length": max_length}
        tested = _build(attention, sizes, settings)
    require_attributes(tested, "attention")
    tested = tested.double().eval()
    inputs = random_inputs(state_size, query_size)
    try:
        tested.write(inputs.states.clone(), inputs.mask)
    except SourceTooLong:
        inputs = random_inputs(state_size, query_size, tuple(min(length, max_length) for length in LENGTHS))
    except Exception:  # noqa: S110  (a law reports it)
        pass
    messages: list[str] = []
    for name in LAWS:
        if name not in skip:
            try:
                LAWS[name](tested, Inputs(*(tensor.clone() for tensor in inputs)))
            except BrokenLaw as error:
                messages.append(f"{type(tested).__name__}: law {name!r}: {error}")
            except Exception as error:
                error.add_note(f"{type(tested).__name__}: raised while law {name!r} was tested, in float64")
                if messages:  # the broken laws before may be the reason
                    raise BrokenLaw("\n".join(messages)) from error
                raise
    if messages:
        raise BrokenLaw("\n".join(messages))


def _build(attention: Callable[..., Any], sizes: dict[str, int], settings: dict[str, Any]) -> Attention:
    """Return the attention with equal random parameters in every call; other random numbers are not changed."""
    accepted = parameters_of(attention)
    wanted = {name: size for name, size in sizes.items() if accepted.takes_any or name in accepted.named}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        built = attention(**wanted, **settings)
    if not isinstance(built, Attention):
        raise TypeError(f"{type(built).__name__}: not an attention; give a subclass of nmt.attention.base.Attention")
    return built


def random_inputs(
    state_size: int, query_size: int, lengths: tuple[int, ...] = LENGTHS, queries: int = QUERIES
) -> Inputs:
    """Return sources of these lengths and ``queries`` queries of each, in float64. Padding is random too."""
    generator = torch.Generator().manual_seed(2)
    sizes = (len(lengths), max(lengths), state_size), (len(lengths), queries, query_size)
    states, query = (torch.randn(size, dtype=torch.float64, generator=generator) for size in sizes)
    return Inputs(states, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], query)


def write_and_read(attention: Attention, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Write a memory and read it; return the contexts, read weights and alignments."""
    memory = attention.write(states, mask, trace=True)
    context, weights = attention.read(query, memory)
    return context, weights, attention.align(weights, memory)


# The laws. Each raises BrokenLaw. Letters as in nmt.attention.base.


def check_shapes(attention: Attention, inputs: Inputs) -> None:
    """Contexts are (B, Q, D), read weights (B, Q, R), alignments (B, Q, S), and memory.length counts the states."""
    try:
        require_shapes(attention, *inputs)
    except ValueError as error:
        raise BrokenLaw(str(error)) from None
    memory = attention.write(inputs.states, inputs.mask)
    if memory.length.tolist() != inputs.lengths:
        raise BrokenLaw(
            f"memory.length={memory.length.tolist()}: must be the numbers of states, {inputs.lengths}; use mask.sum(1)"
        )


def check_unchanged(attention: Attention, inputs: Inputs) -> None:
    """No method changes its arguments."""
    states, mask, query = inputs
    half = mask.shape[1] // 2
    with torch.no_grad():  # results need no gradients, so deepcopy can copy them
        _require_unchanged(attention.write, inputs, states=states, mask=mask, trace=True)
        memory = attention.write(states[:, :half], mask[:, :half], trace=True)
        weights = attention.read(query, memory)[1]
        _require_unchanged(attention.read, inputs, query=query, memory=memory)
        _require_unchanged(attention.align, inputs, weights=weights, memory=memory)
        if attention.streaming:
            part = {"states": states[:, half:], "mask": mask[:, half:]}
            _require_unchanged(attention.append, inputs, memory=memory, **part)


def check_context(attention: Attention, inputs: Inputs) -> None:
    """The context, or the mean of several reads, is the sum of the values, weighted by the alignment."""
    attention, inputs = _one_head(attention, inputs)
    context, _, alignment = write_and_read(attention, *inputs)
    values = attention.values(inputs.states)
    context = torch.stack(torch.split(context, max(values.shape[2], 1), dim=2)).mean(0)
    expected = alignment @ values
    cause = "the context must be the read weights @ memory.slots, and align must return what they read"
    _require_equal(context, expected, inputs, "contexts differ from align @ values", cause)


def check_slots(attention: Attention, inputs: Inputs) -> None:
    """The slots are the sum of the values, weighted by the trace."""
    attention, inputs = _one_head(attention, inputs)
    memory = attention.write(inputs.states, inputs.mask, trace=True)
    expected = _trace(memory, inputs) @ attention.values(inputs.states)
    cause = "memory.trace must hold the weights with which the slots were written"
    _require_equal(memory.slots, expected, inputs, "memory.slots differ from trace @ values", cause)


def check_mass(attention: Attention, inputs: Inputs) -> None:
    """The mass of a slot is the sum of its trace."""
    attention, inputs = _one_head(attention, inputs)
    memory = attention.write(inputs.states, inputs.mask, trace=True)
    cause = "memory.mass must be the sum of the write weights of each slot"
    _require_equal(
        memory.mass, _trace(memory, inputs).sum(2), inputs, "memory.mass differs from the sum of the trace", cause
    )


def check_trace(attention: Attention, inputs: Inputs) -> None:
    """``trace=True`` only adds ``memory.trace``; the other fields stay the same."""
    traced = attention.write(inputs.states, inputs.mask, trace=True)
    memory = attention.write(inputs.states, inputs.mask)
    if memory.trace is not None:
        raise BrokenLaw("write without trace=True stores one; return memory.trace=None, to save memory")
    cause = "trace=True must only add memory.trace"
    problem = "differs from one written with trace=True"
    _require_equal_memories(memory, traced._replace(trace=None), inputs, problem, cause)
    if not attention.needs_trace:
        weights = attention.read(inputs.query, memory)[1]
        cause = "with needs_trace = False, align must not use memory.trace"
        alignment, expected = (attention.align(weights, written) for written in (memory, traced))
        _require_equal(alignment, expected, inputs, "alignments with and without memory.trace differ", cause)


def check_sign(attention: Attention, inputs: Inputs) -> None:
    """Alignments are not negative, unless the attention says so."""
    lowest = write_and_read(attention, *inputs)[2].amin((1, 2))
    if not attention.signed and (lowest < 0).any():
        row = int(lowest.argmin())
        raise BrokenLaw(
            f"an alignment is {lowest[row]:.1e}, in a source of length {inputs.lengths[row]}, but signed=False; "
            "set signed = True in the class, or use weights that are not negative"
        )


def check_padding(attention: Attention, inputs: Inputs) -> None:
    """Padding changes nothing, whatever it holds, and its alignment is exactly 0."""
    states, mask, query = inputs
    cause = "sums, means and softmaxes over source positions need mask or memory.length"
    rows = [slice(row, row + 1) for row in range(len(mask))]
    alone = [
        Inputs(states[row, :length], mask[row, :length], query[row])
        for row, length in zip(rows, inputs.lengths, strict=True)
    ]
    expected = [write_and_read(attention, *source) for source in alone]
    for garbage in GARBAGE:
        context, _, alignment = write_and_read(attention, states.masked_fill(~mask[..., None], garbage), mask, query)
        padding = alignment.masked_fill(mask[:, None], 0)
        problem = f"padding ({garbage:g}) has an alignment that is not 0"
        _require_equal(padding, torch.zeros_like(padding), inputs, problem, cause, exact=True)
        problem = f"change if padding ({garbage:g}) is added"
        for row, source, (expected_context, _, expected_alignment) in zip(rows, alone, expected, strict=True):
            length = source.mask.shape[1]
            _require_equal(context[row], expected_context, source, f"contexts {problem}", cause)
            _require_equal(alignment[row, :, :length], expected_alignment, source, f"alignments {problem}", cause)


def check_empty(attention: Attention, inputs: Inputs) -> None:
    """An empty source has contexts of 0, and finite weights."""
    empty = inputs._replace(mask=inputs.mask & False)
    context, weights, alignment = write_and_read(attention, *empty)
    cause = "the usual cause is a division by the length or by a sum; use clamp(min=…)"
    _require_equal(
        context, torch.zeros_like(context), empty, "contexts of an empty source are not 0", cause, exact=True
    )
    for name, tensor in (("read weights", weights), ("alignments", alignment)):
        if not tensor.isfinite().all():
            raise BrokenLaw(f"{name} of an empty source are not finite; {cause}")


def check_queries(attention: Attention, inputs: Inputs) -> None:
    """Queries do not depend on each other: one read of Q queries equals Q reads of one. Q may be 0."""
    memory = attention.write(inputs.states, inputs.mask, trace=True)
    reads = [attention.read(query[:, None], memory) for query in inputs.query.unbind(1)]
    separate = [torch.cat(tensors, dim=1) for tensors in zip(*reads, strict=True)]
    cause = "read_weights must not mix queries, keep state between calls or draw random numbers"
    problem = "of several queries differ from those of one query at a time"
    for name, left, right in zip(NAMES, attention.read(inputs.query, memory), separate, strict=False):
        _require_equal(left, right, inputs, f"{name} {problem}", cause)
    context, weights = attention.read(inputs.query[:, :0], memory)
    for name, tensor in zip(NAMES, (context, weights, attention.align(weights, memory)), strict=True):
        if tensor.shape[1] != 0:
            raise BrokenLaw(f"{name} of shape {tuple(tensor.shape)} for no queries: must be (B, 0, …); use query.shape")


def check_beams(attention: Attention, inputs: Inputs) -> None:
    """Hypotheses that share a memory as queries equal hypotheses with a copy of the memory each."""
    query = inputs.query
    memory = attention.write(inputs.states, inputs.mask)
    fields = {name: value.repeat_interleave(query.shape[1], 0) for name, value in _tensors(memory).items()}
    copies = attention.read(query.flatten(0, 1)[:, None], memory._replace(**fields))
    cause = "every field of the memory must have one row per source, and read must use no other rows"
    for name, shared, copied in zip(NAMES, attention.read(query, memory), copies, strict=False):
        problem = f"{name} of a shared memory differ from those of copies"
        _require_equal(copied.reshape(shared.shape), shared, inputs, problem, cause)


def check_parts(attention: Attention, inputs: Inputs) -> None:
    """A source that is appended in parts has the same memory as one that is written at once."""
    states, mask, _ = inputs
    written = attention.write(states, mask, trace=True)
    if not attention.streaming:
        try:
            attention.append(written, states, mask)
        except ValueError:
            return
        raise BrokenLaw("append works although streaming=False; raise ValueError in append, or set streaming = True")
    cause = "update must count positions from memory.length, and carry earlier weights; or set streaming = False"
    for cuts in CUTS:
        first, *rest = zip(states.tensor_split(cuts, 1), mask.tensor_split(cuts, 1), strict=True)
        memory = attention.write(*first, trace=True)
        for part in rest:
            memory = attention.append(memory, *part)
        problem = f"of a source cut at {', '.join(map(str, cuts))} differs from one written at once"
        _require_equal_memories(memory, written, inputs, problem, cause)


def check_gradients(attention: Attention, inputs: Inputs) -> None:
    """Gradients of states, queries and parameters equal finite differences."""
    rows = slice(0, 3, 2) if len(inputs.lengths) > 2 else slice(None)
    states = inputs.states[rows, :3]
    mask = inputs.mask[rows, :3]
    query = inputs.query[rows, :2]
    parameters = dict(attention.named_parameters())

    def run(states: Tensor, query: Tensor, *values: Tensor) -> Tensor:
        replaced = {f"attention.{name}": value for name, value in zip(parameters, values, strict=True)}
        context: Tensor = torch.func.functional_call(WriteAndRead(attention), replaced, (states, mask, query))[0]
        return context

    arguments = [tensor.detach().clone().requires_grad_() for tensor in (states, query, *parameters.values())]
    try:
        # The fast mode checks random directions instead of every entry: exact enough in float64, in milliseconds.
        torch.autograd.gradcheck(run, arguments, fast_mode=True)
    except GradcheckError as error:
        problem = " ".join(str(error).partition("\n\n")[0].split())
        names = ", ".join(f"{number} {name}" for number, name in enumerate(("states", "query", *parameters)))
        raise BrokenLaw(
            f"gradients differ from finite differences (inputs: {names}): {problem}; the usual causes are detach, "
            ".data, no_grad, changes in place and random numbers"
        ) from None


def check_order(attention: Attention, inputs: Inputs) -> None:
    """The order of the batch is irrelevant."""
    order = torch.arange(len(inputs.lengths)).roll(1).flip(0)
    shuffled = write_and_read(attention, *(tensor[order] for tensor in inputs))
    cause = "sums and softmaxes must not cross rows, and no state may be kept between calls"
    for name, left, right in zip(NAMES, shuffled, write_and_read(attention, *inputs), strict=True):
        _require_equal(left[order.argsort()], right, inputs, f"{name} depend on the order of the batch", cause)


LAWS: dict[str, Law] = {
    "shapes": check_shapes,
    "arguments": check_unchanged,
    "context": check_context,
    "slots": check_slots,
    "mass": check_mass,
    "trace": check_trace,
    "sign": check_sign,
    "padding": check_padding,
    "empty": check_empty,
    "queries": check_queries,
    "beams": check_beams,
    "parts": check_parts,
    "gradients": check_gradients,
    "order": check_order,
}
"""The laws by name, in the order in which ``check_attention`` tests them."""


class WriteAndRead(nn.Module):
    """Write, read and align in one module, to export, compile and differentiate."""

    def __init__(self, attention: Attention) -> None:
        super().__init__()
        self.attention = attention

    def forward(self, states: Tensor, mask: Tensor, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return write_and_read(self.attention, states, mask, query)


def _one_head(attention: Attention, inputs: Inputs) -> tuple[Attention, Inputs]:
    """Return an attention with one head, and its inputs: each head obeys the algebra."""
    if isinstance(attention, MultiHeadAttention):
        states, query = attention.W_s(inputs.states), attention.W_q(inputs.query)
        mask = inputs.mask.repeat_interleave(attention.heads, 0)
        split = Inputs(attention.split_heads(states), mask, attention.split_heads(query))
        return _one_head(attention.inner, split)
    return attention, inputs


def _trace(memory: Memory, inputs: Inputs) -> Tensor:
    """Return the trace (B, R, S). Without one, slot s is source state s."""
    if memory.trace is not None:
        return memory.trace
    if memory.mass.shape != inputs.mask.shape:
        raise BrokenLaw(
            "memory.trace=None after write(…, trace=True): must be (B, R, S); store the write weights in it"
        )
    return torch.diag_embed(memory.mass)


def _tensors(memory: Memory) -> dict[str, Tensor]:
    """Return the fields of the memory that hold a tensor."""
    return {name: value for name, value in memory._asdict().items() if isinstance(value, Tensor)}


def _require_equal(
    actual: Tensor, expected: Tensor, inputs: Inputs, problem: str, cause: str, *, exact: bool = False
) -> None:
    """Raise BrokenLaw unless both tensors are equal, with the source, a row of them, where they differ most."""
    if actual.shape != expected.shape:
        raise BrokenLaw(f"{problem}: shapes {tuple(actual.shape)} and {tuple(expected.shape)}; {cause}")
    tolerance = 0 if exact else TOLERANCE
    close = torch.isclose(actual.double(), expected.double(), rtol=tolerance, atol=tolerance)
    if close.all():
        return
    difference = (actual.double() - expected.double()).abs().masked_fill(close, 0).nan_to_num(float("inf"))
    largest = difference.detach()[..., None].flatten(1).amax(1)
    row = int(largest.argmax())
    length = inputs.lengths[row * len(inputs.mask) // len(largest)]  # heads are rows too
    raise BrokenLaw(f"{problem}: largest difference {largest[row]:.1e}, in the source of length {length}; {cause}")


def _require_equal_memories(actual: Memory, expected: Memory, inputs: Inputs, problem: str, cause: str) -> None:
    left = _tensors(actual)
    right = _tensors(expected)
    if missing := left.keys() ^ right.keys():
        raise BrokenLaw(f"memory.{min(missing)} {problem}: only one of them holds a tensor; {cause}")
    for name in left:
        _require_equal(left[name], right[name], inputs, f"memory.{name} {problem}", cause)


def _require_unchanged(method: Callable[..., Any], inputs: Inputs, **arguments: Any) -> None:
    """Call the method. Raise BrokenLaw if it changes a tensor of its arguments, or a field of a memory."""
    before = deepcopy(arguments)
    method(**arguments)
    cause = "use functions without _ at the end of their name, and copies instead of x[…] = …"
    for name, value in arguments.items():
        if isinstance(value, Tensor):
            problem = f"{method.__name__} changes {name}"
            _require_equal(value, before[name], inputs, problem, cause, exact=True)
        elif isinstance(value, Memory):
            problem = f"is changed by {method.__name__}"
            _require_equal_memories(value, before[name], inputs, problem, cause)


PHASES = ("write", "look-up", "training")


class Cost(NamedTuple):
    """What an attention costs at each source length. Its text is a table."""

    ms: dict[str, dict[int, float]]
    """Milliseconds by phase and length: write a source, look up some queries, forward and backward of both."""
    memory_mb: dict[int, float]

    @property
    def exponent(self) -> float:
        """The exponent of the length in the time of a look-up: about 0 for a memory of fixed size, 1 for all states."""
        return exponent(self.ms["look-up"])

    def __str__(self) -> str:
        head = "".join(f"{name:>14}" for name in ("states", *(f"{phase}, ms" for phase in self.ms), "memory, MB"))
        rows = [
            f"{length:14,}" + "".join(f"{column[length]:14.3f}" for column in (*self.ms.values(), self.memory_mb))
            for length in self.memory_mb
        ]
        return "\n".join([head, *rows, f"A look-up takes time in proportion to length ** {self.exponent:.2f}."])


def cost(
    attention: Callable[..., Attention],
    *,
    lengths: Sequence[int] = (100, 1_000, 20_000),
    state_size: int = 512,
    query_size: int = 512,
    queries: int = 5,
    rounds: int = 7,
    **settings: Any,
) -> Cost:
    """Return what an attention costs for one source of each length, in the fastest of ``rounds`` rounds.

    Other programs can only slow a round down.
    ``attention`` and ``settings`` are as in ``check_attention``. A look-up is that of ``queries`` hypotheses.
    """
    sizes = {"state_size": state_size, "query_size": query_size, "max_length": max(lengths)}
    built = _build(attention, sizes, settings)
    ms: dict[str, dict[int, float]] = {phase: {} for phase in PHASES}
    memory_mb = {}
    for length in lengths:
        for phase in PHASES:
            call = prepare(built, phase, torch.randn(1, length, state_size), torch.randn(1, queries, query_size))
            call.run()  # loads libraries
            repeats = max(1, min(1_000, int(0.02 / seconds_per_call(call.run, 1))))
            ms[phase][length] = 1_000 * min(seconds_per_call(call.run, repeats) for _ in range(rounds))
            if phase == "look-up":
                memory_mb[length] = call.memory_bytes / 2**20
    return Cost(ms, memory_mb)


def exponent(times: Mapping[int, float]) -> float:
    """Return the slope of log time over log length, by least squares."""
    return linear_regression([*map(math.log, times)], [*map(math.log, times.values())]).slope


class Call(NamedTuple):
    """A function to time, and the bytes of the memory that it reads or writes (0 for training)."""

    run: Callable[[], Any]
    memory_bytes: int


def prepare(attention: Attention, phase: str, states: Tensor, query: Tensor) -> Call:
    """Return a function that runs one of ``PHASES`` once, for states (1, S, E) and query (1, Q, H)."""
    attention.train(phase == "training")  # in training, nested_memory writes a random number of slots
    mask = torch.ones_like(states[..., 0], dtype=torch.bool)
    with torch.no_grad():
        memory = attention.write(states, mask) if phase != "training" else None

    @torch.no_grad()
    def write() -> Memory:
        return attention.write(states, mask)

    @torch.no_grad()
    def look_up() -> Tensor:
        assert memory is not None
        return attention.read(query, memory)[0]

    def training() -> None:
        leaves = states.detach().requires_grad_(), query.detach().requires_grad_()
        context = attention.read(leaves[1], attention.write(leaves[0], mask))[0]
        if context.numel():
            context.sum().backward()  # type: ignore[no-untyped-call]

    size = 0 if memory is None else sum(tensor.nbytes for tensor in _tensors(memory).values())
    return Call({"write": write, "look-up": look_up, "training": training}[phase], size)


def seconds_per_call(run: Callable[[], Any], repeats: int) -> float:
    """Return the mean seconds of ``repeats`` calls."""
    return timeit(run, number=repeats) / repeats
