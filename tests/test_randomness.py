import math

import pytest
import torch

from fedlib import randomness


def test_keys_differ_in_every_argument():
    arguments = [(0, "a"), (1, "a"), (0, "b"), (0, "a", 0), (0, "a", 0, 1), (0, "a", 1, 0)]
    keys = {randomness.key(*given) for given in arguments}
    assert len(keys) == 6
    assert all(0 <= key < 2**63 for key in keys)


def test_mix_is_splitmix64():
    """Against SplitMix64 in Python integers, seeded with 1234567."""

    def reference(state):
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) % 2**64
        return z ^ (z >> 31)

    seed, gamma = 1234567, 0x9E3779B97F4A7C15
    words = randomness.bits(torch.tensor(seed), 5)
    expected = [reference((seed + (i + 1) * gamma) % 2**64) for i in range(5)]
    assert [word % 2**64 for word in words.tolist()] == expected


def test_uniform_is_uniform_and_uncorrelated():
    u = randomness.uniform(torch.arange(2000), 500)
    n = u.numel()
    assert 0 <= float(u.min()) and float(u.max()) < 1
    assert not (u * 2**24 % 1).any()  # with more bits float32 rounds some to 1
    assert abs(float(u.mean()) - 0.5) < 5 * math.sqrt(1 / 12 / n)
    counts = torch.histc(u, 20, 0, 1) / n
    assert float((counts - 0.05).abs().max()) < 5 * math.sqrt(0.05 * 0.95 / n)
    for a, b in ((u[:-1], u[1:]), (u[:, :-1], u[:, 1:])):
        correlation = float(((a - 0.5) * (b - 0.5)).mean()) * 12
        assert abs(correlation) < 5 / math.sqrt(a.numel())


def test_words_do_not_depend_on_how_many_are_drawn_or_on_other_keys():
    keys = torch.tensor([5, 6, 7])
    assert torch.equal(randomness.bits(keys, 9)[:, :4], randomness.bits(keys, 4))
    assert torch.equal(randomness.lanes16(keys, 9)[:, :3], randomness.lanes16(keys, 3))
    assert torch.equal(randomness.lanes16(keys, 9), randomness.lanes16(keys, 9, vmapped=True))
    assert torch.equal(randomness.bits(keys, 4)[1], randomness.bits(torch.tensor(6), 4))


@pytest.mark.parametrize("number", [0, 1, 7, 2**40, -3])
def test_fold_of_an_int_is_fold_of_a_tensor(number):
    keys = torch.tensor([0, 1, -5, 2**62])
    assert torch.equal(randomness.fold(keys, number), randomness.fold(keys, torch.tensor(number)))


def test_a_uniform_draw_of_0_is_a_finite_normal_one():
    key = torch.tensor(5618432)
    assert float(randomness.uniform(key, 2)[0]) == 0
    assert float(randomness.normal(key, 1)) == 0
