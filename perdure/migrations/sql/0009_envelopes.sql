-- Signed envelopes of other agents, the exchanges that they open, and the frames of their streams. own is the agent here, sender
-- the one that wrote. What was said is sealed for the envelope's or the exchange's id.

-- Each envelope that was accepted. It is remembered that it came, also when its session is deleted: it is not taken twice.
-- raw: as received; null once its session is deleted. exchange: which it opened, or is about. stream_id: of the stream that it opened.
-- joined_by: the exchange before whose message an inform or notify stands, or itself if it joined a run; joined: it does.
create table perdure.envelopes (
    tenant_id  text not null,
    own        text not null,
    sender     text not null,
    id         text not null,
    intent     text not null,
    sha256     text not null,
    raw        bytea,
    exchange   text,
    stream_id  text,
    session_id text,
    state      text not null,
    joined_by  text,
    joined     boolean not null default false,
    at         timestamptz not null,
    primary key (tenant_id, own, sender, id)
);
create index envelopes_by_sender on perdure.envelopes (tenant_id, sender, at);
create index envelopes_by_id on perdure.envelopes (tenant_id, id);
create index envelopes_of_session on perdure.envelopes (tenant_id, session_id);
create index envelopes_of_exchange on perdure.envelopes (tenant_id, exchange) where exchange is not null;
create index envelopes_streams on perdure.envelopes (tenant_id, stream_id, sender) where stream_id is not null;
create index envelopes_untaken on perdure.envelopes (tenant_id, session_id)
    where intent = any (array['inform', 'notify']) and not joined and joined_by is null;
create index envelopes_joining on perdure.envelopes (tenant_id, at, id) where joined_by = id and not joined;
create index envelopes_before on perdure.envelopes (tenant_id, joined_by) where joined_by is not null;
create index envelopes_old on perdure.envelopes (tenant_id, at)
    where session_id is null or intent = any (array['progress', 'cancel', 'confirm', 'deny', 'error']);

-- What an ask, a propose or a subscribe has opened. envelope: its id as its sender wrote it. next_seq: of the frame that is made
-- next; sent: the greatest that a consumer was given; acked: the greatest of which it said so. log_seq: up to where frames were
-- made of the session's log, and log_place: of what comes next in it. is_over: the terminal frame is made. proposal: what a propose says.
-- read_at: about when a consumer was last connected.
create table perdure.envelope_exchanges (
    tenant_id     text not null,
    id            text not null,
    own           text not null,
    sender        text not null,
    worker        text not null,
    envelope      text not null,
    intent        text not null,
    stream_id     text not null,
    principal     text not null,
    session_id    text,
    run_id        text,
    state         text not null,
    delta_window  integer not null,
    next_seq      bigint not null default 0,
    sent          bigint not null default -1,
    acked         bigint not null default -1,
    log_seq       bigint not null default 0,
    log_place     json,
    is_over       boolean not null default false,
    error         json,
    proposal      json,
    opened_at     timestamptz not null,
    read_at       timestamptz not null,
    ended_at      timestamptz,
    primary key (tenant_id, id),
    unique (tenant_id, sender, stream_id)
) with (fillfactor = 70);
create index envelope_exchanges_of_session on perdure.envelope_exchanges (tenant_id, session_id);
create index envelope_exchanges_open on perdure.envelope_exchanges (tenant_id, opened_at, id) where ended_at is null;
create index envelope_exchanges_unbegun on perdure.envelope_exchanges (tenant_id, opened_at)
    where ended_at is null and session_id is null;
create index envelope_exchanges_untold on perdure.envelope_exchanges (tenant_id, opened_at, id)
    where state = 'cancelled' and not is_over;
create index envelope_exchanges_ended on perdure.envelope_exchanges (tenant_id, ended_at) where ended_at is not null;

-- The frames of an exchange's stream, as they are sent.
create table perdure.envelope_frames (
    tenant_id  text not null,
    exchange   text not null,
    session_id text,
    seq        bigint not null,
    type       text not null,
    frame      bytea not null,
    at         timestamptz not null,
    primary key (tenant_id, exchange, seq)
);
create index envelope_frames_of_session on perdure.envelope_frames (tenant_id, session_id);

-- No envelope or exchange leaves a terminal state, whoever writes.
create function perdure.envelope_state_v1() returns trigger language plpgsql as $$
begin
    if old.state in ('completed', 'cancelled', 'error') and new.state <> old.state then
        raise exception 'the % % has ended (%): it cannot become %', tg_table_name, old.id, old.state, new.state
            using errcode = 'check_violation';
    end if;
    return new;
end $$;
create trigger envelope_state before update of state on perdure.envelope_exchanges
    for each row execute function perdure.envelope_state_v1();
create trigger envelope_state before update of state on perdure.envelopes
    for each row execute function perdure.envelope_state_v1();
