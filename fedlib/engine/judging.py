"""Check that a fast backend trains a user's module and algorithm as the plain loop does.

Both backends run a miniature: three clients with a few of the run's examples, in batches of several
sizes, for two of its configurations. It computes in float64, in which rounding is far below any
other difference, if the module can, and then in the run's type.

It does not notice changes that begin between the rounds it checks, such as a module's counter of
calls that changes outputs after some sixty of them.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from fedlib import process
from fedlib.algorithms.base import Algorithm, Client, FullBatch, State, ValueAndGrad
from fedlib.arguments import called
from fedlib.clients import ClientData
from fedlib.engine.batches import Batching, Feed, Round, chunks
from fedlib.engine.config import RunConfig
from fedlib.engine.plain import Plain
from fedlib.engine.rows import FlatModel, Refusal
from fedlib.engine.states import (
    ClientStates,
    carry_statistics,
    each_tensor,
    flat,
    kept,
    map_state,
)
from fedlib.engine.training import require_no_draws, serve, tell
from fedlib.engine.vectorized import Vectorized, Work
from fedlib.errors import Error, first_line
from fedlib.task import Task

# Rounds before which backends are compared again, as some effects depend on later values.
ROUNDS = 1, 10, 100
EXAMPLES = 4  # largest number in a batch
CANDIDATES = 64  # examples among which different ones are sought
CLIENTS = np.arange(3)
# Each client's gradients are scaled by this: an effect of one on another shows at any threshold.
FACTORS = 1e-3, 1.0, 1e4
# Differences that the order of sums explains, relative to one parameter's gradient, and to all. In
# float64 the order changes about 1e-13, in float32 about 1e-4 of a deep network's gradient.
SAME = {torch.float64: (1e-9, 1e-12), torch.float32: (1e-2, 1e-4)}
# The same for an algorithm's results, which are differences of parameters divided by small rates.
SAME_REPORT = {torch.float64: (1e-6, 0.0), torch.float32: (1e-2, 0.0)}


@dataclass(frozen=True)
class Gradients(Algorithm):
    """Sends a client's gradients along two or three steps, each of a twentieth of x's length.

    Attributes:
        whole: whether to send gradients of whole data, too.
        features: whether to use the model's features.
    """

    whole: bool = False
    features: bool = False
    single_reports = True

    @property
    def measures(self) -> bool:
        return True

    def client_measure(self, server: State, client: Client, full: FullBatch) -> tuple[State, State]:
        measured = {"whole_loss": full.loss(server["x"])}
        return measured | ({"gradient": full(server["x"])[1]} if self.whole else {}), {}

    def client_init(self, server: State, client: Client) -> State:
        return {"x": server["x"], "gradient": 0 * server["x"], "losses": 0 * client.examples}

    def client_step(self, state: State, batch: Any, value_and_grad: ValueAndGrad) -> State:
        x = state["x"]
        loss, gradient = value_and_grad(x, batch)
        total = gradient
        if self.features:
            z = value_and_grad.features(x, batch)
            near = lambda own: (own - z).square().mean(-1)  # noqa: E731
            total = gradient + value_and_grad(x, batch, draw=1, extra=near)[1]
        lengths = (each.norm(dim=-1, keepdim=True) for each in (x, gradient))
        rate = 0.05 * next(lengths) / next(lengths).clamp(min=1e-30)
        moved = {"x": x - rate * gradient, "gradient": state["gradient"] + total}
        return moved | {"losses": state["losses"] + loss, "loss": loss}

    def client_final(self, server: State, state: State) -> State:
        return {"gradient": state["gradient"], "losses": state["losses"]}


class Sample(Feed):
    """The data of a miniature.

    Attributes:
        factors: factor on each client's losses.
        cohort_size, population: the run's numbers, which clients are told.
    """

    factors: Tensor
    cohort_size: int
    population: int

    def example_weights(self, batching: Batching) -> Tensor:
        return super().example_weights(batching) * self._factors(batching)

    def whole_weights(self, batching: Batching, batch_size: int | None) -> Tensor:
        return super().whole_weights(batching, batch_size) * self._factors(batching)

    def _factors(self, batching: Batching) -> Tensor:
        return (
            self.factors[torch.from_numpy(batching.clients)[batching.row]]
            .unsqueeze(1)
            .to(self.dtype)
        )

    def client(
        self,
        sent: Mapping[str, Tensor],
        round: Round,
        memory: State | None = None,
        measured: State | None = None,
    ) -> Client:
        known = super().client(sent, round, memory, measured)
        number = known.number % self.population  # a method may store something for each client
        return replace(known, number=number, cohort=self.cohort_size, population=self.population)


@dataclass(frozen=True)
class Case:
    """A round of a miniature.

    Attributes:
        feed, config, number: its data, the clients' settings, and the number of the round.
        methods, state: C configurations, and their server state ``[C, .]``.
        same: largest differences of one tensor and of all.
        together: whether a fast backend trains several clients at once.
        sent: each client's report of the last round.
    """

    feed: Sample
    config: RunConfig
    number: int
    methods: Sequence[Algorithm]
    state: State
    same: tuple[float, float]
    together: bool
    sent: dict[int, State] = field(default_factory=dict)

    def plain(self, model: FlatModel, order: Sequence[int] = (0, 1, 2)) -> dict[str, Tensor]:
        """Each client's report and memory, by the plain loop."""
        loop = Plain(self.feed, model)
        outcomes = {client: self._of(loop, [client], [np.array([client])]) for client in order}
        expected = {name: value for c in sorted(outcomes) for name, value in outcomes[c].items()}
        expected |= self._evaluated(model)
        model.plain = False
        return expected

    def fast(self, model: FlatModel) -> dict[str, Tensor]:
        """Each client's report and memory, as rows beside the others."""
        rows, found = Vectorized(self.feed, model), dict[str, Tensor]()
        steps = self.feed.round(self.number, self.config, CLIENTS).steps
        pieces = chunks(CLIENTS, steps, 3 if self.together else 1)
        # What a user's server has measured has to rest on one client's report.
        numbers = CLIENTS.tolist()
        for clients in [[each] for each in numbers] if self.methods[0].of_user else [numbers]:
            found |= self._of(rows, clients, pieces)
        return found | self._evaluated(model)

    @torch.no_grad()
    def _evaluated(self, model: FlatModel) -> dict[str, Tensor]:
        """Outputs in evaluation mode for all examples, computed as in an evaluation."""
        x = self.feed.inputs(self.feed.data.index.unsqueeze(0), None)
        with model.evaluating(), model.statistics.tracking(self.state.get("statistics")):
            outputs: Tensor = model.rows(model.views(self.state["x"]), x)
        return {"outputs in evaluation": outputs}

    def _of(
        self, backend: Plain | Vectorized, clients: Sequence[int], pieces: Sequence[np.ndarray]
    ) -> dict[str, Tensor]:
        """Reports and memory of some clients in a round of all in ``pieces``.

        Args:
            clients: only one if the method's reports are added.
        """
        device, method = self.feed.device, self._stacked()
        weights = torch.zeros(len(CLIENTS), dtype=torch.float64)
        weights[clients] = 1.0  # so that sums contain one client alone
        memory, measured = (ClientStates(len(CLIENTS), device) for _ in range(2))
        round = self.feed.round(self.number, self.config, CLIENTS)
        work = Work(self.methods, method, self.state, weights, round, memory, measured)
        outcomes: dict[int, State] = {client: {} for client in clients}

        def reports(phase: str) -> dict[int, State]:
            before = process.random_states()
            sums = backend.total(phase, work, pieces)
            require_no_draws(before, type(method).__name__)
            if phase == "train" and method.single_reports:
                return {
                    number: map_state(lambda t, own=place: t[own], apart)
                    for numbers, apart in sums.apart
                    for place, number in enumerate(numbers.tolist())
                }
            return {clients[0]: sums.mean(1.0, self.feed.dtype) if phase != "enroll" else {}}

        if method.remembers:
            reports("enroll")
        if method.measures:
            outcome = outcomes[clients[0]]
            outcome["measured"] = reports("measure")[clients[0]]
            server = self.serve("server_measured", self.state, outcome["measured"])
            work = replace(work, server=carry_statistics(self.state, server))
        sent = reports("train")
        for client, outcome in outcomes.items():
            outcome["sent"] = self.sent[client] = sent[client]
            for name, states in (("remembered", memory), ("kept", measured)):
                if states.count:
                    outcome[name] = states.get(states.places(np.array([client])))
        return {
            f"{name} of client {client}": value
            for client, outcome in outcomes.items()
            for name, value in flat(outcome).items()
        }

    def serve(self, deed: str, *given: Any) -> State:
        """The server's function."""
        if not self.methods[0].of_user:
            return getattr(self._stacked(), deed)(*given)  # type: ignore[no-any-return]
        return serve(self.feed, self.methods, deed, self.number, *given)

    def _stacked(self) -> Algorithm:
        kind = type(self.methods[0])
        return kind.stack(self.methods, self.feed.dtype, self.feed.device)

    def difference(
        self, found: dict[str, Tensor], expected: dict[str, Tensor], model: FlatModel
    ) -> str:
        """The name of the first tensor that differs from ``expected``, or an empty text."""
        if found.keys() != expected.keys():
            return f"{sorted(found)} in place of {sorted(expected)}"
        for name, value in expected.items():
            parts, names = [(found[name], value)], [name]
            if isinstance(self.methods[0], Gradients) and value.shape[-1] == model.size:
                both = (each.split(model.sizes, -1) for each in parts[0])
                parts = list(zip(*both, strict=True))
                names = [f"{name}, parameter {each}" for each in model.names]
            allowed = self.same[1] * float(value.nan_to_num().double().norm())
            x = 0.0  # differences of parameters keep the parameters' last digits
            if not isinstance(self.methods[0], Gradients):
                digit = torch.finfo(self.feed.dtype).eps
                x = 64 * digit * float(self.state["x"].double().norm())
            for part, (one, other) in zip(names, parts, strict=True):
                if _differ(one, other, self.same[0], allowed + x):
                    return part
        return ""


class Judge:
    """Compares a run's fast backend with the plain loop.

    Args:
        task, config, method: the run's task and configuration, and one of its methods.
        new_model: makes its model, with the same random numbers each time.
        fast: whether there is a fast backend.
        copies: whether it trains copies of the model.
        together: whether it trains several clients at once.
    """

    def __init__(
        self,
        task: Task,
        config: RunConfig,
        method: Algorithm,
        new_model: Callable[[], nn.Module],
        *,
        fast: bool,
        copies: bool,
        together: bool,
    ) -> None:
        size = min(EXAMPLES, config.batch_size or EXAMPLES)
        few: dict[str, Any] = {
            "batch_size": size,
            "local_epochs": 1,
            "local_steps": None,
            "clients_per_round": 3,
        }
        self.task, self.new_model, self.sizes = task, new_model, (config, replace(config, **few))
        self.sample = _sample(task, config.batch_size, size)
        self.own_model, self.own_method = not task.described, bool(method.of_user)
        whole = method.measures or method.remembers
        self.gradients = Gradients(whole=whole, features=method.needs_features)
        self.fast, self.copies, self.together = fast, copies, together
        self.named = f"task {task.name}: the model {type(new_model()).__name__}"

    def reason(
        self,
        model: FlatModel,
        methods: Sequence[Algorithm],
        server: State | None = None,
        number: int = 0,
    ) -> str:
        """Why the run has to continue with the plain loop. Empty if ``model`` may train fast.

        If only some way is correct (without copies, or one row after the other), the model is set
        to it.

        Args:
            methods: C configurations.
            server: their states ``[C, .]``, None before round 0. Then parameters are moved a
                little, as zeros may hide effects that they scale.
            number: number of the round.

        Raises:
            Error: the plain loop cannot train it, or gives other numbers when it is repeated.
        """
        methods = methods[:2]
        if server is not None:
            server = kept(list(range(len(methods))), server, len(server["x"]))
        for precise in (True, False) if model.dtype != torch.float64 else (False,):
            with _default(torch.float64 if precise else torch.float32):
                try:
                    tried = self._flat(torch.float64, model.device) if precise else model
                    reason = self._compared(tried, methods, server, number, not precise)
                except Refusal:
                    raise
                except Exception:
                    if not precise:
                        raise
                    continue  # it does not compute in float64
            if reason:
                return reason
            model.carries_rows, model.vmaps = tried.carries_rows, tried.vmaps
            model.copyable &= tried.copyable
        return ""

    def _flat(self, dtype: torch.dtype, device: torch.device) -> FlatModel:
        flat = FlatModel(self.new_model(), dtype, device)
        flat.copies_inputs = self.own_model
        return flat

    def _compared(
        self,
        tried: FlatModel,
        methods: Sequence[Algorithm],
        server: State | None,
        number: int,
        in_runs_type: bool,
    ) -> str:
        """The reason in one type of numbers.

        Args:
            tried: a model that may have been called before.
        """
        start, first = tried.initial(), number == 0
        fresh, reason = self._flat(tried.dtype, tried.device), ""
        again: dict[str, Tensor] | None = None
        if server is not None:
            state = each_tensor(lambda t: t.to(tried.dtype) if t.is_floating_point() else t, server)
        else:
            state, again = self._moved(tried, methods)
        try:
            if self.own_model:
                if first and in_runs_type:
                    self._require_own_numbers(fresh)
                sent = {name: state[name] for name in ("x", "statistics") if name in state}
                case = self._case(tried, [self.gradients] * len(methods), sent, number)
                expected = self._repeatable(case, tried, fresh, again, first)
                reason = self._fastest(case, tried, start, expected)
            if self.own_method:
                case = self._case(tried, methods, state, number)
                if server is None:
                    state = carry_statistics(state, case.serve("server_init", state["x"]))
                    case = replace(case, state=state)
                expected = case.plain(fresh)
                self._require_repeatable_server(case, tried)
                reason = reason or self._fastest(case, tried, start, expected)
        finally:
            _put(tried, start)
        return reason

    def _case(
        self, model: FlatModel, methods: Sequence[Algorithm], state: State, number: int
    ) -> Case:
        whole, few = self.sizes
        feed = Sample(self.sample, whole.seeds, model.dtype, model.device)
        own = isinstance(methods[0], Gradients)
        feed.factors = torch.tensor((1.0, 1.0, 1.0) if own else FACTORS)
        feed.cohort_size, feed.population = whole.clients_per_round, len(self.task.train)
        same = SAME if own else SAME_REPORT
        methods = [copy.copy(method) for method in methods]
        tell(methods, "layout", model.layout())
        tell(methods, "progress", (number, whole.rounds))
        return Case(feed, few, number, methods, state, same[model.dtype], self.together)

    def _moved(
        self, model: FlatModel, methods: Sequence[Algorithm]
    ) -> tuple[State, dict[str, Tensor] | None]:
        """Parameters ``[C, P]`` near the initial ones, or these if the model refuses others.

        Also the plain loop's result for a user's module there.
        """
        process.seed(0)
        x = model.initial()
        scale = torch.cat(
            [part.square().mean().sqrt().expand(len(part)) for part in x.split(model.sizes)]
        )
        noise = torch.randn(len(methods), len(x), device="cpu").to(x)
        near = x + 0.05 * torch.where(scale > 0, scale * noise, noise.abs())
        statistics = model.statistics.initial().to(x)
        more = {"statistics": statistics.expand(len(near), -1)} if model.statistics.size else {}
        state, usual = {"x": near, **more}, {"x": x.expand(len(near), -1).contiguous(), **more}
        if not self.own_model:
            return state, None
        try:
            case = self._case(model, [self.gradients] * len(methods), state, 0)
            outcome = case.plain(model, (2, 1, 0))
            if all(bool(value.isfinite().all()) for value in outcome.values()):
                return state, outcome
        except Refusal:
            raise
        except Exception:  # it refuses such parameters
            pass
        return usual, None

    def _repeatable(
        self,
        case: Case,
        tried: FlatModel,
        fresh: FlatModel,
        again: dict[str, Tensor] | None,
        first: bool,
    ) -> dict[str, Tensor]:
        """The plain loop's result for a user's module.

        Args:
            again: its result for ``tried``, from the last client to the first.

        Raises:
            Error: a model that was called before gives another result, or one of its parameters
                changes in its forward pass.
        """
        what = f"{self.named} on batches of 1 to {case.config.batch_size} examples"
        frozen = {n: p for n, p in fresh.model.named_parameters() if not p.requires_grad}
        before = {name: parameter.clone() for name, parameter in frozen.items()}
        try:
            expected: dict[str, Tensor] = called(what, case.plain, fresh)
        except Error as problem:
            norms = (isinstance(each, _BatchNorm) for each in fresh.model.modules())
            if type(problem) is not Error or not any(norms):
                raise
            raise Error(
                f"{problem}. fedlib.models.replace_batch_norm(model, by='group') makes one that "
                "takes a single example, too"
            ) from None
        again = called(what, case.plain, tried, (2, 1, 0)) if again is None else again
        if case.difference(again, expected, tried):
            raise Refusal(
                f"{self.named} gives other outputs after earlier calls, with the same parameters "
                "and inputs: it keeps something from call to call, or draws from its own "
                "generator. Compute all from the inputs, and draw from torch's only in training"
            )
        if first:  # larger ones, as it may bound them
            try:
                replace(case, state={**case.state, "x": 10 * case.state["x"]}).plain(fresh, (2,))
            except Refusal:
                raise
            except Exception:  # it refuses such parameters
                pass
        for name, parameter in frozen.items():
            if not torch.equal(parameter.nan_to_num(), before[name].nan_to_num()):
                raise Refusal(
                    f"{self.named} changes its frozen parameter {name!r} when it is called"
                )
        return expected

    def _require_repeatable_server(self, case: Case, model: FlatModel) -> None:
        """Require that a user's server function depends on its arguments alone."""
        mean = case.sent[1]
        if case.methods[0].single_reports:
            # As many as in the run's rounds: a trimmed mean, for example, needs more than three.
            clients = np.resize(CLIENTS, case.feed.cohort_size).tolist()
            sent = (case.sent[client] for client in clients)
            mean = map_state(lambda *parts: torch.stack(parts, 1), *sent)
            mean.pop("statistics", None)
        once, again = (flat(case.serve("server_update", case.state, mean)) for _ in range(2))
        if case.difference(again, once, model):
            raise Refusal(
                f"server_update of {type(case.methods[0]).__name__} gives other numbers when it is "
                "called again: draw from torch's own random numbers, and keep changing values in "
                "the server's state"
            )

    def _fastest(
        self, case: Case, tried: FlatModel, start: Tensor, expected: dict[str, Tensor]
    ) -> str:
        """Why no fast way gives the expected result. The first that does is set in ``tried``."""
        if not self.fast:
            return ""
        usual, reason = {"carries_rows": tried.carries_rows, "vmaps": tried.vmaps}, ""
        ways: list[dict[str, bool]] = [{}]
        ways += [{"carries_rows": False}] * tried.carries_rows
        ways += [{"carries_rows": False, "vmaps": False}] * tried.vmaps
        for copied in (True, False) if self.copies and tried.copyable else (False,):
            for way in ways:
                _put(tried, start)
                vars(tried).update(usual | way)
                try:
                    found = case.fast(copy.deepcopy(tried) if copied else tried)
                    other = case.difference(found, expected, tried)
                    why = f"rows give another {other}" if other else ""
                except Exception as error:
                    why = f"rows fail, {type(error).__name__}: {first_line(error)}"
                if not why:
                    tried.copyable = copied or not self.copies
                    return ""
                reason = reason or why
        vars(tried).update(usual)
        whose = self.named if isinstance(case.methods[0], Gradients) else ""
        return f"{whose or type(case.methods[0]).__name__}: {reason}"

    def _require_own_numbers(self, model: FlatModel) -> None:
        """Require that a model depends on its own parameters and its state dict alone.

        Raises:
            Error: it reads another module's parameter, or has random numbers that its state dict
                lacks, so that runs could not be read back.
        """
        data, module = self.sample.train, model.model
        feed = self._case(model, [self.gradients], {}, 0).feed
        x = feed.inputs(data.index[:2].unsqueeze(0), None)[0]
        process.seed(1)
        other, outputs = self.task.new_model().to(model.device, model.dtype), list[Tensor]()
        with suppress(RuntimeError):  # the model may have other parts, and then no outputs
            other.load_state_dict(module.state_dict(), strict=False)
            for each in (module, other):
                each.eval()
                outputs.append(called(f"{self.named} in evaluation", each, x.clone()))
        module.train()
        own = [*map(id, module.parameters())]
        if outputs and any(id(end) not in own for end in _ends(outputs[0])):
            raise Refusal(
                f"{self.named} reads a parameter of another module, by a closure or another copy "
                "of it, so that it would not train: read it as an attribute of its own layer"
            )
        if len(outputs) < 2 or _differ(outputs[0], outputs[1], 1e-4):
            raise Refusal(
                f"{self.named} has random numbers that its state dict lacks, so that no run could "
                "be read back: keep them by register_buffer(name, tensor), or fix their seed"
            )


def require_repeatable(task: Task, *models: nn.Module) -> None:
    """Require that two models, made with the same random numbers, have the same initial values."""
    pairs = (chain(model.named_parameters(), model.named_buffers()) for model in models)
    for (name, one), (_, other) in zip(*pairs, strict=False):
        if one.shape != other.shape or not torch.equal(one.nan_to_num(), other.nan_to_num()):
            raise Error(
                f"task {task.name}: model() gives another {name!r} at each call: it draws from its "
                "own generator. Use torch's, NumPy's or Python's generator, which the run seeds"
            )


def _sample(task: Task, batch_size: int | None, size: int) -> Task:
    """The task with three clients of different examples, in batches of ``size`` and fewer.

    If the run has batches of one example, so has this.
    """
    sizes, data = task.train.sizes, task.train
    ones = bool((sizes % (batch_size or sizes.max() + 1) == 1).any()) or size == 1
    least = 1 if ones else 2
    counts = [2 * size + min(least, size), 2 * size - (size - 1 >= least), max(least, size // 2)]
    some = np.unique(np.linspace(0, len(data.index) - 1, CANDIDATES).astype(int))
    numbers = data.index[some]
    values = data.x[numbers].reshape(len(numbers), -1)
    groups = torch.unique(values, dim=0, return_inverse=True)[1].numpy()
    unlike = numbers[np.sort(np.unique(groups, return_index=True)[1])]
    chosen = unlike[np.arange(sum(counts)) % len(unlike)]
    parts = np.split(np.arange(len(chosen)), np.cumsum(counts)[:-1])
    few = ClientData(data.x[chosen], data.y[chosen], parts)
    return replace(task, train=few, cohorts=None, clients_per_round=None, pool=None)


def _put(model: FlatModel, x: Tensor) -> None:
    """Give the module's own parameters these numbers ``[P]``."""
    model.plain = False
    with torch.no_grad():
        for parameter, value in zip(model.original, model.views(x), strict=True):
            parameter.data.copy_(value)


@contextmanager
def _default(dtype: torch.dtype) -> Iterator[None]:
    """Use torch's default type inside, so that a module makes its tensors in it."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _differ(one: Tensor, other: Tensor, same: float, allowed: float = 0.0) -> bool:
    """Whether vectors ``[C, n]`` differ by more than rounding.

    Args:
        same: difference relative to ``other``.
        allowed: further absolute difference.
    """
    try:
        one, other = torch.broadcast_tensors(one.detach().double(), other.detach().double())
    except RuntimeError:
        return True
    if not torch.equal(one.isnan(), other.isnan()):
        return True
    one, other = (values.nan_to_num().reshape(*values.shape[:1], -1) for values in (one, other))
    distance = (one - other).norm(dim=-1)
    return bool((distance > same * other.norm(dim=-1) + allowed).any())


def _ends(value: Tensor) -> Iterator[nn.Parameter]:
    """The parameters at the ends of a value's graph."""
    seen, ahead = set(), [value.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        end = getattr(node, "variable", None)
        if isinstance(end, nn.Parameter):
            yield end
        ahead += [following for following, _ in node.next_functions]
