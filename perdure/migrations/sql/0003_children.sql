-- Functions of revision 0003: children.

-- Adds up usages (a JSON array of TokenUsage objects) field by field, as perdure.upp.usage does. A cost is known if that of
-- each usage that holds any token is.
create function perdure.sum_usage_v1(p_usages json) returns json language sql immutable as $$
    select coalesce(json_object_agg(t.name, t.total order by t.name), '{}'::json) from (
        select f.name,
               case when f.name = 'cost' then to_json(trim_scale(sum((f.value #>> '{}')::numeric))::text)
                    else to_json(sum((f.value #>> '{}')::numeric)) end as total
          from json_array_elements(p_usages) as u(v) cross join lateral json_each(u.v) as f(name, value)
         where f.name <> 'cycles'
         group by f.name
        having f.name <> 'cost' or count(*) >= (
               select count(*) from json_array_elements(p_usages) as w(v)
                where coalesce(nullif(w.v ->> 'inputTokens', '0'), nullif(w.v ->> 'outputTokens', '0'),
                               nullif(w.v ->> 'cacheReadTokens', '0'), nullif(w.v ->> 'cacheWriteTokens', '0'))
                      is not null)
    ) as t
$$;

-- Joins two objects of usages by agent path; where both know a path its usages are added up.
create function perdure.join_usage_v1(p_left json, p_right json) returns json language sql immutable as $$
    select coalesce(json_object_agg(t.path, t.usage order by t.path), '{}'::json) from (
        select e.path, perdure.sum_usage_v1(json_agg(e.usage order by e.part)) as usage from (
            select 1 as part, key as path, value as usage from json_each(coalesce(p_left, '{}'::json))
            union all
            select 2, key, value from json_each(coalesce(p_right, '{}'::json))
        ) as e group by e.path
    ) as t
$$;

-- Opens a sub-agent's session with the one input that its parent's tool call is. The parent's head is locked first, and
-- its log says child.started in the transaction that made the session new. Answers 'opened', 'known', or 'gone' where
-- the parent's run is not active any more.
create function perdure.open_child_v1(p_tenant text, p_session text, p_agent text, p_agent_id text, p_parent text,
    p_parent_run text, p_parent_message text, p_parent_index integer, p_node text, p_key text, p_run text,
    p_message text, p_body bytea, p_sha text, p_body_sha text, p_options bytea, p_started json) returns json
language plpgsql as $$
declare
    v_head perdure.session_heads;
    v_step integer;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_parent for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    perform 1 from perdure.session_heads where tenant_id = p_tenant and session_id = p_session;
    if found then
        return json_build_object('kind', 'known');
    end if;
    if v_head.active_run is distinct from p_parent_run then
        return json_build_object('kind', 'gone');
    end if;
    insert into perdure.sessions (tenant_id, id, agent, agent_id, status, metadata, current_node, usage, created_at,
                                  updated_at, parent_session, parent_run, parent_message, parent_index, root_session)
    select p_tenant, p_session, p_agent, p_agent_id, 'idle', '{}'::json, p_node,
           json_build_object('inputTokens', 0, 'outputTokens', 0), now(), now(), p_parent,
           p_parent_run, p_parent_message, p_parent_index, coalesce(s.root_session, s.id)
      from perdure.sessions s where s.tenant_id = p_tenant and s.id = p_parent;
    insert into perdure.thread_nodes (tenant_id, session_id, id, name, thread_id, metadata, created_at)
    select p_tenant, p_session, p_node, '"main"'::json, p_node, '{}'::json, s.created_at
      from perdure.sessions s where s.tenant_id = p_tenant and s.id = p_session;
    insert into perdure.session_heads (tenant_id, session_id, next_ordinal, touched_at)
    values (p_tenant, p_session, 2, clock_timestamp());
    insert into perdure.inputs (tenant_id, session_id, ordinal, key, opens_session, body_sha256, kind, message_id,
                                message, message_sha, options, policy, run_id, state, created_at)
    values (p_tenant, p_session, 1, p_key, false, p_body_sha, 'message', p_message,
            perdure.keep_v1(p_tenant, p_session, p_sha, p_body), p_sha, p_options, 'enqueue', p_run, 'queued',
            clock_timestamp());
    perform perdure.emit_v1(p_tenant, p_session, p_run, json_build_array(json_build_object('s', 'run',
        't', 'run.queued', 'd', json_build_object('input', 1, 'message', p_message))));
    select step into v_step from perdure.tool_calls
     where tenant_id = p_tenant and session_id = p_parent and message_id = p_parent_message
       and index = p_parent_index;
    perform perdure.emit_v1(p_tenant, p_parent, p_parent_run, json_build_array(json_build_object('s', 'run',
        't', 'child.started', 'p', v_step, 'd', p_started)));
    return json_build_object('kind', 'opened');
end $$;

-- What of a usage is left without another one that is part of it, field by field. A cost is left if both are known.
create function perdure.less_usage_v1(p_whole json, p_part json) returns json language sql immutable as $$
    select coalesce(json_object_agg(f.name, f.rest order by f.name), '{}'::json) from (
        select w.key as name,
               case when w.key <> 'cost' then to_json((w.value #>> '{}')::numeric - coalesce((p.value #>> '{}')::numeric, 0))
                    else to_json(trim_scale((w.value #>> '{}')::numeric - coalesce((p.value #>> '{}')::numeric, 0))::text)
                    end as rest,
               (w.value #>> '{}')::numeric = (p.value #>> '{}')::numeric as is_none
          from json_each(p_whole) as w left join json_each(coalesce(p_part, '{}'::json)) as p on p.key = w.key
    ) as f where f.name = 'cost' or f.is_none is not true
$$;

-- The same for objects of usages by agent path.
create function perdure.less_usages_v1(p_whole json, p_part json) returns json language sql immutable as $$
    select coalesce(json_object_agg(w.key, perdure.less_usage_v1(w.value, p_part -> w.key) order by w.key), '{}'::json)
      from json_each(coalesce(p_whole, '{}'::json)) as w
$$;

-- Where a run that goes on from a checkpoint began, as Progress: that was counted with the run that took the checkpoint.
-- Null for any other run, and for a strategy that starts over.
create function perdure.counted_before_v1(p_tenant text, p_session text, p_run text) returns json
language sql stable as $$
    select i.detail -> 'progress' from perdure.inputs i
      join perdure.runs r on r.tenant_id = i.tenant_id and r.session_id = i.session_id and r.id = i.run_id
     where i.tenant_id = p_tenant and i.session_id = p_session and i.run_id = p_run and i.kind = 'resume'
       and (coalesce(r.spec #>> '{strategy,source}', '') = ''
            or coalesce((r.spec #>> '{strategy,resumable}')::boolean, false))
$$;

-- What a run leaves in the thread, once it has ended. Of one that was cancelled before any answer nothing stays, as of one
-- that failed; of a failed one that went on from a checkpoint the messages stay that came with the checkpoint.
create function perdure.tidy_thread_v1(p_tenant text, p_session text, p_run text, p_status text) returns void
language plpgsql as $$
begin
    if p_status = 'cancelled' then
        update perdure.messages m set discarded = true
         where m.tenant_id = p_tenant and m.session_id = p_session and m.run_id = p_run and not m.discarded
           and not exists (select 1 from perdure.messages a where a.tenant_id = p_tenant and a.session_id = p_session
                              and a.run_id = p_run and a.type = 'assistant' and not a.discarded);
    elsif p_status = 'failed' then
        update perdure.messages m set discarded = false
          from perdure.inputs i
         where i.tenant_id = p_tenant and i.session_id = p_session and i.run_id = p_run and i.kind = 'resume'
           and m.tenant_id = p_tenant and m.session_id = p_session and m.run_id = p_run
           and m.node_id = i.detail ->> 'node' and m.position < (i.detail #>> '{progress,position}')::integer
           and not m.scaffold;
    else
        return;
    end if;
    if found then
        update perdure.session_heads set discards = discards + 1
         where tenant_id = p_tenant and session_id = p_session;
    end if;
end $$;

-- As end_run_v2. The run's and the session's usage by agent path: its own under its agent's path, and p_children's; what a
-- checkpoint that it went on from had used was counted before, and so were its steps. The thread is tidied.
create function perdure.end_run_v3(p_tenant text, p_session text, p_run text, p_execution text, p_status text,
    p_error json, p_usage json, p_cycles integer, p_step integer, p_now timestamptz, p_at text, p_settle_sha text,
    p_settle bytea, p_partial json, p_partial_body bytea, p_event json, p_pending json, p_children json) returns json
language plpgsql as $$
declare
    v_answer json := perdure.end_run_v2(p_tenant, p_session, p_run, p_execution, p_status, p_error, p_usage, p_cycles,
        p_step, p_now, p_at, p_settle_sha, p_settle, p_partial, p_partial_body, p_event, p_pending);
    v_base   json := perdure.counted_before_v1(p_tenant, p_session, p_run);
    v_agent  text;
    v_usages json;
    v_known  json;
begin
    if v_answer ->> 'kind' not in ('won', 'stored') then
        return v_answer;
    end if;
    select agent into v_agent from perdure.sessions where tenant_id = p_tenant and id = p_session;
    if v_answer ->> 'kind' = 'stored' then
        select json_object_agg(e.key, e.value order by e.key) into v_known
          from perdure.runs r cross join lateral json_each(r.usage_by_agent) as e
         where r.tenant_id = p_tenant and r.session_id = p_session and r.id = p_run and e.key <> v_agent;
        return (select json_object_agg(e.key, e.value) from (
                select key, value from json_each(v_answer)
                union all
                select 'usage_by_agent', perdure.join_usage_v1(v_known, v_base -> 'usage_by_agent')) as e);
    end if;
    perform perdure.tidy_thread_v1(p_tenant, p_session, p_run, p_status);
    v_usages := perdure.less_usages_v1(perdure.join_usage_v1(json_build_object(v_agent, p_usage), p_children),
        perdure.join_usage_v1(json_build_object(v_agent, coalesce(v_base -> 'usage', '{}'::json)),
                              v_base -> 'usage_by_agent'));
    update perdure.runs set usage_by_agent = v_usages
     where tenant_id = p_tenant and session_id = p_session and id = p_run;
    update perdure.sessions s set usage_by_agent = perdure.join_usage_v1(s.usage_by_agent, v_usages),
           steps = s.steps - coalesce((v_base ->> 'step')::integer, 0),
           usage = json_build_object(
               'inputTokens', (s.usage ->> 'inputTokens')::bigint + c.input
                              - coalesce((p_usage ->> 'inputTokens')::bigint, 0),
               'outputTokens', (s.usage ->> 'outputTokens')::bigint + c.output
                               - coalesce((p_usage ->> 'outputTokens')::bigint, 0))
      from (select coalesce(sum((e.value ->> 'inputTokens')::bigint), 0) as input,
                   coalesce(sum((e.value ->> 'outputTokens')::bigint), 0) as output
              from json_each(v_usages) as e) as c
     where s.tenant_id = p_tenant and s.id = p_session;
    return v_answer;
end $$;

-- Where a session's workflow runs. A sub-agent's is of the type that its parent's run names, on the root agent's queue.
create view perdure.session_addresses as
    select s.tenant_id, s.id as session_id, s.agent as name, a.agent_id, a.task_queue, a.spec, a.seen_at,
           case when s.parent_session is null then a.workflow_type
                when exists (select 1 from perdure.runs r cross join lateral json_array_elements(r.spec -> 'tools') as t(v)
                              where r.tenant_id = s.tenant_id and r.session_id = s.parent_session
                                and r.id = s.parent_run and t.v ->> 'agent' = s.agent
                                and (t.v ->> 'sandboxed')::boolean) then 'perdure.session.sandboxed'
                else 'perdure.session' end as workflow_type
      from perdure.sessions s
      join perdure.agents a on a.tenant_id = s.tenant_id and a.name = split_part(s.agent, '/', 1);
