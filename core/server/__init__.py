"""A local server for programs that speak the OpenAI, Anthropic or Ollama protocol."""
