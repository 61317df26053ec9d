-- Sealed bodies, see perdure/store/keyring.py: \x0050524431, the length of the key's id in one byte, that id, a scope of 16
-- bytes, a nonce of 12, the ciphertext and a tag of 16. The database has no key: it only tells them from others.

-- The keys under which something may be sealed. Each has a proof: a fixed word, sealed. tenant_id is always *, for keys are
-- of the whole deployment.
create table perdure.encryption_keys (
    tenant_id text not null,
    id        text not null,
    proof     bytea not null,
    made_at   timestamptz not null,
    primary key (tenant_id, id)
);

create function perdure.is_sealed_v1(p_body bytea) returns boolean language sql immutable as $$
    select substring(p_body from 1 for 5) = '\x0050524431'::bytea
$$;

-- How long a body was before it was sealed.
create function perdure.plain_length_v1(p_body bytea) returns integer language sql immutable as $$
    select length(p_body) - case when perdure.is_sealed_v1(p_body) then 50 + get_byte(p_body, 5) else 0 end
$$;

-- As it was, but that the length of a result is what it was before it was sealed.
create or replace function perdure.save_result_v1(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
    p_index integer, p_attempt integer, p_is_error boolean, p_sha text, p_body bytea, p_duration integer, p_at text,
    p_events json, p_pending json) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_call   perdure.tool_calls;
    v_events json;
    v_batch  json;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        update perdure.session_heads set late_results = late_results + 1
         where tenant_id = p_tenant and session_id = p_session;
        return json_build_object('kind', 'late');
    end if;
    v_events := perdure.apply_v1(p_tenant, p_session, p_run, p_execution, p_pending);
    update perdure.tool_calls set state = 'done', attempt = p_attempt, is_error = p_is_error, result_sha256 = p_sha,
           result_bytes = perdure.plain_length_v1(p_body), duration_ms = p_duration
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
       and state <> 'done' returning * into v_call;
    if not found then
        perform perdure.emit_v1(p_tenant, p_session, p_run, v_events);
        select * into v_call from perdure.tool_calls
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
        if not found then
            return json_build_object('kind', 'late');
        end if;
        return json_build_object('kind', 'stored', 'is_error', v_call.is_error, 'sha256', v_call.result_sha256,
            'size', v_call.result_bytes, 'duration_ms', v_call.duration_ms, 'attempt', v_call.attempt);
    end if;
    insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
    values (p_tenant, p_session, p_sha, p_body) on conflict do nothing;
    v_events := perdure.join_v1(v_events, p_events);
    v_batch := perdure.close_batch_v1(p_tenant, p_session, p_message, p_at, false);
    if v_batch is not null then
        v_events := perdure.join_v1(v_events, json_build_array(json_build_object('s', 'uap', 't', 'observation',
            'p', v_batch -> 'step', 'd', json_build_object('message', v_batch ->> 'id',
                                                           'results', v_batch -> 'refs'))));
    end if;
    perform perdure.emit_v1(p_tenant, p_session, p_run, v_events);
    return json_build_object('kind', 'won', 'batch', v_batch ->> 'id', 'batch_sha', v_batch ->> 'sha256');
end $$;
