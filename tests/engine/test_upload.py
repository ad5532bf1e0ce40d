"""Tensors that are packed into one block come out as they were."""

from __future__ import annotations

import torch

from fedlib.engine.batches import packed, unpacked, upload

PARTS = {
    "index": torch.arange(15).view(3, 5),
    "mask": torch.tensor([True, False, True]),
    "weights": torch.rand(2, 3, generator=torch.Generator().manual_seed(0)),
    "shared": torch.tensor([[0.1]], dtype=torch.float64).expand(3, 7),
    "words": torch.tensor([-3, 7], dtype=torch.int16),
    "number": torch.tensor(2.5),
    "none": torch.zeros(0, 4, dtype=torch.int64),
}


def test_packing_keeps_every_bit_type_and_shape() -> None:
    parts = list(PARTS.values())
    buffer = packed(parts)
    assert buffer.dtype == torch.uint8 and buffer.dim() == 1
    for part, again in zip(parts, unpacked(buffer, parts), strict=True):
        assert again.dtype == part.dtype and again.is_contiguous()
        assert torch.equal(again, part) and again.data_ptr() % part.element_size() == 0
    again = unpacked(buffer.clone(), parts)[2]
    buffer.zero_()
    assert torch.equal(again, PARTS["weights"])  # the buffer holds the numbers, nothing else does


def test_none_is_left_out_and_on_the_cpu_nothing_is_copied() -> None:
    sent = upload({**PARTS, "keys": None}, torch.device("cpu"))
    assert list(sent) == list(PARTS) and all(sent[name] is PARTS[name] for name in PARTS)


def test_elsewhere_all_share_one_block() -> None:
    sent = upload({**PARTS, "keys": None}, torch.device("meta"))
    assert {name: (t.dtype, t.shape) for name, t in sent.items()} == {
        name: (t.dtype, t.shape) for name, t in PARTS.items()
    }
    assert len({tensor.untyped_storage()._cdata for tensor in sent.values()}) == 1
    assert upload({}, torch.device("meta")) == {}
