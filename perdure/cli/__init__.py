"""The command line: what a person or a script says to Perdure, and what is shown in answer.

`main` puts the commands together, one module each; `exits` says how a command ends, `output` how an answer looks. What a
command does is elsewhere, in `runtime`, `worker`, `embedded` and `migrations`.
"""
