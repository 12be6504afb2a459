-- What changes with a checkpoint that goes, or that moves, and who waits for its deletion.

-- Checkpoints of the same content showed its numbers, and are told of their loss. When triggers on measurements are
-- called, foreign keys have taken the content and the rows of `newest` away already, so newest_gone (0044) finds nobody
-- to tell. Which of the checkpoints had numbers that others show is noted before: a row lives within one statement.
create table measured_gone (checkpoint text primary key);

create function measured_gone_note() returns trigger language plpgsql as $$
begin
    insert into measured_gone (checkpoint) select old.id
        where exists (select from same_content where checkpoint = old.id)
        and exists (select from newest where checkpoint = old.id) on conflict do nothing;
    return old;
end $$;
create trigger measured_gone_note before delete on checkpoints for each row when (old.sha256 is not null)
    execute function measured_gone_note();

-- Once a statement, so that each of those that stay is told once, however many of its content go.
create function measured_gone_tell() returns trigger language plpgsql as $$
declare
    contents text[];
begin
    with gone as (delete from measured_gone g using removed r where g.checkpoint = r.id returning r.sha256)
        select array_agg(distinct sha256) into contents from gone;
    perform change_of_checkpoint('changed', c) from checkpoints c where c.sha256 = any (contents) order by c.number;
    return null;
end $$;
create trigger measured_gone_tell after delete on checkpoints referencing old table as removed for each statement
    execute function measured_gone_tell();

-- A change of a step says where the checkpoint was, and that of a deletion its number, by which checkpoints of one step
-- are ordered: those behind that place were compared with it.
create function change_of_checkpoint_and(action text, c checkpoints, more jsonb) returns void language sql as $$
    insert into changes_pending (kind, checkpoint, trajectory, data)
    select 'checkpoint', c.id, c.trajectory, jsonb_build_object('action', action, 'checkpoint', c.id,
        'checkpoint_name', c.name,
        'trajectory', t.name, 'trajectory_id', c.trajectory, 'step', c.step, 'tokens', c.tokens) || more
    from (select 1) one left join trajectories t on t.id = c.trajectory;
$$;

create or replace function change_of_checkpoint(action text, c checkpoints) returns void language sql as $$
    select change_of_checkpoint_and(action, c, '{}');
$$;

create or replace function changes_of_checkpoints() returns trigger language plpgsql as $$
begin
    if tg_op = 'DELETE' then
        perform change_of_checkpoint_and('deleted', old, jsonb_build_object('number', old.number));
    elsif tg_op = 'UPDATE' and new.step is distinct from old.step then
        perform change_of_checkpoint_and('changed', new, jsonb_build_object('step_before', old.step));
    else
        perform change_of_checkpoint(case tg_op when 'INSERT' then 'registered' else 'changed' end, new);
    end if;
    return null;
end $$;

-- Whoever gives ids (store/changes.c) and whoever judges (follow/follower.c) is one at a time for all trajectories.
-- These keys made both wait for the end of a deletion, as long as it took, when they had a row to write of a checkpoint
-- that was being deleted. They remove such rows themselves when they come to the change that tells of it: a trigger
-- could not, since who writes a row waits for whoever is removing it. Until then a row without its checkpoint tells
-- nothing, as those who read them look for the checkpoint.
alter table change_marks drop constraint change_marks_checkpoint;
alter table gate_verdicts drop constraint gate_verdicts_checkpoint;
