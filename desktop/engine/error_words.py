"""Titles and messages of errors in the user's language.

They come in English from processes that know no other language. A text in no list here is shown as
it came.
"""

from __future__ import annotations

import re
from functools import cache

from PySide6.QtCore import QT_TRANSLATE_NOOP, QCoreApplication

from core.api.errors import ErrorInfo, WaymarkError
from desktop.i18n import tr

_TITLES = (
    QT_TRANSLATE_NOOP("", "Something went wrong"),
    QT_TRANSLATE_NOOP("", "Stopped"),
    QT_TRANSLATE_NOOP("", "A model file is missing"),
    QT_TRANSLATE_NOOP("", "Waymark can't open this GGUF file"),
    QT_TRANSLATE_NOOP("", "The model's settings can't be read"),
    QT_TRANSLATE_NOOP("", "The weights are incomplete"),
    QT_TRANSLATE_NOOP("", "The weights don't fit the model"),
    QT_TRANSLATE_NOOP("", "The weights are damaged"),
    QT_TRANSLATE_NOOP("", "These weights are not safe to open"),
    QT_TRANSLATE_NOOP("", "Waymark can't read this quantisation"),
    QT_TRANSLATE_NOOP("", "This model folder takes too long to read"),
    QT_TRANSLATE_NOOP("", "Waymark doesn't know this kind of model"),
    QT_TRANSLATE_NOOP("", "This device or precision can't be used"),
    QT_TRANSLATE_NOOP("", "Not enough memory"),
    QT_TRANSLATE_NOOP("", "The model's tokenizer can't be read"),
    QT_TRANSLATE_NOOP("", "Waymark doesn't know this kind of tokenizer"),
    QT_TRANSLATE_NOOP("", "The model's chat template failed"),
    QT_TRANSLATE_NOOP("", "The model's chat template never ends"),
    QT_TRANSLATE_NOOP("", "The model's chat template writes too much"),
    QT_TRANSLATE_NOOP("", "The file does not answer"),
    QT_TRANSLATE_NOOP("", "This file can't be imported"),
    QT_TRANSLATE_NOOP("", "This document can't be used"),
    QT_TRANSLATE_NOOP("", "This document can't be read"),
    QT_TRANSLATE_NOOP("", "This document is too large"),
    QT_TRANSLATE_NOOP("", "This picture can't be used"),
    QT_TRANSLATE_NOOP("", "This picture can't be read"),
    QT_TRANSLATE_NOOP("", "This picture is too large"),
    QT_TRANSLATE_NOOP("", "This picture is empty"),
    QT_TRANSLATE_NOOP("", "This picture is too long and thin"),
    QT_TRANSLATE_NOOP("", "This model can't see pictures"),
    QT_TRANSLATE_NOOP("", "This model can't call tools"),
    QT_TRANSLATE_NOOP("", "The memory budget is too small"),
    QT_TRANSLATE_NOOP("", "Not enough memory for this next to the chat"),
    QT_TRANSLATE_NOOP("", "There is nothing to answer"),
    QT_TRANSLATE_NOOP("", "No model is loaded"),
    QT_TRANSLATE_NOOP("", "The request is not valid"),
    QT_TRANSLATE_NOOP("", "The reply's format can't be used"),
    QT_TRANSLATE_NOOP("", "Engine and window don't understand each other"),
    QT_TRANSLATE_NOOP("", "The engine stopped"),
    QT_TRANSLATE_NOOP("", "Waymark is already open"),
    QT_TRANSLATE_NOOP("", "The model server can't be reached"),
    QT_TRANSLATE_NOOP("", "The model server's answer can't be used"),
    QT_TRANSLATE_NOOP("", "There is no such model"),
    QT_TRANSLATE_NOOP("", "This model needs permission"),
    QT_TRANSLATE_NOOP("", "The download is damaged"),
    QT_TRANSLATE_NOOP("", "The download stopped"),
    QT_TRANSLATE_NOOP("", "Not enough space on the disk"),
    QT_TRANSLATE_NOOP("", "The model was not moved"),
    QT_TRANSLATE_NOOP("", "The model can't be stored there"),
    QT_TRANSLATE_NOOP("", "This model's files can't be read"),
    QT_TRANSLATE_NOOP("", "The server can't be reached"),
    QT_TRANSLATE_NOOP("", "The server refuses the key"),
    QT_TRANSLATE_NOOP("", "The server refuses the request"),
    QT_TRANSLATE_NOOP("", "The server's answer can't be used"),
    QT_TRANSLATE_NOOP("", "The server stopped answering"),
    QT_TRANSLATE_NOOP("", "The server's model has changed"),
    QT_TRANSLATE_NOOP("", "The connection to the server ended"),
    QT_TRANSLATE_NOOP("", "The local server stopped"),
    QT_TRANSLATE_NOOP("", "The local server could not start"),
    QT_TRANSLATE_NOOP("", "Not everything could be deleted"),
    QT_TRANSLATE_NOOP("", "Unexpected error in the engine"),
    QT_TRANSLATE_NOOP("", "This is not a file"),
    QT_TRANSLATE_NOOP("", "The conversation is longer than the context"),
    # Of the window's own errors, whose messages are translated where they are written.
    QT_TRANSLATE_NOOP("", "The picture was not saved"),
    QT_TRANSLATE_NOOP("", "There is no picture of the screen"),
    QT_TRANSLATE_NOOP("", "The chats could not be exported"),
    QT_TRANSLATE_NOOP("", "The backup can't be restored"),
    QT_TRANSLATE_NOOP("", "The network is forbidden"),
    QT_TRANSLATE_NOOP("", "The model was not deleted"),
    QT_TRANSLATE_NOOP("", "Waymark could not start"),
    QT_TRANSLATE_NOOP("", "The chats can't be stored"),
    QT_TRANSLATE_NOOP("", "The damaged chats could not be recovered"),
    QT_TRANSLATE_NOOP("", "The chats could not be converted for this version"),
    QT_TRANSLATE_NOOP("", "This file doesn't hold Waymark's chats"),
    QT_TRANSLATE_NOOP("", "These chats belong to a newer Waymark"),
    QT_TRANSLATE_NOOP("", "There is no summary"),
)
# The first that fits a message holds. What {reason} and {place} stand for is translated too.
_MESSAGES = (
    # Pictures
    QT_TRANSLATE_NOOP("", "{name} is damaged, or none of {formats}."),
    QT_TRANSLATE_NOOP("", "{name} is damaged: decoding it failed."),
    QT_TRANSLATE_NOOP("", "{name} has changed since it was added to the chat."),
    QT_TRANSLATE_NOOP("", "{name} is not there any more, or is no file."),
    QT_TRANSLATE_NOOP("", "{name} can't be opened: {reason}."),
    QT_TRANSLATE_NOOP("", "{name} can't be decoded: the process for it could not be started."),
    QT_TRANSLATE_NOOP("", "{name} is an empty file."),
    QT_TRANSLATE_NOOP("", "{name} measures {width} x {height} pixels."),
    QT_TRANSLATE_NOOP(
        "",
        "{name} has {width} x {height} = {count} million pixels; the limit is {limit} million.",
    ),
    QT_TRANSLATE_NOOP("", "{name} has far more than {limit} million pixels, the limit."),
    QT_TRANSLATE_NOOP("", "{name} has more than {limit} MiB."),
    QT_TRANSLATE_NOOP(
        "", "{name} takes longer than {seconds} seconds to decode, so it was stopped."
    ),
    QT_TRANSLATE_NOOP("", "There is not enough memory to open {name}."),
    QT_TRANSLATE_NOOP(
        "",
        "The picture measures {width} x {height} pixels; one side may be at most {times} times as "
        "long as the other.",
    ),
    QT_TRANSLATE_NOOP(
        "",
        "The conversation holds a picture, and this model reads text only. Take the picture out or "
        "load a model with vision.",
    ),
    # Documents
    QT_TRANSLATE_NOOP("", "{name} has {count} pages; the limit is {limit}."),
    QT_TRANSLATE_NOOP("", "{name} has {count} characters of text; the limit is {limit}."),
    QT_TRANSLATE_NOOP("", "{name} has more than {limit} characters of text."),
    QT_TRANSLATE_NOOP("", "{name} has no pages."),
    QT_TRANSLATE_NOOP("", "{name} is no text, PDF, Word or Excel document."),
    QT_TRANSLATE_NOOP("", "{name} is damaged, or is no PDF."),
    QT_TRANSLATE_NOOP("", "{name} is protected by a password."),
    QT_TRANSLATE_NOOP("", "{name} is an archive, and no Word or Excel document."),
    QT_TRANSLATE_NOOP(
        "",
        "{name} is in an old Office format, or protected by a password. Save it as .docx or .xlsx "
        "without one.",
    ),
    QT_TRANSLATE_NOOP("", "{name} is damaged."),
    # Models
    QT_TRANSLATE_NOOP("", "{name} has no chat template, so it can't hold a conversation."),
    QT_TRANSLATE_NOOP("", "{name} has no preprocessor_config.json, so it can't see pictures."),
    QT_TRANSLATE_NOOP("", "The GGUF file has no chat template, so it can't hold a conversation."),
    QT_TRANSLATE_NOOP("", "{folder} has no {name}."),
    QT_TRANSLATE_NOOP("", "{folder} is not a folder."),
    QT_TRANSLATE_NOOP("", "{name} can't be read: {reason}."),
    QT_TRANSLATE_NOOP("", "{name} holds several GGUF files. Choose the one to open."),
    QT_TRANSLATE_NOOP(
        "",
        "{name} has {size} bytes, and its tensors need {needed}. It was not downloaded completely, "
        "or is damaged.",
    ),
    QT_TRANSLATE_NOOP("", "{name} is damaged or not a GGUF file: {fault}."),
    QT_TRANSLATE_NOOP(
        "",
        "{name} is the part of a model that sees pictures. Choose the model's file; this one is "
        "found next to it.",
    ),
    QT_TRANSLATE_NOOP(
        "", "The architecture of {name} is {kind}. Of GGUF files Waymark runs: {kinds}."
    ),
    QT_TRANSLATE_NOOP("", "The model type in config.json is {kind}. Waymark runs: {kinds}."),
    QT_TRANSLATE_NOOP(
        "",
        "{name} can run code when it is opened. Waymark reads .safetensors only; most models are "
        "published in both.",
    ),
    QT_TRANSLATE_NOOP(
        "",
        "The files of this model folder take longer to look at than any model's should. If the "
        "computer is busy or the disk is slow, try again.",
    ),
    QT_TRANSLATE_NOOP("", "{name} was changed after the model was loaded. Load the model again."),
    QT_TRANSLATE_NOOP("", "The model needs {needed} of memory, {free} is free."),
    QT_TRANSLATE_NOOP("", "The model needs {needed} on the graphics card, {free} is free."),
    QT_TRANSLATE_NOOP("", "No room for the next {size} MB of the model."),
    QT_TRANSLATE_NOOP(
        "",
        "No NVIDIA GPU that this build of PyTorch can use was found. Choose CPU or automatic.",
    ),
    QT_TRANSLATE_NOOP(
        "",
        "The budget for {place} is {budget} bytes. A context of {tokens} tokens alone takes "
        "{needed} bytes: allow at least that, or load the model with a shorter context.",
    ),
    QT_TRANSLATE_NOOP("", "host memory"),
    QT_TRANSLATE_NOOP("", "device memory"),
    # Replies
    QT_TRANSLATE_NOOP(
        "",
        "The messages take {length} tokens, and the context holds {limit}. Nothing was cut off.",
    ),
    QT_TRANSLATE_NOOP("", "Write a message first."),
    QT_TRANSLATE_NOOP("", "The last message is empty."),
    QT_TRANSLATE_NOOP("", "The system had no memory left for this request. {reason} {details}"),
    QT_TRANSLATE_NOOP("", "Close other programs, choose a shorter context or fewer checkpoints."),
    QT_TRANSLATE_NOOP(
        "",
        "It takes {tokens} tokens beside the chat, and the memory budget has room for {room}. "
        "Allow more memory, or ask about less.",
    ),
    QT_TRANSLATE_NOOP("", "The model's chat template says: {details}"),
    QT_TRANSLATE_NOOP(
        "", "The template was still running after {seconds} seconds, so it was stopped."
    ),
    QT_TRANSLATE_NOOP("", "The template used too much memory, so it was stopped."),
    QT_TRANSLATE_NOOP("", "This model's chat template has no place for pictures."),
    QT_TRANSLATE_NOOP("", "No token of this model continues the reply in this format."),
    QT_TRANSLATE_NOOP("", "The reply to continue is not in this format."),
    QT_TRANSLATE_NOOP("", "The format has become too complex to go on."),
    QT_TRANSLATE_NOOP("", "Servers take only JSON, with or without a schema."),
    QT_TRANSLATE_NOOP(
        "",
        "The model computed something that is not a number. Its weights may be damaged, or the "
        "precision may be too low for them.",
    ),
    QT_TRANSLATE_NOOP("", "The request was stopped."),
    # The engine
    QT_TRANSLATE_NOOP("", "The engine is not running."),
    QT_TRANSLATE_NOOP("", "The engine was closed."),
    QT_TRANSLATE_NOOP("", "The engine could not be started: {details}."),
    QT_TRANSLATE_NOOP("", "The engine was started again, as you asked."),
    QT_TRANSLATE_NOOP("", "It did not answer any more, so it was ended and started again."),
    QT_TRANSLATE_NOOP("", "The process no longer accepts commands."),
    QT_TRANSLATE_NOOP("", "{reason} Its last output: {details}"),
    QT_TRANSLATE_NOOP("", "The engine closed its output."),
    QT_TRANSLATE_NOOP("", "The engine ended with exit code {code}."),
    QT_TRANSLATE_NOOP(
        "", "The engine was killed (SIGKILL): usually because the system ran out of memory."
    ),
    QT_TRANSLATE_NOOP("", "The engine crashed ({code})."),
    QT_TRANSLATE_NOOP(
        "", "Another Waymark uses {folder}. Close it first, or choose another data folder."
    ),
    QT_TRANSLATE_NOOP("", "Contexts can't be kept in {folder}: {reason}."),
    QT_TRANSLATE_NOOP("", "the disk has {left} GiB left, and Waymark leaves {floor} GiB free"),
    # Downloads and models on this computer
    QT_TRANSLATE_NOOP(
        "",
        "The download needs {needed} GB more on the disk of {folder}, where {free} GB are free.",
    ),
    QT_TRANSLATE_NOOP(
        "", "The disk of {folder} is full. What has arrived is kept: make room and go on."
    ),
    QT_TRANSLATE_NOOP(
        "",
        "{name} doesn't have the digest that the model server publishes, even after a second "
        "attempt. Nothing of it is used.",
    ),
    QT_TRANSLATE_NOOP(
        "",
        "{name} exists and isn't the published file. Move it away or choose another folder for "
        "models.",
    ),
    QT_TRANSLATE_NOOP("", "Another Waymark is downloading this. Stop it there first."),
    QT_TRANSLATE_NOOP("", "The process of downloads ended. What has arrived is kept."),
    QT_TRANSLATE_NOOP("", "After several attempts: {reason}."),
    QT_TRANSLATE_NOOP("", "the proxy refuses the connection"),
    QT_TRANSLATE_NOOP("", "the server's certificate can't be verified"),
    QT_TRANSLATE_NOOP("", "there is no connection to the server"),
    QT_TRANSLATE_NOOP("", "the connection broke off"),
    QT_TRANSLATE_NOOP(
        "",
        "The model is private, gated or doesn't exist. Accept its licence on its page in a browser "
        "if there is one, and enter an access token.",
    ),
    QT_TRANSLATE_NOOP(
        "",
        "The access token may not read this model. Accept its licence on its page in a browser, or "
        "enter another token.",
    ),
    QT_TRANSLATE_NOOP("", "The access token has characters that no token has."),
    QT_TRANSLATE_NOOP("", "The model server doesn't have it, or has it no longer."),
    QT_TRANSLATE_NOOP("", "“{name}” is not the name of a model: it has to be Org/Name."),
    QT_TRANSLATE_NOOP("", "The model server's address is not valid."),
    QT_TRANSLATE_NOOP("", "The model server's address has to be like https://host."),
    QT_TRANSLATE_NOOP("", "The proxy's address is not valid."),
    QT_TRANSLATE_NOOP("", "Waymark can't use SOCKS proxies, only HTTP ones."),
    QT_TRANSLATE_NOOP(
        "",
        "The model needs {needed} GB on the disk of {folder}, where {free} GB are free.",
    ),
    QT_TRANSLATE_NOOP("", "The other disk is full. The model stays in its place."),
    QT_TRANSLATE_NOOP("", "It is there already."),
    QT_TRANSLATE_NOOP("", "The model stays where it was."),
    QT_TRANSLATE_NOOP("", "The process that reads its headers crashed."),
    # Servers
    QT_TRANSLATE_NOOP("", "The address has to be like https://host or host:8000."),
    QT_TRANSLATE_NOOP(
        "", "The address may not have a password or a query; a key has its own field."
    ),
    QT_TRANSLATE_NOOP("", "The key has characters that no key has."),
    QT_TRANSLATE_NOOP("", "The server's certificate can't be verified."),
    QT_TRANSLATE_NOOP("", "The proxy refuses the connection."),
    QT_TRANSLATE_NOOP("", "There is no connection to the server."),
    QT_TRANSLATE_NOOP("", "The connection broke off."),
    QT_TRANSLATE_NOOP("", "The connection broke off in the middle of the reply."),
    QT_TRANSLATE_NOOP("", "The connection ended in the middle of the reply."),
    QT_TRANSLATE_NOOP("", "The server ended the reply before its end."),
    QT_TRANSLATE_NOOP("", "No text came for {seconds} seconds."),
    QT_TRANSLATE_NOOP("", "It sent no list of models in time."),
    QT_TRANSLATE_NOOP("", "The answer is a web page."),
    QT_TRANSLATE_NOOP("", "The answer is not valid JSON."),
    QT_TRANSLATE_NOOP("", "The answer is no list of models."),
    QT_TRANSLATE_NOOP("", "The server answers {details}. {reason}"),
    QT_TRANSLATE_NOOP("", "Enter another key."),
    QT_TRANSLATE_NOOP("", "It needs a key."),
    QT_TRANSLATE_NOOP("", "The server answers {details}."),
    QT_TRANSLATE_NOOP(
        "", "It answers with {other}, and this chat asked {model}. Choose the model again."
    ),
    QT_TRANSLATE_NOOP("", "The process that talks to servers ended. What has arrived is kept."),
    QT_TRANSLATE_NOOP("", "Its process ended; switch it on again."),
    QT_TRANSLATE_NOOP("", "Port {port} can't be used: {reason}."),
    # Import
    QT_TRANSLATE_NOOP(
        "",
        "It is not a file of chats exported from Waymark, Open WebUI, LM Studio or ChatGPT.",
    ),
    QT_TRANSLATE_NOOP("", "It was written by a newer version of Waymark."),
    QT_TRANSLATE_NOOP("", "It is no JSON, or is damaged."),
)
# What systems say, in English unless they were told another language.
_REASONS = (
    QT_TRANSLATE_NOOP("", "No such file or directory"),
    QT_TRANSLATE_NOOP("", "Permission denied"),
    QT_TRANSLATE_NOOP("", "No space left on device"),
    QT_TRANSLATE_NOOP("", "Read-only file system"),
    QT_TRANSLATE_NOOP("", "Address already in use"),
)
# PySide's stubs call them objects.
TITLES, MESSAGES, REASONS = (tuple(map(str, each)) for each in (_TITLES, _MESSAGES, _REASONS))
TRANSLATED_TOO = ("reason", "place")
VALUE = re.compile(r"\{(\w+)\}")
# A longer one, which quotes a file or a server, would take long to compare.
LONGEST = 1_000


def error_text(error: ErrorInfo | WaymarkError) -> str:
    info = error.info() if isinstance(error, WaymarkError) else error
    return f"{in_language(info.title)}. {in_language(info.message)}"


def in_language(text: str) -> str:
    # Most changes of the engine's state have no text: the patterns take 34 ms to compile.
    for template, pattern in _patterns() if 0 < len(text) <= LONGEST else ():
        if found := pattern.fullmatch(text):
            values = {
                name: in_language(value) if name in TRANSLATED_TOO else value
                for name, value in found.groupdict().items()
            }
            return QCoreApplication.translate("", template).format(**values)
    return text


@cache
def _patterns() -> tuple[tuple[str, re.Pattern[str]], ...]:
    return tuple((each, _pattern(each)) for each in (*TITLES, *MESSAGES, *REASONS))


def _pattern(template: str) -> re.Pattern[str]:
    parts = enumerate(VALUE.split(template))
    return re.compile(
        "".join(f"(?P<{part}>.*)" if at % 2 else re.escape(part) for at, part in parts), re.DOTALL
    )


def disk_trouble_words(trouble: str) -> str:
    words = tr("Contexts can't be saved on disk, so after a restart they are read again: {reason}")
    return words.format(reason=in_language(trouble))
