-- Prepaid balances: accounts, the tokens that pay from them, what is held for work that is going on, and every movement.
-- Sessions are named, not referred to: what was paid stays when a session is deleted.

-- One balance. held is the sum of its open holds: what can be spent is balance - held. Both change only together with a row
-- of payment_entries or payment_holds, under this row's lock. Amounts are decimal and exact.
create table perdure.payment_accounts (
    tenant_id  text not null,
    id         text not null,
    name       text not null,
    currency   text not null,
    balance    numeric not null default 0 check (balance >= 0),
    held       numeric not null default 0 check (held >= 0),
    entries    bigint not null default 0,
    created_at timestamptz not null,
    expires_at timestamptz,
    closed_at  timestamptz,
    primary key (tenant_id, id)
);

-- What its bearer pays with: only its hash is stored.
create table perdure.payment_tokens (
    tenant_id  text not null,
    sha256     text not null,
    account    text not null,
    made_at    timestamptz not null,
    expires_at timestamptz,
    revoked_at timestamptz,
    primary key (tenant_id, sha256)
);
create index payment_tokens_by_account on perdure.payment_tokens (tenant_id, account);

-- What is kept of a balance for work that is going on. state is held or ended; charged is what it cost in the end, and
-- short what of it the balance did not cover.
create table perdure.payment_holds (
    tenant_id  text not null,
    id         text not null,
    account    text not null,
    amount     numeric not null check (amount >= 0),
    state      text not null,
    charged    numeric,
    short      numeric,
    for_session text not null,
    for_run    text not null,
    made_at    timestamptz not null,
    ended_at   timestamptz,
    primary key (tenant_id, id)
);
create index payment_holds_open on perdure.payment_holds (made_at) where state = 'held';

-- Every movement of a balance, in order; the same reference moves it once.
create table perdure.payment_entries (
    tenant_id  text not null,
    account    text not null,
    ordinal    bigint not null,
    kind       text not null,
    ref        text not null,
    amount     numeric not null,
    balance    numeric not null,
    for_session text,
    for_run    text,
    at         timestamptz not null,
    primary key (tenant_id, account, ordinal),
    unique (tenant_id, account, kind, ref)
);

-- How an account stands, as the functions below answer it. Numbers are text: JSON's are not exact.
create function perdure.payment_standing_v1(p_account perdure.payment_accounts, p_kind text) returns json
language sql stable as $$
    select json_build_object('kind', p_kind, 'account', p_account.id, 'currency', p_account.currency,
        'balance', p_account.balance::text, 'held', p_account.held::text, 'expires_at', p_account.expires_at)
$$;

-- Moves a balance by an amount that is not negative: a top-up adds, a charge takes. Who calls it holds the account's lock.
create function perdure.payment_move_v1(p_account perdure.payment_accounts, p_kind text, p_ref text, p_amount numeric,
    p_session text, p_run text) returns perdure.payment_accounts
language plpgsql as $$
begin
    update perdure.payment_accounts
       set balance = balance + case p_kind when 'charge' then -p_amount else p_amount end, entries = entries + 1
     where tenant_id = p_account.tenant_id and id = p_account.id returning * into p_account;
    insert into perdure.payment_entries (tenant_id, account, ordinal, kind, ref, amount, balance, for_session, for_run, at)
    values (p_account.tenant_id, p_account.id, p_account.entries, p_kind, p_ref, p_amount, p_account.balance, p_session,
        p_run, clock_timestamp());
    return p_account;
end $$;

-- Adds to a balance, once for a reference. The same reference with another amount is a conflict.
create function perdure.top_up_v1(p_tenant text, p_account text, p_ref text, p_amount numeric) returns json
language plpgsql as $$
declare
    v_account perdure.payment_accounts;
    v_known   numeric;
begin
    select * into v_account from perdure.payment_accounts where tenant_id = p_tenant and id = p_account for update;
    if v_account.id is null then
        return json_build_object('kind', 'unknown');
    end if;
    select amount into v_known from perdure.payment_entries
     where tenant_id = p_tenant and account = p_account and kind = 'top_up' and ref = p_ref;
    if v_known is not null then
        return perdure.payment_standing_v1(v_account, case when v_known = p_amount then 'repeated' else 'conflict' end);
    end if;
    if v_account.closed_at is not null then
        return perdure.payment_standing_v1(v_account, 'closed');
    end if;
    v_account := perdure.payment_move_v1(v_account, 'top_up', p_ref, p_amount, null, null);
    return perdure.payment_standing_v1(v_account, 'done');
end $$;

-- Keeps an amount of the balance behind a token, once for a hold's id. Without enough it keeps nothing.
create function perdure.hold_v1(p_tenant text, p_token_sha256 text, p_hold text, p_amount numeric, p_session text,
    p_run text) returns json
language plpgsql as $$
declare
    v_token   perdure.payment_tokens;
    v_account perdure.payment_accounts;
    v_hold    perdure.payment_holds;
    v_now     timestamptz;
begin
    select * into v_token from perdure.payment_tokens where tenant_id = p_tenant and sha256 = p_token_sha256;
    if v_token.sha256 is null then
        return json_build_object('kind', 'unknown');
    end if;
    select * into v_account from perdure.payment_accounts
     where tenant_id = p_tenant and id = v_token.account for update;
    v_now := clock_timestamp();
    select * into v_hold from perdure.payment_holds where tenant_id = p_tenant and id = p_hold;
    if v_hold.id is not null then
        if v_hold.account <> v_account.id or v_hold.for_run <> p_run then
            return json_build_object('kind', 'conflict');
        end if;
        return perdure.payment_standing_v1(v_account, v_hold.state);
    end if;
    if v_token.revoked_at is not null or v_account.closed_at is not null then
        return perdure.payment_standing_v1(v_account, 'revoked');
    end if;
    if v_token.expires_at <= v_now or v_account.expires_at <= v_now then
        return perdure.payment_standing_v1(v_account, 'expired');
    end if;
    if v_account.balance - v_account.held < p_amount or v_account.balance - v_account.held <= 0 then
        return perdure.payment_standing_v1(v_account, 'short');
    end if;
    insert into perdure.payment_holds (tenant_id, id, account, amount, state, for_session, for_run, made_at)
    values (p_tenant, p_hold, v_account.id, p_amount, 'held', p_session, p_run, v_now);
    update perdure.payment_accounts set held = held + p_amount
     where tenant_id = p_tenant and id = v_account.id returning * into v_account;
    return perdure.payment_standing_v1(v_account, 'held');
end $$;

-- Ends a hold and takes what the work cost, as far as the balance reaches that nobody else holds; once.
create function perdure.settle_v1(p_tenant text, p_hold text, p_cost numeric) returns json
language plpgsql as $$
declare
    v_account perdure.payment_accounts;
    v_hold    perdure.payment_holds;
    v_charged numeric;
begin
    select * into v_hold from perdure.payment_holds where tenant_id = p_tenant and id = p_hold;
    if v_hold.id is null then
        return json_build_object('kind', 'unknown');
    end if;
    select * into v_account from perdure.payment_accounts where tenant_id = p_tenant and id = v_hold.account for update;
    select * into v_hold from perdure.payment_holds where tenant_id = p_tenant and id = p_hold;
    if v_hold.state = 'held' then
        v_charged := least(p_cost, v_account.balance - v_account.held + v_hold.amount);
        update perdure.payment_accounts set held = held - v_hold.amount
         where tenant_id = p_tenant and id = v_account.id returning * into v_account;
        if v_charged > 0 then
            v_account := perdure.payment_move_v1(v_account, 'charge', p_hold, v_charged, v_hold.for_session, v_hold.for_run);
        end if;
        update perdure.payment_holds
           set state = 'ended', charged = v_charged, short = p_cost - v_charged, ended_at = clock_timestamp()
         where tenant_id = p_tenant and id = p_hold returning * into v_hold;
    end if;
    return (perdure.payment_standing_v1(v_account, v_hold.state)::jsonb
        || jsonb_build_object('charged', v_hold.charged::text, 'short', v_hold.short::text))::json;
end $$;
