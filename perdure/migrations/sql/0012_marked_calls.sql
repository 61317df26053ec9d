-- Tool calls that are made with their answer are marked by the transaction that stores it; events are joined faster.

-- As before, without taking the arrays apart.
create or replace function perdure.join_v1(p_left json, p_right json) returns json
language sql immutable as $$
    select case
        when p_left is null or json_array_length(p_left) = 0 then coalesce(p_right, '[]'::json)
        when p_right is null or json_array_length(p_right) = 0 then p_left
        else (left(rtrim(p_left::text, E' \n\r\t'), -1) || ',' || substr(ltrim(p_right::text, E' \n\r\t'), 2))::json
    end
$$;

-- As before. A call with "mark", the number of the attempt that is about to make it, is opened as running: it may have had its
-- effect from then on. In a session that is paused none is, and the answer says so: nothing is to be called then.
create or replace function perdure.save_answer_v1(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
    p_node text, p_position integer, p_step integer, p_sha text, p_body bytea, p_usage json, p_stop text,
    p_results text, p_calls json, p_events json, p_pending json) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_won    boolean;
    v_events json;
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
    insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256,
                                  usage, stop)
    values (p_tenant, p_session, p_message, p_node, p_position, p_run, p_step, 'assistant',
            perdure.keep_v1(p_tenant, p_session, p_sha, p_body), p_sha, p_usage, p_stop)
    on conflict (tenant_id, session_id, id) do nothing;
    v_won := found;
    if v_won then
        insert into perdure.tool_calls (tenant_id, session_id, message_id, index, run_id, step, call_id, tool,
                                        args_sha256, effect, state, attempt, results_id)
        select p_tenant, p_session, p_message, e.n - 1, p_run, p_step, e.v -> 'call_id', e.v -> 'tool',
               e.v ->> 'args_sha256', e.v ->> 'effect', case when m.mark is null then 'pending' else 'running' end,
               coalesce(m.mark, 0), p_results
          from json_array_elements(p_calls) with ordinality as e(v, n)
         cross join lateral (
               select case when not v_head.paused then (e.v ->> 'mark')::integer end as mark) as m;
        v_events := perdure.join_v1(v_events, p_events);
    end if;
    perform perdure.emit_v1(p_tenant, p_session, p_run, v_events);
    return json_build_object('kind', case when v_won then 'won' else 'stored' end, 'paused', v_head.paused);
end $$;
