-- Whether the deltas of an ended run have been folded in the event log. Only runs that are left to fold are in the index.
alter table perdure.runs add column folded boolean not null default false;
create index runs_unfolded on perdure.runs (ended_at) where not folded and ended_at is not null;

-- Where a run's events begin and end, also one's that waited long or never began.
create index events_of_runs on perdure.events (tenant_id, session_id, run_id, seq)
    where type in ('run.queued', 'run.completed', 'run.failed', 'run.cancelled');
