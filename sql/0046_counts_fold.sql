-- A fold makes rows of many trajectories anew. Each new row takes a key lock on its trajectory, for which it waited as
-- long as that trajectory was being deleted, while the deletion waited for the rows that the fold had removed. So it
-- leaves out the trajectories of which it does not get that lock at once.
create or replace function trajectory_counts_fold() returns trigger language plpgsql as $$
declare
    free text[];
begin
    if random() < 0.01 then
        free := array(select t.id from trajectories t
            where t.id in (select trajectory from trajectory_counts limit 1000)
            for key share skip locked);
        with gone as (delete from trajectory_counts where ctid = any (array(select ctid
            from trajectory_counts where trajectory = any (free) for update skip locked limit 1000))
            returning trajectory, what, change)
        insert into trajectory_counts select trajectory, what, sum(change) from gone group by trajectory, what
            having sum(change) <> 0;
    end if;
    return null;
end $$;
