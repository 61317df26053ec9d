-- Pages of every list walk an index from where the page before ended, however much there is.

-- Checkpoints: a session's runs in the order in which they began, and each run's checkpoints in theirs.
create index runs_by_beginning on perdure.runs (tenant_id, session_id, first_seq);
create index checkpoints_in_order on perdure.checkpoints (tenant_id, session_id, run_id, step, at collate "C", id collate "C");
create index checkpoints_imported on perdure.checkpoints (tenant_id, session_id) where imported_sha is not null;

-- A session's waits, its sub-agents' too.
create index sessions_by_root on perdure.sessions (tenant_id, root_session) where root_session is not null;
create index waits_of_session on perdure.waits (tenant_id, session_id, asked_at, id) where answered_at is null;

-- A run by the id that was answered when its input came, also while it is queued and after it has joined another.
create index inputs_by_run on perdure.inputs (tenant_id, run_id);
