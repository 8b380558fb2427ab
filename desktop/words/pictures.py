"""Sentences of a message that is edited."""

from __future__ import annotations

ADD = "Add pictures"
STILL_LOOKING = "It can be sent as soon as the picture has been looked at."
EDIT = "Edit your message"
SEND_AGAIN = "Send again"
CANCEL = "Cancel"
