-- Checkpoints whose content another checkpoint has, or had: only these share what was measured of another, so a
-- question about a trajectory need not look for the content of each of its checkpoints. A row that is no longer needed
-- stays: it costs a look.
create table same_content (
    checkpoint  text primary key constraint same_content_checkpoint references checkpoints (id) on delete cascade,
    trajectory  text not null
);
create index same_content_by_trajectory on same_content (trajectory);

-- All checkpoints of a content are in the table when it has two or more, so one other is enough to look for. One writer
-- of a content at a time: the second of two at once sees the first. The locks are of 64 classes of contents, since a
-- transaction may write more checkpoints than it may hold locks.
create function same_content_add() returns trigger language plpgsql as $$
begin
    perform pg_advisory_xact_lock(1684366195, hashtext(new.sha256) & 63);
    insert into same_content (checkpoint, trajectory) select s.id, s.trajectory from (select id, trajectory
        from checkpoints where sha256 = new.sha256 and id <> new.id limit 1) other, lateral (values
        (new.id, new.trajectory), (other.id, other.trajectory)) s (id, trajectory) on conflict do nothing;
    return null;
end $$;
create trigger same_content after insert or update of sha256 on checkpoints for each row
    when (new.sha256 is not null) execute function same_content_add();

insert into same_content (checkpoint, trajectory) select id, trajectory from checkpoints where sha256 in
    (select sha256 from checkpoints where sha256 is not null group by sha256 having count(*) > 1);
