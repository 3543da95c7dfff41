"""Snapshots come apart into blocks that others share, and come together as they were."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outrider import Rows, Snapshot
from outrider_snapshots.memory import MemoryTier
from outrider_snapshots.packing import BLOCK, key_of, pack, prefix_keys, token_array, unpack
from outrider_snapshots.reasons import Miss, UnusableError
from soak.files import COMMON, ROW, made_up, same

snapshots = st.builds(made_up, st.integers(0, 4), st.integers(1, 5 * BLOCK))


def restored(snapshot: Snapshot) -> Snapshot:
    packed, blocks = pack(snapshot)
    return unpack(packed, blocks.__getitem__, verify=True)


class TestPacking:
    @settings(max_examples=30, deadline=None)
    @given(snapshots)
    def test_what_goes_in_comes_out(self, snapshot):
        assert same(restored(snapshot), snapshot)

    @settings(max_examples=50, deadline=None)
    @given(st.binary(max_size=9000), st.integers(0, 99), st.integers(1, 9), st.integers(0, 400))
    def test_wrong_rows_share_less_but_break_nothing(self, data, offset, size, count):
        if offset + size * count > len(data):
            count = max(0, len(data) - offset) // size
        rows = (Rows(offset, size, count),) if count else ()
        snapshot = Snapshot((1, 2), data, data, "x", rows, rows)
        assert same(restored(snapshot), snapshot)

    def test_a_longer_snapshot_of_a_conversation_shares_every_whole_block(self):
        _, short = pack(made_up(1, COMMON + 200))
        _, long = pack(made_up(1, COMMON + 400))
        assert set(short) < set(long)
        assert len(short) == 2 * ((COMMON + 200) // BLOCK)

    def test_conversations_share_the_beginning_they_have_in_common(self):
        _, one = pack(made_up(1, COMMON + 200))
        _, two = pack(made_up(2, COMMON + 200))
        assert len(set(one) & set(two)) == 2 * COMMON // BLOCK

    def test_a_changed_byte_is_noticed(self):
        packed, blocks = pack(made_up(1, COMMON))
        name = packed.parts[0].blocks[1]
        blocks[name][-1] ^= 1
        with pytest.raises(UnusableError) as error:
            unpack(packed, blocks.__getitem__, verify=True)
        assert error.value.reason is Miss.CORRUPT


@given(st.lists(st.integers(0, 9), min_size=1), st.data())
def test_the_names_of_prefixes_are_those_of_their_tokens(tokens, data):
    lengths = sorted(data.draw(st.sets(st.integers(0, len(tokens)))))
    found = list(prefix_keys(token_array(tokens), lengths))
    assert found == [key_of(token_array(tokens[:n])) for n in lengths]


class TestMemoryTier:
    @settings(max_examples=25, deadline=None)
    @given(st.lists(snapshots, max_size=12), st.integers(0, 300_000))
    def test_the_budget_is_kept_and_every_byte_is_counted_once(self, taken, budget):
        tier = MemoryTier(budget)
        for snapshot in taken:
            packed, blocks = pack(snapshot)
            tier.add(key_of(packed.tokens), packed, blocks)
            kept = tier.packed()
            distinct = {name for p in kept for name in p.blocks}
            blocks_once = _block_bytes(distinct, taken)
            assert tier.size == sum(p.own_size for p in kept) + blocks_once <= budget
            assert tier.shared == sum(p.size - p.own_size for p in kept) - blocks_once
        for key in tier.names():
            tier.discard(key)
        assert (tier.size, tier.shared, len(tier)) == (0, 0, 0)

    def test_the_least_recently_used_goes_first(self):
        first, second, third = (made_up(i, 3 * BLOCK) for i in range(3))
        tier = MemoryTier(10**9)
        keys = [_add(tier, s)[0] for s in (first, second)]
        assert same(tier.get(keys[0]), first)
        tier.budget = tier.size
        _, dropped = _add(tier, third)
        assert dropped == [keys[1]]

    def test_what_is_too_big_is_not_kept_and_drives_nothing_else_out_for_good(self):
        tier = MemoryTier(30_000)
        big = made_up(1, 8 * BLOCK)
        big = attrs.evolve(big, drafter=bytes(40_000), drafter_rows=())
        key, dropped = _add(tier, big)
        assert dropped == [key]
        assert tier.get(key) is None
        assert tier.size == 0


def _add(tier: MemoryTier, snapshot: Snapshot):
    packed, blocks = pack(snapshot)
    key = key_of(packed.tokens)
    return key, tier.add(key, packed, blocks)


def _block_bytes(names, taken) -> int:
    sizes = {n: len(b) for s in taken for n, b in pack(s)[1].items()}
    return sum(sizes[n] for n in names)


def test_sharing_saves_what_the_rows_weigh():
    tier = MemoryTier(10**9)
    for i in range(1, 5):
        _add(tier, made_up(7, COMMON + i * BLOCK))
    shared_tokens = sum(COMMON + i * BLOCK for i in range(1, 4))
    assert tier.shared == shared_tokens * (2 * ROW + ROW // 2)
