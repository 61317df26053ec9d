"""OpenAI's Chat Completions as a door to agents: requests, responses, chunks and errors, without I/O.

Source: OpenAI API reference, Chat Completions and Models; UAMP 1.0, section 13.3.
"""
