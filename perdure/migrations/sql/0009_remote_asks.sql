-- What runs have asked of agents elsewhere: one row for each call of such a tool, beside the wait that its run is parked on. Whoever
-- holds the lease follows it: it sends the envelope, reads the stream, and answers the wait.

-- id: of the envelope. asked: the call's arguments. envelope: as it was signed, so that each resend is the same. next_seq: of the
-- delta that is to come; those before it are in remote_ask_frames. due_at: it is not looked at before. problem: what was in the way
-- last. outcome: answered, failed, or withdrawn where the answer is not wanted any more.
create table perdure.remote_asks (
    tenant_id   text not null,
    id          text not null,
    session_id  text not null,
    run_id      text not null,
    message_id  text not null,
    index       integer not null,
    wait_id     text not null,
    agent       text not null,
    tool        text not null,
    url         text not null,
    binding     text not null,
    signed      boolean not null,
    peer        text,
    own         text,
    asked       bytea not null,
    envelope    bytea,
    stream_id   text not null,
    accepted    boolean not null default false,
    next_seq    integer not null default 0,
    failures    integer not null default 0,
    problem     json,
    due_at      timestamptz not null,
    lease_by    text,
    lease_until timestamptz,
    outcome     text,
    made_at     timestamptz not null,
    ended_at    timestamptz,
    primary key (tenant_id, id)
) with (fillfactor = 70);
create index remote_asks_of_session on perdure.remote_asks (tenant_id, session_id);
create index remote_asks_due on perdure.remote_asks (tenant_id, due_at) where ended_at is null;

-- The deltas that have come, until the ask has ended. What is ACKed is here.
create table perdure.remote_ask_frames (
    tenant_id  text not null,
    session_id text not null,
    ask        text not null,
    seq        integer not null,
    frame      bytea not null,
    primary key (tenant_id, ask, seq)
);
create index remote_ask_frames_of_session on perdure.remote_ask_frames (tenant_id, session_id);
