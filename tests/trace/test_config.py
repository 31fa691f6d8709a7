"""Where and whether runs are recorded: by argument, by `configure`, by the environment."""

from __future__ import annotations

from pathlib import Path

import platformdirs
import pytest

from agentrt.errors import InvalidRequest
from agentrt.trace import TraceConfig, config, configure
from agentrt.trace.config import DEFAULT_LIMIT, resolve

Environment = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: Environment) -> None:
    monkeypatch.delenv("AGENTRT_TRACE", raising=False)
    monkeypatch.delenv("AGENTRT_TRACE_LIMIT", raising=False)
    monkeypatch.setattr(config, "_configured", None)


def test_recording_is_on_and_goes_to_the_users_data_folder() -> None:
    found = resolve()
    assert found.enabled
    assert found.content
    assert found.limit_bytes == DEFAULT_LIMIT
    assert found.place == platformdirs.user_data_path("agentrt") / "traces"


@pytest.mark.parametrize("off", ["off", "OFF", "0", "no", "false", " off "])
def test_the_environment_switches_it_off(monkeypatch: Environment, off: str) -> None:
    monkeypatch.setenv("AGENTRT_TRACE", off)
    assert not resolve().enabled
    assert resolve(True).enabled
    assert resolve(True).place == platformdirs.user_data_path("agentrt") / "traces"


def test_the_environment_names_a_folder(monkeypatch: Environment, tmp_path: Path) -> None:
    monkeypatch.setenv("AGENTRT_TRACE", str(tmp_path))
    assert resolve().place == tmp_path
    monkeypatch.setenv("AGENTRT_TRACE", "on")
    assert resolve().folder is None


@pytest.mark.parametrize(
    ("given", "size"), [("1000000", 10**6), ("512M", 512 << 20), ("2 gib", 2 << 30), ("1", 1 << 16)]
)
def test_the_environment_limits_the_size(monkeypatch: Environment, given: str, size: int) -> None:
    monkeypatch.setenv("AGENTRT_TRACE_LIMIT", given)
    assert resolve().limit_bytes == size


def test_a_size_that_is_none_is_refused(monkeypatch: Environment) -> None:
    monkeypatch.setenv("AGENTRT_TRACE_LIMIT", "plenty")
    with pytest.raises(InvalidRequest, match="plenty"):
        resolve()


def test_what_was_configured_goes_before_the_environment(
    monkeypatch: Environment, tmp_path: Path
) -> None:
    monkeypatch.setenv("AGENTRT_TRACE", "off")
    configure(enabled=True, content=False, folder=tmp_path)
    found = resolve()
    assert (found.enabled, found.content, found.place) == (True, False, tmp_path)
    assert not resolve(False).enabled
    given = TraceConfig(content=True)
    assert resolve(given) is given


def test_an_option_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(InvalidRequest, match=r"contents.*redact"):
        configure(contents=False)
    assert config._configured is None
