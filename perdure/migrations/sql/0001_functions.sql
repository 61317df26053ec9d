-- The writes of the hot path: one function, one round trip, one transaction each. Their signatures never change; a new
-- shape is a new name. Every one of them first locks the head row, so a session has one writer at a time and its event
-- numbers have no gap: a number is given in the transaction that writes the event. An event is written only by the
-- statement that made its row new, which alone gives exactly one start and one terminal event however often a call is
-- repeated. Functions answer 'gone' where the session does not exist or is being deleted.

-- Appends events (short-keyed JSON, see perdure.uap.events) and returns the last number given.
create function perdure.emit_v1(p_tenant text, p_session text, p_run text, p_events json) returns bigint
language plpgsql as $$
declare
    v_count integer := json_array_length(p_events);
    v_last  bigint;
begin
    update perdure.session_heads set last_seq = last_seq + v_count, touched_at = clock_timestamp()
     where tenant_id = p_tenant and session_id = p_session returning last_seq into v_last;
    insert into perdure.events (tenant_id, session_id, seq, run_id, step, attempt, source, type, data, note, at)
    select p_tenant, p_session, v_last - v_count + e.n, p_run, (e.v ->> 'p')::integer, (e.v ->> 'a')::integer,
           e.v ->> 's', e.v ->> 't', coalesce(e.v -> 'd', '{}'::json), e.v ->> 'n', clock_timestamp()
      from json_array_elements(p_events) with ordinality as e(v, n);
    return v_last;
end $$;

-- Joins two JSON arrays without looking into their text.
create function perdure.join_v1(p_left json, p_right json) returns json
language sql immutable as $$
    select coalesce(json_agg(v order by part, n), '[]'::json) from (
        select 1 as part, e.n, e.v from json_array_elements(coalesce(p_left, '[]'::json)) with ordinality as e(v, n)
        union all
        select 2, e.n, e.v from json_array_elements(coalesce(p_right, '[]'::json)) with ordinality as e(v, n)
    ) as both_sides
$$;

-- Keeps a body: returns it if it is small enough for its row, else puts it into payloads and returns null.
create function perdure.keep_v1(p_tenant text, p_session text, p_sha text, p_body bytea) returns bytea
language plpgsql as $$
begin
    if length(p_body) <= 65536 then
        return p_body;
    end if;
    insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
    values (p_tenant, p_session, p_sha, p_body) on conflict do nothing;
    return null;
end $$;

-- Writes the records that wait for the next transaction and returns the events of those that were new.
-- A record is {"k": "checkpoint", "r": CheckpointRecord} or {"k": "step", "step": n}.
create function perdure.apply_v1(p_tenant text, p_session text, p_run text, p_execution text, p_pending json)
returns json language plpgsql as $$
declare
    v_item   json;
    v_record json;
    v_events json := '[]'::json;
    v_step   integer;
begin
    for v_item in select e.v from json_array_elements(coalesce(p_pending, '[]'::json)) as e(v) loop
        if v_item ->> 'k' = 'step' then
            v_step := (v_item ->> 'step')::integer;
            update perdure.runs set started_step = v_step, temporal_run_id = p_execution
             where tenant_id = p_tenant and session_id = p_session and id = p_run and started_step < v_step;
            if found then
                v_events := perdure.join_v1(v_events, json_build_array(json_build_object(
                    's', 'uap', 't', 'step_start', 'p', v_step, 'd', json_build_object('stepNumber', v_step))));
            end if;
        else
            v_record := v_item -> 'r';
            v_step := (v_record ->> 'step')::integer;
            insert into perdure.checkpoints (tenant_id, session_id, id, run_id, node_id, step, position, at, record,
                                             temporal_run_id)
            values (p_tenant, p_session, v_record ->> 'id', p_run, v_record ->> 'node', v_step,
                    (v_record ->> 'position')::integer, v_record ->> 'at', v_record, p_execution)
            on conflict do nothing;
            if found then
                update perdure.runs set step = v_step, usage = v_record -> 'usage',
                       cycles = coalesce((v_record ->> 'cycles')::integer, 0)
                 where tenant_id = p_tenant and session_id = p_session and id = p_run and step < v_step;
                v_events := perdure.join_v1(v_events, json_build_array(
                    json_build_object('s', 'uap', 't', 'step_end', 'p', v_step, 'd', json_build_object(
                        'stepNumber', v_step, 'usage', v_record -> 'step_usage')),
                    json_build_object('s', 'uap', 't', 'checkpoint', 'p', v_step, 'd', json_build_object(
                        'checkpointId', v_record ->> 'id'))));
            end if;
        end if;
    end loop;
    return v_events;
end $$;

-- The same records as they were written. One of a workflow task that was lost was written with that task's time, and is
-- not written again: history is told what the row says.
create function perdure.written_v1(p_tenant text, p_session text, p_pending json) returns json
language sql as $$
    select coalesce(json_agg(case when c.id is null then e.v
                                  else json_build_object('k', 'checkpoint', 'r', c.record) end order by e.n), '[]'::json)
      from json_array_elements(coalesce(p_pending, '[]'::json)) with ordinality as e(v, n)
      left join perdure.checkpoints c
        on c.tenant_id = p_tenant and c.session_id = p_session and c.id = e.v -> 'r' ->> 'id'
$$;

-- Takes the next input, or finds the run that is still open.
create function perdure.begin_run_v1(p_tenant text, p_session text, p_agent text, p_execution text, p_spec json,
                                     p_now timestamptz) returns json
language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_input perdure.inputs;
    v_run   perdure.runs;
    v_node  text;
    v_agent text;
    v_start integer;
    v_last  bigint;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is not null then
        select * into v_run from perdure.runs
         where tenant_id = p_tenant and session_id = p_session and id = v_head.active_run;
        select * into v_input from perdure.inputs
         where tenant_id = p_tenant and session_id = p_session and ordinal = v_run.ordinal;
        return json_build_object('kind', 'adopted', 'paused', v_head.paused, 'run', v_run.id, 'node', v_run.node_id,
            'start', v_run.start_position, 'epoch', v_head.discards, 'spec', v_run.spec,
            'message', v_input.message_id, 'message_sha', v_input.message_sha, 'execution', v_run.temporal_run_id,
            'started', v_run.started_at, 'options', encode(v_input.options, 'base64'));
    end if;
    if v_head.paused then
        return json_build_object('kind', 'nothing', 'paused', true);
    end if;
    select * into v_input from perdure.inputs
     where tenant_id = p_tenant and session_id = p_session and state = 'queued'
       and (not_before is null or not_before <= p_now)
     order by ordinal limit 1;
    if not found then
        return json_build_object('kind', 'nothing', 'paused', false);
    end if;
    select current_node, agent into v_node, v_agent from perdure.sessions
     where tenant_id = p_tenant and id = p_session;
    if v_agent <> p_agent then
        return json_build_object('kind', 'agent', 'agent', v_agent);
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

-- Makes the tool-result message of a batch once its last call is done. Results are referred to by hash.
create function perdure.close_batch_v1(p_tenant text, p_session text, p_message text, p_at text, p_settled boolean)
returns json language plpgsql as $$
declare
    v_answer perdure.messages;
    v_id     text;
    v_step   integer;
    v_refs   text;
    v_body   bytea;
    v_sha    text;
begin
    perform 1 from perdure.tool_calls
      where tenant_id = p_tenant and session_id = p_session and message_id = p_message and state <> 'done';
    if found then
        return null;
    end if;
    select * into v_answer from perdure.messages
     where tenant_id = p_tenant and session_id = p_session and id = p_message;
    select min(results_id), min(step), string_agg(
               '{"isError":' || is_error::text || ',"ref":{"sha256":"' || result_sha256 || '","size":' ||
               result_bytes || '},"toolCallId":' || call_id::text || '}', ',' order by index)
      into v_id, v_step, v_refs from perdure.tool_calls
     where tenant_id = p_tenant and session_id = p_session and message_id = p_message;
    v_body := convert_to('{"content":[],"id":"' || v_id || '",' ||
        case when p_settled then '"metadata":{"perdure":{"settled":true}},' else '' end ||
        '"results":[' || v_refs || '],"timestamp":"' || p_at || '","type":"tool_result"}', 'UTF8');
    v_sha := encode(sha256(v_body), 'hex');
    insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
    values (p_tenant, p_session, v_id, v_answer.node_id, v_answer.position + 1, v_answer.run_id, v_step,
            'tool_result', perdure.keep_v1(p_tenant, p_session, v_sha, v_body), v_sha)
    on conflict do nothing;
    if not found then
        return null;
    end if;
    return json_build_object('id', v_id, 'sha256', v_sha, 'step', v_step, 'refs', ('[' || v_refs || ']')::json);
end $$;

-- Stores a model's answer, or part of one, and opens its tool calls.
create function perdure.save_answer_v1(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
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
                                        args_sha256, effect, state, results_id)
        select p_tenant, p_session, p_message, e.n - 1, p_run, p_step, e.v -> 'call_id', e.v -> 'tool',
               e.v ->> 'args_sha256', e.v ->> 'effect', 'pending', p_results
          from json_array_elements(p_calls) with ordinality as e(v, n);
        v_events := perdure.join_v1(v_events, p_events);
    end if;
    perform perdure.emit_v1(p_tenant, p_session, p_run, v_events);
    return json_build_object('kind', case when v_won then 'won' else 'stored' end);
end $$;

-- Appends the deltas of one attempt at one answer. Safe to repeat: what is below delta_upto is known. A later attempt
-- takes the answer over with p_reset; what an earlier one still sends is refused then.
create function perdure.append_deltas_v1(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
    p_token text, p_reset boolean, p_from integer, p_events json, p_pending json) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_key    text := p_message || ':' || p_token;
    v_upto   integer := 0;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    perform 1 from perdure.messages where tenant_id = p_tenant and session_id = p_session and id = p_message;
    if found then
        return json_build_object('kind', 'late');
    end if;
    if v_head.delta_key = v_key then
        v_upto := v_head.delta_upto;
    elsif split_part(v_head.delta_key, ':', 1) = p_message and not (p_reset and p_from = 0) then
        return json_build_object('kind', 'late');
    end if;
    if p_from >= v_upto then
        perform perdure.emit_v1(p_tenant, p_session, p_run, perdure.join_v1(
            perdure.apply_v1(p_tenant, p_session, p_run, p_execution, p_pending), p_events));
        update perdure.session_heads set delta_key = v_key, delta_upto = p_from + json_array_length(p_events)
         where tenant_id = p_tenant and session_id = p_session;
    end if;
    return json_build_object('kind', 'won');
end $$;

-- What is known of a tool call; with p_claim, a pending call is marked running before its effect. An answer to its wait
-- is handed out once: who then dies with it leaves the outcome unknown again.
create function perdure.claim_call_v1(p_tenant text, p_session text, p_run text, p_message text, p_index integer,
                                      p_claim boolean, p_attempt integer) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_call   perdure.tool_calls;
    v_answer json;
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
        update perdure.waits set used = true, delivered = true
         where tenant_id = p_tenant and id = (
               select w.id from perdure.waits w
                where w.tenant_id = p_tenant and w.session_id = p_session and w.message_id = p_message
                  and w.index = p_index and w.answered_at is not null and not w.used
                order by w.asked_at, w.id limit 1)
        returning answer into v_answer;
    end if;
    if p_claim and v_call.state = 'pending' then
        update perdure.tool_calls set state = 'running', attempt = p_attempt
         where tenant_id = p_tenant and session_id = p_session and message_id = p_message and index = p_index;
    end if;
    return json_build_object('state', v_call.state, 'is_error', v_call.is_error, 'sha256', v_call.result_sha256,
        'size', v_call.result_bytes, 'duration_ms', v_call.duration_ms, 'attempt', v_call.attempt, 'answer', v_answer);
end $$;

-- Stores a tool's result; the last of a batch also makes the tool-result message.
create function perdure.save_result_v1(p_tenant text, p_session text, p_run text, p_execution text, p_message text,
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
           result_bytes = length(p_body), duration_ms = p_duration
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

-- Writes what must not wait: pending records, a note, the paused flag, an opened wait. A note has a name; one that was
-- written is not written again, and neither is the flag that goes with it.
create function perdure.record_v1(p_tenant text, p_session text, p_run text, p_execution text, p_pending json,
    p_note text, p_events json, p_paused boolean, p_status text, p_wait json) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_events json := '[]'::json;
    v_wait   text;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if p_run is not null and v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late', 'pending', perdure.written_v1(p_tenant, p_session, p_pending));
    end if;
    if p_run is not null then
        v_events := perdure.apply_v1(p_tenant, p_session, p_run, p_execution, p_pending);
        if p_status is not null then
            update perdure.runs set status = p_status
             where tenant_id = p_tenant and session_id = p_session and id = p_run;
        end if;
        if p_wait is not null then
            select id into v_wait from perdure.waits
             where tenant_id = p_tenant and session_id = p_session and message_id = p_wait ->> 'message'
               and index = (p_wait ->> 'index')::integer and not used order by asked_at, id limit 1;
            if not found then
                select (p_wait ->> 'id') || case when count(*) = 0 then '' else '-' || count(*) end into v_wait
                  from perdure.waits
                 where tenant_id = p_tenant and session_id = p_session and message_id = p_wait ->> 'message'
                   and index = (p_wait ->> 'index')::integer;
                insert into perdure.waits (tenant_id, id, session_id, run_id, kind, message_id, index, asked, asked_at)
                values (p_tenant, v_wait, p_session, p_run, p_wait ->> 'kind', p_wait ->> 'message',
                        (p_wait ->> 'index')::integer, p_wait -> 'asked', clock_timestamp());
            end if;
        end if;
    end if;
    perform 1 from perdure.events where tenant_id = p_tenant and session_id = p_session and note = p_note;
    if not found then
        v_events := perdure.join_v1(v_events, p_events);
        if v_wait is not null then
            v_events := perdure.join_v1(v_events, json_build_array(json_build_object('s', 'run', 't', 'run.parked',
                'n', p_note, 'd', json_build_object('reason', p_wait ->> 'kind', 'wait', v_wait))));
        end if;
        update perdure.session_heads set note_execution = p_execution,
               paused = coalesce(p_paused, paused)
         where tenant_id = p_tenant and session_id = p_session;
        if p_paused is not null then
            update perdure.sessions set status = case when p_paused then 'paused'
                when v_head.active_run is not null then 'running' else 'idle' end
             where tenant_id = p_tenant and id = p_session;
        end if;
        if not p_paused then  -- a run whose parking was noted by a workflow task that was lost does not note its resuming
            update perdure.runs set status = 'running'
             where tenant_id = p_tenant and session_id = p_session and id = v_head.active_run and status = 'parked'
               and not exists (select 1 from perdure.waits w where w.tenant_id = p_tenant and w.run_id = runs.id
                                  and w.session_id = p_session and w.answered_at is null);
        end if;
    end if;
    perform perdure.emit_v1(p_tenant, p_session, p_run, v_events);
    return json_build_object('kind', 'won', 'wait', v_wait,
        'pending', perdure.written_v1(p_tenant, p_session, p_pending));
end $$;

-- Ends a run: settles its open tool calls, writes its one terminal event, frees the session for the next input.
create function perdure.end_run_v1(p_tenant text, p_session text, p_run text, p_execution text, p_status text,
    p_error json, p_usage json, p_cycles integer, p_step integer, p_now timestamptz, p_at text, p_settle_sha text,
    p_settle bytea, p_partial json, p_partial_body bytea, p_event json, p_pending json) returns json
language plpgsql as $$
declare
    v_head   perdure.session_heads;
    v_run    perdure.runs;
    v_events json;
    v_open   record;
    v_batch  json;
    v_last   bigint;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    select * into v_run from perdure.runs where tenant_id = p_tenant and session_id = p_session and id = p_run;
    if not found then
        return json_build_object('kind', 'gone');
    end if;
    if v_run.status in ('completed', 'failed', 'cancelled') then
        return json_build_object('kind', 'stored', 'status', v_run.status, 'at', v_run.ended_at, 'step', v_run.step,
            'usage', v_run.usage, 'cycles', v_run.cycles, 'error', v_run.error,
            'pending', perdure.written_v1(p_tenant, p_session, p_pending));
    end if;
    v_events := perdure.apply_v1(p_tenant, p_session, p_run, p_execution, p_pending);
    if p_partial is not null then
        insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
        values (p_tenant, p_session, p_partial ->> 'id', v_run.node_id, (p_partial ->> 'position')::integer, p_run,
                (p_partial ->> 'step')::integer, 'assistant',
                perdure.keep_v1(p_tenant, p_session, p_partial ->> 'sha256', p_partial_body),
                p_partial ->> 'sha256')
        on conflict (tenant_id, session_id, id) do nothing;
    end if;
    for v_open in select distinct message_id from perdure.tool_calls
        where tenant_id = p_tenant and session_id = p_session and run_id = p_run and state <> 'done' loop
        insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
        values (p_tenant, p_session, p_settle_sha, p_settle) on conflict do nothing;
        update perdure.tool_calls set state = 'done', is_error = true, result_sha256 = p_settle_sha,
               result_bytes = length(p_settle)
         where tenant_id = p_tenant and session_id = p_session and message_id = v_open.message_id
           and state <> 'done';
        v_batch := perdure.close_batch_v1(p_tenant, p_session, v_open.message_id, p_at, true);
        if v_batch is not null then
            v_events := perdure.join_v1(v_events, json_build_array(json_build_object('s', 'uap',
                't', 'observation', 'p', v_batch -> 'step', 'd', json_build_object('message', v_batch ->> 'id',
                'settled', true, 'results', v_batch -> 'refs'))));
        end if;
    end loop;
    if p_status = 'failed' then
        update perdure.messages set discarded = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run;
    end if;
    update perdure.waits set answered_at = coalesce(answered_at, p_now),
           answer = coalesce(answer, '{"outcome":"ended"}'::json), delivered = true
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run;
    v_last := perdure.emit_v1(p_tenant, p_session, p_run, perdure.join_v1(v_events, json_build_array(p_event)));
    update perdure.runs set status = p_status, error = p_error, usage = p_usage, cycles = p_cycles, step = p_step,
           ended_at = p_now, last_seq = v_last, temporal_run_id = p_execution
     where tenant_id = p_tenant and session_id = p_session and id = p_run;
    update perdure.session_heads set active_run = case when active_run = p_run then null else active_run end,
           discards = discards + case when p_status = 'failed' then 1 else 0 end
     where tenant_id = p_tenant and session_id = p_session;
    update perdure.sessions set status = case when v_head.paused then 'paused' else 'idle' end,
           updated_at = p_now, steps = steps + p_step,
           usage = json_build_object(
               'inputTokens', (usage ->> 'inputTokens')::bigint + coalesce((p_usage ->> 'inputTokens')::bigint, 0),
               'outputTokens', (usage ->> 'outputTokens')::bigint + coalesce((p_usage ->> 'outputTokens')::bigint, 0))
     where tenant_id = p_tenant and id = p_session;
    return json_build_object('kind', 'won', 'status', p_status,
        'pending', perdure.written_v1(p_tenant, p_session, p_pending));
end $$;
