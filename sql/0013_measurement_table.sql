-- What lists and curves are read from: kept by the writes, so that no question goes through all runs or all
-- measurements. Everything here can be made again of `measurements`, `run_inputs` and `checkpoints`.

-- Checkpoints of the same content share what was measured of it.
create index checkpoints_by_sha256 on checkpoints (sha256) where sha256 is not null;
create index checkpoints_by_real_step on checkpoints (trajectory, step);
create index checkpoints_by_tokens on checkpoints (trajectory, tokens);

-- What a number is of, beside its checkpoint: method, evaluation, calibration. The words for the evaluation are of
-- the first run.
create table series (
    id             integer generated always as identity primary key,
    label          text not null,
    method         text not null,
    bits           integer not null,
    dataset        text not null,
    protocol       text not null,
    calibration    text not null,
    calibrated_on  text not null,
    evaluated_on   text not null,
    constraint series_once unique (label, dataset, protocol, calibration, method, bits)
);

-- The newest measurement of each metric and series of a checkpoint: that of the run with the largest number.
create table newest (
    trajectory  text not null,
    metric      text not null,
    series      integer not null constraint newest_series references series (id),
    checkpoint  text not null constraint newest_checkpoint references checkpoints (id) on delete cascade,
    value       double precision not null,
    low         double precision,
    high        double precision,
    run         text not null,
    number      bigint not null,
    primary key (trajectory, metric, series, checkpoint)
);
create index newest_by_checkpoint on newest (checkpoint);

create function series_of(run text, epoch bigint, dataset text) returns text language sql stable
    return coalesce((select dataset || ': ' || (x.result ->> 'sequences') || ' sequences, '
        || (x.result ->> 'tokens') || ' tokens'
        from run_results x where x.run = series_of.run and x.epoch = series_of.epoch and dataset <> ''), dataset);

create function newest_add() returns trigger language plpgsql as $$
begin
    insert into series (label, method, bits, dataset, protocol, calibration, calibrated_on, evaluated_on)
        select n.label, n.method, n.bits, n.dataset, n.protocol, n.calibration, min(n.calibrated_on),
            case n.protocol when '' then n.dataset else series_of(min(n.run), min(n.epoch), n.dataset) end
        from added n where not exists (select from series s
            where (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
            = (n.label, n.dataset, n.protocol, n.calibration, n.method, n.bits))
        group by n.label, n.method, n.bits, n.dataset, n.protocol, n.calibration on conflict do nothing;
    insert into newest (trajectory, metric, series, checkpoint, value, low, high, run, number)
        select distinct on (c.trajectory, n.metric, s.id, c.id) c.trajectory, n.metric, s.id, c.id,
            n.value, n.low, n.high, n.run, r.number
        from added n join checkpoints c on c.id = n.checkpoint join runs r on r.id = n.run
        join series s on (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
            = (n.label, n.dataset, n.protocol, n.calibration, n.method, n.bits)
        order by c.trajectory, n.metric, s.id, c.id, r.number desc, n.epoch desc
        on conflict (trajectory, metric, series, checkpoint) do update set value = excluded.value, low = excluded.low,
            high = excluded.high,
            run = excluded.run, number = excluded.number where excluded.number >= newest.number;
    return null;
end $$;

-- The measurement before takes the place of one that is gone.
create function newest_remove() returns trigger language plpgsql as $$
begin
    delete from newest n using (select distinct checkpoint, run from removed) o where n.checkpoint = o.checkpoint
        and n.run = o.run;
    insert into newest (trajectory, metric, series, checkpoint, value, low, high, run, number)
        select distinct on (c.trajectory, m.metric, s.id, c.id) c.trajectory, m.metric, s.id, c.id,
            m.value, m.low, m.high, m.run, r.number
        from measurements m join checkpoints c on c.id = m.checkpoint join runs r on r.id = m.run
            and r.result_epoch = m.epoch
        join series s on (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
            = (m.label, m.dataset, m.protocol, m.calibration, m.method, m.bits)
        where m.checkpoint in (select checkpoint from removed)
        order by c.trajectory, m.metric, s.id, c.id, r.number desc, m.epoch desc on conflict do nothing;
    return null;
end $$;

create trigger newest_add after insert on measurements referencing new table as added for each statement
    execute function newest_add();
create trigger newest_remove after delete on measurements referencing old table as removed for each statement
    execute function newest_remove();

-- Which runs are of a trajectory, by what they read when they were posted.
create table run_trajectories (
    trajectory  text constraint run_trajectories_trajectory references trajectories (id) on delete cascade,
    number      bigint,
    run         text not null constraint run_trajectories_run references runs (id) on delete cascade,
    primary key (trajectory, number)
);
create index run_trajectories_by_run on run_trajectories (run);

-- How many checkpoints and runs by state a trajectory has: the sum of its rows. A write adds a row and waits for
-- nobody; now and then a write makes one row of many.
create table trajectory_counts (
    trajectory  text not null constraint trajectory_counts_trajectory references trajectories (id) on delete cascade,
    what        text not null, -- a state of runs, or 'checkpoint'
    change      bigint not null
);
create index trajectory_counts_by_trajectory on trajectory_counts (trajectory);

create function trajectory_counts_fold() returns trigger language plpgsql as $$
begin
    if random() < 0.01 then
        with gone as (delete from trajectory_counts where ctid = any (array(select ctid
            from trajectory_counts for update skip locked limit 1000))
            returning trajectory, what, change)
        insert into trajectory_counts select trajectory, what, sum(change) from gone group by trajectory, what
            having sum(change) <> 0;
    end if;
    return null;
end $$;

create function checkpoint_count() returns trigger language plpgsql as $$
begin
    if tg_op = 'INSERT' then
        insert into trajectory_counts select trajectory, 'checkpoint', count(*) from changed group by trajectory;
    else
        insert into trajectory_counts select c.trajectory, 'checkpoint', -count(*) from changed c
            join trajectories t on t.id = c.trajectory
            group by c.trajectory;
    end if;
    return null;
end $$;
create trigger checkpoint_added after insert on checkpoints referencing new table as changed for each statement
    execute function checkpoint_count();
create trigger checkpoint_removed after delete on checkpoints referencing old table as changed for each statement
    execute function checkpoint_count();

create function run_joins_trajectory() returns trigger language plpgsql as $$
begin
    with joined as (insert into run_trajectories (trajectory, number, run)
        select distinct coalesce(i.trajectory, c.trajectory), r.number, r.id from added i join runs r on r.id = i.run
        left join checkpoints c on c.id = i.checkpoint where coalesce(i.trajectory, c.trajectory) is not null
        order by 1, 2 on conflict do nothing returning trajectory, run)
    insert into trajectory_counts select j.trajectory, r.state, count(*) from joined j join runs r on r.id = j.run
        group by 1, 2;
    return null;
end $$;
create trigger run_joins_trajectory after insert on run_inputs referencing new table as added for each statement
    execute function run_joins_trajectory();

create function run_state_count() returns trigger language plpgsql as $$
begin
    insert into trajectory_counts select t.trajectory, w.what, w.change from run_trajectories t,
        (values (old.state, -1), (case tg_op when 'UPDATE' then new.state end, 1)) w (what, change)
            where t.run = old.id and w.what is not null;
    return case tg_op when 'UPDATE' then new else old end;
end $$;
create trigger run_changes_state after update of state on runs for each row when (old.state is distinct from new.state)
    execute function run_state_count();
create trigger run_removed before delete on runs for each row execute function run_state_count();

-- Of what there is already.
insert into series (label, method, bits, dataset, protocol, calibration, calibrated_on, evaluated_on)
    select label, method, bits, dataset, protocol, calibration, min(calibrated_on),
        case protocol when '' then dataset else series_of(min(run), min(epoch), dataset) end
    from measurements group by label, method, bits, dataset, protocol, calibration;
insert into newest (trajectory, metric, series, checkpoint, value, low, high, run, number)
    select distinct on (c.trajectory, m.metric, s.id, c.id) c.trajectory, m.metric, s.id, c.id,
        m.value, m.low, m.high, m.run, r.number
    from measurements m join checkpoints c on c.id = m.checkpoint join runs r on r.id = m.run
        and r.result_epoch = m.epoch
    join series s on (s.label, s.dataset, s.protocol, s.calibration, s.method, s.bits)
        = (m.label, m.dataset, m.protocol, m.calibration, m.method, m.bits)
    order by c.trajectory, m.metric, s.id, c.id, r.number desc;
insert into run_trajectories (trajectory, number, run)
    select distinct coalesce(i.trajectory, c.trajectory), r.number, r.id from run_inputs i join runs r on r.id = i.run
    left join checkpoints c on c.id = i.checkpoint where coalesce(i.trajectory, c.trajectory) is not null;
insert into trajectory_counts select trajectory, 'checkpoint', count(*) from checkpoints group by trajectory;
insert into trajectory_counts select t.trajectory, r.state, count(*) from run_trajectories t
    join runs r on r.id = t.run group by 1, 2;
create trigger trajectory_counts_fold after insert on trajectory_counts for each statement
    execute function trajectory_counts_fold();
