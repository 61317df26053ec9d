-- Functions of revision 0003: strategies of the user's own.

-- Makes the turn that such a strategy returned its run's. As keep_turn_v1, but that each new row ({id, position, step, type,
-- sha256}) has its place, and that pending records are written. Safe to repeat.
create function perdure.keep_own_turn_v1(p_tenant text, p_session text, p_run text, p_execution text, p_node text, p_at text,
    p_settle_sha text, p_settle bytea, p_keep json, p_rows json, p_bodies bytea[], p_pending json) returns json
language plpgsql as $$
declare
    v_answer json;
    v_end    integer;
begin
    v_answer := perdure.keep_turn_v1(p_tenant, p_session, p_run, p_node, p_at, p_settle_sha, p_settle,
        perdure.join_v1(p_keep, (select json_agg(r.v -> 'id') from json_array_elements(p_rows) as r(v))), '[]', '{}');
    if v_answer ->> 'kind' <> 'won' then
        return v_answer;
    end if;
    insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
    select p_tenant, p_session, r.v ->> 'id', p_node, (r.v ->> 'position')::integer, p_run, (r.v ->> 'step')::integer,
           r.v ->> 'type', perdure.keep_v1(p_tenant, p_session, r.v ->> 'sha256', p_bodies[r.n]), r.v ->> 'sha256'
      from json_array_elements(p_rows) with ordinality as r(v, n)
    on conflict (tenant_id, session_id, id) do nothing;
    perform perdure.emit_v1(p_tenant, p_session, p_run,
        perdure.apply_v1(p_tenant, p_session, p_run, p_execution, p_pending));
    select max(position) + 1 into v_end from perdure.messages
     where tenant_id = p_tenant and session_id = p_session and node_id = p_node;
    return json_build_object('kind', 'kept', 'end', v_end);
end $$;
