"""llama.cpp in the speed benches. Nothing is downloaded or compiled here."""

from __future__ import annotations

import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.bench.levels import LEVELS
from tests.bench.llama import build as build_module
from tests.bench.llama import files
from tests.bench.llama.build import NATIVE, PACKAGE, PROGRAMS, SHA256, Build, BuildError, flags
from tests.bench.llama.program import Llama, Program
from tests.bench.model import Beside
from tests.bench.options import parsed
from tests.bench.peer import Reading
from tests.bench.rounds import Row, Step
from tests.bench.speed_tables import PEER, model_table
from tests.bench.spread import Spread
from tests.bench.test_speed import lines_of

PROMPT, GENERATE, IMAGE = Step("prompt", 600), Step("generate", 4, 700), Step("image", 64)
AVX2, BF16 = LEVELS[0], LEVELS[3]


class Played(Build):
    """A build whose commands make what they would, empty, and are noted."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, AVX2, say=lambda text: None)
        self.ran: list[list[str]] = []

    def run(self, command: list[str], more: Mapping[str, str] | None = None) -> None:
        self.ran.append(command)
        if "download" in command:
            wish = Path(command[command.index("-r") + 1]).read_text()
            assert wish == f"llama_cpp_python==0.3.36 --hash=sha256:{SHA256}\n"
            self._pack(Path(command[-1]))
        elif Path(command[0]).name == "ninja":
            for name in command[command.index("1") + 1 :]:
                made = self.home / "build" / "bin" / name
                made.parent.mkdir(parents=True, exist_ok=True)
                made.write_text(name)
        elif "tests.bench.llama.files" in command:
            Path(command[-1]).write_text("plain")
        elif Path(command[0]).name.startswith("llama-quantize"):
            Path(command[2]).write_text(" ".join([Path(command[1]).name, *command[3:]]))

    def _pack(self, folder: Path) -> None:
        source = folder / "unpacked" / PACKAGE / "vendor" / "llama.cpp"
        source.mkdir(parents=True)
        (source / "CMakeLists.txt").write_text("llama.cpp")
        with tarfile.open(folder / f"{PACKAGE}.tar.gz", "w:gz") as archive:
            archive.add(folder / "unpacked" / PACKAGE, PACKAGE)


@pytest.fixture
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Played:
    monkeypatch.setattr("venv.create", lambda place, with_pip: None)
    return Played(tmp_path)


def test_only_the_instructions_of_the_level_are_built() -> None:
    given = set(flags(AVX2))
    assert {"-DGGML_AVX2=ON", "-DGGML_FMA=ON", "-DGGML_AVX512=OFF", "-DGGML_NATIVE=OFF"} <= given
    given = set(flags(BF16))
    assert {"-DGGML_AVX512_BF16=ON", "-DGGML_AVX512_VNNI=ON", "-DGGML_AVX_VNNI=OFF"} <= given
    given = set(flags(None))
    assert "-DGGML_NATIVE=ON" in given and not any("AVX" in each for each in given)


def test_it_is_built_once_a_level(build: Played) -> None:
    build.build(1)
    assert (build.source / "CMakeLists.txt").read_text() == "llama.cpp"
    assert [build.program(name).read_text() for name in PROGRAMS] == list(PROGRAMS)
    assert {build.program(name).name.removeprefix(name) for name in PROGRAMS} == {"-avx2"}
    assert not list(build.home.rglob("*.part"))
    count = len(build.ran)
    build.build(1)
    assert len(build.ran) == count
    build.level = NATIVE  # another one: the sources are there
    build.build(1, ["llama-bench"])
    assert not any("download" in command for command in build.ran[count:])
    assert build.program("llama-bench").exists() and not build.program("llama-server").exists()


def test_what_fails_or_hangs_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = Build(tmp_path, AVX2, print)
    build.home.mkdir(parents=True)
    shell = str(shutil.which("sh"))
    with pytest.raises(BuildError, match="log says more"):
        build.run([shell, "-c", "echo no compiler >&2; exit 1"])
    assert "no compiler" in (build.home / "log").read_text()
    monkeypatch.setattr(build_module, "LONGEST_S", 0.1)
    with pytest.raises(BuildError, match="timed out"):
        Build(tmp_path, AVX2, print).run([shell, "-c", "exec sleep 60"])


def test_files_are_written_once_and_shared_by_levels(build: Played, tmp_path: Path) -> None:
    build.build(1)
    made = {each: files.write(build, tmp_path, "tiny", each, 2) for each in ("int4", "Q4_K_M")}
    assert made["Q4_K_M"].read_text() == "tiny-BF16.gguf Q4_K_M 2"
    assert made["int4"].read_text() == "tiny-BF16.gguf Q4_0 2"
    assert not list(build.home.rglob("*.part"))
    count = len(build.ran)
    build.level = NATIVE
    assert files.write(build, tmp_path, "tiny", "bfloat16", 2).read_text() == "plain"
    assert len(build.ran) == count


def program(folder: Path, told: str) -> Path:
    """A llama-bench that answers to these arguments alone."""
    path = folder / "llama-bench"
    path.write_text(
        f"#!{shutil.which('sh')}\n"
        'case "$*" in\n'
        f'"-m a.gguf -t 2 -r 3 -o json {told}") echo \'[{{"samples_ts": [7, 9]}}]\';;\n'
        "*) exit 1;;\n"
        "esac\n"
    )
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("name", "step", "told"),
    [
        ("llama.cpp", PROMPT, "-p 600 -n 0"),
        ("llama.cpp", GENERATE, "-p 0 -n 4 -d 700"),
        ("ik_llama.cpp", PROMPT, "-p 600 -n 0"),
        ("ik_llama.cpp", GENERATE, "-p 0 -n 0 -gp 700,4"),
        ("ik_llama.cpp", Step("generate", 4, 0), "-p 0 -n 4"),
    ],
)
def test_each_program_is_asked_in_its_own_words(
    name: Program, step: Step, told: str, tmp_path: Path
) -> None:
    other = Llama(name, program(tmp_path, told), {"int8": Path("a.gguf")}, 2, 3)
    assert other.measure("int8", step) == Spread(8, 7, 9, 2)
    assert other.measure("float32", step) is None, "no file"
    assert other.measure("int8", IMAGE) is None, "no such step"
    with pytest.raises(subprocess.CalledProcessError):
        other.measure("int8", Step("prompt", 5))


def test_others_stand_beside_the_steps_they_have(tmp_path: Path) -> None:
    given = {"int8": Path("a.gguf")}, 2, 3
    own = Llama("llama.cpp", program(tmp_path, "-p 600 -n 0"), *given)
    said: list[str] = []
    beside = Beside([own], said.append)
    second = f"{PEER} float32"
    for step in (PROMPT, IMAGE):
        beside.measure(["bfloat16", "int8"], step)
    rows = {}
    for step in (PROMPT, IMAGE):
        readings = {"int8": 0.5, PEER: 1.0, second: 2.0}
        made = {name: [Reading(each, tokens=16)] for name, each in readings.items()}
        rows[step] = Row(step, made, {name: [1.0] for name in made})
    header, prompt, image, *_ = lines_of(model_table(rows, "int8", beside.of("int8")))
    assert header[5:] == [second, "ratio", "llama.cpp", "ratio"]
    assert prompt[5:] == ["8.00", "4.00", "8.00 [7.00-9.00]", "4.00"]
    assert image[5:] == ["2,000", "0.25", "", ""]
    assert said == ["llama.cpp beside int8: 8.00 [7.00-9.00] tokens/s"]
    assert beside.of("bfloat16") == {} and not beside.faults("int8")
    beside.measure(["int8"], GENERATE)  # which this program fails at
    assert (
        beside.faults("int8") == ["llama.cpp failed at generate 4"]
        and PROMPT in beside.of("int8")["llama.cpp"]
    )


def test_ik_llama_is_named_by_a_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parsed(["--ik", str(tmp_path / "nothing")])
    assert "is no program that can be run" in capsys.readouterr().err
    assert parsed(["--ik", str(program(tmp_path, ""))]).ik == tmp_path / "llama-bench"


def test_every_row_of_the_table_has_a_name(tmp_path: Path) -> None:
    """Gemma's converter cuts off the others."""
    words = {"model": {"vocab": {"a": 0, "b": 2}}, "added_tokens": [{"id": 3, "content": "<s>"}]}
    (tmp_path / "tokenizer.json").write_text(json.dumps(words))
    (tmp_path / "config.json").write_text('{"text_config": {"vocab_size": 6}}')
    files.name_all_words(tmp_path)
    named = json.loads((tmp_path / "tokenizer.json").read_text())
    assert sorted(named["model"]["vocab"].values()) == [0, 1, 2, 4, 5]
