"""A loaded model with its text, pictures, context cache and description."""

from __future__ import annotations

import os
import sys
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil
import torch

from core.api.chat import Tool
from core.api.errors import BrokenTokenizerError, UnsupportedDeviceError
from core.api.model_info import TEXT_BYTES, LoadFacts, ModelInfo, published_name
from core.api.params import ModelSettings
from core.cache.context import Budgets, ContextCache
from core.cache.disk.store import SegmentStore
from core.cache.state import SideStream
from core.engine.cancel import Background
from core.engine.drafting.costs import StepCosts
from core.engine.images import ImageCatalog
from core.engine.passes.captured import StepCapture
from core.gguf.library import ollama_name
from core.helper.process import HelperFailedError
from core.layers.memory import checkpoint_bytes
from core.loading.files import ModelFiles, open_files
from core.loading.fingerprint import fingerprint
from core.loading.model import ReadModel, fits, read_model
from core.loading.plan import ModelPlan
from core.loading.precision import Chosen, Precision, choose_precision, recalled, what_slows
from core.loading.quantised_store import QuantisedStore
from core.model_files import LookingTime
from core.models.decoder import Decoder
from core.storage.store import DiskStore
from core.text.chat_text import ChatText
from core.vision import kinds
from core.vision.processor import PictureProcessor
from core.weights.container import Container
from core.weights.memory import available_bytes
from kernels.common.capability import processor_level
from kernels.dispatch import Backend
from kernels.self_test.validation import validated

# Default image detail: a 12-megapixel photo at full detail takes a CPU minutes.
IMAGE_TOKENS = {"cpu": 1_024, "cuda": 4_096}
# Default share for the KV buffer of the memory that is free after loading.
KV_BUFFER_SHARE = 0.5
# Default share for contexts and checkpoints of the memory that is still free then,
HOST_SHARE = 0.25
# and on disk this share of what is free there, up to a limit.
DISK_SHARE = 0.1
DISK_LIMIT = 16 * 2**30
SMALLEST_CONTEXT = 2_048
_MOST_CHATS = 64  # whose tools are remembered


@dataclass(frozen=True, slots=True)
class LoadedModel:
    settings: ModelSettings
    model: Decoder
    text: ChatText
    catalog: ImageCatalog
    processor: PictureProcessor | None
    cache: ContextCache
    steps: StepCapture
    info: ModelInfo
    step_costs: StepCosts = field(default_factory=StepCosts)
    # By chat the hash of its last request's tools, whose words must go with a deleted chat.
    _tools: OrderedDict[str, int] = field(default_factory=OrderedDict)

    def tools_changed(self, chat: str, tools: tuple[Tool, ...]) -> bool:
        present = hash(tools)
        before = self._tools.pop(chat, present)
        self._tools[chat] = present
        while len(self._tools) > _MOST_CHATS:
            self._tools.popitem(last=False)
        return before != present


def load(
    settings: ModelSettings,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
    open_store: Callable[[], DiskStore | None] = lambda: None,
    most_on_disk: int | None = None,
) -> LoadedModel:
    """Opens the files, then the store in the settings' folder. Raises a WaymarkError."""
    began, device, looking = time.monotonic(), resolve_device(settings), LookingTime(check)
    with looking:
        files = open_files(Path(settings.path), looking)
    # Its check fails on a broken template before the weights are read.
    with Background(_text_of(files), check) as ahead:
        free = available_bytes(device) - (TEXT_BYTES if device.type == "cpu" else 0)
        plan, blobs = ModelPlan(files.container, looking), open_store()
        chosen = choose_precision(settings, plan, device, free, check=ahead.check, notes=blobs)
        store = QuantisedStore.open(settings, blobs)
        kernels, read = _read(plan, chosen, device, store, most_on_disk, progress, ahead.check)
        text = ahead.result()
    model, precision = read.model, chosen.precision
    processor = open_processor(files, settings, device, model, text)
    context = context_length(settings, model, available_bytes(device))
    root = fingerprint(
        read.weights_digest,
        read.config,
        device,
        precision.name,
        settings.grid,
        kernels.name,
        model.kv_size.slides(context),
    )
    cache = open_cache(blobs, model, context, root)
    facts = LoadFacts(
        weight_bytes=chosen.num_bytes - read.mapped_bytes,
        token_bytes=plan.held(precision.dtype, kernels).token_bytes,
        seconds=time.monotonic() - began,
        packing_s=read.packing_s,
        from_disk=read.from_disk,
        kept_bytes=store.num_bytes if store is not None else 0,
        kept_budget=store.cap if store is not None else 0,
        slowed_by=slowed_by(read.mapped_bytes, kernels, device, precision),
        kernels=kernels.name,
        processor=processor_level(),
    )
    info = describe(settings, files.container, model, precision, text, processor, cache, root)
    more = {"load": facts, "choice": chosen.why, "mtp_refused": plan.mtp_refused}
    return LoadedModel(
        settings=settings,
        model=model,
        text=text,
        catalog=ImageCatalog(processor),
        processor=processor,
        cache=cache,
        steps=StepCapture(kernels.capture),
        info=info.model_copy(update=more),
    )


def _read(
    plan: ModelPlan,
    chosen: Chosen,
    device: torch.device,
    store: QuantisedStore | None,
    most_on_disk: int | None,
    progress: Callable[[int, int], None],
    check: Callable[[], None],
) -> tuple[Backend, ReadModel]:
    """Kernels are validated first: a faulty one should fail early."""
    dtype = chosen.precision.dtype
    recall = partial(recalled, store.blobs if store is not None else None)
    kernels = validated(chosen.kernels, plan.shapes(dtype), device, dtype, recall, check)
    held = plan.held(dtype, kernels)
    read = read_model(held, device, progress, check, store=store, most_on_disk=most_on_disk)
    return kernels, read


def _text_of(files: ModelFiles) -> Callable[[Callable[[], None]], ChatText]:
    helper = ChatText.new_helper()
    with suppress(HelperFailedError):  # asking it says so
        helper.start()

    def build(check: Callable[[], None]) -> ChatText:
        looking = LookingTime(check)
        with looking:
            return ChatText(files.text(), looking, helper)

    return build


def fix_threads() -> None:
    """A sum split differently can change its last bits."""
    if "OMP_NUM_THREADS" not in os.environ:
        torch.set_num_threads(psutil.cpu_count(logical=False) or os.cpu_count() or 1)
    torch.set_num_interop_threads(1)


def fits_without(present: LoadedModel, settings: ModelSettings, check: Callable[[], None]) -> bool:
    device = resolve_device(settings)
    free = available_bytes(device)
    if present.model.device.type == device.type:
        free += present.info.load.weight_bytes
        free += present.cache.kv_bytes() + present.cache.state_bytes()
    looking = LookingTime(check)
    with looking:
        container = open_files(Path(settings.path), looking).container
    plan = ModelPlan(container, looking)
    store = present.cache.disk.store
    notes = store.blobs if store is not None else None
    chosen = choose_precision(settings, plan, device, free, check=check, notes=notes)
    most, mapped = settings.weights_bytes, chosen.mapped_bytes
    may_map = notes is not None and (most is None or mapped <= most)
    return fits(chosen.num_bytes - (mapped if may_map else 0), free)


def slowed_by(
    mapped_bytes: int, kernels: Backend, device: torch.device, precision: Precision
) -> str:
    if not mapped_bytes:
        return what_slows(kernels, device, precision.dtype, precision.integers)
    free = available_bytes(device)
    return (
        f"{mapped_bytes / 1e9:.1f} GB of the model are mapped from disk, and {free / 1e9:.1f} GB "
        "of memory are free for them: what doesn't fit is read again for each token."
    )


def resolve_device(settings: ModelSettings) -> torch.device:
    cuda = torch.cuda.is_available()
    if settings.device == "cuda" and not cuda:
        raise UnsupportedDeviceError(
            "No NVIDIA GPU that this build of PyTorch can use was found. Choose CPU or automatic."
        )
    return torch.device("cuda" if cuda and settings.device != "cpu" else "cpu")


def open_processor(
    files: ModelFiles, settings: ModelSettings, device: torch.device, model: Decoder, text: ChatText
) -> PictureProcessor | None:
    """None for a model without vision. Raises a WaymarkError."""
    if not model.has_vision:
        return None
    limit = settings.max_image_tokens
    if limit is None:
        limit = IMAGE_TOKENS[device.type]
    # The tower's own sizes: the file may leave some out, and another file would then set them.
    config = {**files.container.config, "vision_config": model.vision_config}

    def known_id(spelling: str) -> int | None:
        """Text between tiles is embedded, so its ids must be in the vocabulary."""
        found = text.token_id(spelling)
        if found is not None and not 0 <= found < model.vocab_size:
            raise BrokenTokenizerError(
                f"The model's tokenizer gives token {found} for {spelling}; the model has "
                f"{model.vocab_size:,} of them."
            )
        return found

    return kinds.open_processor(files.pictures, config, limit or None, known_id)


def context_length(settings: ModelSettings, model: Decoder, available: int) -> int:
    if settings.context_length is not None:
        return min(settings.context_length, model.max_positions)
    affordable = model.kv_size.context_within(int(available * KV_BUFFER_SHARE))
    return min(model.max_positions, max(SMALLEST_CONTEXT, affordable))


def open_cache(blobs: DiskStore | None, model: Decoder, context: int, root: bytes) -> ContextCache:
    device, kv_buffer = model.device, model.kv_size.context_bytes(context)
    host = int(psutil.virtual_memory().available * HOST_SHARE)
    disk = min(DISK_LIMIT, blobs.share_of_disk(DISK_SHARE)) if blobs is not None else 0
    if device.type == "cpu":
        budgets = Budgets(host=kv_buffer + host, device=0, disk=disk)
    else:
        budgets = Budgets(host=host, device=kv_buffer, disk=disk)
    # No cap until the first request brings the user's: opening the store must not evict what was
    # stored under a larger cap than today's default.
    store = SegmentStore(blobs, root, sys.maxsize) if blobs is not None else None
    copier = SideStream(device) if device.type == "cuda" else None
    return ContextCache(model.layer_specs, device, context, root, budgets, store, copier)


def describe(
    settings: ModelSettings,
    container: Container,
    model: Decoder,
    precision: Precision,
    text: ChatText,
    processor: PictureProcessor | None,
    cache: ContextCache,
    root: bytes,
) -> ModelInfo:
    place, size = Path(os.path.abspath(settings.path)), model.kv_size
    return ModelInfo(
        name=ollama_name(place) or published_name(str(place)),
        path=settings.path,
        family=str(container.config.get("model_type", "")),
        device=model.device.type,
        precision=precision.name,
        num_parameters=model.num_parameters,
        context_length=cache.context_length,
        model_context_length=model.max_positions,
        vision=processor is not None and text.takes_images,
        thinking_switch=text.has_thinking_switch,
        tools=text.tools,
        max_image_tokens=processor.max_tokens if processor is not None else 0,
        grid=settings.grid,
        checkpoint_bytes=checkpoint_bytes(model.layer_specs)
        + size.tail_bytes(cache.context_length),
        **size.model_dump(),
        device_budget=cache.budgets.device,
        host_budget=cache.budgets.host,
        disk_budget=cache.budgets.disk,
        smallest_device_budget=cache.smallest.device,
        smallest_host_budget=cache.smallest.host,
        sampling=text.sampling_defaults,
        tokenizer=text.tokenizer_fingerprint,
        fingerprint=root.hex(),
        spliced_replies=text.spliced,
        history_note=text.note,
        batch_invariant_steps=model.batch_invariant_steps,
        mtp=model.has_mtp,
    )
