"""A worker without an engine, scripted by the model path it is asked to load. Speaks real frames.

crash    dies with SIGKILL instead of loading
exit     ends with code 3 instead of loading
garbage  sends a frame that is no event
torn     ends in the middle of a frame instead of loading
lying    announces a frame that is longer than any
chatty   loads, and goes on about requests that have ended or never were
huge     can't be loaded, and the model before it is given up
missing  can't be loaded
silent   loads and never answers anything else
slow     takes a second to load
stopped  loads, and stands still at the first Generate, as a process that was stopped
hung     loads, and only answers pings from the first Generate on, as a kernel that never ends
other    loads, then answers every Generate with one token
"""

from __future__ import annotations

import os
import signal
import sys
import time

from core.api.chat import AssistantMessage
from core.api.commands import COMMANDS, PROTOCOL_VERSION, Cancel, Flush, Generate, LoadModel, Ping
from core.api.errors import NotEnoughMemoryError
from core.api.events import Beat, Done, Event, Failed, Finished, Generated, Hello, Loaded, Loading
from core.api.model_info import ModelInfo
from core.api.params import SamplingParams
from core.api.stats import RequestStats
from core.client.codec import HEADER, decode, encode, read_frame


def emit(event: Event) -> None:
    sys.stdout.buffer.write(encode(event))
    sys.stdout.buffer.flush()


def info(path: str) -> ModelInfo:
    return ModelInfo(
        name=path,
        path=path,
        family="fake",
        device="cpu",
        precision="float32",
        num_parameters=1,
        context_length=100,
        model_context_length=100,
        vision=False,
        thinking_switch=False,
        max_image_tokens=0,
        grid=512,
        checkpoint_bytes=1,
        kv_bytes_per_token=1,
        sampling=SamplingParams(),
        tokenizer="",
        fingerprint="",
    )


# What is written instead of loading, by the model's path.
NONSENSE = {
    "garbage": HEADER.pack(2) + b"{}",
    "torn": HEADER.pack(1000) + b"{",
    "lying": HEADER.pack(2**32 - 1),
}


def load(command: LoadModel) -> None:
    path = command.settings.path
    if path == "crash":
        print("out of luck", file=sys.stderr, flush=True)
        print('{"request": 1}', file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "exit":
        sys.exit(3)
    if path in NONSENSE:
        sys.stdout.buffer.write(NONSENSE[path])
        sys.stdout.buffer.flush()
        if path == "torn":
            sys.exit(0)
        return
    if path in ("huge", "missing"):
        error = NotEnoughMemoryError("It is too large.").info()
        emit(Failed(request=command.request, error=error, no_model=path == "huge"))
        return
    emit(Loading(request=command.request, done=1, total=2))
    if path == "slow":
        time.sleep(1.0)
    emit(Loaded(request=command.request, model=info(path)))


def generate(request: int, chatty: bool) -> None:
    emit(Generated(request=request, answer="yes", ids=(1,)))
    said = AssistantMessage(text="yes")
    for each in (request, request, 999) if chatty else (request,):
        stats = RequestStats()
        emit(Finished(request=each, reason="stop", reply=said, reply_ids=(1,), stats=stats))
        if chatty:
            emit(Generated(request=each, answer="and more", ids=(2,)))


def main() -> None:
    emit(Hello(protocol=int(os.environ.get("FAKE_PROTOCOL", PROTOCOL_VERSION)), pid=os.getpid()))
    path, busy = "", False
    while (body := read_frame(sys.stdin.buffer)) is not None:
        command = decode(COMMANDS, body)
        if isinstance(command, Cancel) or path == "silent":
            continue
        if isinstance(command, LoadModel):
            load(command)
            path = command.settings.path
        elif isinstance(command, Ping):
            emit(Beat(busy=busy, progress=1, step_limit_s=0.1))
        elif not isinstance(command, Generate):
            if isinstance(command, Flush):
                print("flushed", file=sys.stderr, flush=True)
            emit(Done(request=command.request))
        elif path == "stopped":
            os.kill(os.getpid(), signal.SIGSTOP)
        elif path == "hung":
            busy = True
        else:
            generate(command.request, path == "chatty")


if __name__ == "__main__":
    main()
