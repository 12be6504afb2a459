-- Which data directory was found to lack which checkpoint's files: its workers take no run of it for a while
-- (store/run_fits.h).
create table node_lacks (
    node        text,
    checkpoint  text constraint node_lacks_checkpoint references checkpoints (id) on delete cascade,
    noted_at    timestamptz not null default clock_timestamp(),
    primary key (node, checkpoint)
);
create index node_lacks_checkpoint on node_lacks (checkpoint);
