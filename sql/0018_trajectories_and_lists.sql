-- What people write about a trajectory, and whether lists leave it out.
alter table trajectories add column notes text;
alter table trajectories add column archived_at timestamptz;

-- A trajectory is deleted with its checkpoints: each of them is looked for in these.
create index checkpoint_health_by_previous on checkpoint_health (previous) where previous is not null;
create index sweep_checkpoints_by_checkpoint on sweep_checkpoints (checkpoint);
create index gate_verdicts_by_checkpoint on gate_verdicts (checkpoint);

-- Orders and filters of lists. No beat changes these columns.
create index runs_finished on runs (finished_at, number) where finished_at is not null;
create index runs_created on runs (created_at);
create index checkpoints_created on checkpoints (created_at);
