-- A checkpoint whose newest numbers go with their run has changed: its rows show those before, or none. Whoever keeps a
-- copy of the table, and gates, are told of it and of what shares its content. Triggers are called in the order of
-- their names, so this one still finds the rows that newest_remove (0013) takes away.
create function newest_gone() returns trigger language plpgsql as $$
begin
    perform change_of_checkpoint('changed', c) from checkpoints c where c.id in (
        with lost as (select distinct n.checkpoint as id from newest n join removed o on n.checkpoint = o.checkpoint
            and n.run = o.run)
        select id from lost union select k.id from lost join checkpoints at on at.id = lost.id
            join checkpoints k on k.sha256 = at.sha256) order by c.number;
    return null;
end $$;

create trigger newest_gone after delete on measurements referencing old table as removed for each statement
    execute function newest_gone();
