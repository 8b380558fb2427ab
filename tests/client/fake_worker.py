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
stopped  loads, beats, and stands still at the first Generate, as a process that was stopped
hung     loads, beats on, and does nothing at the first Generate, as a kernel that never ends
other    loads, then answers every Generate with one token
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from core.api.chat import AssistantMessage
from core.api.commands import COMMANDS, PROTOCOL_VERSION, Cancel, Flush, Generate, LoadModel
from core.api.errors import NotEnoughMemoryError
from core.api.events import Beat, Done, Event, Failed, Finished, Generated, Hello, Loaded, Loading
from core.api.model_info import ModelInfo
from core.api.params import SamplingParams
from core.api.stats import RequestStats
from core.client.codec import HEADER, decode, encode, read_frame

ONE_AT_A_TIME = threading.Lock()


def emit(event: Event) -> None:
    with ONE_AT_A_TIME:
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


BUSY = threading.Event()


def beat() -> None:
    while True:
        emit(Beat(busy=BUSY.is_set(), progress=1, step_limit_s=0.1))
        time.sleep(0.02)


def load(command: LoadModel) -> None:
    path = command.settings.path
    if path == "crash":
        print("out of luck", file=sys.stderr, flush=True)
        print('{"request": 1}', file=sys.stderr, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    if path == "exit":
        sys.exit(3)
    if path == "garbage":
        sys.stdout.buffer.write(HEADER.pack(2) + b"{}")
        sys.stdout.buffer.flush()
        return
    if path == "torn":
        sys.stdout.buffer.write(HEADER.pack(1000) + b"{")
        sys.exit(0)
    if path == "lying":
        sys.stdout.buffer.write(HEADER.pack(2**32 - 1))
        sys.stdout.buffer.flush()
        return
    if path in ("huge", "missing"):
        error = NotEnoughMemoryError("It is too large.").info()
        emit(Failed(request=command.request, error=error, no_model=path == "huge"))
        return
    emit(Loading(request=command.request, done=1, total=2))
    if path == "slow":
        time.sleep(1.0)
    emit(Loaded(request=command.request, model=info(path)))


def generate(command: Generate, chatty: bool) -> None:
    emit(Generated(request=command.request, answer="yes", ids=(1,)))
    for request in (command.request, command.request, 999) if chatty else (command.request,):
        emit(
            Finished(
                request=request,
                reason="stop",
                reply=AssistantMessage(text="yes"),
                reply_ids=(1,),
                stats=RequestStats(),
            )
        )
        if chatty:
            emit(Generated(request=request, answer="and more", ids=(2,)))


def main() -> None:
    emit(Hello(protocol=int(os.environ.get("FAKE_PROTOCOL", PROTOCOL_VERSION)), pid=os.getpid()))
    silent = chatty = hangs = stops = False
    while (body := read_frame(sys.stdin.buffer)) is not None:
        command = decode(COMMANDS, body)
        if isinstance(command, Cancel) or silent:
            continue
        if isinstance(command, LoadModel):
            load(command)
            silent = command.settings.path == "silent"
            chatty = command.settings.path == "chatty"
            hangs, stops = command.settings.path == "hung", command.settings.path == "stopped"
            if hangs or stops:
                threading.Thread(target=beat, daemon=True).start()
        elif isinstance(command, Generate) and stops:
            os.kill(os.getpid(), signal.SIGSTOP)
        elif isinstance(command, Generate) and hangs:
            BUSY.set()
        elif isinstance(command, Generate):
            generate(command, chatty)
        else:
            if isinstance(command, Flush):
                print("flushed", file=sys.stderr, flush=True)
            emit(Done(request=command.request))


if __name__ == "__main__":
    main()
