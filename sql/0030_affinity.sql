-- The first checkpoint that a run reads: whose bytes its worker should have already. Not a reference: it is a hint.
alter table runs add column checkpoint text;
update runs r set checkpoint = (select min(i.checkpoint) from run_inputs i where i.run = r.id) where state = 'queued';
create index runs_queued_checkpoint on runs (checkpoint, requester, priority, run_at, number)
    where state = 'queued' and checkpoint is not null;

-- The data directory that a worker reads from, by the id in it; null: it does not say.
alter table workers add column node text;
create index workers_node on workers (node) where node is not null;

-- Which data directory has which checkpoint's files: those that a worker there has read.
create table node_checkpoints (
    node        text,
    checkpoint  text constraint node_checkpoints_checkpoint references checkpoints (id) on delete cascade,
    snapshot    text not null, -- the key in the cache (hub/hub_cache.h); '': the files lie where they were registered
    used_at     timestamptz not null default clock_timestamp(),
    primary key (node, checkpoint)
);
create index node_checkpoints_checkpoint on node_checkpoints (checkpoint);
create index node_checkpoints_used on node_checkpoints (node, used_at desc);
