-- The change log. A change is written as pending in the transaction of what it tells of, by triggers, so that no
-- writer can forget it. Its id comes later, from one transaction at a time (store/changes.c): ids grow in the order
-- in which changes become visible, without holes, and a reader that has seen id N never misses one below N. A
-- sequence could not give that: transactions commit in another order than they take numbers.

create table changes_pending (
    number      bigint generated always as identity primary key,
    at          timestamptz not null default clock_timestamp(),
    kind        text not null constraint changes_pending_kind_known
                check (kind in ('run', 'checkpoint', 'measurement', 'verdict', 'alert')),
    run         text,
    checkpoint  text,
    trajectory  text, -- id; of a run: those of its inputs, which are looked up when it gets its id
    data        jsonb not null
);

create table changes (
    id            bigint primary key,
    at            timestamptz not null,
    kind          text not null,
    run           text,
    checkpoint    text,
    trajectories  text[] not null, -- ids
    data          jsonb not null
);

-- One row. `last`: the newest id; whoever gives ids holds its lock until the commit. `pruned`: the newest id that was
-- removed for its age.
create table change_log (
    alone   boolean primary key default true constraint change_log_one_row check (alone),
    last    bigint not null default 0,
    pruned  bigint not null default 0
);
insert into change_log default values;

-- Which change a run's measurements of a checkpoint came with, and the newest change of a checkpoint itself (`run` is
-- ''): what remains of the log when its old rows are removed, so that lists of what is new since an id stay whole.
create table change_marks (
    checkpoint  text constraint change_marks_checkpoint references checkpoints (id) on delete cascade,
    run         text,
    change      bigint not null,
    primary key (checkpoint, run)
);
create index change_marks_by_change on change_marks (change);

create function changes_of_run_events() returns trigger language plpgsql as $$
begin
    insert into changes_pending (kind, run, data)
    select 'run', e.run, jsonb_strip_nulls(jsonb_build_object('run', e.run, 'run_kind', r.kind, 'to', e.data ->> 'to',
        'reason', e.data ->> 'reason', 'error', (e.data -> 'error')::jsonb, 'worker', e.data ->> 'worker',
        'device', e.data ->> 'device')) || jsonb_build_object('from', e.data ->> 'from')
    from made e join runs r on r.id = e.run where e.type = 'state' order by e.id;
    return null;
end $$;
create trigger changes after insert on run_events referencing new table as made
    for each statement execute function changes_of_run_events();

create function changes_of_deleted_runs() returns trigger language plpgsql as $$
begin
    insert into changes_pending (kind, run, data)
    select 'run', id, jsonb_build_object('run', id, 'run_kind', kind, 'from', state, 'to', 'deleted') from gone
        order by number;
    return null;
end $$;
create trigger changes after delete on runs referencing old table as gone
    for each statement execute function changes_of_deleted_runs();

create function change_of_checkpoint(action text, c checkpoints) returns void language sql as $$
    insert into changes_pending (kind, checkpoint, trajectory, data)
    select 'checkpoint', c.id, c.trajectory, jsonb_build_object('action', action, 'checkpoint', c.id,
        'checkpoint_name', c.name,
        'trajectory', t.name, 'trajectory_id', c.trajectory, 'step', c.step, 'tokens', c.tokens)
    from (select 1) one left join trajectories t on t.id = c.trajectory;
$$;

create function changes_of_checkpoints() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform change_of_checkpoint('deleted', old);
    else
        perform change_of_checkpoint(case tg_op when 'INSERT' then 'registered' else 'changed' end, new);
    end if;
    return null;
end $$;
create trigger changes after insert or delete on checkpoints for each row execute function changes_of_checkpoints();
create trigger changes_update after update on checkpoints for each row
    when ((old.name, old.step, old.tokens, old.learning_rate, old.sha256, old.tags::text)
          is distinct from (new.name, new.step, new.tokens, new.learning_rate, new.sha256, new.tags::text))
    execute function changes_of_checkpoints();

-- One change for all that a run measured of a checkpoint.
create function change_of_measurements(measured_by text, measured text, metrics jsonb, labels jsonb) returns void
    language sql as $$
    insert into changes_pending (kind, run, checkpoint, trajectory, data)
    select 'measurement', r.id, c.id, c.trajectory, jsonb_build_object('run', r.id, 'run_kind', r.kind,
        'checkpoint', c.id,
        'checkpoint_name', c.name, 'trajectory', t.name, 'trajectory_id', t.id, 'step', c.step, 'tokens', c.tokens,
        'metrics', metrics, 'labels', labels)
    from runs r left join checkpoints c on c.id = measured left join trajectories t on t.id = c.trajectory
        where r.id = measured_by;
$$;

create function changes_of_measurements() returns trigger language plpgsql as $$
begin
    perform change_of_measurements(run, checkpoint, jsonb_agg(distinct metric),
        coalesce(jsonb_agg(distinct label) filter (where label <> ''), '[]')) from made group by run, checkpoint;
    return null;
end $$;
create trigger changes after insert on measurements referencing new table as made
    for each statement execute function changes_of_measurements();

-- What is there already begins the log.
select change_of_checkpoint('registered', c) from (select * from checkpoints order by number) c;
select change_of_measurements(run, checkpoint, metrics, labels) from (
    select m.run, m.checkpoint, jsonb_agg(distinct m.metric) as metrics,
        coalesce(jsonb_agg(distinct m.label) filter (where m.label <> ''), '[]') as labels
    from measurements m join runs r on r.id = m.run group by m.run, m.checkpoint, r.finished_at, r.number
    order by r.finished_at, r.number) m;
