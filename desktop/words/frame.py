"""What the window's frame says: header, menus, the empty page, and what the engine is doing."""

from __future__ import annotations

# What the engine is doing, in the header.

SILENT = "The engine doesn't answer"
STARTING = "Starting the engine"
LOADING = "Loading the model"
LOAD_CANCELLED = "Loading was cancelled"
NO_MODEL = "No model is loaded"
RESTARTING = "The engine stopped; starting it again"
FAILED = "The engine does not start"
CLOSING = "Closing"
STARTING_ALREADY = "The engine is being started already."
WAITING_FOR_CHOICE = "Waiting for a model: choose one under Model & settings."


def not_loaded(name: str, title: str, message: str) -> str:
    """Why a model was not loaded."""
    return f"{name} was not loaded. {title}: {message}"


def loading_words(percent: int) -> str:
    """How far loading is."""
    return f"{LOADING}: {percent}%"


def waiting_words(state: str) -> str:
    """What a message waits for."""
    return f"Waiting for the model. {state} \N{HORIZONTAL ELLIPSIS}"


# The empty page.

# The last words of a sentence stay together: a lone one would stand on a line of its own.
EMPTY_TITLE = "What would you like to look\u00a0at?"
EMPTY_WORDS = (
    "Ask a question below, or drop a picture and ask\u00a0about\u00a0it.\n"
    "Everything stays on this computer. What was read is reused where it can be: "
    "Context\u00a0(Ctrl+1)\u00a0shows\u00a0how."
)
DEMO_WORDS = (
    "This is the demo model: it describes simple pictures of shapes and remembers what you tell it."
)
NO_MODEL_YET = "No model is loaded. Choose one to begin."
TRY_SAMPLE = "Try this one"
# Pictures in the folder of samples, with a question that the demo model can answer. Other models
# are offered the pictures of the first few, with the first question.
SAMPLES: tuple[tuple[str | None, str], ...] = (
    ("three-shapes.png", "What is in the picture?"),
    ("four-shapes.png", "What colour is the star?"),
    ("two-crosses.png", "Count the crosses."),
    ("four-shapes.png", "Where is the diamond?"),
    ("three-shapes.png", "How big is the star?"),
    (None, "What can you do?"),
)
FEW_SAMPLES = 3


def sample_spoken(number: int, question: str) -> str:
    """A sample's name for screen readers."""
    return f"Try sample {number}: {question}"


# The header.

NEW_CHAT = "New chat"
TOGGLE_CHATS = "Show or hide the chats"
TOGGLE_SIDE = "Show or hide settings and context"
INSTRUCTIONS = "Instructions"
INSTRUCTIONS_NONE = "Instructions for this chat"
INSTRUCTIONS_GIVEN = "Instructions for this chat: given"
START_AGAIN, START_AGAIN_SPOKEN = "Start again", "Start the engine again"
NO_MODEL_NAME = "No model"
MODEL_TIP = "Choose a model"
CHOOSE_FOLDER = "Choose a folder\N{HORIZONTAL ELLIPSIS}"
MODEL_SETTINGS = "Model settings"


def model_spoken(name: str) -> str:
    """What a screen reader says of the model's name, which opens a menu."""
    return f"Model: {name}"


# The short message over the window's lower edge.

MESSAGE, CLOSE_MESSAGE = "Message", "Close this message"

# The menu Help.

SHORTCUTS = "Keyboard shortcuts"
ABOUT = "About Waymark"
ALREADY_RUNNING = "Waymark is already running; its window was brought to the front."
UNDO = "Undo"
COPY_DIAGNOSTICS = "Copy diagnostics"
COPIED = "Copied"
CLOSE = "Close"
ABOUT_WORDS = "Chats with a model on this computer. Nothing you write leaves it."
LICENCES = "Licences"
# Keys that no menu names, in the places where they act.
OTHER_KEYS = (
    ("Enter", "Send the message"),
    ("Shift+Enter", "Break the line"),
    ("Ctrl+A, Ctrl+C", "Select the whole text of a message, copy what is selected"),
    ("Ctrl+V", "Paste text, picture files or a picture"),
    ("F2, Delete", "Rename or delete the selected chat"),
    ("Space, Delete", "Open a picture, take it out of the draft"),
    ("F, 1", "In the large picture: fit, one to one"),
    ("Left, Right", "In the large picture: the one before, the next one"),
    ("Ctrl+C, Ctrl+S", "In the large picture: copy, save"),
)
UNKNOWN = "not known"


# The right side, and the system's dialogs.

CONTEXT_TAB, SETTINGS_TAB = "Context", "Model & settings"
MODELS_FOUND = "This folder holds several models. Choose one."
CHOOSE_MODEL, CANCEL = "Choose", "Cancel"
FOLDER_TITLE, ADD_PICTURES = "Choose a model folder", "Add pictures"


def picture_kinds(patterns: str) -> str:
    """What a dialog for pictures offers to show."""
    return f"Pictures ({patterns});;All files (*)"


# At the start.

ANEW = "Start with empty chats"
ANEW_WORDS = (
    "Start with empty chats leaves the file in its folder under another name; nothing in it is "
    "deleted."
)
OPEN_FOLDER = "Open folder"
STARTED_WITH_TROUBLE = "Waymark has started, and something was wrong"
