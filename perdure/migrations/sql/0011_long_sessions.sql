-- Sessions that grow long cost no more per run than short ones.

-- Of a strategy's own messages: they leave the thread when their run ends, and are few.
create index messages_hidden on perdure.messages (tenant_id, session_id, run_id) where scaffold;

-- Most sessions are short, so PostgreSQL takes "of a session" for "of one run of it" and reads all of a long one. It is to
-- count on a hundred rows of each session, whatever the average is.
alter table perdure.inputs alter column session_id set (n_distinct = -0.01);
alter table perdure.runs alter column session_id set (n_distinct = -0.01);
alter table perdure.messages alter column session_id set (n_distinct = -0.01);
alter table perdure.tool_calls alter column session_id set (n_distinct = -0.01);
alter table perdure.checkpoints alter column session_id set (n_distinct = -0.01);
alter table perdure.events alter column session_id set (n_distinct = -0.01);

-- As before; each record is looked up by its id, where the whole session was read.
create or replace function perdure.written_v1(p_tenant text, p_session text, p_pending json) returns json
language sql as $$
    select coalesce(json_agg(case when c.id is null then e.v
                                  else json_build_object('k', 'checkpoint', 'r', c.record) end order by e.n), '[]'::json)
      from json_array_elements(coalesce(p_pending, '[]'::json)) with ordinality as e(v, n)
      left join lateral (
          select k.id, k.record from perdure.checkpoints k
           where k.tenant_id = p_tenant and k.session_id = p_session and k.id = e.v -> 'r' ->> 'id' limit 1) as c on true
$$;
