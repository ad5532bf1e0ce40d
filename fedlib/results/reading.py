"""Reading a run: its hyperparameters in the papers' words, its options, and tidy frames.

Figures and tables group histories by these values, not by the order of training.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import pandas as pd

from fedlib.algorithms import CLIENT_OPTIMIZERS, Centralized
from fedlib.engine.config import TRAINING_KEYS, Configured
from fedlib.engine.history import History, frame_of
from fedlib.errors import Error, require_known
from fedlib.results.files import Stored

log = logging.getLogger("fedlib")

# Objects with a configuration: a run that is trained, stored, or still to be trained.
Run = TypeVar("Run", bound=History | Stored | Configured)
# A key to distinguish runs: a key of :func:`value`, or a function of a run.
Key = str | Callable[[Any], Any]
_CLIENT_NAMES = {method.__name__: name for name, method in CLIENT_OPTIMIZERS.items()}
_BASE_NAMES = {kind.__name__: name for name, kind in Centralized.BASES.items()}
# Places of a hyperparameter without a prefix in a method's description, in order of preference.
_PARTS = ("server", "objective", "base", "client")


def split_of(*histories: History) -> str:
    """``"local"``, all data of the clients, if all of some runs were evaluated on it, else
    ``"test"``.

    AdaFedAdam writes "test accuracy". We infer that the paper's numbers are over all local data,
    including training data: on Synthetic, whose data are exact, the spreads over clients are then
    closer to the paper's than on the test examples.
    """
    known = bool(histories) and all(history.metrics("local") for history in histories)
    return "local" if known else "test"


def hyperparameter(run: Run, key: str) -> Any:
    """A run's value of an override key.

    Args:
        key: ``client_lr``, ``server_lr``, ``tau``, ``mu``, ``momentum``, ``client_momentum``,
            ``client_optimizer``, ``base``, ``client_schedule``, ``local_epochs``, ``batch_size``...

    Raises:
        Error: the method has no such hyperparameter.

    Example:
        >>> import fedlib
        >>> task = fedlib.load_task("quadratic")
        >>> overrides = {"client_lr": 0.25, "local_steps": 2}
        >>> history = fedlib.run(task, "fedadam", rounds=1, overrides=overrides)
        >>> hyperparameter(history, "client_lr"), hyperparameter(history, "local_steps")
        (0.25, 2)
    """
    known = hyperparameters(run)
    require_known(f"hyperparameter of {run.config.algorithm}", key, known)
    return known[key]


def hyperparameters(run: Run) -> dict[str, Any]:
    """All hyperparameters of a run by override key. See :func:`hyperparameter`."""
    method = run.config.method
    values = {f"client_{name}": value for name, value in _part(method, "client").items()}
    for part in _PARTS[::-1]:
        values |= {name: value for name, value in _part(method, part).items() if name != "lr"}
    values |= {name: value for name, value in method.items() if not isinstance(value, Mapping)}
    for owner in (method, _part(method, "server")):
        if "lr" in owner:
            values["server_lr"] = owner["lr"]
    values["client_optimizer"] = client_optimizer(run)
    if "base" in method:
        kind = str(method["base"]["type"])
        values["base"] = _BASE_NAMES.get(kind, kind.lower())
    for name in ("type", "lr", "client_type", "versions"):
        values.pop(name, None)
    return {**values, **{name: getattr(run.config, name) for name in TRAINING_KEYS}}


def _part(method: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = method.get(name)
    return part if isinstance(part, Mapping) else {}


def client_optimizer(run: Run) -> str:
    """The name of the clients' optimizer, or ``"sgd"`` if the method defines the steps itself."""
    kind = _part(run.config.method, "client").get("type", "SGD")
    return _CLIENT_NAMES.get(kind, kind)


def client_label(run: Run) -> str:
    """The clients' optimizer in Delta-SGD's words: ``"sgdm_decay"`` if the rate falls."""
    falls = run.config.method.get("client_schedule", "constant") != "constant"
    return client_optimizer(run) + ("_decay" if falls else "")


def option(run: Run, name: str) -> Any:
    """A run's task option, for instance ``"alpha"`` or ``"width"``.

    Raises:
        Error: the task has no such option.
    """
    options = run.config.task["options"]
    require_known(f"option of task {run.config.task['name']}", name, options)
    return options[name]


def value(run: Run, key: str) -> Any:
    """Any value that distinguishes runs.

    Args:
        key: ``task``, ``algorithm``, ``seed`` (of the run), ``rounds``, ``clients_per_round``,
            ``option.alpha`` for a task's option, or a hyperparameter.
    """
    if key.startswith("option."):
        return option(run, key.removeprefix("option."))
    config = run.config
    common = {
        "task": config.task["name"],
        "algorithm": config.algorithm,
        "seed": config.seeds["init"],
        "rounds": config.rounds,
        "clients_per_round": config.clients_per_round,
    }
    return common[key] if key in common else hyperparameter(run, key)


def read(runs: Iterable[Stored | History]) -> Iterator[History]:
    """The histories of runs, without parameters. Damaged runs are logged and left out."""
    for run in runs:
        try:
            yield run if isinstance(run, History) else run.history(params=False)
        except Error as problem:
            log.warning("%s", problem)


def group(runs: Iterable[Run], *keys: Key) -> dict[Any, list[Run]]:
    """The runs by one key's value, or by a tuple of the values of several keys."""
    groups: dict[Any, list[Run]] = {}
    for run in runs:
        values = tuple(key(run) if callable(key) else value(run, key) for key in keys)
        groups.setdefault(values if len(keys) > 1 else values[0], []).append(run)
    return groups


def frame(histories: Sequence[History], *keys: str) -> pd.DataFrame:
    """The histories' frames concatenated, with a column for each key.

    Args:
        keys: see :func:`value`. The column of ``option.alpha`` is ``alpha``.

    Returns:
        The keys' columns, then round, split, metric, value, diverged (round or NaN).
    """
    columns = [
        {key.removeprefix("option."): value(history, key) for key in keys} for history in histories
    ]
    return frame_of(histories, columns)
