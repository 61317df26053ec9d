-- Sub-agents' sessions know their parents; inputs may be changes of the thread tree; runs may have a view of their
-- conversation, and a turn that middleware made; sessions may come from elsewhere.

alter table perdure.sessions add column parent_session text, add column parent_run text, add column parent_message text,
    add column parent_index integer, add column root_session text, add column usage_by_agent json,
    add column imported json;
create index sessions_by_parent on perdure.sessions (tenant_id, parent_session) where parent_session is not null;
alter table perdure.inputs add column detail json;
alter table perdure.thread_nodes add column imported json;
alter table perdure.runs add column usage_by_agent json, add column turn_sha text;
alter table perdure.checkpoints add column imported_sha text;

create table perdure.run_views (
    tenant_id  text not null,
    session_id text not null,
    run_id     text not null,
    entered    integer not null,
    error      json,
    metadata   bytea not null,
    items      bytea,
    result     json not null,
    primary key (tenant_id, session_id, run_id)
);
