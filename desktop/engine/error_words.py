"""Titles and messages of errors in the user's language.

They come in English from other processes. A text in no list here is shown as it came.
"""

from __future__ import annotations

import re
from functools import cache

from PySide6.QtCore import QT_TR_NOOP, QCoreApplication

from core.api.errors import ErrorInfo, WaymarkError
from desktop.i18n import tr

_TITLES = (
    QT_TR_NOOP("Something went wrong"),
    QT_TR_NOOP("Stopped"),
    QT_TR_NOOP("A model file is missing"),
    QT_TR_NOOP("Waymark can't open this GGUF file"),
    QT_TR_NOOP("The model's settings can't be read"),
    QT_TR_NOOP("The weights are incomplete"),
    QT_TR_NOOP("The weights don't fit the model"),
    QT_TR_NOOP("The weights are damaged"),
    QT_TR_NOOP("These weights are not safe to open"),
    QT_TR_NOOP("Waymark can't read this quantisation"),
    QT_TR_NOOP("This model folder takes too long to read"),
    QT_TR_NOOP("Waymark doesn't know this kind of model"),
    QT_TR_NOOP("This device or precision can't be used"),
    QT_TR_NOOP("Not enough memory"),
    QT_TR_NOOP("The model's tokenizer can't be read"),
    QT_TR_NOOP("Waymark doesn't know this kind of tokenizer"),
    QT_TR_NOOP("The model's chat template failed"),
    QT_TR_NOOP("The model's chat template never ends"),
    QT_TR_NOOP("The model's chat template writes too much"),
    QT_TR_NOOP("The file does not answer"),
    QT_TR_NOOP("This file can't be imported"),
    QT_TR_NOOP("This document can't be used"),
    QT_TR_NOOP("This document can't be read"),
    QT_TR_NOOP("This document is too large"),
    QT_TR_NOOP("This picture can't be used"),
    QT_TR_NOOP("This picture can't be read"),
    QT_TR_NOOP("This picture is too large"),
    QT_TR_NOOP("This picture is empty"),
    QT_TR_NOOP("This picture is too long and thin"),
    QT_TR_NOOP("This model can't see pictures"),
    QT_TR_NOOP("This model can't call tools"),
    QT_TR_NOOP("The memory budget is too small"),
    QT_TR_NOOP("Not enough memory for this next to the chat"),
    QT_TR_NOOP("There is nothing to answer"),
    QT_TR_NOOP("No model is loaded"),
    QT_TR_NOOP("The request is not valid"),
    QT_TR_NOOP("The reply's format can't be used"),
    QT_TR_NOOP("Engine and window don't understand each other"),
    QT_TR_NOOP("The engine stopped"),
    QT_TR_NOOP("Waymark is already open"),
    QT_TR_NOOP("The model server can't be reached"),
    QT_TR_NOOP("The model server's answer can't be used"),
    QT_TR_NOOP("There is no such model"),
    QT_TR_NOOP("This model needs permission"),
    QT_TR_NOOP("The download is damaged"),
    QT_TR_NOOP("The download stopped"),
    QT_TR_NOOP("Not enough space on the disk"),
    QT_TR_NOOP("The model was not moved"),
    QT_TR_NOOP("The model can't be stored there"),
    QT_TR_NOOP("This model's files can't be read"),
    QT_TR_NOOP("The server can't be reached"),
    QT_TR_NOOP("The server refuses the key"),
    QT_TR_NOOP("The server refuses the request"),
    QT_TR_NOOP("The server's answer can't be used"),
    QT_TR_NOOP("The server stopped answering"),
    QT_TR_NOOP("The server's model has changed"),
    QT_TR_NOOP("The connection to the server ended"),
    QT_TR_NOOP("The local server stopped"),
    QT_TR_NOOP("The local server could not start"),
    QT_TR_NOOP("Not everything could be deleted"),
    QT_TR_NOOP("Unexpected error in the engine"),
    QT_TR_NOOP("This is not a file"),
    QT_TR_NOOP("The conversation is longer than the context"),
    # Of the window's own errors, whose messages are translated where they are written.
    QT_TR_NOOP("The picture was not saved"),
    QT_TR_NOOP("There is no picture of the screen"),
    QT_TR_NOOP("The chats could not be exported"),
    QT_TR_NOOP("The backup can't be restored"),
    QT_TR_NOOP("The network is forbidden"),
    QT_TR_NOOP("The model was not deleted"),
    QT_TR_NOOP("Waymark could not start"),
    QT_TR_NOOP("The chats can't be stored"),
    QT_TR_NOOP("The damaged chats could not be recovered"),
    QT_TR_NOOP("The chats could not be converted for this version"),
    QT_TR_NOOP("This file doesn't hold Waymark's chats"),
    QT_TR_NOOP("These chats belong to a newer Waymark"),
    QT_TR_NOOP("There is no summary"),
)
# The first that fits a message holds. What {reason} and {place} stand for is translated too.
_MESSAGES = (
    # Pictures
    QT_TR_NOOP("{name} is damaged, or none of {formats}."),
    QT_TR_NOOP("{name} is damaged: decoding it failed."),
    QT_TR_NOOP("{name} has changed since it was added to the chat."),
    QT_TR_NOOP("{name} doesn't exist any more, or isn't a file."),
    QT_TR_NOOP("{name} can't be opened: {reason}."),
    QT_TR_NOOP("{name} can't be decoded: the process for it could not be started."),
    QT_TR_NOOP("{name} is an empty file."),
    QT_TR_NOOP("{name} measures {width} x {height} pixels."),
    QT_TR_NOOP(
        "{name} has {width} x {height} = {count} million pixels; the limit is {limit} million."
    ),
    QT_TR_NOOP("{name} has far more than {limit} million pixels, the limit."),
    QT_TR_NOOP("{name} has more than {limit} MiB."),
    QT_TR_NOOP("{name} takes longer than {seconds} seconds to decode, so it was stopped."),
    QT_TR_NOOP("There is not enough memory to open {name}."),
    QT_TR_NOOP(
        "The picture measures {width} x {height} pixels; one side may be at most {times} times as "
        "long as the other."
    ),
    QT_TR_NOOP(
        "The conversation holds a picture, and this model reads text only. Take the picture out or "
        "load a model with vision."
    ),
    # Documents
    QT_TR_NOOP("{name} has {count} pages; the limit is {limit}."),
    QT_TR_NOOP("{name} has {count} characters of text; the limit is {limit}."),
    QT_TR_NOOP("{name} has more than {limit} characters of text."),
    QT_TR_NOOP("{name} has no pages."),
    QT_TR_NOOP("{name} isn't a text, PDF, Word or Excel document."),
    QT_TR_NOOP("{name} is damaged, or isn't a PDF."),
    QT_TR_NOOP("{name} is protected by a password."),
    QT_TR_NOOP("{name} is an archive, and no Word or Excel document."),
    QT_TR_NOOP(
        "{name} is in an old Office format, or protected by a password. Save it as .docx or .xlsx "
        "without one."
    ),
    QT_TR_NOOP("{name} is damaged."),
    # Models
    QT_TR_NOOP("{name} has no chat template, so it can't hold a conversation."),
    QT_TR_NOOP("{name} has no preprocessor_config.json, so it can't see pictures."),
    QT_TR_NOOP("The GGUF file has no chat template, so it can't hold a conversation."),
    QT_TR_NOOP("{folder} has no {name}."),
    QT_TR_NOOP("{folder} is not a folder."),
    QT_TR_NOOP("{name} can't be read: {reason}."),
    QT_TR_NOOP("{name} holds several GGUF files. Choose the one to open."),
    QT_TR_NOOP(
        "{name} has {size} bytes, and its tensors need {needed}. It was not downloaded completely, "
        "or is damaged."
    ),
    QT_TR_NOOP("{name} is damaged or not a GGUF file: {fault}."),
    QT_TR_NOOP(
        "{name} is the part of a model that sees pictures. Choose the model's file; this one is "
        "found next to it."
    ),
    QT_TR_NOOP("The architecture of {name} is {kind}. Of GGUF files Waymark runs: {kinds}."),
    QT_TR_NOOP("The model type in config.json is {kind}. Waymark runs: {kinds}."),
    QT_TR_NOOP(
        "{name} can run code when it is opened. Waymark reads .safetensors only; most models are "
        "published in both."
    ),
    QT_TR_NOOP(
        "The files of this model folder take longer to look at than any model's should. If the "
        "computer is busy or the disk is slow, try again."
    ),
    QT_TR_NOOP("{name} was changed after the model was loaded. Load the model again."),
    QT_TR_NOOP("The model needs {needed} of memory, {free} is free."),
    QT_TR_NOOP("The model needs {needed} on the graphics card, {free} is free."),
    QT_TR_NOOP("No room for the next {size} MB of the model."),
    QT_TR_NOOP(
        "No NVIDIA GPU that this build of PyTorch can use was found. Choose CPU or automatic."
    ),
    QT_TR_NOOP(
        "The budget for {place} is {budget} bytes. A context of {tokens} tokens alone takes "
        "{needed} bytes: allow at least that, or load the model with a shorter context."
    ),
    QT_TR_NOOP("host memory"),
    QT_TR_NOOP("device memory"),
    # Replies
    QT_TR_NOOP(
        "The messages take {length} tokens, and the context holds {limit}. Nothing was cut off."
    ),
    QT_TR_NOOP("Write a message first."),
    QT_TR_NOOP("The last message is empty."),
    QT_TR_NOOP("The system had no memory left for this request. {reason} {details}"),
    QT_TR_NOOP("Close other programs, choose a shorter context or fewer checkpoints."),
    QT_TR_NOOP(
        "It takes {tokens} tokens beside the chat, and the memory budget has room for {room}. "
        "Allow more memory, or ask about less."
    ),
    QT_TR_NOOP("The model's chat template says: {details}"),
    QT_TR_NOOP("The template was still running after {seconds} seconds, so it was stopped."),
    QT_TR_NOOP("The template used too much memory, so it was stopped."),
    QT_TR_NOOP("This model's chat template has no place for pictures."),
    QT_TR_NOOP("No token of this model continues the reply in this format."),
    QT_TR_NOOP("The reply to continue is not in this format."),
    QT_TR_NOOP("The format has become too complex to go on."),
    QT_TR_NOOP("Servers take only JSON, with or without a schema."),
    QT_TR_NOOP(
        "The model computed something that is not a number. Its weights may be damaged, or the "
        "precision may be too low for them."
    ),
    QT_TR_NOOP("The request was stopped."),
    # The engine
    QT_TR_NOOP("The engine is not running."),
    QT_TR_NOOP("The engine was closed."),
    QT_TR_NOOP("The engine could not be started: {details}."),
    QT_TR_NOOP("The engine was started again, as you asked."),
    QT_TR_NOOP("It did not answer any more, so it was ended and started again."),
    QT_TR_NOOP("The process no longer accepts commands."),
    QT_TR_NOOP("{reason} Its last output: {details}"),
    QT_TR_NOOP("The engine closed its output."),
    QT_TR_NOOP("The engine ended with exit code {code}."),
    QT_TR_NOOP("The engine was killed (SIGKILL): usually because the system ran out of memory."),
    QT_TR_NOOP("The engine crashed ({code})."),
    QT_TR_NOOP("Another Waymark uses {folder}. Close it first, or choose another data folder."),
    QT_TR_NOOP("Contexts can't be kept in {folder}: {reason}."),
    QT_TR_NOOP("the disk has {left} GiB left, and Waymark leaves {floor} GiB free"),
    # Downloads and models on this computer
    QT_TR_NOOP(
        "The download needs {needed} GB more on the disk of {folder}, where {free} GB are free."
    ),
    QT_TR_NOOP("The disk of {folder} is full. What has arrived is kept: make room and go on."),
    QT_TR_NOOP(
        "{name} doesn't have the digest that the model server publishes, even after a second "
        "attempt. Nothing of it is used."
    ),
    QT_TR_NOOP(
        "{name} exists and isn't the published file. Move it away or choose another folder for "
        "models."
    ),
    QT_TR_NOOP("Another Waymark is downloading this. Stop it there first."),
    QT_TR_NOOP("The process of downloads ended. What has arrived is kept."),
    QT_TR_NOOP("After several attempts: {reason}."),
    QT_TR_NOOP("the proxy refuses the connection"),
    QT_TR_NOOP("the server's certificate can't be verified"),
    QT_TR_NOOP("there is no connection to the server"),
    QT_TR_NOOP("the connection broke off"),
    QT_TR_NOOP("the connection's settings have changed"),
    QT_TR_NOOP("the server has sent nothing for a while"),
    QT_TR_NOOP("the server began the file again"),
    QT_TR_NOOP("the server answers {details}"),
    QT_TR_NOOP(
        "The model is private, gated or doesn't exist. Accept its licence on its page in a browser "
        "if there is one, and enter an access token."
    ),
    QT_TR_NOOP(
        "The access token may not read this model. Accept its licence on its page in a browser, or "
        "enter another token."
    ),
    QT_TR_NOOP("The access token has characters that no token has."),
    QT_TR_NOOP("The model server doesn't have it, or has it no longer."),
    QT_TR_NOOP("“{name}” is not the name of a model: it has to be Org/Name."),
    QT_TR_NOOP("The model server's address is not valid."),
    QT_TR_NOOP("The model server's address has to be like https://host."),
    QT_TR_NOOP("The proxy's address is not valid."),
    QT_TR_NOOP("Waymark can't use SOCKS proxies, only HTTP ones."),
    QT_TR_NOOP("The model needs {needed} GB on the disk of {folder}, where {free} GB are free."),
    QT_TR_NOOP("The other disk is full. The model stays in its place."),
    QT_TR_NOOP("It is there already."),
    QT_TR_NOOP("The model stays where it was."),
    QT_TR_NOOP("The process that reads its headers crashed."),
    # Servers
    QT_TR_NOOP("The address has to be like https://host or host:8000."),
    QT_TR_NOOP("The address may not have a password or a query; a key has its own field."),
    QT_TR_NOOP("The key has characters that no key has."),
    QT_TR_NOOP("The request failed: {reason}."),
    QT_TR_NOOP("The system's list of certificates can't be read."),
    QT_TR_NOOP("The connection broke off in the middle of the reply."),
    QT_TR_NOOP("The connection ended in the middle of the reply."),
    QT_TR_NOOP("The server ended the reply before its end."),
    QT_TR_NOOP("No text came for {seconds} seconds."),
    QT_TR_NOOP("It sent no list of models in time."),
    QT_TR_NOOP("The answer is a web page."),
    QT_TR_NOOP("The answer is not valid JSON."),
    QT_TR_NOOP("The answer isn't a list of models."),
    QT_TR_NOOP("The server answers {details}. {reason}"),
    QT_TR_NOOP("Enter another key."),
    QT_TR_NOOP("It needs a key."),
    QT_TR_NOOP("The server answers {details}."),
    QT_TR_NOOP("It answers with {other}, and this chat asked {model}. Choose the model again."),
    QT_TR_NOOP("The process that talks to servers ended. What has arrived is kept."),
    QT_TR_NOOP("Its process ended; switch it on again."),
    QT_TR_NOOP("Port {port} can't be used: {reason}."),
    # Import
    QT_TR_NOOP(
        "It is not a file of chats exported from Waymark, Open WebUI, LM Studio or ChatGPT."
    ),
    QT_TR_NOOP("It was written by a newer version of Waymark."),
    QT_TR_NOOP("It isn't JSON, or is damaged."),
)
# What systems say, in English unless they were told another language.
_REASONS = (
    QT_TR_NOOP("No such file or directory"),
    QT_TR_NOOP("Permission denied"),
    QT_TR_NOOP("No space left on device"),
    QT_TR_NOOP("Read-only file system"),
    QT_TR_NOOP("Address already in use"),
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
