"""Agents as OpenAI's models: Chat Completions and Models. Source: OpenAI API reference; UAMP 1.0, section 13.3."""
