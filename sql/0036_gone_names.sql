-- What a run read keeps its name in the run's document when it is deleted: ids in parameters would say nothing.
alter table run_inputs
    add column gone      text,
    add column gone_name text,
    add constraint run_inputs_gone_named check ((gone is null) = (gone_name is null));

create function dataset_gone() returns trigger language plpgsql as $$
begin
    update run_inputs set dataset = null, gone = old.id, gone_name = old.name where dataset = old.id;
    return old;
end $$;
create trigger gone before delete on datasets for each row execute function dataset_gone();

create function checkpoint_gone() returns trigger language plpgsql as $$
begin
    update run_inputs set checkpoint = null, gone = old.id, gone_name = t.name || '/' || old.name
        from trajectories t where t.id = old.trajectory and checkpoint = old.id;
    return old;
end $$;
create trigger gone before delete on checkpoints for each row execute function checkpoint_gone();

-- Its checkpoints go with it, when its name is gone already.
create function trajectory_gone() returns trigger language plpgsql as $$
begin
    update run_inputs set trajectory = null, gone = old.id, gone_name = old.name where trajectory = old.id;
    update run_inputs i set checkpoint = null, gone = c.id, gone_name = old.name || '/' || c.name
        from checkpoints c where c.trajectory = old.id and i.checkpoint = c.id;
    return old;
end $$;
create trigger gone before delete on trajectories for each row execute function trajectory_gone();
