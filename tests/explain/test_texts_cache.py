"""Cached contributions: as computed, found again without the model, healed, within bounds, never mixed up."""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from conftest import save_classic
from likewise.encoder import Encoder
from likewise.encoder.postprocessing import fit_postprocessing
from likewise.errors import Cancelled, UsageError
from likewise.explain import texts as module
from likewise.explain.settings import Settings
from likewise.explain.texts import ContributionCache, Contributions, TextInput, contribution_stream
from likewise.sample import sample_sentences

SETTINGS = Settings(fold_special=True)
CAT, SEA, MAN = (TextInput(text, "", "word") for text in ("the cat sat", "the sea is blue", "a man is out"))


@pytest.fixture
def cached(tiny: Encoder, tmp_path: Path) -> ContributionCache:
    return ContributionCache(tiny, SETTINGS, tmp_path / "kept")


@pytest.fixture
def computed(monkeypatch: pytest.MonkeyPatch) -> list[TextInput]:
    """The texts that went through the model since the test began."""
    found: list[TextInput] = []

    def counting(encoder: Encoder, texts: list[TextInput], *rest: Any) -> Iterator[tuple[int, Contributions]]:
        found.extend(texts)
        return contribution_stream(encoder, texts, *rest)

    monkeypatch.setattr(module, "contribution_stream", counting)
    return found


def assert_same(one: Contributions, other: Contributions, tolerance: float = 0.0) -> None:
    for name in ("values", "bias", "vector"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.dtype == second.dtype
        np.testing.assert_allclose(first, second, rtol=0, atol=tolerance)
    assert (one.text, one.units, one.truncated, one.ids) == (other.text, other.units, other.truncated, other.ids)
    assert (one.own_length, one.divisor) == (other.own_length, pytest.approx(other.divisor, abs=tolerance))


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


class TestKept:
    def test_as_computed_and_as_found_again(self, cached: ContributionCache, tiny: Encoder) -> None:
        texts = [CAT, SEA, TextInput(sample_sentences()[0], "the ", "word"), replace(CAT, granularity="token")]
        plain = dict(contribution_stream(tiny, texts, "bilrp", SETTINGS))
        first, second = cached.of(texts), cached.of(texts)
        for place, (new, found) in enumerate(zip(first, second, strict=True)):
            assert_same(new, plain[place], 1e-6)
            assert_same(found, new)
            assert found.missing < 1e-5

    def test_the_second_time_no_model_runs(self, cached: ContributionCache, computed: list[TextInput]) -> None:
        cached.of([CAT, SEA])
        assert sorted(computed, key=lambda one: one.text) == [CAT, SEA]
        computed.clear()
        cached.of([SEA, CAT])
        ContributionCache(cached.encoder, cached.settings, cached.folder).of([CAT])
        assert computed == []

    def test_only_what_is_new_is_computed_once_and_in_order(
        self, cached: ContributionCache, computed: list[TextInput]
    ) -> None:
        cached.of([CAT])
        computed.clear()
        found = cached.of([SEA, CAT, SEA, MAN, CAT])
        assert computed == [SEA, MAN]
        assert [one.text for one in found] == [one.text for one in (SEA, CAT, SEA, MAN, CAT)]
        assert len(list(cached.folder.iterdir())) == 3 and all(
            path.suffix == ".npz" for path in cached.folder.iterdir()
        )

    def test_nothing_of_nothing(self, cached: ContributionCache) -> None:
        assert cached.of([]) == [] and not cached.folder.exists()

    @pytest.mark.parametrize(
        "text", ["", " ", "two\nlines\u2028and more", "a fox 🦊 ran", "a lone \ud83e here", "a \x00"]
    )
    def test_any_text(self, cached: ContributionCache, text: str) -> None:
        one = TextInput(text, "", "word")
        assert_same(cached.of([one])[0], cached.of([one])[0])
        assert cached.of([one])[0].text == text

    def test_cut_texts_and_spans(self, cached: ContributionCache) -> None:
        texts = [TextInput("it " * 50, "", "word"), TextInput("the cat sat", "", ((0, 7),))]
        first, second = cached.of(texts), cached.of(texts)
        assert [one.truncated for one in second] == [True, False]
        assert [unit.text for unit in second[1].units] == ["[CLS] [SEP]", "the cat", "sat"]
        for new, found in zip(first, second, strict=True):
            assert_same(found, new)

    @pytest.mark.parametrize("bias", ["separate", "shared"])
    def test_in_double_precision(self, tiny_folder: Path, tmp_path: Path, bias: str) -> None:
        encoder = Encoder.load(str(tiny_folder), device="cpu", dtype="float64")
        double = ContributionCache(encoder, replace(SETTINGS, bias=bias, reference="none"), tmp_path)
        double.of([CAT])
        (found,) = double.of([CAT])
        assert found.values.dtype == np.float64 and found.missing < 1e-12
        assert found.bias.any() == (bias == "separate")

    def test_cancelled_work_is_kept(
        self, cached: ContributionCache, computed: list[TextInput], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("likewise.progress.SECONDS_BETWEEN_CALLS", 0.0)
        heard: list[tuple[int, int | None, str]] = []

        def stop(*summary: Any) -> None:
            heard.append(summary)
            if summary[0] == 2:
                raise Cancelled

        with pytest.raises(Cancelled):
            cached.of([CAT, SEA, MAN], stop)
        assert heard[-1] == (2, 3, "explained texts") and len(list(cached.folder.iterdir())) == 2
        computed.clear()
        cached.of([CAT, SEA, MAN], lambda *_: None)
        assert len(computed) == 1

    def test_split_shares(self, cached: ContributionCache) -> None:
        with pytest.raises(UsageError, match="split shares are not cached"):
            replace(cached, settings=Settings(split=True))


def rewritten(data: bytes, **changes: bytes | None) -> bytes:
    """The same archive with other or without some members."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            content = changes.get(name.removesuffix(".npy"), old.read(name))
            if content is not None:
                new.writestr(name, content)
    return out.getvalue()


def array_bytes(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def facts_bytes(metadata: object) -> bytes:
    return array_bytes(np.frombuffer(json.dumps(metadata).encode(), np.uint8))


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "one byte": lambda data: data[:1],
    "cut in the midst": lambda data: data[: len(data) // 2],
    "cut at the end": lambda data: data[:-1],
    "a text": lambda data: b"no contributions here, only a text",
    "an array": lambda data: array_bytes(np.zeros(3)),
    "a pickle": lambda data: array_bytes(np.array([{}], dtype=object)),
    "a number changed": lambda data: data[:150] + bytes([data[150] ^ 1]) + data[151:],
    "no values": lambda data: rewritten(data, values=None),
    "no facts": lambda data: rewritten(data, metadata=None),
    "facts are no JSON": lambda data: rewritten(data, metadata=array_bytes(np.zeros(4, np.uint8))),
    "facts are a list": lambda data: rewritten(data, metadata=facts_bytes([1])),
    "units are numbers": lambda data: rewritten(data, metadata=facts_bytes({"units": [1, 2]})),
    "values are objects": lambda data: rewritten(data, values=array_bytes(np.array([{}], dtype=object))),
}
UNHEALED: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "an empty member": lambda data: rewritten(data, bias=b""),
    "an unknown compression": lambda data: _central(data, 10, 77),
    "encrypted": lambda data: _central(data, 8, 1),
    "facts without ids": lambda data: rewritten(
        data, metadata=facts_bytes({"units": [], "text": "the cat sat", "truncated": False})
    ),
}


def _central(data: bytes, offset: int, value: int) -> bytes:
    """One byte of the archive's first directory entry set."""
    place = data.index(b"PK\x01\x02") + offset
    return data[:place] + bytes([value]) + data[place + 1 :]


class TestDamage:
    @pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
    def test_is_computed_again(
        self, cached: ContributionCache, computed: list[TextInput], damage: Callable[[bytes], bytes]
    ) -> None:
        self.check(cached, computed, damage)

    @pytest.mark.parametrize("damage", UNHEALED.values(), ids=UNHEALED)
    def test_is_computed_again_whatever_numpy_raises(
        self, cached: ContributionCache, computed: list[TextInput], damage: Callable[[bytes], bytes]
    ) -> None:
        self.check(cached, computed, damage)

    def check(self, cached: ContributionCache, computed: list[TextInput], damage: Callable[[bytes], bytes]) -> None:
        (good,) = cached.of([CAT])
        (path,) = cached.folder.iterdir()
        path.write_bytes(damage(path.read_bytes()))
        computed.clear()
        assert_same(cached.of([CAT])[0], good)
        assert computed == [CAT], "the damage was not noticed"
        assert_same(cached.of([CAT])[0], good)
        assert computed == [CAT], "the damage was not mended"

    def test_a_flipped_bit_is_never_shown(self, cached: ContributionCache) -> None:
        (good,) = cached.of([CAT])
        (path,) = cached.folder.iterdir()
        data, rng = path.read_bytes(), np.random.default_rng(0)
        for place in range(0, len(data), 5):
            bent = bytearray(data)
            bent[place] ^= 1 << int(rng.integers(8))
            path.write_bytes(bent)
            found = cached._read(CAT)
            if found is not None:
                assert_same(found, good)


class TestBounds:
    def aged(self, cached: ContributionCache, texts: list[TextInput]) -> list[Path]:
        """Keep texts one after the other, the first of them an hour ago."""
        cached.of(texts)
        paths = [cached._files.path(cached._key(text)) for text in texts]
        for place, path in enumerate(paths):
            os.utime(path, (path.stat().st_mtime - 3600 + place,) * 2)
        return paths

    def test_the_oldest_goes_first(self, cached: ContributionCache) -> None:
        texts = [TextInput(f"the cat sat on {word}", "", "word") for word in ("one", "two", "six", "ten", "a")]
        paths = self.aged(cached, texts[:4])
        bound = sum(path.stat().st_size for path in paths[1:]) + paths[0].stat().st_size // 2
        small = replace(cached, most_bytes=bound)
        small.of([texts[4]])
        assert size_of(cached.folder) <= bound
        assert not paths[0].exists() and not paths[1].exists()
        assert paths[2].exists() and paths[3].exists() and small._files.path(small._key(texts[4])).exists()

    def test_what_was_used_lately_stays(self, cached: ContributionCache) -> None:
        first, second = self.aged(cached, [CAT, SEA])
        cached.of([CAT])
        bound = first.stat().st_size + second.stat().st_size + 10
        replace(cached, most_bytes=bound).of([MAN])
        assert first.exists() and not second.exists() and size_of(cached.folder) <= bound

    def test_a_folder_that_holds_nothing_still_answers(self, cached: ContributionCache) -> None:
        (plain,) = cached.of([CAT])
        none = replace(cached, most_bytes=0)
        assert_same(none.of([CAT, SEA])[0], plain)
        assert list(cached.folder.iterdir()) == []
        assert_same(none.of([CAT])[0], plain, 1e-6)

    def test_other_files_are_left_alone(self, cached: ContributionCache) -> None:
        cached.folder.mkdir()
        (cached.folder / "thesis.txt").write_text("precious")
        replace(cached, most_bytes=0).of([CAT])
        assert [path.name for path in cached.folder.iterdir()] == ["thesis.txt"]

    def test_another_process_prunes_too(self, cached: ContributionCache, monkeypatch: pytest.MonkeyPatch) -> None:
        listed = Path.glob
        monkeypatch.setattr(Path, "glob", lambda self, form: [*listed(self, form), self / "gone.npz"])
        assert cached.of([CAT])[0].text == CAT.text

    def test_two_threads_keep_the_same_text(self, cached: ContributionCache, monkeypatch: pytest.MonkeyPatch) -> None:
        saved: Callable[..., None] = np.savez

        def interrupted(*arguments: Any, **arrays: Any) -> None:
            monkeypatch.setattr(np, "savez", saved)
            cached.of([CAT])  # as a second thread would, here and now
            saved(*arguments, **arrays)

        monkeypatch.setattr(np, "savez", interrupted)
        assert_same(cached.of([CAT])[0], cached.of([CAT])[0])

    def test_a_folder_that_cannot_be_made_is_told_and_costs_nothing_else(
        self, cached: ContributionCache, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "file").write_text("")
        (found,) = replace(cached, folder=tmp_path / "file" / "kept").of([CAT])
        assert found.missing < 1e-4
        assert "cannot write to the cache" in caplog.text


class TestNothingIsShared:
    def test_between_settings_prompts_readings_and_models(
        self, cached: ContributionCache, tiny: Encoder, tiny_folder: Path, tmp_path: Path
    ) -> None:
        other = Encoder.load(str(save_classic(tmp_path / "other", seed=1)), device="cpu")
        post = fit_postprocessing("standardisation", tiny.encode(sample_sentences()[:40]))
        encoders = [
            tiny, other, tiny.with_postprocessing(post), Encoder.load(str(tiny_folder), device="cpu", dtype="float64"),
            *(tiny.with_pooling(**pooling_config) for pooling_config in (
                {"pooling": "cls"}, {"layer": 1}, {"normalize": False}, {"special_tokens": False}, {"truncate_dim": 8}
            )),
            replace(tiny, modules_config=replace(tiny.modules_config, include_prompt=False)),
        ]  # fmt: skip
        settings = [SETTINGS, Settings(), replace(SETTINGS, bias="shared"), replace(SETTINGS, rules=("norm",))]
        texts = [
            CAT,
            SEA,
            replace(CAT, prompt="the "),
            replace(CAT, granularity="token"),
            replace(CAT, granularity=((0, 3),)),
        ]
        owners = [replace(cached, encoder=encoder) for encoder in encoders]
        owners += [replace(cached, settings=chosen) for chosen in settings[1:]]
        paths = [owner._key(text) for owner in owners for text in texts]
        assert len(set(paths)) == len(paths) == 13 * 5

    def test_but_what_does_not_matter_does_not(self, cached: ContributionCache) -> None:
        for chosen in (replace(SETTINGS, memory=0.5), replace(SETTINGS, seed=3)):
            assert replace(cached, settings=chosen)._key(CAT) == cached._key(CAT)

    def test_another_model_finds_its_own(self, cached: ContributionCache, tmp_path: Path) -> None:
        other = Encoder.load(str(save_classic(tmp_path / "other", seed=1)), device="cpu")
        cached.of([CAT])
        np.testing.assert_allclose(
            replace(cached, encoder=other).of([CAT])[0].vector, other.encode(CAT.text, prompt=""), atol=1e-6
        )

    def test_the_models_own_prompt_is_part_of_it(self, cached: ContributionCache, tiny: Encoder) -> None:
        modules_config = replace(tiny.modules_config, prompts={"own": "volcano "}, default_prompt="own")
        text = TextInput("the cat sat")
        cached.of([text])
        (found,) = replace(cached, encoder=replace(tiny, modules_config=modules_config)).of([text])
        np.testing.assert_allclose(found.vector, tiny.encode(text.text, prompt="volcano "), atol=1e-6)
