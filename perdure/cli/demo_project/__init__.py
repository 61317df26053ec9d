"""The app that `perdure demo` runs: an agent that audits the TODO comments of a folder.

`agents` is what a worker serves, `model` decides, `tools` do, `folder` reads the audited folder, `report` puts the findings
in words, `ledger` counts from outside of the product. `sample` is the project that is audited by default.
"""
