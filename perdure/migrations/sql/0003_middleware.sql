-- Functions of revision 0003: middleware.

-- A tool-result message is hidden if the answer is whose calls it answers: that of a run whose answers are to be checked
-- before anybody sees them. Such rows have the mark of a strategy's own until the run's middleware was left.
create function perdure.hide_results_v1() returns trigger
language plpgsql as $$
begin
    new.scaffold := exists (
        select 1 from perdure.messages m
         where m.tenant_id = new.tenant_id and m.session_id = new.session_id and m.node_id = new.node_id
           and m.position = new.position - 1 and m.type = 'assistant' and m.scaffold);
    return new;
end $$;

create trigger hide_results before insert on perdure.messages
    for each row when (new.type = 'tool_result' and new.run_id is not null)
    execute function perdure.hide_results_v1();

-- Stores what `before` left of a run, once: whoever calls again is answered what was stored. An input in place of the
-- caller's ({id, sha256}, its body beside it) stands after it, and the caller's leaves the thread.
create function perdure.enter_run_v1(p_tenant text, p_session text, p_run text, p_node text, p_start integer,
    p_entered integer, p_error json, p_metadata bytea, p_items bytea, p_result json, p_input json, p_input_body bytea)
returns json language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_known json;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    select result into v_known from perdure.run_views
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run;
    if found then
        return json_build_object('kind', 'stored', 'epoch', v_head.discards, 'result', v_known);
    end if;
    if p_input is not null then
        update perdure.messages set discarded = true
         where tenant_id = p_tenant and session_id = p_session and node_id = p_node and position = p_start
           and run_id = p_run;
        insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
        values (p_tenant, p_session, p_input ->> 'id', p_node, p_start + 1, p_run, 0, 'user',
                perdure.keep_v1(p_tenant, p_session, p_input ->> 'sha256', p_input_body), p_input ->> 'sha256');
        update perdure.session_heads set discards = discards + 1
         where tenant_id = p_tenant and session_id = p_session returning discards into v_head.discards;
    end if;
    insert into perdure.run_views (tenant_id, session_id, run_id, entered, error, metadata, items, result)
    values (p_tenant, p_session, p_run, p_entered, p_error, p_metadata, p_items, p_result);
    return json_build_object('kind', 'won', 'epoch', v_head.discards, 'result', p_result);
end $$;

-- As keep_turn_v1; with p_hidden the turn is to be checked before anybody sees it, so its messages are hidden, as those of
-- the run already are, and of these too only those in p_keep stay.
create function perdure.keep_turn_v2(p_tenant text, p_session text, p_run text, p_node text, p_at text,
    p_settle_sha text, p_settle bytea, p_keep json, p_rows json, p_bodies bytea[], p_hidden boolean) returns json
language plpgsql as $$
declare
    v_answer json := perdure.keep_turn_v1(p_tenant, p_session, p_run, p_node, p_at, p_settle_sha, p_settle, p_keep,
        p_rows, p_bodies);
    v_rows   text[] := array(select r.v ->> 'id' from json_array_elements(p_rows) as r(v));
    v_keep   text[] := array(select k.v from json_array_elements_text(p_keep) as k(v));
begin
    if p_hidden and v_answer ->> 'kind' = 'won' then
        update perdure.messages set scaffold = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run and id = any (v_rows);
        update perdure.messages set discarded = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run and scaffold
           and id <> all (v_rows || v_keep);
    end if;
    return v_answer;
end $$;

-- Stores what `after` or `on_error` left of a run, once. With p_turn the run has another turn than it made: calls that are
-- still open get a result, of the run's messages only those in p_keep stay in the thread, and the turn's others ({id,
-- step, type, sha256}, their bodies beside them) come after all of them; the turn itself is a payload. Hidden messages in
-- p_keep are shown.
create function perdure.leave_run_v1(p_tenant text, p_session text, p_run text, p_node text, p_at text,
    p_settle_sha text, p_settle bytea, p_keep json, p_rows json, p_bodies bytea[], p_turn_sha text, p_turn bytea,
    p_left json, p_events json) returns json
language plpgsql as $$
declare
    v_head  perdure.session_heads;
    v_known json;
    v_open  record;
    v_batch json;
    v_keep  text[] := array(select k.v from json_array_elements_text(p_keep) as k(v));
    v_end   integer;
begin
    select * into v_head from perdure.session_heads
     where tenant_id = p_tenant and session_id = p_session for update;
    if not found or v_head.deleting then
        return json_build_object('kind', 'gone');
    end if;
    if v_head.active_run is distinct from p_run then
        return json_build_object('kind', 'late');
    end if;
    select result into v_known from perdure.run_views
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run;
    if v_known -> 'left' is not null then
        return json_build_object('kind', 'stored', 'left', v_known -> 'left');
    end if;
    if p_turn is not null then
        for v_open in select distinct message_id from perdure.tool_calls
            where tenant_id = p_tenant and session_id = p_session and run_id = p_run and state <> 'done' loop
            insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
            values (p_tenant, p_session, p_settle_sha, p_settle) on conflict do nothing;
            update perdure.tool_calls set state = 'done', is_error = true, result_sha256 = p_settle_sha,
                   result_bytes = length(p_settle)
             where tenant_id = p_tenant and session_id = p_session and message_id = v_open.message_id
               and state <> 'done';
            v_batch := perdure.close_batch_v1(p_tenant, p_session, v_open.message_id, p_at, true);
            if v_batch is not null and v_open.message_id = any (v_keep) then
                v_keep := v_keep || (v_batch ->> 'id');
            end if;
        end loop;
        update perdure.messages set discarded = true
         where tenant_id = p_tenant and session_id = p_session and run_id = p_run and not scaffold and not discarded
           and id <> all (v_keep);
        update perdure.session_heads set discards = discards + 1
         where tenant_id = p_tenant and session_id = p_session;
        select max(position) + 1 into v_end from perdure.messages
         where tenant_id = p_tenant and session_id = p_session and node_id = p_node;
        insert into perdure.messages (tenant_id, session_id, id, node_id, position, run_id, step, type, body, sha256)
        select p_tenant, p_session, r.v ->> 'id', p_node, v_end + r.n - 1, p_run, (r.v ->> 'step')::integer,
               r.v ->> 'type', perdure.keep_v1(p_tenant, p_session, r.v ->> 'sha256', p_bodies[r.n]), r.v ->> 'sha256'
          from json_array_elements(p_rows) with ordinality as r(v, n);
        insert into perdure.payloads (tenant_id, session_id, sha256, bytes)
        values (p_tenant, p_session, p_turn_sha, p_turn) on conflict do nothing;
        update perdure.runs set turn_sha = p_turn_sha
         where tenant_id = p_tenant and session_id = p_session and id = p_run;
    end if;
    update perdure.messages set scaffold = false
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run and scaffold and id = any (v_keep);
    update perdure.run_views set result = json_build_object('start', result -> 'start', 'input', result -> 'input',
               'error', result -> 'error', 'used', coalesce(result -> 'used', '{}'::json), 'left', p_left)
     where tenant_id = p_tenant and session_id = p_session and run_id = p_run;
    perform perdure.emit_v1(p_tenant, p_session, p_run, p_events);
    return json_build_object('kind', 'won', 'left', p_left);
end $$;
