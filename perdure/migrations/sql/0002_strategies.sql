-- Messages of a strategy's own (prompts, reasoning, plans) stand in their run's rows, so that its state can be restored,
-- and leave the thread when the run ends.

alter table perdure.messages add column scaffold boolean not null default false;

-- As save_answer_v1. With p_scaffold the answer is the strategy's own; with p_prompt ({id, sha256}, its body beside it) the
-- prompt that it answers stands at the position before it.
create function perdure.save_answer_v2(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
    p_node text, p_position integer, p_step integer, p_sha text, p_body bytea, p_usage json, p_stop text,
    p_results text, p_calls json, p_events json, p_pending json, p_scaffold boolean, p_prompt json,
    p_prompt_body bytea) returns json
language plpgsql as $$
declare
    v_answer json := perdure.save_answer_v1(p_tenant, p_session, p_run, p_execution, p_message, p_node, p_position,
        p_step, p_sha, p_body, p_usage, p_stop, p_results, p_calls, p_events, p_pending);
begin
    if v_answer ->> 'kind' = 'won' then
        update perdure.messages set scaffold = true
         where p_scaffold and tenant_id = p_tenant and session_id = p_session and id = p_message;
        if p_prompt is not null then
            insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body,
                                          sha256, scaffold)
            values (p_tenant, p_session, p_prompt ->> 'id', p_node, p_position - 1, p_run, p_step, 'user',
                    perdure.keep_v1(p_tenant, p_session, p_prompt ->> 'sha256', p_prompt_body),
                    p_prompt ->> 'sha256', true);
        end if;
    end if;
    return v_answer;
end $$;

-- As end_run_v1; the strategy's own messages leave the thread, whatever the run came to.
create function perdure.end_run_v2(p_tenant text, p_session text, p_run text, p_execution text, p_status text,
    p_error json, p_usage json, p_cycles integer, p_step integer, p_now timestamptz, p_at text, p_settle_sha text,
    p_settle bytea, p_partial json, p_partial_body bytea, p_event json, p_pending json) returns json
language plpgsql as $$
declare
    v_answer json := perdure.end_run_v1(p_tenant, p_session, p_run, p_execution, p_status, p_error, p_usage, p_cycles,
        p_step, p_now, p_at, p_settle_sha, p_settle, p_partial, p_partial_body, p_event, p_pending);
begin
    if v_answer ->> 'kind' = 'won' and p_status <> 'failed' then
        update perdure.messages set discarded = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run and scaffold;
        if found then
            update perdure.session_heads set discards = discards + 1
             where tenant_id = p_tenant and session_id = p_session;
        end if;
    end if;
    return v_answer;
end $$;

-- Makes a turn that a hook returned the run's: tool calls that are still open are settled; of the run's messages those in
-- p_keep stay in the thread, and the turn's own ({id, step, type, sha256}, their bodies beside them) come after all others.
-- Returns the position after the last. Safe to repeat.
create function perdure.keep_turn_v1(p_tenant text, p_session text, p_run text, p_node text, p_at text,
    p_settle_sha text, p_settle bytea, p_keep json, p_rows json, p_bodies bytea[]) returns json
language plpgsql as $$
declare
    v_head perdure.session_heads;
    v_open record;
    v_end  integer;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    for v_open in select distinct message_id from perdure.tool_calls
        where tenant_id = p_tenant and session_id = p_session and run_id = p_run and state <> 'done' loop
        insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
        values (p_tenant, p_session, p_settle_sha, p_settle) on conflict do nothing;
        update perdure.tool_calls set state = 'done', is_error = true, result_sha256 = p_settle_sha,
               result_bytes = length(p_settle)
         where tenant_id = p_tenant and session_id = p_session and message_id = v_open.message_id
           and state <> 'done';
        perform perdure.close_batch_v1(p_tenant, p_session, v_open.message_id, p_at, true);
    end loop;
    update perdure.messages set discarded = true
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run and not scaffold and not discarded
       and id not in (select k.v from json_array_elements_text(p_keep) as k(v))
       and id not in (select r.v ->> 'id' from json_array_elements(p_rows) as r(v));
    if found then
        update perdure.session_heads set discards = discards + 1
         where tenant_id = p_tenant and session_id = p_session;
    end if;
    select max(position) + 1 into v_end from perdure.messages
     where tenant_id = p_tenant and session_id = p_session and node_id = p_node;
    insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
    select p_tenant, p_session, r.v ->> 'id', p_node, v_end + r.n - 1, p_run, (r.v ->> 'step')::integer,
           r.v ->> 'type', perdure.keep_v1(p_tenant, p_session, r.v ->> 'sha256', p_bodies[r.n]), r.v ->> 'sha256'
      from json_array_elements(p_rows) with ordinality as r(v, n)
    on conflict (tenant_id, session_id, id) do nothing;
    select max(position) + 1 into v_end from perdure.messages
     where tenant_id = p_tenant and session_id = p_session and node_id = p_node;
    return json_build_object('kind', 'won', 'end', v_end);
end $$;
