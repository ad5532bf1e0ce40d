"""A round of FedJAX (``pip install fedjax``), by its public interface and default backend (jit).

The networks are made of Haiku's layers, images with a pixel's channels side by side as is usual
there, from the other ways' networks: of the same sizes, and with the same values at the start.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
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

    ``server`` itself stays as it is. None if the device is no CPU.
    """
    if device.type != "cpu":
        return None
    jax.config.update("jax_default_device", jax.devices("cpu")[0])
    batches = fedjax.ShuffleRepeatBatchHParams(batch_size=load.batch, num_epochs=1)
    data = {i: {"x": _array(x), "y": _array(y)} for i, (x, y) in enumerate(clients)}
    sampler = fedjax.client_samplers.UniformGetClientSampler(
        fedjax.InMemoryFederatedData(data), num_clients=len(clients), seed=0
    )
    model = model_of(load, server, data[0])
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


def model_of(load: Workload, network: nn.Module, examples: dict[str, np.ndarray]) -> fedjax.Model:
    """The network in Haiku, which starts with the values that ``network`` has."""
    forward = hk.transform(lambda batch: _apply(network, batch["x"]))
    sample = {name: values[: load.batch] for name, values in examples.items()}
    return fedjax.create_model_from_haiku(forward, sample, LOSSES[load.loss])


def _array(values: Tensor) -> np.ndarray:
    """For jax: channels last, whole numbers of 32 bits."""
    array: np.ndarray = (values.movedim(1, -1) if values.ndim == 4 else values).numpy()
    return np.ascontiguousarray(array, np.float32 if values.is_floating_point() else np.int32)


def _apply(module: nn.Module, x: Any) -> Any:
    """``module(x)`` in Haiku; the cases are torch's modules in the workloads."""
    match module:
        case nn.Sequential():
            return _sequence(list(module), x)
        case nn.Linear():
            return _linear(module, x)
        case nn.Conv2d():
            layer = hk.Conv2D(
                module.out_channels,
                module.kernel_size,
                module.stride,
                padding=[(int(n), int(n)) for n in module.padding],
                with_bias=module.bias is not None,
            )
            return _start(layer, w=module.weight.permute(2, 3, 1, 0), b=module.bias)(x)
        case nn.GroupNorm():
            norm = hk.GroupNorm(module.num_groups, eps=module.eps)
            return _start(norm, scale=module.weight, offset=module.bias)(x)
        case nn.MaxPool2d():
            return hk.max_pool(x, module.kernel_size, module.stride, "VALID")
        case nn.Dropout():
            return hk.dropout(hk.next_rng_key(), module.p, x)
        case nn.ZeroPad2d():
            left, right, top, bottom = module.padding
            return jnp.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)))
        case nn.AdaptiveAvgPool2d():
            return x.mean((1, 2), keepdims=True)
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
            return _shakespeare(module, x)
    raise Error(f"no Haiku layer is known for a {type(module).__name__}")


def _sequence(layers: Sequence[nn.Module], x: Any) -> Any:
    for before, layer in pairwise([nn.Identity(), *layers]):
        if isinstance(before, nn.Flatten) and isinstance(layer, nn.Linear):
            x = _linear(layer, x.reshape(len(x), -1), channels=x.shape[-1])
        elif not isinstance(layer, nn.Flatten):
            x = _apply(layer, x)
    return x


def _linear(layer: nn.Linear, x: Any, channels: int = 1) -> Any:
    """A dense layer, for inputs in which the ``channels`` come last and not first."""
    outputs = layer.out_features
    weight = layer.weight.view(outputs, channels, -1).transpose(1, 2).reshape(outputs, -1)
    return _start(hk.Linear(outputs), w=weight.T, b=layer.bias)(x)


def _shakespeare(module: PlainShakespeare, x: Any) -> Any:
    embedding, lstm = module.embedding, module.lstm
    layer = hk.Embed(embedding.num_embeddings, embedding.embedding_dim)
    x = jnp.swapaxes(_start(layer, embeddings=embedding.weight)(x), 0, 1)
    # A static unroll, as FedJAX's own Shakespeare model has it, takes minutes to compile.
    for weights in lstm.all_weights:
        core = hk.LSTM(lstm.hidden_size)
        w, b = _gates(*weights)
        x, _ = _start(hk.dynamic_unroll, w=w, b=b)(core, x, core.initial_state(x.shape[1]))
    return _linear(module.dense, jnp.swapaxes(x, 0, 1))


def _gates(inputs: Tensor, hidden: Tensor, bias: Tensor, other: Tensor) -> tuple[Tensor, Tensor]:
    """One layer as Haiku has it: one bias, gates in the order i g f o, 1 is added to f later."""
    weight = torch.cat([inputs, hidden], 1)
    i, f, g, o = torch.cat([weight, (bias + other)[:, None]], 1).chunk(4)
    f = torch.cat([f[:, :-1], f[:, -1:] - 1], 1)
    every = torch.cat([i, g, f, o])
    return every[:, :-1].T, every[:, -1]


def _start(layer: Callable[..., Any], **values: Tensor | None) -> Callable[..., Any]:
    """``layer``, of which the parameters of these names have these values at first."""

    def create(following: Any, shape: Any, dtype: Any, init: Any, context: Any) -> Any:
        given = values[context.name]
        assert given is not None and given.shape == tuple(shape)
        return following(shape, dtype, lambda *_: jnp.asarray(given.detach().numpy()))

    def call(*inputs: Any) -> Any:
        with hk.custom_creator(create):
            return layer(*inputs)

    return call
