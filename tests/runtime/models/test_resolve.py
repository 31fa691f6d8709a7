from __future__ import annotations

import io
import json
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import gguf
import pytest
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import load_file

from agentrt.cli import main
from agentrt.errors import (
    InvalidRequest,
    ModelCorrupt,
    ModelNotFound,
    StorageError,
    UnsupportedModel,
)
from agentrt.runtime.chat import ChatTemplate
from agentrt.runtime.models import (
    ModelFiles,
    convert,
    derived,
    is_stored,
    models_dir,
    pull,
    resolve,
    storage,
)
from agentrt.runtime.tokenizer import Tokenizer
from tests.runtime.models import tiny

IDS = torch.tensor([[5, 9, 100, 42, 7]])


def logits(files: ModelFiles) -> torch.Tensor:
    """What the converted files compute, loaded the way their description says."""
    config = transformers.AutoConfig.from_pretrained(files.folder)
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=getattr(torch, files.dtype))
    state = {name: t for path in files.weights for name, t in load_file(path).items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert unexpected == []
    model.tie_weights()
    return model.eval()(IDS).logits


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tiny.write_folder(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    tiny.write_gguf(tmp_path / "tiny.gguf")
    return tmp_path / "tiny.gguf"


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_folders_own_files_serve_where_they_can(
    cache: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    tiny.write_folder(tmp_path / "model", dtype=dtype)
    files = resolve(tmp_path / "model")
    assert files.weights == (tmp_path / "model/model.safetensors",)
    assert files.dtype == str(dtype).removeprefix("torch.")
    assert files.blocks is None
    assert files.context_length == 128
    assert files.folder.parent == models_dir() == cache / "models"
    theirs = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert torch.equal(logits(files), theirs.eval()(IDS).logits)


def test_shards_serve_as_they_are(cache: Path, tmp_path: Path) -> None:
    model = tiny.write_folder(tmp_path / "model", max_shard_size="100KB")
    files = resolve(str(tmp_path / "model"))
    assert len(files.weights) > 1
    assert torch.equal(logits(files), model(IDS).logits)


def test_pickled_weights_are_written_anew(cache: Path, tmp_path: Path, folder: Path) -> None:
    state = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    torch.save(state, folder / "pytorch_model.bin")
    files = resolve(folder)
    assert files.weights == (files.folder / "weights.safetensors",)
    assert load_file(files.weights[0]).keys() == state.keys()


def test_tokenizer_template_and_end_tokens_come_along(cache: Path, folder: Path) -> None:
    files = resolve(folder)
    tokenizer = Tokenizer.from_files(files)
    assert tokenizer.eos_token_ids == {1}
    theirs = tiny.fast_tokenizer()
    said = [{"role": "user", "content": "Grüße <think> 12"}]
    assert ChatTemplate.from_files(tokenizer, files).encode(said) == theirs.apply_chat_template(
        said, add_generation_prompt=True, return_dict=False
    )
    assert files.special_tokens["eos_token"] == "<|end|>"


def test_the_second_start_converts_nothing(cache: Path, folder: Path, file: Path) -> None:
    first = [resolve(folder), resolve(file)]
    assert is_stored(folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(convert, "convert", None)
        assert [resolve(folder), resolve(file)] == first


def test_a_changed_source_is_converted_again(cache: Path, folder: Path) -> None:
    before = resolve(folder)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 64}))
    after = resolve(folder)
    assert after.folder != before.folder
    assert after.context_length == 64


def test_a_damaged_conversion_is_made_again(cache: Path, file: Path) -> None:
    files = resolve(file)
    files.weights[0].write_bytes(b"short")
    assert not is_stored(file)
    assert torch.isfinite(logits(resolve(file))).all()


def test_pull_mends_what_only_a_hash_shows(cache: Path, file: Path) -> None:
    path = resolve(file).weights[0]
    whole = path.read_bytes()
    path.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    assert resolve(file).weights[0].read_bytes() != whole
    assert pull(file).weights[0].read_bytes() == whole


def test_pull_forgets_what_was_derived_and_is_damaged(cache: Path, file: Path) -> None:
    folder = resolve(file).folder

    def build(path: Path) -> None:
        path.write_bytes(b"made from the weights")

    for name in ("sound", "spoilt"):
        derived(folder, name, build)
    (folder / "spoilt").write_bytes(b"MADE from the weights")
    pull(file)
    assert (folder / "sound").exists()
    assert not (folder / "spoilt").exists()


@pytest.mark.parametrize("name", ["model.json", "tokenizer.json"])
def test_damage_of_the_same_size_is_named_when_it_is_met(
    cache: Path, file: Path, name: str
) -> None:
    damaged = resolve(file).folder / name
    damaged.write_bytes(b"\xff" * damaged.stat().st_size)
    with pytest.raises(ModelCorrupt, match=rf"{name}.*pull"):
        Tokenizer.from_files(resolve(file))
    pull(file)
    assert Tokenizer.from_files(resolve(file)).vocab_size


@pytest.mark.parametrize("tied", [True, False])
def test_gguf_gives_what_transformers_reads_from_it(
    cache: Path, tmp_path: Path, tied: bool
) -> None:
    tiny.write_gguf(tmp_path / "tiny.gguf", tied=tied)
    files = resolve(tmp_path / "tiny.gguf")
    theirs = transformers.AutoModelForCausalLM.from_pretrained(
        tmp_path, gguf_file="tiny.gguf", dtype=torch.float32
    )
    assert files.dtype == "float32"
    assert torch.equal(logits(files), theirs.eval()(IDS).logits)
    assert files.eos_token_ids == (0, 1)  # as configured, and what the template ends a turn with


@pytest.mark.parametrize("tied", [True, False])
def test_gguf_keeps_its_exact_blocks(cache: Path, tmp_path: Path, tied: bool) -> None:
    tiny.write_gguf(tmp_path / "tiny.gguf", tied=tied)
    files = resolve(tmp_path / "tiny.gguf")
    weights = load_file(files.weights[0])
    if tied:
        weights["lm_head.weight"] = weights["model.embed_tokens.weight"]
    assert files.blocks is not None
    with safe_open(files.blocks, "pt") as blocks:
        keys = set(blocks.keys())
        names = {key.rpartition(".")[0] for key in keys}
        for name in names:
            q, d = blocks.get_tensor(f"{name}.q"), blocks.get_tensor(f"{name}.d")
            values = q.view(len(q), -1, 32).float() * d.float()[..., None]
            if f"{name}.m" in keys:
                values += blocks.get_tensor(f"{name}.m").float()[..., None]
            assert torch.equal(values.view(q.shape), weights[name]), name
            assert (q.dtype == torch.int8) == (f"{name}.m" not in keys)
    linear = {n for n, w in weights.items() if w.ndim == 2} - {"model.embed_tokens.weight"}
    assert names == {name for name in linear if "down_proj" not in name}


def test_gguf_digits_are_split_as_the_file_says(cache: Path, file: Path) -> None:
    from tokenizers import pre_tokenizers

    backend = Tokenizer.from_files(resolve(file))._backend
    assert isinstance(backend.pre_tokenizer, pre_tokenizers.PreTokenizer)
    pieces = [text for text, _ in backend.pre_tokenizer.pre_tokenize_str("a  12")]
    assert pieces == ["a", "ĠĠ", "1", "2"]


def test_a_file_cut_short_is_refused(cache: Path, file: Path) -> None:
    file.write_bytes(file.read_bytes()[:5000])
    with pytest.raises(InvalidRequest, match="may be cut short"):
        resolve(file)


def test_a_file_that_is_no_gguf_is_refused(cache: Path, tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(b"PK\x03\x04....")
    with pytest.raises(InvalidRequest, match="is not a GGUF file"):
        resolve(tmp_path / "model.bin")


def test_a_gguf_of_unknown_architecture_is_refused_by_name(cache: Path, tmp_path: Path) -> None:
    writer = gguf.GGUFWriter(tmp_path / "odd.gguf", "oddity")
    writer.add_tokenizer_model("gpt2")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(UnsupportedModel, match="oddity"):
        resolve(tmp_path / "odd.gguf")


def test_a_disk_too_full_for_the_weights_is_named(
    cache: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "free_bytes", lambda folder: 1000)
    with pytest.raises(StorageError, match=r"needs about \d{3},\d{3} bytes and 1,000 are free"):
        resolve(file)
    assert not is_stored(file)


def edit_config(folder: Path, **values: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, **values}))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model_type": "nonesuch"}, "nonesuch"),
        ({"model_type": "vit"}, "ViTConfig"),
        ({"model_type": "t5", "is_encoder_decoder": True}, "encoder-decoder"),
        ({"quantization_config": {"quant_method": "gptq", "bits": 4}}, "gptq"),
    ],
)
def test_models_that_cannot_be_run_are_refused(
    cache: Path, folder: Path, values: dict[str, Any], words: str
) -> None:
    edit_config(folder, **values)
    with pytest.raises(UnsupportedModel, match=words):
        resolve(folder)


def test_missing_weights_are_not_made_up(cache: Path, folder: Path) -> None:
    from safetensors.torch import save_file

    state = load_file(folder / "model.safetensors")
    del state["model.layers.1.mlp.up_proj.weight"]
    save_file(state, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ModelCorrupt, match=r"model\.layers\.1\.mlp\.up_proj\.weight"):
        resolve(folder)


def test_a_missing_shard_is_named(cache: Path, tmp_path: Path) -> None:
    tiny.write_folder(tmp_path / "model", max_shard_size="100KB")
    first = min((tmp_path / "model").glob("model-*.safetensors"))
    first.unlink()
    with pytest.raises(ModelNotFound, match=first.name):
        resolve(tmp_path / "model")


def test_what_is_not_there_is_not_found(cache: Path, tmp_path: Path, folder: Path) -> None:
    for absent in (tmp_path / "none", str(tmp_path / "none"), "./none", "a/b/c", "none.gguf"):
        with pytest.raises(ModelNotFound, match="there is no file or folder"):
            resolve(absent)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelNotFound, match="has no weights"):
        resolve(folder)
    (folder / "config.json").unlink()
    with pytest.raises(ModelNotFound, match=r"has no config\.json"):
        resolve(folder)


def test_a_hub_id_uses_the_hubs_folder(
    cache: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, Any]] = []

    def snapshot(model: str, **options: Any) -> str:
        asked.append({"model": model, **options})
        return str(folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert resolve("someone/tiny").name == "someone--tiny"
    assert [a["model"] for a in asked] == ["someone/tiny"]
    assert asked[0]["local_files_only"]


def test_a_half_downloaded_hub_model_is_completed(
    cache: Path, tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    half = tmp_path / "half"
    half.mkdir()
    (half / "config.json").write_text("{}")

    def snapshot(model: str, *, local_files_only: bool = False, **options: Any) -> str:
        return str(half if local_files_only else folder)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    assert resolve("someone/tiny").weights == (folder / "model.safetensors",)


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        (
            "the hub cannot be reached. Please check\nyour connection: and so on\nfor lines",
            "the hub cannot be reached",
        ),
        (
            "Got: ConnectError: [Errno -2] Name or service not known\nAn error happened while",
            "ConnectError: [Errno -2] Name or service not known",
        ),
        ("", "LocalEntryNotFoundError"),
    ],
)
def test_a_hub_id_offline_says_why_and_what_to_run(
    said: str, kept: str, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from huggingface_hub.errors import LocalEntryNotFoundError

    def snapshot(model: str, **options: Any) -> str:
        raise LocalEntryNotFoundError(said)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot)
    with pytest.raises(ModelNotFound, match=r"`agentrt models pull someone/tiny`") as caught:
        resolve("someone/tiny")
    assert f"did not give it: {kept}. Check the name" in str(caught.value)


def test_command_pulls_lists_and_tells_the_path(
    cache: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "pull", str(folder)]) == 0
    assert main(["models", "path", str(folder)]) == 0
    path = capsys.readouterr().out.splitlines()[-1]
    assert Path(path).is_dir()
    assert main(["models", "list"]) == 0
    assert Path(path).name in capsys.readouterr().out
    assert main(["models", "path", str(folder / "none")]) == 2
    assert "ModelNotFound" in capsys.readouterr().err


def test_a_first_start_shows_a_person_what_is_done(cache: Path, folder: Path) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    with redirect_stderr(Terminal()) as screen:
        resolve(folder)
    assert f"reading {folder.name} for its first start" in screen.getvalue()
    with redirect_stderr(Terminal()) as screen:
        resolve(folder)
    assert screen.getvalue() == ""
