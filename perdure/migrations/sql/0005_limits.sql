-- Limits that all workers share: how often, and how many at once, a provider is asked; and the limits of a session.

-- What a session may use over all its runs, by name; null for no limit.
alter table perdure.sessions add column limits json;

-- One limit. tenant_id is whose it is, * if it is everybody's; the rule is the one that was asked by last. Tokens come back
-- from filled_at on. Until blocked_until nobody is let through; strikes is how often in a row the provider has said that
-- it is too much. Turns are counted by served.
create table perdure.limit_buckets (
    tenant_id      text not null,
    name           text not null,
    per_second     double precision,
    burst          integer,
    max_concurrent integer,
    tokens         double precision not null,
    filled_at      timestamptz not null,
    blocked_until  timestamptz,
    strikes        integer not null default 0,
    served         bigint not null default 0,
    primary key (tenant_id, name)
);

-- One permit of a limit: waited for, or held until it is given back or expires. asker is the tenant that asks.
create table perdure.limit_leases (
    tenant_id  text not null,
    name       text not null,
    permit     text not null,
    asker      text not null,
    session_id text not null,
    run_id     text not null,
    holder     text not null,
    state      text not null,
    turn       bigint not null,
    asked_at   timestamptz not null,
    held_at    timestamptz,
    expires_at timestamptz not null,
    primary key (tenant_id, name, permit)
);

-- Takes a permit, or a place in the queue for it, which has to be asked for again before it expires. Those who wait come in
-- turns: a tenant's next turn is behind its last one, so that each turn serves every tenant once, however many of one wait.
-- After a refusal of the provider one goes at a time, until one is answered.
create function perdure.take_permit_v1(p_tenant text, p_name text, p_permit text, p_asker text, p_session text,
    p_run text, p_holder text, p_per_second double precision, p_burst integer, p_max integer,
    p_lease_s double precision) returns json
language plpgsql as $$
declare
    v_bucket perdure.limit_buckets;
    v_own    perdure.limit_leases;
    v_now    timestamptz;
    v_end    timestamptz;
    v_held   integer;
    v_ahead  integer;
    v_room   double precision := 'infinity';
    v_wait   double precision := 0;
begin
    insert into perdure.limit_buckets (tenant_id, name, per_second, burst, max_concurrent, tokens, filled_at)
    values (p_tenant, p_name, p_per_second, p_burst, p_max, p_burst, clock_timestamp())
    on conflict (tenant_id, name) do nothing;
    select * into v_bucket from perdure.limit_buckets where tenant_id = p_tenant and name = p_name for update;
    v_now := clock_timestamp();
    v_end := v_now + make_interval(secs => p_lease_s);
    delete from perdure.limit_leases where tenant_id = p_tenant and name = p_name and expires_at <= v_now;
    select * into v_own from perdure.limit_leases where tenant_id = p_tenant and name = p_name and permit = p_permit;
    if not found then
        insert into perdure.limit_leases (tenant_id, name, permit, asker, session_id, run_id, holder, state, turn,
                                          asked_at, expires_at)
        select p_tenant, p_name, p_permit, p_asker, p_session, p_run, p_holder, 'waiting',
               greatest(v_bucket.served, coalesce(max(turn), 0)) + 1, v_now, v_end
          from perdure.limit_leases
         where tenant_id = p_tenant and name = p_name and asker = p_asker and state = 'waiting'
        returning * into v_own;
    end if;
    if v_own.state = 'held' then
        return json_build_object('kind', 'held', 'probe', v_bucket.strikes > 0);
    end if;
    select count(*) filter (where state = 'held'),
           count(*) filter (where state = 'waiting' and (turn, asked_at, permit)
                                  < (v_own.turn, v_own.asked_at, v_own.permit))
      into v_held, v_ahead
      from perdure.limit_leases where tenant_id = p_tenant and name = p_name;
    v_bucket.tokens := least(p_burst, v_bucket.tokens + coalesce(p_per_second, 0)
                             * greatest(0, extract(epoch from v_now - v_bucket.filled_at)));
    if p_max is not null then
        v_room := p_max - v_held;
    end if;
    if p_per_second is not null then
        v_room := least(v_room, floor(v_bucket.tokens));
        v_wait := greatest(0, (v_ahead + 1 - v_bucket.tokens) / p_per_second);
    end if;
    if v_bucket.strikes > 0 then
        v_room := least(v_room, 1 - v_held);
    end if;
    if v_bucket.blocked_until > v_now then
        v_room := 0;
        v_wait := greatest(v_wait, extract(epoch from v_bucket.blocked_until - v_now));
    end if;
    if v_ahead < v_room then
        v_bucket.tokens := v_bucket.tokens - case when p_per_second is null then 0 else 1 end;
        v_bucket.served := greatest(v_bucket.served, v_own.turn);
    end if;
    update perdure.limit_buckets set per_second = p_per_second, burst = p_burst, max_concurrent = p_max,
           tokens = v_bucket.tokens, filled_at = greatest(filled_at, v_now), served = v_bucket.served
     where tenant_id = p_tenant and name = p_name;
    update perdure.limit_leases set expires_at = v_end, state = case when v_ahead < v_room then 'held' else state end,
           held_at = case when v_ahead < v_room then v_now else held_at end
     where tenant_id = p_tenant and name = p_name and permit = p_permit;
    if v_ahead < v_room then
        return json_build_object('kind', 'held', 'probe', v_bucket.strikes > 0);
    end if;
    return json_build_object('kind', 'waiting', 'ahead', v_ahead, 'wait_s', v_wait);
end $$;

-- Keeps a permit that is held; one that has expired meanwhile is held again, for what it allowed is going on.
create function perdure.renew_permit_v1(p_tenant text, p_name text, p_permit text, p_asker text, p_session text,
    p_run text, p_holder text, p_lease_s double precision) returns json
language plpgsql as $$
begin
    insert into perdure.limit_leases (tenant_id, name, permit, asker, session_id, run_id, holder, state, turn, asked_at,
                                      held_at, expires_at)
    values (p_tenant, p_name, p_permit, p_asker, p_session, p_run, p_holder, 'held', 0, clock_timestamp(),
            clock_timestamp(), clock_timestamp() + make_interval(secs => p_lease_s))
    on conflict (tenant_id, name, permit) do update set expires_at = excluded.expires_at;
    return json_build_object('kind', 'held');
end $$;

-- The provider has answered: what it refused before is forgotten, unless it was refused just now.
create function perdure.unblock_bucket_v1(p_tenant text, p_name text) returns json
language plpgsql as $$
begin
    update perdure.limit_buckets set strikes = 0, blocked_until = null
     where tenant_id = p_tenant and name = p_name and strikes > 0
       and (blocked_until is null or blocked_until <= clock_timestamp());
    return json_build_object('kind', 'unblocked');
end $$;

-- Gives a permit, or a place in the queue, back. p_answered: the provider did what was asked.
create function perdure.release_permit_v1(p_tenant text, p_name text, p_permit text, p_answered boolean) returns json
language plpgsql as $$
begin
    delete from perdure.limit_leases where tenant_id = p_tenant and name = p_name and permit = p_permit;
    if p_answered then
        perform perdure.unblock_bucket_v1(p_tenant, p_name);
    end if;
    return json_build_object('kind', 'released');
end $$;

-- The provider has said that it is too much: nobody asks it until then, and there is no token left from before. Where it did
-- not say for how long, the wait doubles with each time in a row, with jitter; those that are told at the same time count once.
create function perdure.block_bucket_v1(p_tenant text, p_name text, p_for_s double precision, p_first_s double precision,
                                        p_longest_s double precision) returns json
language plpgsql as $$
declare
    v_bucket perdure.limit_buckets;
    v_now    timestamptz;
    v_for    double precision := p_for_s;
begin
    select * into v_bucket from perdure.limit_buckets where tenant_id = p_tenant and name = p_name for update;
    if not found then
        return json_build_object('kind', 'unknown');
    end if;
    v_now := clock_timestamp();
    if v_bucket.blocked_until is null or v_bucket.blocked_until <= v_now then
        v_bucket.strikes := v_bucket.strikes + 1;
        v_for := coalesce(v_for, least(p_longest_s, p_first_s * power(2, least(v_bucket.strikes - 1, 60)))
                                 * (0.5 + random()));
    end if;
    v_bucket.blocked_until := greatest(v_bucket.blocked_until, v_now + make_interval(secs => coalesce(v_for, 0)));
    update perdure.limit_buckets set strikes = v_bucket.strikes, blocked_until = v_bucket.blocked_until,
           tokens = least(tokens, 0), filled_at = v_bucket.blocked_until
     where tenant_id = p_tenant and name = p_name;
    return json_build_object('kind', 'blocked', 'strikes', v_bucket.strikes,
        'for_s', extract(epoch from v_bucket.blocked_until - v_now));
end $$;

-- Seconds that a run has taken, without those in which it was parked. What was parked by an execution that was lost counts as
-- parked up to where another took the run up.
create function perdure.run_seconds_v1(p_tenant text, p_session text, p_run text) returns double precision
language sql stable as $$
    with marks as (
        select at, seq, case type when 'run.parked' then 1 when 'run.resumed' then -1 else 0 end as change,
               count(*) filter (where type = 'run.adopted') over (order by seq) as era
          from perdure.events
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run
           and type in ('run.parked', 'run.resumed', 'run.adopted')),
    spans as (
        select at, lead(at) over (order by seq) as until, sum(change) over (partition by era order by seq) as open
          from marks)
    select extract(epoch from coalesce(r.ended_at, clock_timestamp()) - r.started_at)
           - coalesce((select sum(extract(epoch from coalesce(s.until, r.ended_at, clock_timestamp()) - s.at))
                         from spans as s where s.open > 0), 0)
      from perdure.runs as r where r.tenant_id = p_tenant and r.session_id = p_session and r.id = p_run
$$;

-- A session's limits, and what its runs that have ended have used of each; seconds only if there is a limit on them.
create function perdure.session_used_v1(p_tenant text, p_session text) returns json
language sql stable as $$
    select json_build_object('limits', s.limits, 'steps', s.steps, 'usage_by_agent', s.usage_by_agent, 'seconds',
        case when s.limits -> 'max_duration' is null then 0 else (
            select coalesce(sum(perdure.run_seconds_v1(p_tenant, p_session, r.id)), 0) from perdure.runs as r
             where r.tenant_id = p_tenant and r.session_id = p_session and r.ended_at is not null) end)
      from perdure.sessions as s where s.tenant_id = p_tenant and s.id = p_session
$$;

-- As begin_run_v3, or begin_child_run_v2; its answer says whether the session has limits.
create function perdure.begin_run_v4(p_tenant text, p_session text, p_agent text, p_execution text, p_spec json,
                                     p_now timestamptz, p_child boolean) returns json
language plpgsql as $$
declare
    v_answer json;
begin
    if p_child then
        v_answer := perdure.begin_child_run_v2(p_tenant, p_session, p_agent, p_execution, p_spec, p_now);
    else
        v_answer := perdure.begin_run_v3(p_tenant, p_session, p_agent, p_execution, p_spec, p_now);
    end if;
    if v_answer ->> 'kind' not in ('new', 'adopted') then
        return v_answer;
    end if;
    perform 1 from perdure.sessions where tenant_id = p_tenant and id = p_session and limits is not null;
    if not found then
        return v_answer;
    end if;
    return (select json_object_agg(e.key, e.value) from (
            select key, value from json_each(v_answer)
            union all
            select 'limited', to_json(true)) as e);
end $$;
