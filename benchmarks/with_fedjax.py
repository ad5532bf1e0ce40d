"""A round of FedJAX (``pip install fedjax``), by its public interface and default backend (jit).

The networks have Haiku's layers, of the same kinds and sizes as in the other ways. Images have a
pixel's channels side by side, as is usual in jax. The initial values are Haiku's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import torch
from torch import Tensor, nn

# FedJAX 0.0.17 calls this name, which newer versions of jax lack.
if not hasattr(jax, "tree_map"):
    jax.tree_map = jax.tree_util.tree_map  # type: ignore[attr-defined]

import fedjax
from fedjax.algorithms import fed_avg

from benchmarks.workloads import RATE, PlainBlock, PlainShakespeare, Workload
from fedlib.errors import Error
from fedlib.losses import cross_entropy, sequence_cross_entropy, squared_error

_entropy = fedjax.metrics.unreduced_cross_entropy_loss
LOSSES: dict[Any, Callable[[Any, Any], Any]] = {
    cross_entropy: lambda batch, outputs: _entropy(batch["y"], outputs),
    sequence_cross_entropy: lambda batch, outputs: _entropy(batch["y"], outputs).mean(-1),
    squared_error: lambda batch, outputs: jnp.square(outputs - batch["y"]).mean(-1),
}


def round_of(
    load: Workload,
    server: nn.Module,
    clients: Sequence[tuple[Tensor, Tensor]],
    device: torch.device,
) -> Callable[[], Any] | None:
    """A function that does a round of FedAvg on all ``clients`` and returns the new parameters.

    ``server`` gives the network and stays unchanged. The result is None if the device is not a CPU.
    """
    if device.type != "cpu":
        return None
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    batches = fedjax.ShuffleRepeatBatchHParams(batch_size=load.batch, num_epochs=1)
    data = {i: {"x": _array(x), "y": _array(y)} for i, (x, y) in enumerate(clients)}
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        fedjax.InMemoryFederatedData(data), num_clients=len(clients), seed=0
    )
    forward = hk.transform(lambda batch: _apply(server, batch["x"]))
    sample = {name: values[: load.batch] for name, values in data[0].items()}
    model = fedjax.create_model_from_haiku(forward, sample, LOSSES[load.loss])
    sgd = fedjax.optimizers.sgd
    algorithm = fed_avg.federated_averaging(
        fedjax.model_grad(model), sgd(RATE), sgd(1.0), client_batch_hparams=batches
    )
    state = algorithm.init(model.init(jax.random.PRNGKey(0)))

    def step() -> Any:
        nonlocal state
        state, _ = algorithm.apply(state, sampler.sample())
        return jax.block_until_ready(state.params)

    return step


def _array(values: Tensor) -> np.ndarray:
    """An array for jax: channels last, whole numbers of 32 bits."""
    array: np.ndarray = (values.movedim(1, -1) if values.ndim == 4 else values).numpy()
    return np.ascontiguousarray(array, np.float32 if values.is_floating_point() else np.int32)


def _apply(module: nn.Module, x: Any) -> Any:
    """``module(x)`` in Haiku, for the torch modules of the workloads."""
    match module:
        case nn.Sequential():
            for layer in module:
                x = _apply(layer, x)
            return x
        case nn.Linear():
            return hk.Linear(module.out_features)(x)
        case nn.Conv2d():
            return hk.Conv2D(
                module.out_channels,
                module.kernel_size,
                module.stride,
                padding=[(int(n), int(n)) for n in module.padding],
                with_bias=module.bias is not None,
            )(x)
        case nn.GroupNorm():
            return hk.GroupNorm(module.num_groups, eps=module.eps)(x)
        case nn.MaxPool2d():
            return hk.max_pool(x, module.kernel_size, module.stride, "VALID")
        case nn.Dropout():
            return hk.dropout(hk.next_rng_key(), module.p, x)
        case nn.ZeroPad2d():
            left, right, top, bottom = module.padding
            return jnp.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        case nn.AdaptiveAvgPool2d():
            return x.mean((1, 2))
        case nn.Flatten():
            return x.reshape(len(x), -1)
        case nn.ReLU():
            return jax.nn.relu(x)
        case nn.Sigmoid():
            return jax.nn.sigmoid(x)
        case nn.Identity():
            return x
        case PlainBlock():
            y = _apply(module.conv1, jax.nn.relu(_apply(module.norm1, x)))
            y = _apply(module.conv2, jax.nn.relu(_apply(module.norm2, y)))
            return y + _apply(module.shortcut, x)
        case PlainShakespeare():
            embedding, lstm = module.embedding, module.lstm
            x = hk.Embed(embedding.num_embeddings, embedding.embedding_dim)(x).swapaxes(0, 1)
            # A static unroll, as FedJAX's own model has it, takes minutes to compile.
            for _ in range(lstm.num_layers):
                core = hk.LSTM(lstm.hidden_size)
                x, _ = hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))
            return _apply(module.dense, x.swapaxes(0, 1))
    raise Error(f"no Haiku layer is known for a {type(module).__name__}")
