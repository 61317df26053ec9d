-- Sessions of UAMP: what a connection's process would otherwise have to remember. session_id is the session that the chat is: all
-- of it is sealed for that one and goes with it.

-- told_log and told_mail: up to where its client was told of the chat's log and of its mail. version: how often something has
-- changed that a process may keep of it. user_id: who it is to the chat's others.
create table perdure.uamp_sessions (
    tenant_id        text not null,
    id               text not null,
    session_id       text not null,
    agent            text not null,
    principal        text not null,
    user_id          text not null,
    username         json,
    chat             json,
    state            bytea not null,
    token_expires_at timestamptz,
    payment          json,
    told_log         bigint not null default 0,
    told_mail        bigint not null default 0,
    last_mail        bigint not null default 0,
    last_taken       bigint not null default 0,
    version          integer not null default 0,
    created_at       timestamptz not null,
    last_seen_at     timestamptz not null,
    ended_at         timestamptz,
    ended_reason     json,
    primary key (tenant_id, id)
) with (fillfactor = 70);
create index uamp_sessions_of_chat on perdure.uamp_sessions (tenant_id, session_id, id);
create index uamp_sessions_idle on perdure.uamp_sessions (last_seen_at) where ended_at is null;
create index uamp_sessions_ended on perdure.uamp_sessions (ended_at) where ended_at is not null;

-- The events that its client sent and that were applied. body: of an input that no response has had yet; response: which has it.
create table perdure.uamp_taken (
    tenant_id    text not null,
    session_id   text not null,
    uamp_session text not null,
    ordinal      bigint not null,
    event_sha256 text not null,
    body         bytea,
    response     text,
    taken_at     timestamptz not null,
    primary key (tenant_id, uamp_session, ordinal),
    unique (tenant_id, uamp_session, event_sha256)
);
create index uamp_taken_of_chat on perdure.uamp_taken (tenant_id, session_id);
create index uamp_taken_inputs on perdure.uamp_taken (tenant_id, uamp_session, ordinal) where body is not null;
create index uamp_taken_old on perdure.uamp_taken (taken_at) where body is null;

-- The responses that its client asked for. asked: what its run is to be begun with, should the process die that was to begin it.
create table perdure.uamp_responses (
    tenant_id      text not null,
    id             text not null,
    session_id     text not null,
    uamp_session   text not null,
    asked          bytea not null,
    request_sha256 text,
    run_id         text,
    made_at        timestamptz not null,
    begun_at       timestamptz,
    ended_at       timestamptz,
    primary key (tenant_id, id)
);
create index uamp_responses_of_chat on perdure.uamp_responses (tenant_id, session_id, made_at);
create index uamp_responses_of_session on perdure.uamp_responses (tenant_id, uamp_session);
create index uamp_responses_unbegun on perdure.uamp_responses (made_at) where begun_at is null and ended_at is null;

-- Events for its client that are not in the chat's log. body is the event without what each of its receivers has for itself.
create table perdure.uamp_mail (
    tenant_id    text not null,
    session_id   text not null,
    uamp_session text not null,
    seq          bigint not null,
    event_id     text not null,
    type         text not null,
    body         json not null,
    note         text,
    at           timestamptz not null,
    primary key (tenant_id, uamp_session, seq)
);
create unique index uamp_mail_by_note on perdure.uamp_mail (tenant_id, uamp_session, note) where note is not null;
create index uamp_mail_of_chat on perdure.uamp_mail (tenant_id, session_id);
create index uamp_mail_old on perdure.uamp_mail (at);

-- Open connections. One that is not renewed is over.
create table perdure.uamp_seats (
    tenant_id    text not null,
    id           text not null,
    session_id   text not null,
    uamp_session text not null,
    user_id      text not null,
    expires_at   timestamptz not null,
    primary key (tenant_id, id)
);
create index uamp_seats_of_chat on perdure.uamp_seats (tenant_id, session_id, user_id);
create index uamp_seats_due on perdure.uamp_seats (expires_at);

-- Puts events, each {type, event_id, note, body}, into the mail of a session whose row is locked; those with a note that is there
-- already are left out. How many were put.
create function perdure.uamp_put_v1(p_row perdure.uamp_sessions, p_events json) returns integer
language plpgsql as $$
declare
    v_event json;
    v_last  bigint := p_row.last_mail;
begin
    for v_event in select value from json_array_elements(p_events) loop
        insert into perdure.uamp_mail (tenant_id, session_id, uamp_session, seq, event_id, type, body, note, at)
        values (p_row.tenant_id, p_row.session_id, p_row.id, v_last + 1,
                coalesce(v_event ->> 'event_id', gen_random_uuid()::text), v_event ->> 'type', v_event -> 'body',
                v_event ->> 'note', clock_timestamp())
        on conflict (tenant_id, uamp_session, note) where note is not null do nothing;
        if found then
            v_last := v_last + 1;
        end if;
    end loop;
    if v_last > p_row.last_mail then
        update perdure.uamp_sessions set last_mail = v_last where tenant_id = p_row.tenant_id and id = p_row.id;
    end if;
    return v_last - p_row.last_mail;
end $$;

-- The same for a session by its id; null if there is none that has not ended. p_held: the caller has it locked, ended or not.
create function perdure.uamp_post_v1(p_tenant text, p_id text, p_events json, p_held boolean) returns json
language plpgsql as $$
declare
    v_row perdure.uamp_sessions;
begin
    select * into v_row from perdure.uamp_sessions
     where tenant_id = p_tenant and id = p_id and (p_held or ended_at is null) for update;
    if not found then
        return json_build_object('posted', null);
    end if;
    return json_build_object('posted', perdure.uamp_put_v1(v_row, p_events));
end $$;

-- Puts one event into the mail of all sessions of a chat that have not ended, but one, and but those of a user. Which got it.
create function perdure.uamp_post_to_chat_v1(p_tenant text, p_session text, p_event json, p_but text, p_but_user text)
    returns json
language plpgsql as $$
declare
    v_row    perdure.uamp_sessions;
    v_posted text[] := '{}';
begin
    for v_row in
        select * from perdure.uamp_sessions
         where tenant_id = p_tenant and session_id = p_session and ended_at is null
           and (p_but is null or id <> p_but) and (p_but_user is null or user_id <> p_but_user)
         order by id for update
    loop
        if perdure.uamp_put_v1(v_row, json_build_array(p_event)) > 0 then
            v_posted := v_posted || v_row.id;
        end if;
    end loop;
    return json_build_object('posted', to_json(v_posted));
end $$;

-- Seats of one chat are taken and left one after the other: its users come and go in turn.
create function perdure.uamp_lock_seats_v1(p_tenant text, p_session text) returns void
language sql as $$
    select pg_advisory_xact_lock(hashtextextended('uamp/' || p_tenant || '/' || p_session, 0))
$$;

-- Takes a seat; p_event tells the chat's others if the user had none.
create function perdure.uamp_take_seat_v1(p_tenant text, p_session text, p_seat text, p_id text, p_user text,
    p_seconds double precision, p_event json) returns json
language plpgsql as $$
declare
    v_first boolean;
begin
    perform perdure.uamp_lock_seats_v1(p_tenant, p_session);
    select count(*) = 0 into v_first from perdure.uamp_seats
     where tenant_id = p_tenant and session_id = p_session and user_id = p_user;
    insert into perdure.uamp_seats (tenant_id, id, session_id, uamp_session, user_id, expires_at)
    select p_tenant, p_seat, p_session, p_id, p_user, clock_timestamp() + make_interval(secs => p_seconds)
      from perdure.uamp_sessions where tenant_id = p_tenant and id = p_id
    on conflict (tenant_id, id) do update set expires_at = excluded.expires_at;
    if not found or not v_first then
        return json_build_object('posted', json_build_array());
    end if;
    return perdure.uamp_post_to_chat_v1(p_tenant, p_session, p_event, null, p_user);
end $$;

-- Leaves a seat, or all of a user that are over; p_event tells the chat's others if the user has none left.
create function perdure.uamp_leave_seat_v1(p_tenant text, p_session text, p_seat text, p_user text, p_event json)
    returns json
language plpgsql as $$
begin
    perform perdure.uamp_lock_seats_v1(p_tenant, p_session);
    delete from perdure.uamp_seats
     where tenant_id = p_tenant and session_id = p_session and user_id = p_user
       and (id = p_seat or (p_seat is null and expires_at < clock_timestamp()));
    if not found or exists (select 1 from perdure.uamp_seats
                             where tenant_id = p_tenant and session_id = p_session and user_id = p_user) then
        return json_build_object('posted', json_build_array());
    end if;
    return perdure.uamp_post_to_chat_v1(p_tenant, p_session, p_event, null, p_user);
end $$;

-- The responses of chats that have not ended. One whose run is over has ended, whether or not anybody was there to be told.
create view perdure.uamp_open_responses as
select r.* from perdure.uamp_responses r
 where r.ended_at is null
   and not exists (select 1 from perdure.runs n where n.tenant_id = r.tenant_id and n.session_id = r.session_id
                                                  and n.id = r.run_id and n.ended_at is not null)
   and not exists (select 1 from perdure.inputs i where i.tenant_id = r.tenant_id and i.run_id = r.run_id
                                                    and i.session_id = r.session_id and i.state = 'withdrawn');
