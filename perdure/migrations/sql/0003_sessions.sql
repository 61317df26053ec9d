-- Functions of revision 0003: sessions.

-- As begin_run_v1, but an input that is no message is not taken: {"kind": "control", "ordinal": n} asks for it to be
-- applied first, which is done elsewhere, in one transaction of its own.
create function perdure.begin_run_v2(p_tenant text, p_session text, p_agent text, p_execution text, p_spec json,
                                     p_now timestamptz) returns json
language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_input perdure.inputs;
    v_agent text;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if found and not v_head.deleting and v_head.active_run is null and not v_head.paused then
        select * into v_input from perdure.inputs
         where tenant_id = p_tenant and session_id = p_session and state = 'queued'
           and (not_before is null or not_before <= p_now)
         order by ordinal limit 1;
        if found and v_input.kind <> 'message' then
            select agent into v_agent from perdure.sessions where tenant_id = p_tenant and id = p_session;
            if v_agent <> p_agent then
                return json_build_object('kind', 'agent', 'agent', v_agent);
            end if;
            return json_build_object('kind', 'control', 'ordinal', v_input.ordinal, 'paused', false);
        end if;
    end if;
    return perdure.begin_run_v1(p_tenant, p_session, p_agent, p_execution, p_spec, p_now);
end $$;
