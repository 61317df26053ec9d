-- Payments of runs: what each run has been paid for so far, and settling all of its holds at once. Sessions are named, not
-- referred to, as in 0007.

-- One paid run. held is the sum of its holds, spent what it had cost when it last asked for one, without what the run it goes
-- on from had; both in its agent's currency.
create table perdure.run_payments (
    tenant_id   text not null,
    run_id      text not null,
    for_session text not null,
    gate        text not null,
    currency    text not null,
    holds       integer not null default 0,
    held        numeric not null default 0,
    spent       numeric not null default 0,
    charged     numeric,
    short       numeric,
    made_at     timestamptz not null,
    settled_at  timestamptz,
    primary key (tenant_id, run_id)
);
create index run_payments_open on perdure.run_payments (made_at) where settled_at is null;
create index payment_holds_by_run on perdure.payment_holds (tenant_id, for_run);

-- How the account behind a token stands: done if it can be paid with, else revoked, expired or unknown.
create function perdure.payment_token_v1(p_tenant text, p_token_sha256 text) returns json
language plpgsql as $$
declare
    v_token   perdure.payment_tokens;
    v_account perdure.payment_accounts;
    v_now     timestamptz := clock_timestamp();
begin
    select * into v_token from perdure.payment_tokens where tenant_id = p_tenant and sha256 = p_token_sha256;
    if v_token.sha256 is null then
        return json_build_object('kind', 'unknown');
    end if;
    select * into v_account from perdure.payment_accounts where tenant_id = p_tenant and id = v_token.account;
    return perdure.payment_standing_v1(v_account, case
        when v_token.revoked_at is not null or v_account.closed_at is not null then 'revoked'
        when v_token.expires_at <= v_now or v_account.expires_at <= v_now then 'expired' else 'done' end);
end $$;

-- As hold_v1, of an account in this currency only.
create function perdure.hold_v2(p_tenant text, p_token_sha256 text, p_hold text, p_amount numeric, p_currency text,
    p_session text, p_run text) returns json
language plpgsql as $$
declare
    v_account perdure.payment_accounts;
begin
    select a.* into v_account from perdure.payment_tokens t
      join perdure.payment_accounts a on a.tenant_id = t.tenant_id and a.id = t.account
     where t.tenant_id = p_tenant and t.sha256 = p_token_sha256;
    if v_account.currency <> p_currency then
        return perdure.payment_standing_v1(v_account, 'currency');
    end if;
    return perdure.hold_v1(p_tenant, p_token_sha256, p_hold, p_amount, p_session, p_run);
end $$;

-- Ends all holds of a run and takes what it cost: of each what was held, in the order in which they were made, and of the
-- last what is left, as far as the balances reach that nobody else holds. What was taken before counts, so it happens once.
create function perdure.settle_run_v1(p_tenant text, p_run text, p_cost numeric) returns json
language plpgsql as $$
declare
    v_account perdure.payment_accounts;
    v_hold    perdure.payment_holds;
    v_left    numeric;
    v_open    integer;
    v_charged numeric;
    v_short   numeric;
begin
    perform 1 from perdure.payment_accounts a
     where a.tenant_id = p_tenant
       and a.id in (select h.account from perdure.payment_holds h where h.tenant_id = p_tenant and h.for_run = p_run)
     order by a.id for update;
    if not found then
        return json_build_object('kind', 'unknown');
    end if;
    select greatest(p_cost - coalesce(sum(charged), 0) - coalesce(sum(short), 0), 0), count(*) filter (where state = 'held')
      into v_left, v_open from perdure.payment_holds where tenant_id = p_tenant and for_run = p_run;
    for v_hold in select * from perdure.payment_holds
        where tenant_id = p_tenant and for_run = p_run and state = 'held' order by made_at, id loop
        v_open := v_open - 1;
        select * into v_account from perdure.payment_accounts where tenant_id = p_tenant and id = v_hold.account;
        v_charged := least(v_left, v_account.balance - v_account.held + v_hold.amount);
        if v_open > 0 then
            v_charged := least(v_charged, v_hold.amount);
        end if;
        update perdure.payment_accounts set held = held - v_hold.amount
         where tenant_id = p_tenant and id = v_account.id returning * into v_account;
        if v_charged > 0 then
            v_account := perdure.payment_move_v1(v_account, 'charge', v_hold.id, v_charged, v_hold.for_session, p_run);
        end if;
        v_left := v_left - v_charged;
        update perdure.payment_holds
           set state = 'ended', charged = v_charged, short = case when v_open = 0 then v_left else 0 end,
               ended_at = clock_timestamp()
         where tenant_id = p_tenant and id = v_hold.id;
    end loop;
    select sum(charged), sum(short) into v_charged, v_short
      from perdure.payment_holds where tenant_id = p_tenant and for_run = p_run;
    select a.* into v_account from perdure.payment_accounts a
      join perdure.payment_holds h on h.tenant_id = a.tenant_id and h.account = a.id
     where h.tenant_id = p_tenant and h.for_run = p_run order by h.made_at desc, h.id desc limit 1;
    return (perdure.payment_standing_v1(v_account, 'ended')::jsonb
        || jsonb_build_object('charged', v_charged::text, 'short', v_short::text))::json;
end $$;

-- What is known of a run's payments before it goes on: "open" (it waits for one), "expired" (it waited too long), or "ask" with
-- what it is to be paid with: the answer of its last wait, if it had one. Whoever asks is the run's one writer.
create function perdure.claim_payment_v1(p_tenant text, p_session text, p_run text, p_gate text, p_currency text,
    p_spent numeric) returns json
language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_run   perdure.run_payments;
    v_last  perdure.waits;
    v_given perdure.waits;
    v_waits integer;
    v_base  json := perdure.counted_before_v1(p_tenant, p_session, p_run);
    v_spent numeric;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    select greatest(p_spent - coalesce((v_base #>> '{usage,cost}')::numeric, 0)
                    - coalesce(sum((e.value ->> 'cost')::numeric), 0), 0)
      into v_spent from json_each(coalesce(v_base -> 'usage_by_agent', '{}'::json)) as e;
    insert into perdure.run_payments as p (tenant_id, run_id, for_session, gate, currency, spent, made_at)
    values (p_tenant, p_run, p_session, p_gate, p_currency, v_spent, clock_timestamp())
    on conflict (tenant_id, run_id) do update set spent = greatest(p.spent, excluded.spent)
    returning * into v_run;
    select * into v_last from perdure.waits
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run and kind = 'payment'
     order by index desc limit 1;
    v_waits := coalesce(v_last.index + 1, 0);
    if v_last.id is not null and v_last.answered_at is null and v_last.expires_at <= clock_timestamp() then
        update perdure.waits set answered_at = clock_timestamp(), answer = '{"decision":"expired"}', used = true,
               delivered = true
         where tenant_id = p_tenant and id = v_last.id returning * into v_last;
        perform perdure.emit_v1(p_tenant, p_session, p_run, json_build_array(json_build_object('s', 'run',
            't', 'wait.answered', 'd', json_build_object('wait', v_last.id, 'kind', 'payment', 'decision', 'expired'))));
    end if;
    if v_last.answer ->> 'decision' = 'expired' then
        return json_build_object('kind', 'expired', 'wait', v_last.id);
    end if;
    if v_last.id is not null and v_last.answered_at is null then
        return json_build_object('kind', 'open', 'wait', v_last.id, 'place', v_last.index, 'asked', v_last.asked,
            'seconds', greatest(extract(epoch from v_last.expires_at - clock_timestamp()), 0));
    end if;
    select * into v_given from perdure.waits
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run and kind = 'payment'
       and answered_by is not null order by index desc limit 1;
    update perdure.waits set delivered = true where tenant_id = p_tenant and id = v_given.id and not delivered;
    return json_build_object('kind', 'ask', 'holds', v_run.holds, 'held', v_run.held::text, 'waits', v_waits,
        'answer', v_given.answer, 'fresh', v_given.id is not null and not v_given.used, 'spent', v_spent::text);
end $$;

-- Has a run wait for its payment, unless it does. What it was paid with before is of no use any more.
create function perdure.open_payment_v1(p_tenant text, p_session text, p_run text, p_wait text, p_place integer,
    p_asked json, p_expires timestamptz, p_events json) returns json
language plpgsql as $$
declare
    v_head perdure.session_heads;
    v_wait perdure.waits;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    update perdure.waits set used = true, delivered = true
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run and kind = 'payment'
       and answered_at is not null and not used;
    insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at, expires_at)
    values (p_tenant, p_wait, p_session, p_run, 'payment', p_run, p_place, p_asked, clock_timestamp(), p_expires)
    on conflict do nothing returning * into v_wait;
    if v_wait.id is not null then
        perform perdure.emit_v1(p_tenant, p_session, p_run, p_events);
    else
        select * into v_wait from perdure.waits where tenant_id = p_tenant and id = p_wait;
    end if;
    return json_build_object('kind', 'open', 'asked', v_wait.asked,
        'seconds', greatest(extract(epoch from v_wait.expires_at - clock_timestamp()), 0));
end $$;

-- Notes that the gate has kept an amount, once for each hold. One that came after the run's end is settled again.
create function perdure.note_payment_v1(p_tenant text, p_session text, p_run text, p_holds integer, p_amount numeric,
    p_events json) returns json
language plpgsql as $$
declare
    v_head perdure.session_heads;
    v_run  perdure.run_payments;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if v_head.session_id is null or v_head.deleting or v_head.active_run is distinct from p_run then
        update perdure.run_payments set settled_at = null where tenant_id = p_tenant and run_id = p_run;
        return json_build_object('kind', case when v_head.session_id is null or v_head.deleting then 'gone' else 'late' end);
    end if;
    update perdure.run_payments set holds = p_holds, held = held + p_amount
     where tenant_id = p_tenant and run_id = p_run and holds = p_holds - 1 returning * into v_run;
    if found then
        update perdure.waits set used = true, delivered = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run and kind = 'payment' and not used;
        perform perdure.emit_v1(p_tenant, p_session, p_run, p_events);
    else
        select * into v_run from perdure.run_payments where tenant_id = p_tenant and run_id = p_run;
    end if;
    return json_build_object('kind', 'held', 'held', v_run.held::text);
end $$;

-- Notes that a run's payments are settled, once; the session's log is told, if there is one still.
create function perdure.end_payment_v1(p_tenant text, p_session text, p_run text, p_charged numeric, p_short numeric,
    p_events json) returns json
language plpgsql as $$
declare
    v_head perdure.session_heads;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    update perdure.run_payments set settled_at = clock_timestamp(), charged = p_charged, short = p_short
     where tenant_id = p_tenant and run_id = p_run and settled_at is null;
    if not found then
        return json_build_object('kind', 'repeated');
    end if;
    if v_head.session_id is not null and not v_head.deleting then
        perform perdure.emit_v1(p_tenant, p_session, p_run, p_events);
    end if;
    return json_build_object('kind', 'done');
end $$;
