-- Of revision 0004: waits. Approvals are bound to a hash of the arguments and may expire; a call's row says who approved it,
-- and with which arguments it was run if not with the model's.

alter table perdure.waits add column args_sha256 text, add column call_sha256 text, add column expires_at timestamptz;
alter table perdure.tool_calls add column approved boolean, add column used_sha256 text;
drop index perdure.waits_open;
create index waits_open on perdure.waits (tenant_id, asked_at, id) where answered_at is null;

-- Opens a wait for a tool call from inside its activity, unless one is open, or answered and not yet handed out. Its event,
-- run.parked, is written by record_v1 when the run parks on it.
create function perdure.open_wait_v1(p_tenant text, p_session text, p_run text, p_id text, p_kind text, p_message text,
    p_index integer, p_asked json, p_call_sha text, p_args_sha text, p_args bytea, p_seconds double precision) returns json
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
    select * into v_wait from perdure.waits
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index and not used
     order by asked_at, id limit 1;
    if not found then
        if p_args is not null then
            insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
            values (p_tenant, p_session, p_args_sha, p_args) on conflict do nothing;
        end if;
        insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at,
                                   args_sha256, call_sha256, expires_at)
        select p_tenant, p_id || case when count(*) = 0 then '' else '-' || count(*) end, p_session, p_run, p_kind,
               p_message, p_index, p_asked, clock_timestamp(), p_args_sha, p_call_sha,
               clock_timestamp() + make_interval(secs => p_seconds)
          from perdure.waits
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
        returning * into v_wait;
    end if;
    return json_build_object('kind', 'open', 'wait', v_wait.kind,
        'seconds', case when v_wait.expires_at is not null
                        then greatest(extract(epoch from v_wait.expires_at - clock_timestamp()), 0) end);
end $$;

-- What is known of a tool call, as claim_call_v1 says. Besides: an answer comes with the kind of its wait and who gave it;
-- "stop" is handed out again and again; a wait that has expired answers itself; the call's last approval is named as long as
-- the model's arguments are those that it was asked for, and so is the wait that is still open.
create function perdure.claim_call_v2(p_tenant text, p_session text, p_run text, p_message text, p_index integer,
                                      p_claim boolean, p_attempt integer, p_args_sha text) returns json
language plpgsql as $$
declare
    v_head     perdure.session_heads;
    v_call     perdure.tool_calls;
    v_open     perdure.waits;
    v_given    perdure.waits;
    v_approval perdure.waits;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('state', 'gone');
    end if;
    select * into v_call from perdure.tool_calls
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
    if not found or v_head.active_run is distinct from p_run then
        return json_build_object('state', 'late');
    end if;
    if v_call.state <> 'done' then
        update perdure.waits set answered_at = clock_timestamp(), answer = '{"decision":"expired"}'
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
           and answered_at is null and expires_at <= clock_timestamp() returning * into v_given;
        if found then
            perform perdure.emit_v1(p_tenant, p_session, p_run, json_build_array(json_build_object('s', 'run',
                't', 'wait.answered', 'd', json_build_object('wait', v_given.id, 'kind', v_given.kind,
                                                             'decision', 'expired'))));
        end if;
        update perdure.waits set used = true, delivered = true
         where tenant_id = p_tenant and id = (
               select w.id from perdure.waits w
                where w.tenant_id = p_tenant and w.session_id = p_session and w.message_id = p_message
                  and w.index = p_index and w.answered_at is not null and not w.used
                order by w.asked_at, w.id limit 1)
        returning * into v_given;
        if not found then
            select * into v_given from perdure.waits
             where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
               and used and answer ->> 'outcome' = 'stop' limit 1;
        end if;
    end if;
    select * into v_approval from perdure.waits
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
       and kind = 'approval' and used and call_sha256 = p_args_sha order by asked_at desc, id desc limit 1;
    select * into v_open from perdure.waits
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index
       and answered_at is null order by asked_at, id limit 1;
    if p_claim and v_call.state = 'pending' then
        update perdure.tool_calls set state = 'running', attempt = p_attempt
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
    end if;
    return json_build_object('state', v_call.state, 'is_error', v_call.is_error, 'sha256', v_call.result_sha256,
        'size', v_call.result_bytes, 'duration_ms', v_call.duration_ms, 'attempt', v_call.attempt,
        'approved', v_call.approved, 'used_sha256', v_call.used_sha256,
        'answer', v_given.answer, 'wait', v_given.kind, 'by', v_given.answered_by,
        'approval', v_approval.answer, 'approval_sha', v_approval.args_sha256,
        'open', v_open.kind,
        'seconds', case when v_open.expires_at is not null
                        then greatest(extract(epoch from v_open.expires_at - clock_timestamp()), 0) end);
end $$;

-- As save_result_v1, of a call that a person or a predicate has approved or that was run with other arguments than the model's.
create function perdure.save_result_v2(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
    p_index integer, p_attempt integer, p_is_error boolean, p_sha text, p_body bytea, p_duration integer, p_at text,
    p_events json, p_pending json, p_approved boolean, p_used_sha text, p_used bytea) returns json
language plpgsql as $$
declare
    v_answer json := perdure.save_result_v1(p_tenant, p_session, p_run, p_execution, p_message, p_index, p_attempt,
        p_is_error, p_sha, p_body, p_duration, p_at, p_events, p_pending);
    v_call   perdure.tool_calls;
begin
    if v_answer ->> 'kind' = 'won' then
        if p_used is not null then
            insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
            values (p_tenant, p_session, p_used_sha, p_used) on conflict do nothing;
        end if;
        update perdure.tool_calls set approved = p_approved, used_sha256 = p_used_sha
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
    elsif v_answer ->> 'kind' = 'stored' then
        select * into v_call from perdure.tool_calls
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
        return (select json_object_agg(e.key, e.value) from (
                select key, value from json_each(v_answer)
                union all
                select 'approved', to_json(v_call.approved)
                union all
                select 'used_sha256', to_json(v_call.used_sha256)) as e);
    end if;
    return v_answer;
end $$;

-- Answers a wait, once. What was answered is in the session's log; the answer itself may be long and stays in the row.
create function perdure.answer_wait_v1(p_tenant text, p_wait text, p_answer json, p_by json, p_word text, p_args_sha text)
returns json language plpgsql as $$
declare
    v_head perdure.session_heads;
    v_wait perdure.waits;
    v_call perdure.tool_calls;
begin
    select h.* into v_head from perdure.session_heads h
      join perdure.waits w on w.tenant_id = h.tenant_id and w.session_id = h.session_id
     where w.tenant_id = p_tenant and w.id = p_wait for update of h;
    if not found then
        return json_build_object('kind', 'unknown');
    end if;
    select * into v_wait from perdure.waits where tenant_id = p_tenant and id = p_wait;
    if v_wait.answered_at is not null then
        return json_build_object('kind', case when v_wait.answered_by is not null then 'answered'
                                              else coalesce(v_wait.answer ->> 'decision', 'ended') end,
                                 'by', v_wait.answered_by, 'at', v_wait.answered_at);
    end if;
    if v_head.deleting or v_head.active_run is distinct from v_wait.run_id then
        return json_build_object('kind', 'ended');
    end if;
    if v_wait.expires_at <= clock_timestamp() then
        return json_build_object('kind', 'expired', 'at', v_wait.expires_at);
    end if;
    select * into v_call from perdure.tool_calls
     where tenant_id = p_tenant and session_id = v_wait.session_id and message_id = v_wait.message_id
       and index = v_wait.index;
    if v_call.state = 'done' or p_args_sha <> v_wait.args_sha256 or v_wait.call_sha256 <> v_call.args_sha256 then
        return json_build_object('kind', 'changed');
    end if;
    update perdure.waits set answer = p_answer, answered_by = p_by, answered_at = clock_timestamp()
     where tenant_id = p_tenant and id = p_wait;
    perform perdure.emit_v1(p_tenant, v_wait.session_id, v_wait.run_id, json_build_array(json_build_object('s', 'run',
        't', 'wait.answered', 'd', json_build_object('wait', v_wait.id, 'kind', v_wait.kind, 'decision', p_word,
                                                     'by', p_by))));
    return json_build_object('kind', 'won');
end $$;
