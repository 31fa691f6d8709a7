"""The radix cache, case by case. test_radix_model.py holds it to a naive model."""

from __future__ import annotations

import numpy as np
import pytest

from agentrt.errors import IntegrityError, StaleMatch
from agentrt.runtime.pool import SlotPool
from agentrt.runtime.radix import Extended, Node, RadixCache


def toks(text: str) -> np.ndarray:
    return np.array([ord(c) for c in text], dtype=np.int32)


class Bench:
    """A pool and a cache; every test ends in `done`, which checks that nothing is lost."""

    def __init__(self, slots: int = 64) -> None:
        self.pool = SlotPool(slots)
        self.cache = RadixCache(self.pool)

    def alloc(self, n: int) -> np.ndarray:
        slots = self.pool.alloc(n)
        assert slots is not None
        return slots

    def extend(self, node: Node, text: str) -> Extended:
        return self.cache.extend(node, toks(text), self.alloc(len(text)))

    def start(self, text: str, namespace: str = "") -> tuple[Node, int]:
        match = self.cache.match(toks(text), namespace=namespace)
        return self.cache.acquire(match), match.length

    def serve(self, text: str, namespace: str = "") -> int:
        """A request from start to end; how many of its tokens were cached."""
        node, cached = self.start(text, namespace)
        end, duplicates = self.extend(node, text[cached:])
        assert not len(duplicates)
        self.cache.release(end)
        self.cache.check_integrity()
        return cached

    def cached(self, text: str, namespace: str = "") -> int:
        return self.cache.match(toks(text), namespace=namespace).length

    def done(self, *held: np.ndarray) -> None:
        self.cache.check_integrity(held)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def shape(bench: Bench, namespace: str = "") -> object:
    """The tree as nested (text, children)."""

    def of(node) -> tuple[str, list]:
        text = "".join(map(chr, node.tokens))
        return text, sorted(of(child) for child in node.children)

    return of(bench.cache.dump()[namespace])[1]


def test_the_fields_numbers() -> None:
    # Cached tokens reported for prompts over one text after a flush, when the last token of a
    # prompt is always computed.
    bench = Bench(30_000)
    text = np.random.default_rng(1).integers(0, 50_000, 11_000).astype(np.int32)
    reported = []
    for length in (100, 10_000, 10_000, 1_000, 11_000):
        prompt = text[:length]
        match = bench.cache.match(prompt[:-1])
        reported.append(match.length)
        rest = prompt[match.length :]
        slots = bench.alloc(len(rest))
        node, duplicates = bench.cache.extend(bench.cache.acquire(match), rest, slots)
        bench.pool.free(duplicates)
        bench.cache.release(node)
        bench.cache.check_integrity()
    assert reported == [0, 100, 9_999, 999, 10_000]
    assert bench.cache.cached == 11_000
    assert bench.cache.stats.nodes == 1
    bench.done()


def test_match_gives_the_slots_that_were_handed_over(bench: Bench) -> None:
    node, _ = bench.start("abcdef")
    slots = bench.alloc(6)
    bench.cache.extend(node, toks("abcdef"), slots)
    match = bench.cache.match(toks("abcxyz"))
    assert (match.length, match.slots.tolist()) == (3, slots[:3].tolist())
    assert match.slots.dtype == np.int32
    assert repr(match) == "<Match 3 of 6 tokens>"
    with pytest.raises(ValueError, match="read-only"):
        match.slots[0] = 5
    bench.done()


def test_the_tree_keeps_copies(bench: Bench) -> None:
    node, _ = bench.start("abc")
    tokens, slots = toks("abc"), bench.alloc(3)
    bench.cache.extend(node, tokens, slots)
    tokens[:] = 0
    slots[:] = 0
    assert bench.cached("abc") == 3
    bench.done()


def test_a_lookup_changes_nothing(bench: Bench) -> None:
    bench.serve("abcdef")
    version, tree = bench.cache.version, repr(bench.cache.dump())
    bench.cache.match(toks("abcx"))
    bench.cache.match(toks("abc"), namespace="elsewhere")
    assert (bench.cache.version, repr(bench.cache.dump())) == (version, tree)
    assert list(bench.cache.dump()) == [""]
    bench.done()


def test_acquire_splits_where_the_match_ends_and_release_mends(bench: Bench) -> None:
    bench.serve("abcdef")
    node, cached = bench.start("abcxy")
    assert cached == 3
    assert shape(bench) == [("abc", [("def", [])])]
    assert (bench.cache.cached, bench.cache.evictable) == (6, 3)
    bench.cache.release(node)
    assert shape(bench) == [("abcdef", [])]
    assert bench.cache.evictable == 6
    bench.done()


def test_a_branch_stays_split(bench: Bench) -> None:
    bench.serve("abcdef")
    bench.serve("abcxyz")
    assert shape(bench) == [("abc", [("def", []), ("xyz", [])])]
    assert bench.cache.cached == 9
    bench.done()


def test_a_lock_survives_a_split_above_its_end(bench: Bench) -> None:
    long, _ = bench.start("abcdef")
    long = bench.extend(long, "abcdef").node
    short, cached = bench.start("abc")
    assert cached == 3
    assert bench.cache.evict(99) == 0
    bench.cache.release(short)
    assert bench.cache.evict(99) == 0
    bench.cache.release(long)
    assert bench.cache.evict(99) == 6
    bench.done()


def test_a_merge_spares_the_end_of_a_lock(bench: Bench) -> None:
    bench.serve("abcdef")
    short, _ = bench.start("abc")
    bench.serve("abcxyz")
    assert bench.cache.evict(3) == 3  # def, the older branch
    assert shape(bench) == [("abc", [("xyz", [])])]
    bench.cache.release(short)
    assert shape(bench) == [("abcxyz", [])]
    bench.done()


def test_chunks_become_one_node(bench: Bench) -> None:
    node, _ = bench.start("abcdefgh")
    for chunk in ("ab", "cd", "ef", "gh"):
        node = bench.extend(node, chunk).node
        bench.cache.check_integrity()
    assert bench.cache.stats.nodes == 4
    bench.cache.release(node)
    assert shape(bench) == [("abcdefgh", [])]
    bench.done()


def test_extend_returns_what_another_has_cached_meanwhile(bench: Bench) -> None:
    first, _ = bench.start("abcdef")
    second, _ = bench.start("abcdxy")
    mine, theirs = bench.alloc(6), bench.alloc(6)
    bench.cache.extend(first, toks("abcdef"), mine)
    end, duplicates = bench.cache.extend(second, toks("abcdxy"), theirs)
    assert duplicates.tolist() == theirs[:4].tolist()
    bench.cache.check_integrity([duplicates])  # they are the caller's until it frees them
    bench.pool.free(duplicates)
    assert bench.cache.match(toks("abcdxy")).slots.tolist() == [*mine[:4], *theirs[4:]]
    bench.cache.release(end)
    bench.done()


def test_extend_over_a_known_run_hands_over_nothing(bench: Bench) -> None:
    bench.serve("abcdef")
    node = bench.cache.acquire(bench.cache.match(toks("")))
    slots = bench.alloc(4)
    end, duplicates = bench.cache.extend(node, toks("abcd"), slots)
    assert duplicates.tolist() == slots.tolist()
    assert bench.cache.evictable == 2
    bench.cache.release(end)
    bench.done(duplicates)


def test_extend_by_nothing_keeps_the_node(bench: Bench) -> None:
    node, _ = bench.start("a")
    end, duplicates = bench.cache.extend(node, toks(""), bench.alloc(0))
    assert end is node
    assert not len(duplicates)
    bench.cache.release(end)
    bench.done()


def test_match_from_and_advance(bench: Bench) -> None:
    waiting, _ = bench.start("abcdefgh")
    waiting = bench.extend(waiting, "ab").node
    other, cached = bench.start("abcdefxy")
    assert cached == 2
    other = bench.extend(other, "cdefxy").node
    match = bench.cache.match_from(waiting, toks("cdefgh"))
    assert match.length == 4
    assert match.slots.tolist() == bench.cache.match(toks("abcdef")).slots[2:].tolist()
    waiting = bench.cache.advance(waiting, match)
    bench.cache.release(other)
    assert bench.cache.evict(99) == 2  # xy
    bench.cache.release(waiting)
    assert bench.cache.evict(99) == 6
    bench.done()


def test_advance_turns_misses_into_hits(bench: Bench) -> None:
    waiting, _ = bench.start("abcd")
    bench.serve("abcd")
    waiting = bench.cache.advance(waiting, bench.cache.match_from(waiting, toks("abc")))
    stats = bench.cache.stats
    assert (stats.hits, stats.misses, stats.inserted, stats.evicted) == (3, 5, 4, 0)
    assert stats.hit_rate == 3 / 8
    bench.cache.release(waiting)
    bench.done()


def test_a_stale_match_that_still_holds_is_acquired(bench: Bench) -> None:
    bench.serve("abcdef")
    match = bench.cache.match(toks("abcdxx"))
    bench.serve("abyy")
    assert bench.cache.version != match.version
    node = bench.cache.acquire(match)
    assert node.depth() == 4
    bench.cache.release(node)
    bench.done()


def test_a_stale_match_that_lost_tokens_is_refused(bench: Bench) -> None:
    bench.serve("abcdef")
    match = bench.cache.match(toks("abcdef"))
    bench.cache.evict(2)
    with pytest.raises(StaleMatch, match=r"6 tokens were cached when matched, 4 of them are now"):
        bench.cache.acquire(match)
    assert bench.cache.locks == 0
    bench.done()


def test_a_stale_match_whose_tokens_moved_is_refused(bench: Bench) -> None:
    bench.serve("abcdef")
    match = bench.cache.match(toks("abcdef"))
    bench.cache.flush()
    bench.serve("z")
    bench.serve("abcdef")
    with pytest.raises(StaleMatch):
        bench.cache.acquire(match)
    bench.done()


def test_a_stale_match_of_a_namespace_that_is_gone_is_refused(bench: Bench) -> None:
    bench.serve("abc", "salt")
    match = bench.cache.match(toks("abc"), namespace="salt")
    bench.cache.flush()
    with pytest.raises(StaleMatch):
        bench.cache.acquire(match)
    assert bench.cache.dump() == {}
    bench.done()


def test_a_stale_match_below_a_node_is_refused_and_the_lock_stays(bench: Bench) -> None:
    node, _ = bench.start("abcd")
    bench.serve("abcd")
    match = bench.cache.match_from(node, toks("abcd"))
    bench.cache.flush()
    with pytest.raises(StaleMatch):
        bench.cache.advance(node, match)
    bench.cache.release(node)
    bench.done()


def test_an_empty_match_is_locked_at_the_root(bench: Bench) -> None:
    node, cached = bench.start("abc")
    assert (cached, node.is_root, bench.cache.locks) == (0, True, 1)
    bench.cache.release(node)
    assert bench.cache.dump() == {}
    bench.done()


def test_locked_releases_whatever_happens(bench: Bench) -> None:
    bench.serve("abc")
    match = bench.cache.match(toks("abc"))

    def fail_under_a_lock() -> None:
        with bench.cache.locked(match) as hold:
            assert bench.cache.evictable == 0
            hold.node = bench.extend(hold.node, "def").node
            raise KeyError

    with pytest.raises(KeyError):
        fail_under_a_lock()
    assert (bench.cache.locks, bench.cache.evictable) == (0, 6)
    with bench.cache.locked(match) as hold:
        node = hold.keep()
    assert bench.cache.locks == 1
    bench.cache.release(node)
    bench.done()


def test_eviction_takes_the_least_recently_used_leaf_and_no_more_than_asked(bench: Bench) -> None:
    for text in ("aa11", "aa22", "bb33"):
        bench.serve(text)
    bench.cache.release(bench.start("aa11")[0])
    assert bench.cache.evict(1) == 1
    assert (bench.cached("aa22"), bench.cached("bb33"), bench.cached("aa11")) == (3, 4, 4)
    assert bench.cache.evict(3) == 3  # the other 2, then two of bb33
    assert (bench.cached("aa22"), bench.cached("bb33"), bench.cached("aa11")) == (2, 2, 4)
    assert bench.cache.evict(99) == 6
    assert (bench.cache.cached, bench.cache.stats.nodes, bench.pool.num_free) == (0, 0, 64)
    bench.done()


def test_a_lookup_does_not_save_from_eviction(bench: Bench) -> None:
    bench.serve("old")
    bench.serve("new")
    bench.cache.match(toks("old"))
    bench.cache.evict(3)
    assert (bench.cached("old"), bench.cached("new")) == (0, 3)
    bench.done()


def test_evictable_is_counted_once(bench: Bench) -> None:
    bench.serve("abcd")
    nodes = [bench.start("abcd")[0] for _ in range(3)]
    assert bench.cache.evictable == 0
    for left in (0, 0, 4):
        bench.cache.release(nodes.pop())
        assert bench.cache.evictable == left
    bench.done()


def test_a_pin_outlives_flush_and_pressure(bench: Bench) -> None:
    bench.serve("system prompt")
    bench.serve("system error")
    pin = bench.cache.pin(toks("system p???"))
    assert pin.length == 8
    assert bench.cache.flush() == 5 + 5
    assert bench.cached("system prompt") == 8
    assert (bench.cache.evictable, bench.cache.cached, bench.cache.locks) == (0, 8, 0)
    assert (
        repr(bench.cache) == "<RadixCache 1 nodes, 0 locks, 1 pins | slots 8 cached, 0 evictable>"
    )
    bench.cache.unpin(pin)
    with pytest.raises(IntegrityError, match="not pinned"):
        bench.cache.unpin(pin)
    assert bench.cache.flush() == 8
    bench.done()


def test_pins_of_one_prefix_are_counted(bench: Bench) -> None:
    bench.serve("abc")
    one, two = bench.cache.pin(toks("abc")), bench.cache.pin(toks("abc"))
    bench.cache.unpin(one)
    assert bench.cache.flush() == 0
    bench.cache.unpin(two)
    assert bench.cache.flush() == 3
    bench.done()


def test_namespaces_never_share(bench: Bench) -> None:
    bench.serve("abc", "red")
    assert (bench.cached("abc", "red"), bench.cached("abc", "blue"), bench.cached("abc")) == (
        3,
        0,
        0,
    )
    assert bench.serve("abc", "blue") == 0
    pin = bench.cache.pin(toks("abc"), namespace="blue")
    assert bench.cache.flush() == 3
    assert list(bench.cache.dump()) == ["blue"]
    bench.cache.unpin(pin)
    bench.done()


def test_dump_stops_at_max_nodes_and_says_what_it_hides(bench: Bench) -> None:
    for text in ("aa", "ab", "ac", "b"):
        bench.serve(text)
    root = bench.cache.dump(max_nodes=3)[""]
    shown = [("".join(map(chr, c.tokens)), len(c.children), c.hidden) for c in root.children]
    assert shown == [("a", 1, 2), ("b", 0, 0)]
    assert root.hidden == 0
    pin = bench.cache.pin(toks("b"))
    (first, second) = bench.cache.dump()[""].children
    assert (first.locks, first.pinned, second.locks, second.pinned) == (0, False, 1, True)
    assert second.last_use > first.last_use
    bench.cache.unpin(pin)
    bench.done()


def test_misuse_is_refused_and_changes_nothing(bench: Bench) -> None:
    bench.serve("abc")
    node, _ = bench.start("abc")
    held = bench.alloc(2)
    with pytest.raises(IntegrityError, match="2 tokens, 1 slots"):
        bench.cache.extend(node, toks("de"), held[:1])
    root = bench.cache.acquire(bench.cache.match(toks("")))
    with pytest.raises(IntegrityError, match="owns already"):
        bench.cache.extend(root, toks("abc"), bench.cache.match(toks("abc")).slots)
    with pytest.raises(IntegrityError, match="use advance"):
        bench.cache.acquire(bench.cache.match_from(root, toks("abc")))
    with pytest.raises(IntegrityError, match="starts elsewhere"):
        bench.cache.advance(node, bench.cache.match_from(root, toks("abc")))
    bench.cache.release(root)
    bench.cache.release(node)
    for call in (
        lambda: bench.cache.release(node),
        lambda: bench.cache.extend(node, toks("de"), held),
        lambda: bench.cache.match_from(node, toks("de")),
    ):
        with pytest.raises(IntegrityError, match="nobody holds a lock"):
            call()
    bench.done(held)


def test_memory_follows_what_is_left_of_a_long_run() -> None:
    bench = Bench(4096)
    for text in ("x" * 2000, "xy", "z" * 2000):
        bench.serve(text)
    assert bench.cache.evict(1999 + 1 + 1) == 2001  # the long tail, y, and their x
    assert bench.cache.evict(1900) == 1900
    bench.serve("z" * 60 + "1")
    bench.serve("z" * 60 + "2")
    todo = list(bench.cache._tree.roots.values())
    while todo:
        node = todo.pop()
        todo.extend(node.children.values())
        for run in (node.tokens, node.slots):
            assert run.base is None or run.base.size <= 2 * run.size
    assert shape(bench) == [("z" * 60, [("1", []), ("2", []), ("z" * 40, [])])]
    bench.done()


def test_a_part_of_a_long_run_is_found_wherever_it_ends() -> None:
    # The comparison goes in blocks; their edges are at 256, 256 + 1024, ...
    bench = Bench(8192)
    text = np.random.default_rng(2).integers(0, 9, 6000).astype(np.int32)
    node = bench.cache.acquire(bench.cache.match(text))
    bench.cache.release(bench.cache.extend(node, text, bench.alloc(6000)).node)
    for end in (1, 2, 255, 256, 257, 1279, 1280, 1281, 1500, 5375, 5376, 5377, 5999):
        other = text.copy()
        other[end] = 9
        assert bench.cache.match(other).length == end
        assert bench.cache.match(text[:end]).length == end
    assert bench.cache.match(np.append(text, text)).length == 6000
    bench.done()


def test_the_version_tells_when_a_new_match_could_differ(bench: Bench) -> None:
    versions = [bench.cache.version]
    node, _ = bench.start("abcd")
    for change in (
        lambda: bench.extend(node, "abcd"),
        lambda: bench.cache.acquire(bench.cache.match(toks("ab"))),
        lambda: bench.serve("abxy"),
        lambda: bench.cache.evict(1),
    ):
        change()
        versions.append(bench.cache.version)
    assert len(set(versions)) == 5


def test_a_lock_counts_as_a_use_at_once(bench: Bench) -> None:
    bench.serve("abc")
    bench.serve("xyz")
    node, _ = bench.start("abc")
    used = {child.tokens[0]: child.last_use for child in bench.cache.dump()[""].children}
    assert used[ord("a")] > used[ord("x")]
    bench.cache.release(node)
    bench.done()


def test_use_without_eviction_does_not_grow_the_queue(bench: Bench) -> None:
    bench.serve("abc")
    for _ in range(1000):
        bench.cache.release(bench.start("abc")[0])
    assert len(bench.cache._tree.queue) < 200
    bench.done()


@pytest.mark.parametrize("uses", [10, 46, 60, 130, 200])  # before and after the queue is swept
def test_the_order_of_eviction_survives_much_use(bench: Bench, uses: int) -> None:
    texts = [chr(97 + i) for i in range(20)]
    for text in texts:
        bench.serve(text)
    random = np.random.default_rng(3)
    for _ in range(uses):
        text = texts.pop(int(random.integers(0, 20)))
        texts.append(text)
        bench.cache.release(bench.start(text)[0])
        bench.cache.check_integrity()
    for i, text in enumerate(texts):
        assert (bench.cached(text), bench.cache.cached) == (1, 20 - i)
        bench.cache.evict(1)
        assert bench.cached(text) == 0
    bench.done()


def damage_count(bench: Bench) -> None:
    bench.cache._tree.evictable += 1


def damage_owner(bench: Bench) -> None:
    bench.alloc(1)


def damage_lock(bench: Bench) -> None:
    node, _ = bench.start("abc")
    node.lock_ref += 1


def damage_key(bench: Bench) -> None:
    root = bench.cache._tree.roots[""]
    root.children[7] = root.children.pop(ord("a"))


def damage_queue(bench: Bench) -> None:
    bench.cache._tree.queue._heap.clear()


def damage_slots(bench: Bench) -> None:
    node = bench.cache._tree.roots[""].children[ord("a")]
    node.slots = node.slots[[0, 0, 1]]


@pytest.mark.parametrize(
    ("damage", "fact"),
    [
        (damage_count, "evictable slots: counted as 4, really 3"),
        (damage_owner, r"60 free, 3 cached, 0 held of 64 slots: 1 without an owner \(\[3\]\)"),
        (damage_lock, "should have lock_ref"),
        (damage_key, "by token 7"),
        (damage_queue, "in the queue"),
        (damage_slots, r"1 with several \(\[0\]\)"),
    ],
)
def test_the_integrity_check_sees(bench: Bench, damage, fact: str) -> None:
    bench.serve("abc")
    damage(bench)
    with pytest.raises(IntegrityError, match=fact):
        bench.cache.check_integrity()


def test_the_integrity_check_sees_a_held_slot_that_is_cached(bench: Bench) -> None:
    bench.serve("abc")
    with pytest.raises(IntegrityError, match="1 with several"):
        bench.cache.check_integrity([bench.cache.match(toks("a")).slots])
