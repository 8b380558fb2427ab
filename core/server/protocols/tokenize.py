"""`/tokenize`, as llama.cpp and vLLM have it."""

from __future__ import annotations

from core.api.chat import Conversation
from core.api.events import Counted
from core.api.model_info import ModelInfo
from core.server.protocols.protocol import Count, openai_problem
from core.server.requests.ask import Ask
from core.server.requests.content import Reader
from core.server.requests.parameters import Body, thinking_of
from core.server.requests.refusals import Refusal


def _read(body: Body, reader: Reader, client: str) -> Ask:
    """llama.cpp's `content`, or vLLM's `prompt` or `messages`."""
    if "messages" in body:
        return Ask(reader.conversation(body["messages"]), client, thinking=thinking_of(body))
    name = "content" if "content" in body else "prompt"
    if not isinstance(text := body.get(name), str):
        raise Refusal("A text or messages are needed.", name)
    return Ask(Conversation(messages=(), raw=text), client, prompt_field=name)


def _tell(counted: Counted, model: ModelInfo) -> Body:
    ids = list(counted.ids)
    return {"count": counted.tokens, "tokens": ids, "max_model_len": model.context_length}


TOKENIZE = Count("/tokenize", _read, _tell, openai_problem)
