-- Lists of sessions by metadata: of each session the values of those keys by which the deployment lets lists be filtered.

-- The keys. tenant_id is always *, for they are of the whole deployment. A key is added, then filling while the sessions that
-- were there before it are gone through, as far as after_tenant and after_session say, then complete; or removed, until its
-- rows are deleted. Neither is begun before every transaction has ended that may not know of it: those below horizon.
create table perdure.filterable_keys (
    tenant_id     text not null,
    key           text not null,
    state         text not null,
    horizon       bigint,
    after_tenant  text not null,
    after_session text not null,
    primary key (tenant_id, key)
);

-- A value is its JSON text, in the one form that label_value_v1 gives it; the status is the session's, so that a list by both
-- walks one index. The indexes begin with the key, which is also what is removed for all tenants at once.
create table perdure.session_labels (
    tenant_id  text not null,
    session_id text not null,
    key        text not null,
    value      text not null,
    status     text not null,
    created_at timestamptz not null,
    primary key (tenant_id, session_id, key)
);
create index session_labels_by_value
    on perdure.session_labels (key, tenant_id, value, created_at desc, session_id desc);
create index session_labels_by_status
    on perdure.session_labels (key, tenant_id, value, status, created_at desc, session_id desc);

-- Sessions whose metadata was written sealed, and whose labels nobody has written since: a process that knows no labels did.
create table perdure.unlabelled_sessions (
    tenant_id  text not null,
    session_id text not null,
    primary key (tenant_id, session_id)
);

-- Equal for equal JSON: 1 is 1.0, and "1" and true are neither. Null for what no list is filtered by: null, arrays, objects. What
-- is too long for an index is told by its hash.
create function perdure.label_value_v1(p_value json) returns text language plpgsql immutable as $$
declare
    v_plain text := case json_typeof(p_value) when 'string' then p_value::jsonb::text
                                              when 'number' then trim_scale((p_value #>> '{}')::numeric)::text
                                              when 'boolean' then p_value #>> '{}' end;
begin
    return case when octet_length(v_plain) > 512 then '#' || encode(sha256(convert_to(v_plain, 'UTF8')), 'hex')
                else v_plain end;
end $$;

-- Has the labels of a session be what its metadata says, of which those keys are enough by which lists are filtered.
create function perdure.put_labels_v1(p_tenant text, p_session text, p_metadata json) returns void
language plpgsql as $$
begin
    delete from perdure.session_labels l
     where l.tenant_id = p_tenant and l.session_id = p_session
       and not exists (select 1 from perdure.filterable_keys k
                        where k.tenant_id = '*' and k.key = l.key and k.state <> 'removed'
                          and perdure.label_value_v1(p_metadata -> l.key) = l.value);
    insert into perdure.session_labels (tenant_id, session_id, key, value, status, created_at)
    select s.tenant_id, s.id, k.key, v.value, s.status, s.created_at
      from perdure.sessions s
      join perdure.filterable_keys k on k.tenant_id = '*' and k.state <> 'removed'
     cross join lateral (select perdure.label_value_v1(p_metadata -> k.key) as value offset 0) v
     where s.tenant_id = p_tenant and s.id = p_session and v.value is not null
        on conflict do nothing;
    delete from perdure.unlabelled_sessions where tenant_id = p_tenant and session_id = p_session;
end $$;

-- Whoever writes metadata writes labels. What is sealed the database cannot read: the session is noted until its process, or
-- else the sweep of any, has written them.
create function perdure.label_session_v1() returns trigger language plpgsql as $$
begin
    if not exists (select 1 from perdure.filterable_keys) then
        return null;
    end if;
    if starts_with(new.metadata::text, '{"\ufdd0sealed":') then
        insert into perdure.unlabelled_sessions (tenant_id, session_id) values (new.tenant_id, new.id)
            on conflict do nothing;
    else
        perform perdure.put_labels_v1(new.tenant_id, new.id, new.metadata);
    end if;
    return null;
end $$;

create function perdure.label_status_v1() returns trigger language plpgsql as $$
begin
    update perdure.session_labels set status = new.status where tenant_id = new.tenant_id and session_id = new.id;
    return null;
end $$;

-- They go with their session, also those that the sweep writes while it is deleted: it holds the session's row meanwhile.
create function perdure.unlabel_session_v1() returns trigger language plpgsql as $$
begin
    delete from perdure.session_labels where tenant_id = old.tenant_id and session_id = old.id;
    delete from perdure.unlabelled_sessions where tenant_id = old.tenant_id and session_id = old.id;
    return null;
end $$;

create trigger labels_of_new after insert on perdure.sessions
    for each row when (new.metadata::text <> '{}') execute function perdure.label_session_v1();
create trigger labels_of_changed after update of metadata on perdure.sessions
    for each row when (old.metadata::text <> new.metadata::text) execute function perdure.label_session_v1();
create trigger labels_of_status after update of status on perdure.sessions
    for each row when (old.status <> new.status) execute function perdure.label_status_v1();
create trigger labels_of_gone after delete on perdure.sessions
    for each row execute function perdure.unlabel_session_v1();
