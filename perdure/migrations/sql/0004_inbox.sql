-- Of revision 0004: inbox. What an input does to the run that was active when it came.

alter table perdure.inputs add column target_run text;
create index inputs_waiting on perdure.inputs (tenant_id, session_id, ordinal) where state = 'queued';

-- The input that a session takes next: one that interrupts or rolls back a run before all others, which keep their order.
create function perdure.next_input_v1(p_tenant text, p_session text, p_now timestamptz) returns setof perdure.inputs
language sql stable as $$
    select * from perdure.inputs
     where tenant_id = p_tenant and session_id = p_session and state = 'queued'
       and (not_before is null or not_before <= p_now)
     order by (target_run is not null and policy in ('interrupt', 'rollback')) desc, ordinal limit 1
$$;

-- As begin_run_v1, by the order of next_input_v1. An input that is no message is not taken: {"kind": "control",
-- "ordinal": n} asks for it to be applied first, in a transaction of its own. {"kind": "rollback", "ordinal": n} asks that the position before the
-- input's target be checked out first, which leaves a detail in the input's row. An adopted run with inputs that joined
-- it, or may, says "steered".
create function perdure.begin_run_v3(p_tenant text, p_session text, p_agent text, p_execution text, p_spec json,
                                     p_now timestamptz) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_input  perdure.inputs;
    v_node   text;
    v_agent  text;
    v_start  integer;
    v_last   bigint;
    v_answer json;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is not null then
        v_answer := perdure.begin_run_v1(p_tenant, p_session, p_agent, p_execution, p_spec, p_now);
        perform 1 from perdure.inputs
          where tenant_id = p_tenant and session_id = p_session and policy = 'steer' and target_run = v_head.active_run
            and state in ('queued', 'joined');
        if not found then
            return v_answer;
        end if;
        return (select json_object_agg(e.key, e.value) from (
                select key, value from json_each(v_answer)
                union all
                select 'steered', to_json(true)) as e);
    end if;
    if v_head.paused then
        return json_build_object('kind', 'nothing', 'paused', true);
    end if;
    select * into v_input from perdure.next_input_v1(p_tenant, p_session, p_now);
    if not found then
        return json_build_object('kind', 'nothing', 'paused', false);
    end if;
    select current_node, agent into v_node, v_agent from perdure.sessions
     where tenant_id = p_tenant and id = p_session;
    if v_agent <> p_agent then
        return json_build_object('kind', 'agent', 'agent', v_agent);
    end if;
    if v_input.kind <> 'message' then
        return json_build_object('kind', 'control', 'ordinal', v_input.ordinal, 'paused', false);
    end if;
    if v_input.policy = 'rollback' and v_input.target_run is not null and v_input.detail is null then
        return json_build_object('kind', 'rollback', 'ordinal', v_input.ordinal, 'paused', false);
    end if;
    select coalesce(max(position) + 1, 0) into v_start from perdure.messages
     where tenant_id = p_tenant and session_id = p_session and node_id = v_node;
    insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
    values (p_tenant, p_session, v_input.message_id, v_node, v_start, v_input.run_id, 0, 'user', v_input.message,
            v_input.message_sha);
    v_last := perdure.emit_v1(p_tenant, p_session, v_input.run_id, json_build_array(json_build_object(
        's', 'run', 't', 'run.started', 'd', json_build_object(
            'input', v_input.ordinal, 'message', v_input.message_id, 'execution', p_execution))));
    insert into perdure.runs (tenant_id, session_id, id, ordinal, status, spec, node_id, start_position,
                              temporal_run_id, first_seq, started_at)
    values (p_tenant, p_session, v_input.run_id, v_input.ordinal, 'running', p_spec, v_node, v_start, p_execution,
            v_last, p_now);
    update perdure.inputs set state = 'taken'
     where tenant_id = p_tenant and session_id = p_session and ordinal = v_input.ordinal;
    update perdure.session_heads set active_run = v_input.run_id
     where tenant_id = p_tenant and session_id = p_session;
    update perdure.sessions set status = 'running', runs = runs + 1
     where tenant_id = p_tenant and id = p_session;
    return json_build_object('kind', 'new', 'paused', false, 'run', v_input.run_id, 'node', v_node, 'start', v_start,
        'epoch', v_head.discards, 'spec', p_spec, 'message', v_input.message_id,
        'message_sha', v_input.message_sha, 'execution', p_execution, 'started', p_now,
        'options', encode(v_input.options, 'base64'));
end $$;

-- As begin_run_v3, of a sub-agent's session: its run.started says whose it is, and the answer whether it is an orphan: its
-- parent's run has ended, or is gone.
create function perdure.begin_child_run_v2(p_tenant text, p_session text, p_agent text, p_execution text, p_spec json,
                                           p_now timestamptz) returns json
language plpgsql as $$
declare
    v_answer json := perdure.begin_run_v3(p_tenant, p_session, p_agent, p_execution, p_spec, p_now);
    v_orphan boolean;
begin
    if v_answer ->> 'kind' not in ('new', 'adopted') then
        return v_answer;
    end if;
    if v_answer ->> 'kind' = 'new' then
        update perdure.events e set data = json_build_object('input', e.data -> 'input',
               'message', e.data -> 'message', 'execution', e.data -> 'execution',
               'parent', json_build_object('session', s.parent_session, 'run', s.parent_run, 'agent', p.agent,
                                           'call', c.call_id))
          from perdure.runs r
          join perdure.sessions s on s.tenant_id = r.tenant_id and s.id = r.session_id
          join perdure.sessions p on p.tenant_id = s.tenant_id and p.id = s.parent_session
          join perdure.tool_calls c on c.tenant_id = s.tenant_id and c.session_id = s.parent_session
               and c.message_id = s.parent_message and c.index = s.parent_index
         where r.tenant_id = p_tenant and r.session_id = p_session and r.id = v_answer ->> 'run'
           and e.tenant_id = p_tenant and e.session_id = p_session and e.seq = r.first_seq;
    end if;
    select not exists (select 1 from perdure.runs r where r.tenant_id = p_tenant and r.session_id = s.parent_session
                          and r.id = s.parent_run and r.ended_at is null) into v_orphan
      from perdure.sessions s where s.tenant_id = p_tenant and s.id = p_session;
    return (select json_object_agg(e.key, e.value) from (
            select key, value from json_each(v_answer)
            union all
            select 'orphan', to_json(v_orphan)) as e);
end $$;

-- Lets inputs that steer a run join it: their messages stand before the first model call of a step, from p_position on.
-- Called again it answers the same messages, and takes more only as long as nothing stands behind them.
create function perdure.take_steers_v1(p_tenant text, p_session text, p_run text, p_node text, p_position integer,
                                       p_step integer) returns json
language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_input perdure.inputs;
    v_next  integer;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    select p_position + count(*) into v_next from perdure.inputs
     where tenant_id = p_tenant and session_id = p_session and policy = 'steer' and target_run = p_run
       and state = 'joined' and (detail ->> 'step')::integer = p_step;
    perform 1 from perdure.messages
      where tenant_id = p_tenant and session_id = p_session and node_id = p_node and position >= v_next;
    if not found then
        for v_input in select * from perdure.inputs
            where tenant_id = p_tenant and session_id = p_session and state = 'queued' and policy = 'steer'
              and target_run = p_run and (not_before is null or not_before <= clock_timestamp()) order by ordinal loop
            insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
            values (p_tenant, p_session, v_input.message_id, p_node, v_next, p_run, p_step, 'user', v_input.message,
                    v_input.message_sha);
            update perdure.inputs set state = 'joined', detail = json_build_object('step', p_step)
             where tenant_id = p_tenant and session_id = p_session and ordinal = v_input.ordinal;
            perform perdure.emit_v1(p_tenant, p_session, p_run, json_build_array(json_build_object('s', 'run',
                't', 'input.joined', 'p', p_step, 'd', json_build_object('input', v_input.ordinal, 'run', p_run,
                'as', v_input.run_id, 'message', v_input.message_id))));
            v_next := v_next + 1;
        end loop;
    end if;
    return json_build_object('kind', 'taken', 'end', v_next);
end $$;
