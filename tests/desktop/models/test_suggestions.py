from __future__ import annotations

from core.downloads.messages import Repository
from core.library.messages import ModelFacts, Speed, Way
from desktop.models.downloads import catalogue
from desktop.models.fits import Fit, Memory, active_parameters, estimate, judge, suited_models

GB = 10**9
# Seconds for a billion weights: 15, 30 and 50 GB a second.
SPEEDS = tuple(
    Speed.model_validate({"precision": name, "step_s": step_s, "prompt_s": 1.0})
    for name, step_s in (("bfloat16", 0.14), ("int8", 0.07), ("int4", 0.04))
)


def names(free: int, total: int, speeds: tuple[Speed, ...] = SPEEDS) -> list[str]:
    return [each.name for each in suited_models(catalogue(), Memory(free, total), speeds)]


def test_the_largest_that_fit_and_are_fast_are_suggested() -> None:
    assert names(6 * GB, 8 * GB) == [
        "Qwen/Qwen3.5-4B", "Qwen/Qwen3.5-2B", "LiquidAI/LFM2.5-VL-1.6B",
    ]  # fmt: skip
    # Experts reply fast for their size, if there is memory for all of them.
    assert names(60 * GB, 64 * GB)[0] == "Qwen/Qwen3.5-35B-A3B"
    assert names(10**6, GB) == []
    slow = tuple(each.model_copy(update={"step_s": 100.0}) for each in SPEEDS)
    assert names(60 * GB, 64 * GB, slow) == [catalogue()[0].name]
    assert names(60 * GB, 64 * GB, ()) == []


def test_an_estimate_names_precision_memory_and_speed() -> None:
    found = Repository(name="Org/N-4B", family="qwen3_5", parameters=4 * GB, licence="mit")
    how = estimate(found, Memory(6 * GB, 8 * GB), SPEEDS)
    assert (how.fit, how.precision, how.num_bytes) == (Fit.FITS, "int8", int(5.6 * GB))
    words = "4B · about 5.6 GB of memory in int8 · about 3.6 tokens/s · mit"
    assert how.words(found) == words
    assert estimate(found, Memory(GB, 2 * GB), SPEEDS).words(found).split(" · ")[1] == "doesn't fit"
    unknown = Repository(name="Org/N", family="qwen3_5")
    assert estimate(unknown, Memory(GB, 2 * GB), SPEEDS).words(unknown) == ""


def test_active_parameters_are_in_names_of_models_with_experts() -> None:
    for name, wanted in (("N-35B-A3B", 3), ("N-30B-A3.5B-Instruct", 3.5), ("N-4B", 4)):
        found = Repository(name=f"Org/{name}", family="x", parameters=4 * GB)
        assert active_parameters(found) == wanted * GB


def way(precision: str, num_bytes: int, mapped_bytes: int = 0) -> Way:
    values = {"precision": precision, "num_bytes": num_bytes, "kv_bytes_per_token": 100_000}
    return Way.model_validate({**values, "mapped_bytes": mapped_bytes, "step_s": 0.1})


def test_the_verdict_says_how_a_model_fits_and_what_to_lower() -> None:
    ways = (way("bfloat16", 8 * GB), way("int8", 5 * GB), way("int4", 3 * GB))
    facts = ModelFacts(path="/m", context=40_000, ways=ways, automatic=3)
    for free, precision, wanted, used, said in (
        (10, "auto", Fit.FITS, "bfloat16", "Fits in bfloat16"),
        (7, "auto", Fit.FITS, "int8", "Fits in int8"),
        (7, "bfloat16", Fit.TIGHT, "int8", "lower the precision to int8"),
        (3.8, "auto", Fit.TIGHT, "int4", "a context of 2,048 tokens"),
    ):
        found = judge(facts, Memory(int(free * GB), 64 * GB), precision)  # type: ignore[arg-type]
        assert found.way is not None
        assert (found.fit, found.way.precision) == (wanted, used) and said in found.words
    assert judge(facts, Memory(GB, 8 * GB)).fit is Fit.TIGHT
    none = judge(facts, Memory(GB, 2 * GB))
    assert none.fit is Fit.TOO_LARGE and none.way is None


def test_the_automatic_choice_is_the_engines() -> None:
    """It leaves a tenth of the model free for contexts, and tries float32 first where it is
    faster."""
    ways = (way("float32", 16 * GB), way("bfloat16", 8 * GB), way("int8", 5 * GB))
    facts = ModelFacts(path="/m", context=4_096, ways=ways, automatic=3)
    for free, wanted in ((20, "float32"), (17.5, "bfloat16"), (9, "int8")):
        found = judge(facts, Memory(int(free * GB), 64 * GB)).way
        assert found is not None and found.precision == wanted
    speeds = (SPEEDS[0].model_copy(update={"precision": "float32"}), *SPEEDS)
    other = Repository(name="Org/N-4B", family="qwen3_5", parameters=4 * GB)
    assert estimate(other, Memory(20 * GB, 32 * GB), speeds).precision == "float32"
    assert estimate(other, Memory(10 * GB, 32 * GB), speeds).precision == "bfloat16"


def test_blocks_larger_than_memory_are_read_from_disk() -> None:
    ways = (way("published", 9 * GB, 8 * GB), way("int4", 10 * GB))
    facts = ModelFacts(path="/m.gguf", context=40_000, ways=ways, automatic=2)
    found = judge(facts, Memory(3 * GB, 4 * GB))
    assert found.fit is Fit.TIGHT and "8.0 GB of it are read from disk" in found.words
    assert found.way is not None and found.way.step_s == 0
    # Only an automatic choice does so.
    assert judge(facts, Memory(3 * GB, 4 * GB), "int4").fit is Fit.TOO_LARGE
