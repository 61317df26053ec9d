"""ThreadProtocol 1.0.0 without I/O: its models, rules and canonical form, and what other forms of a conversation are in it.

`models` and `validation` read and check; `canonical` writes and hashes. `from_pydantic_ai` and `to_pydantic_ai`,
`from_stream` and `to_stream` (the Vercel AI SDK's), `from_tree` and `to_tree` (UPP's) are the mappings.
"""
