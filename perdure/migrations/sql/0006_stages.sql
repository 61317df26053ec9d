-- Stage sessions: workflows of stages that agents are led through. A session has its row in session_heads too, which is locked,
-- numbers its actions and its events, and has its id; and events like any other session.

-- Whether the head is a stage session's, and no agent's.
alter table perdure.session_heads add column stage boolean not null default false;

-- What sessions are pinned to. A definition is found by its hash and never changes.
create table perdure.stage_definitions (
    tenant_id text not null,
    sha256    text not null,
    body      json not null,
    made_at   timestamptz not null,
    primary key (tenant_id, sha256)
);

-- What workers serve now, by name; the last writer of a name wins.
create table perdure.stage_workflows (
    tenant_id  text not null,
    name       text not null,
    sha256     text not null,
    task_queue text not null,
    seen_at    timestamptz not null,
    primary key (tenant_id, name)
);

-- sizes: bytes of each key of the shared state, whose values are in stage_values; version: how often it has changed. taken: the
-- last action that is settled, and so are all before it. expires_at is null for one that is paused or has ended.
create table perdure.stage_sessions (
    tenant_id      text not null,
    id             text not null,
    workflow       text not null,
    definition     text not null,
    stage          text not null,
    status         text not null,
    version        integer not null,
    taken          bigint not null,
    settled_at_ms  bigint not null,
    sizes          json not null,
    open_actions   integer not null default 0,
    key            text,
    opening_sha256 text not null,
    created_at     timestamptz not null,
    updated_at     timestamptz not null,
    expires_at     timestamptz,
    ended_at       timestamptz,
    ended_reason   json,
    primary key (tenant_id, id)
) with (fillfactor = 70);
create unique index stage_sessions_by_key on perdure.stage_sessions (tenant_id, key) where key is not null;
create index stage_sessions_by_time on perdure.stage_sessions (tenant_id, created_at desc, id desc);
create index stage_sessions_by_workflow on perdure.stage_sessions (tenant_id, workflow, created_at desc, id desc);
create index stage_sessions_by_stage on perdure.stage_sessions (tenant_id, workflow, stage, created_at desc, id desc);
create index stage_sessions_by_status on perdure.stage_sessions (tenant_id, status, created_at desc, id desc);
create index stage_sessions_due on perdure.stage_sessions (expires_at) where expires_at is not null and open_actions = 0;

create table perdure.stage_values (
    tenant_id  text not null,
    session_id text not null,
    key        text not null,
    value      bytea not null,
    primary key (tenant_id, session_id, key)
);

-- Inbox and history in one. stage: where the session was when it was taken; attempt: how many tries of a task have begun, the last
-- of them try_id.
create table perdure.stage_actions (
    tenant_id       text not null,
    session_id      text not null,
    ordinal         bigint not null,
    id              text not null,
    kind            text not null,
    name            json not null,
    body            bytea not null,
    sha256          text not null,
    idempotency_key text,
    state           text not null,
    stage           text not null default '',
    to_stage        text,
    attempt         integer not null default 0,
    try_id          text,
    http            integer,
    reply           bytea,
    accepted_at     timestamptz not null,
    started_at      timestamptz,
    settled_at      timestamptz,
    primary key (tenant_id, session_id, ordinal),
    unique (tenant_id, session_id, id),
    unique (tenant_id, session_id, idempotency_key)
);
create index stage_actions_open on perdure.stage_actions (tenant_id, session_id, ordinal) where state <> 'settled';
create index stage_actions_queued on perdure.stage_actions (accepted_at) where state = 'queued';
create index stage_actions_started on perdure.stage_actions (started_at) where started_at is not null and settled_at is null;

-- What an action waits for a person to say: whether it may run, or what came of the try that is named. closed: the answer was
-- taken, or is needed no more.
create table perdure.stage_waits (
    tenant_id   text not null,
    session_id  text not null,
    ordinal     bigint not null,
    kind        text not null,
    attempt     integer not null,
    asked_at    timestamptz not null,
    expires_at  timestamptz,
    answer      json,
    answered_by json,
    reason      json,
    answered_at timestamptz,
    closed      boolean not null default false,
    primary key (tenant_id, session_id, ordinal, kind, attempt)
);
create index stage_waits_open on perdure.stage_waits (tenant_id, asked_at, session_id, ordinal)
    where answered_at is null and not closed;
create index stage_waits_answered on perdure.stage_waits (answered_at) where answered_at is not null and not closed;
