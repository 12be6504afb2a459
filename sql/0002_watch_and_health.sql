-- Directories that are watched, sweeps that go on, and what the weights of checkpoints are like.

-- How the watch of trajectories.watch gets on: {"mode", "pending", "failed"}. Written by whichever server watches.
alter table trajectories add column watch_state json;

create index checkpoints_by_step on checkpoints (trajectory, coalesce(step, 9223372036854775807), number);

-- A standing sweep takes in each checkpoint that its trajectory gets; sweep_checkpoints says which it has taken in already.
alter table sweeps add column standing text constraint sweeps_standing references trajectories (id) on delete set null;
create index sweeps_by_standing on sweeps (standing) where standing is not null;

create table sweep_checkpoints (
    sweep       text constraint sweep_checkpoints_sweep references sweeps (id) on delete cascade,
    checkpoint  text constraint sweep_checkpoints_checkpoint references checkpoints (id) on delete cascade,
    error       json, -- why no runs could be made of it
    primary key (sweep, checkpoint)
);

-- One reading of a checkpoint: facts about its content, which do not depend on the run that found them. `keys` has 8 bytes for each
-- matrix, in ascending order of names, `homes` 4 for the file that it lies in: with them a whole trajectory is compared in one go.
create table checkpoint_health (
    checkpoint     text primary key constraint checkpoint_health_checkpoint references checkpoints (id) on delete cascade,
    content        text not null constraint checkpoint_health_content_form check (content ~ '^[0-9a-f]{64}$'),
    tensors        integer not null,
    elements       bigint not null,
    nan            bigint not null,
    infinite       bigint not null,
    l1             double precision not null,
    l2             double precision not null,
    linf           double precision not null,
    kurtosis       double precision,
    outlier_share  double precision not null,
    previous       text constraint checkpoint_health_previous references checkpoints (id) on delete set null,
    relative_l2    double precision,
    cosine         double precision,
    files          json not null,
    layers         json not null,
    keys           bytea not null,
    homes          bytea not null,
    created_at     timestamptz not null default clock_timestamp(),
    constraint checkpoint_health_homes_fit check (octet_length(keys) = 2 * octet_length(homes))
);
alter table checkpoint_health alter column keys set storage external;

create table tensor_health (
    checkpoint   text constraint tensor_health_checkpoint references checkpoint_health (checkpoint) on delete cascade,
    place        integer,
    matrix       integer, -- place among the matrices; null: it is none
    name         text not null,
    dtype        text not null,
    layer        integer,
    file         text not null,
    sha256       text not null constraint tensor_health_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
    elements     bigint not null,
    nan          bigint not null,
    infinite     bigint not null,
    l1           double precision not null,
    l2           double precision not null,
    linf         double precision not null,
    mean         double precision not null,
    kurtosis     double precision,
    outliers     bigint not null,
    relative_l2  double precision,
    cosine       double precision,
    primary key (checkpoint, place)
);
