"""Sentences of the empty page."""

from __future__ import annotations

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


MODEL_TIP = "Choose a model"
CHOOSE_FOLDER = "Choose a folder\N{HORIZONTAL ELLIPSIS}"
