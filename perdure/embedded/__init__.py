"""A real Temporal and a real PostgreSQL as child processes, for one machine and one project folder.

`servers` is the door. `postgres` and `temporal` know one server each; `launch` starts or adopts a
server without knowing which; `process`, `ports`, `locks`, `account`, `folder` and `record` know one
thing of the operating system each. Linux only: processes are told apart by /proc.
"""
