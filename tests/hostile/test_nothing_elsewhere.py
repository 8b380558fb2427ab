"""H9: a model is loaded, asked and forgotten without the network and without files elsewhere."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from core.api.chat import Conversation, ImagePart, TextPart, UserMessage
from core.api.commands import DescribeImage, Forget, Generate, LoadModel
from core.api.params import ModelSettings, SamplingParams
from core.client.programs import ROOT
from core.engine.cancel import CancelFlag
from core.engine.engine import Engine
from kernels.native.library import cache_folder
from tests.hostile.watch import opened_elsewhere

SAMPLE = ROOT / "resources" / "samples" / "three-shapes.png"
# What Python starts: the helper, and a compiler where no library was kept.
OUR_PROGRAMS = "subprocess.Popen"


def test_H9_the_engine_opens_nothing_elsewhere_and_no_address(tmp_path: Path) -> None:
    folder, kept = tmp_path / "model", tmp_path / "contexts"
    shutil.copytree(ROOT / "resources" / "models" / "demo", folder)
    picture = Path(shutil.copy(SAMPLE, tmp_path))
    image = ImagePart(digest=hashlib.sha256(picture.read_bytes()).hexdigest(), path=str(picture))
    said = UserMessage(content=(image, TextPart(text="What is in the picture?")))
    with opened_elsewhere(tmp_path, cache_folder()) as found:
        engine = Engine()
        engine.describe(DescribeImage(request=1, image=image))
        settings = ModelSettings(path=str(folder), device="cpu", cache_folder=str(kept))
        engine.load(LoadModel(request=2, settings=settings), CancelFlag(), lambda event: None)
        asked = Generate(
            request=3,
            conversation=Conversation(messages=(said,)),
            chat="a",
            sampling=SamplingParams(temperature=0, max_tokens=8),
        )
        reply = engine.generate(asked, CancelFlag(), lambda event: None)
        engine.forget(Forget(request=4, chat="a", cache_folder=str(kept)))
        engine.unload()
    assert len(reply.reply_ids) > 1
    assert [each for each in found if not each.startswith(OUR_PROGRAMS)] == []
