"""Everything that can go wrong, each with a title and a message made for a dialog.

A class says what happened (its name crosses the pipe), the message says it with the names and
numbers of the case. Code that handles an error catches the class; a person reads title and message.
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import BaseModel, ConfigDict


class ErrorInfo(BaseModel):
    """An error as it crosses the pipe: the class's name, and the two texts a dialog shows.

    `tokens` is how long a prompt is that was refused for its length.
    """

    model_config = ConfigDict(frozen=True)

    name: str
    title: str
    message: str
    tokens: int | None = None


class WaymarkError(Exception):
    """Base of every error a user can cause or meet. `title` is a class constant."""

    title: ClassVar[str] = "Something went wrong"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def info(self) -> ErrorInfo:
        # A name out of a file or of the file system may hold half a character, which no JSON can.
        message = self.message.encode("utf-8", "backslashreplace").decode()
        return ErrorInfo(name=type(self).__name__, title=self.title, message=message)


class RequestCancelled(WaymarkError):
    title = "Stopped"


class MissingFileError(WaymarkError):
    title = "A model file is missing"


class GgufError(WaymarkError):
    title = "GGUF is not supported yet"


class BrokenConfigError(WaymarkError):
    title = "The model's settings can't be read"


class MissingTensorError(WaymarkError):
    title = "The weights are incomplete"


class WrongShapeError(WaymarkError):
    title = "The weights don't fit the model"


class BrokenWeightsError(WaymarkError):
    title = "The weights are damaged"


class PickleWeightsError(WaymarkError):
    title = "These weights are not safe to open"


class UnsupportedQuantisationError(WaymarkError):
    title = "Waymark can't read these quantised weights"


class SlowFolderError(WaymarkError):
    title = "This model folder takes too long to read"


class UnknownArchitectureError(WaymarkError):
    title = "Waymark doesn't know this kind of model"


class UnsupportedDeviceError(WaymarkError):
    title = "This device or precision can't be used"


class NotEnoughMemoryError(WaymarkError):
    title = "Not enough memory"


class BrokenTokenizerError(WaymarkError):
    title = "The model's tokenizer can't be read"


class TemplateError(WaymarkError):
    title = "The model's chat template failed"


class TemplateTimeoutError(TemplateError):
    title = "The model's chat template never ends"


class TemplateTooLargeError(TemplateError):
    title = "The model's chat template writes too much"


class NotRegularFileError(WaymarkError):
    """A path is a folder, or a pipe, a device or a socket, where a file is wanted."""

    title = "This is not a file"

    def __init__(self, folder: bool) -> None:
        super().__init__(
            "It is a folder." if folder else "It is a pipe, a device or a socket, not a file."
        )
        self.folder = folder


class SlowFileError(WaymarkError):
    title = "The file does not answer"


class ImageError(WaymarkError):
    title = "This picture can't be used"


class ImageUnreadableError(ImageError):
    title = "This picture can't be read"


class ImageTooLargeError(ImageError):
    title = "This picture is too large"


class ImageEmptyError(ImageError):
    title = "This picture is empty"


class ImageAspectError(ImageError):
    title = "This picture is too long and thin"


class NoVisionError(WaymarkError):
    title = "This model can't see pictures"


class PromptTooLongError(WaymarkError):
    title = "The conversation is longer than the context"

    def __init__(self, message: str, tokens: int | None = None) -> None:
        super().__init__(message)
        self.tokens = tokens

    def info(self) -> ErrorInfo:
        return super().info().model_copy(update={"tokens": self.tokens})


class BudgetTooSmallError(WaymarkError):
    title = "The memory budget is too small"


class NoRoomBesideError(WaymarkError):
    title = "There is no room for this beside the chat"


class EmptyConversationError(WaymarkError):
    title = "There is nothing to answer"


class NoModelError(WaymarkError):
    title = "No model is loaded"


class InvalidRequestError(WaymarkError):
    title = "The request doesn't make sense"


class ReplyFormatError(WaymarkError):
    title = "The reply's format can't be used"


class ProtocolError(WaymarkError):
    title = "The engine and the window don't understand each other"


class EngineDiedError(WaymarkError):
    title = "The engine stopped"


class DataFolderBusyError(WaymarkError):
    title = "Waymark is already open"


class NotDeletedError(WaymarkError):
    title = "Not everything could be deleted"


class InternalError(WaymarkError):
    title = "The engine met an error it doesn't know"
