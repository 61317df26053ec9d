-- The tables of the first slice. Bodies are bytea (UTF-8 JSON that may hold lone surrogates) or json text with every
-- non-ASCII character escaped, so NUL and lone surrogates are stored as they are.

create table perdure.agents (
    tenant_id     text not null,
    name          text not null,
    agent_id      text not null,
    workflow_type text not null,
    task_queue    text not null,
    spec          json not null,
    seen_at       timestamptz not null,
    primary key (tenant_id, name)
);

create table perdure.sessions (
    tenant_id    text not null,
    id           text not null,
    agent        text not null,
    agent_id     text not null,
    status       text not null,
    title        json,
    metadata     json not null,
    current_node text,
    runs         integer not null default 0,
    steps        integer not null default 0,
    usage        json not null,
    created_at   timestamptz not null,
    updated_at   timestamptz not null,
    primary key (tenant_id, id)
);
create index sessions_by_status on perdure.sessions (tenant_id, status, created_at desc, id desc);
create index sessions_by_time on perdure.sessions (tenant_id, created_at desc, id desc);

-- The row that is locked. One writer at a time per session is one holder of this row's lock.
create table perdure.session_heads (
    tenant_id      text not null,
    session_id     text not null,
    last_seq       bigint not null default 0,
    next_ordinal   bigint not null default 1,
    active_run     text,
    paused         boolean not null default false,
    deleting       boolean not null default false,
    discards       integer not null default 0,
    late_results   integer not null default 0,
    delta_key      text,
    delta_upto     integer not null default 0,
    note_execution text,
    touched_at     timestamptz not null,
    primary key (tenant_id, session_id)
) with (fillfactor = 50);

create table perdure.inputs (
    tenant_id     text not null,
    session_id    text not null,
    ordinal       bigint not null,
    key           text not null,
    opens_session boolean not null,
    body_sha256   text not null,
    kind          text not null,
    message_id    text not null,
    message       bytea,
    message_sha   text not null,
    options       bytea,
    policy        text not null,
    run_id        text not null,
    not_before    timestamptz,
    state         text not null,
    created_at    timestamptz not null,
    primary key (tenant_id, session_id, ordinal),
    unique (tenant_id, session_id, key)
);
create unique index inputs_by_opening_key on perdure.inputs (tenant_id, key) where opens_session;
create index inputs_queued on perdure.inputs (created_at) where state = 'queued';

create table perdure.thread_nodes (
    tenant_id  text not null,
    session_id text not null,
    id         text not null,
    parent_id  text,
    name       json,
    fork_index integer,
    thread_id  text not null,
    metadata   json not null,
    created_at timestamptz not null,
    primary key (tenant_id, session_id, id)
);

create table perdure.messages (
    tenant_id  text not null,
    session_id text not null,
    id         text not null,
    node_id    text not null,
    position   integer not null,
    run_id     text,
    step       integer not null,
    type       text not null,
    body       bytea,
    sha256     text not null,
    usage      json,
    stop       text,
    discarded  boolean not null default false,
    primary key (tenant_id, session_id, id),
    unique (tenant_id, session_id, node_id, position)
);

create table perdure.runs (
    tenant_id       text not null,
    session_id      text not null,
    id              text not null,
    ordinal         bigint not null,
    status          text not null,
    spec            json not null,
    node_id         text not null,
    start_position  integer not null,
    step            integer not null default 0,
    started_step    integer not null default 0,
    usage           json,
    cycles          integer not null default 0,
    error           json,
    temporal_run_id text not null,
    first_seq       bigint not null,
    last_seq        bigint,
    started_at      timestamptz not null,
    ended_at        timestamptz,
    primary key (tenant_id, session_id, id),
    unique (tenant_id, session_id, ordinal)
);
create index runs_by_id on perdure.runs (tenant_id, id);
create index runs_open on perdure.runs (started_at) where ended_at is null;

create table perdure.checkpoints (
    tenant_id       text not null,
    session_id      text not null,
    id              text not null,
    run_id          text not null,
    node_id         text not null,
    step            integer not null,
    position        integer not null,
    at              text not null,
    record          json not null,
    temporal_run_id text not null,
    primary key (tenant_id, session_id, id)
);

create table perdure.tool_calls (
    tenant_id       text not null,
    session_id      text not null,
    message_id      text not null,
    index           integer not null,
    run_id          text not null,
    step            integer not null,
    call_id         json not null,
    tool            json not null,
    args_sha256     text not null,
    effect          text not null,
    state           text not null,
    attempt         integer not null default 0,
    is_error        boolean,
    result_sha256   text,
    result_bytes    bigint,
    duration_ms     integer,
    results_id      text not null,
    primary key (tenant_id, session_id, message_id, index)
);
create index tool_calls_open on perdure.tool_calls (tenant_id, session_id, run_id) where state <> 'done';

create table perdure.waits (
    tenant_id   text not null,
    id          text not null,
    session_id  text not null,
    run_id      text not null,
    kind        text not null,
    message_id  text not null,
    index       integer not null,
    asked       json not null,
    asked_at    timestamptz not null,
    answer      json,
    answered_by json,
    answered_at timestamptz,
    delivered   boolean not null default false,
    used        boolean not null default false,
    primary key (tenant_id, id)
);
create index waits_undelivered on perdure.waits (answered_at) where answered_at is not null and not delivered;
create index waits_by_call on perdure.waits (tenant_id, session_id, message_id, index);
create index waits_open on perdure.waits (tenant_id, asked_at) where answered_at is null;

create table perdure.events (
    tenant_id  text not null,
    session_id text not null,
    seq        bigint not null,
    run_id     text,
    step       integer,
    attempt    integer,
    source     text not null,
    type       text not null,
    data       json not null,
    note       text,
    at         timestamptz not null,
    primary key (tenant_id, session_id, seq)
);
-- A note is written once, whoever repeats it and in whatever order.
create unique index events_by_note on perdure.events (tenant_id, session_id, note) where note is not null;

-- The claim check: what is too large for its row, and every tool result. Per session, so that deleting a session is
-- deleting its rows, and two sessions never wait for one row.
create table perdure.payloads (
    tenant_id  text not null,
    session_id text not null,
    sha256     text not null,
    bytes      bytea not null,
    primary key (tenant_id, session_id, sha256)
);
alter table perdure.payloads alter column bytes set storage external;
