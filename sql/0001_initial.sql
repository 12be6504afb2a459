-- The first schema. Ids are opaque texts; `number` gives lists their order and their cursor. Documents that are only shown are
-- `json` (the order of their fields is kept), never searched.

create function rfc3339(moment timestamptz) returns text
    language sql immutable parallel safe
    return to_char(moment at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"');

create table trajectories (
    id          text primary key default gen_random_uuid()::text,
    number      bigint generated always as identity unique,
    name        text not null constraint trajectories_name_unique unique
                constraint trajectories_name_form check (name ~ '^[^/[:cntrl:]]{1,200}$'),
    watch       text,
    created_at  timestamptz not null default clock_timestamp()
);

create table checkpoints (
    id            text primary key default gen_random_uuid()::text,
    number        bigint generated always as identity unique,
    trajectory    text not null constraint checkpoints_trajectory references trajectories (id),
    name          text not null constraint checkpoints_name_form check (name ~ '^[^/[:cntrl:]]{1,200}$'),
    step          bigint constraint checkpoints_step_positive check (step >= 0),
    tokens        bigint constraint checkpoints_tokens_positive check (tokens >= 0),
    learning_rate double precision constraint checkpoints_learning_rate_positive check (learning_rate >= 0),
    source        json not null,
    path          text,
    architecture  text,
    parameters    bigint,
    dtype         text,
    bytes         bigint,
    fingerprint   text,
    files         json,
    sha256        text constraint checkpoints_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
    derived_from  json,
    tags          json not null default '{}',
    created_at    timestamptz not null default clock_timestamp(),
    constraint checkpoints_name_unique unique (trajectory, name)
);
create index checkpoints_by_name on checkpoints (name);
create index checkpoints_by_trajectory on checkpoints (trajectory, number);

create table datasets (
    id          text primary key default gen_random_uuid()::text,
    number      bigint generated always as identity unique,
    name        text not null constraint datasets_name_unique unique
                constraint datasets_name_form check (name ~ '^[^/[:cntrl:]]{1,200}$'),
    format      text not null constraint datasets_format_known check (format in ('text', 'jsonl', 'tokens', 'sequences')),
    definition  json not null,
    sha256      text constraint datasets_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
    sequences   bigint,
    tokens      bigint,
    created_at  timestamptz not null default clock_timestamp(),
    constraint datasets_inline_counted check ((format = 'sequences') = (sequences is not null and tokens is not null))
);

-- Inline tokens: int32, little-endian, one sequence after another; `lengths` likewise.
create table dataset_contents (
    dataset  text primary key constraint dataset_contents_dataset references datasets (id) on delete cascade,
    lengths  bytea not null,
    tokens   bytea not null
);
alter table dataset_contents alter column tokens set storage external;

create table sweeps (
    id          text primary key default gen_random_uuid()::text,
    number      bigint generated always as identity unique,
    name        text not null constraint sweeps_name_unique unique,
    kind        text not null,
    base        json not null,
    grid        json not null,
    created_at  timestamptz not null default clock_timestamp()
);

-- The queue. Narrow, and half of each page free, so that beats stay heap-only updates: nothing that a beat changes is in an index.
create table runs (
    id                  text primary key default gen_random_uuid()::text,
    number              bigint generated always as identity unique,
    kind                text not null,
    state               text not null default 'queued'
                        constraint runs_state_known check (state in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    priority            integer not null default 0,
    run_at              timestamptz not null default clock_timestamp(),
    dedupe_key          text,
    forced              boolean not null default false,
    epoch               bigint not null default 0, -- grows with every lease, never falls: the fence
    tries               integer not null default 0, -- ended by an error worth a retry
    crashes             integer not null default 0, -- ended by the death of their worker
    stalls              integer not null default 0, -- given up because the engine stood still
    owner               text,
    lease_until         timestamptz,
    beat_at             timestamptz,
    cancel_requested_at timestamptz,
    progress_done       bigint not null default 0,
    progress_total      bigint not null default 0,
    progress_unit       text not null default '',
    progress_eta        double precision,
    worker              text, -- of the last lease, for people
    device              text,
    created_at          timestamptz not null default clock_timestamp(),
    started_at          timestamptz,
    finished_at         timestamptz,
    error               json,
    result_epoch        bigint,
    usage_seconds       double precision,
    usage_host_bytes    bigint,
    usage_device_bytes  bigint,
    constraint runs_running_is_leased check ((state = 'running') = (owner is not null and lease_until is not null)),
    constraint runs_lease_is_whole check ((owner is null) = (lease_until is null)),
    constraint runs_final_has_end check ((state in ('succeeded', 'failed', 'cancelled')) = (finished_at is not null)),
    constraint runs_succeeded_has_result check ((state = 'succeeded') = (result_epoch is not null)),
    constraint runs_result_is_last check (result_epoch is null or result_epoch = epoch),
    constraint runs_failed_has_error check ((state = 'failed') = (error is not null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 100, autovacuum_vacuum_cost_delay = 0);
create index runs_queued on runs (priority desc, run_at, number) where state = 'queued';
create index runs_running on runs (id) where state = 'running';
create index runs_owner on runs (owner) where state = 'running';
create index runs_dedupe on runs (dedupe_key) where dedupe_key is not null;
create unique index runs_dedupe_unique on runs (dedupe_key) where state in ('queued', 'running') and not forced;

create table run_specs (
    run     text primary key constraint run_specs_run references runs (id) on delete cascade,
    params  json not null
);

create table run_results (
    run     text constraint run_results_run references runs (id) on delete cascade,
    epoch   bigint,
    result  json not null,
    primary key (run, epoch)
);

-- What a run reads: for filters, and against deletion under it.
create table run_inputs (
    run         text not null constraint run_inputs_run references runs (id) on delete cascade,
    checkpoint  text constraint run_inputs_checkpoint references checkpoints (id) on delete set null,
    trajectory  text constraint run_inputs_trajectory references trajectories (id) on delete set null,
    dataset     text constraint run_inputs_dataset references datasets (id) on delete set null
);
create index run_inputs_by_run on run_inputs (run);
create index run_inputs_by_checkpoint on run_inputs (checkpoint) where checkpoint is not null;
create index run_inputs_by_trajectory on run_inputs (trajectory) where trajectory is not null;
create index run_inputs_by_dataset on run_inputs (dataset) where dataset is not null;

create table sweep_runs (
    sweep  text constraint sweep_runs_sweep references sweeps (id) on delete cascade,
    run    text constraint sweep_runs_run references runs (id) on delete cascade,
    primary key (sweep, run)
);
create index sweep_runs_by_run on sweep_runs (run);

-- Append-only history. Written in the transaction of what it tells of, after the run's row is locked: ids of one run grow in the
-- order in which they become visible.
create table run_events (
    id     bigint generated always as identity primary key,
    run    text not null constraint run_events_run references runs (id) on delete cascade,
    epoch  bigint not null,
    type   text not null constraint run_events_type_known check (type in ('state', 'log')),
    at     timestamptz not null default clock_timestamp(),
    data   json not null
);
create index run_events_by_run on run_events (run, id);

create table measurements (
    run         text not null constraint measurements_run references runs (id) on delete cascade,
    epoch       bigint not null,
    checkpoint  text constraint measurements_checkpoint references checkpoints (id) on delete cascade,
    metric      text not null,
    value       double precision not null,
    low         double precision,
    high        double precision,
    method      text not null default '',
    bits        integer not null default 0,
    label       text not null default '',
    dataset     text not null default '',
    constraint measurements_once unique (run, epoch, checkpoint, metric, label, dataset),
    constraint measurements_finite check (value not in ('NaN', 'Infinity', '-Infinity'))
);
create index measurements_by_checkpoint on measurements (checkpoint, metric);

create table artifacts (
    run         text constraint artifacts_run references runs (id) on delete cascade,
    epoch       bigint,
    name        text,
    sha256      text not null constraint artifacts_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
    bytes       bigint not null,
    media_type  text not null,
    primary key (run, epoch, name)
);
create index artifacts_by_sha256 on artifacts (sha256);

create table workers (
    id          text primary key,
    host        text not null,
    pid         integer not null,
    boot_id     text not null,
    slurm_job   text not null default '',
    device      text not null,
    threads     integer not null,
    started_at  timestamptz not null default clock_timestamp(),
    seen_at     timestamptz not null default clock_timestamp()
);

create table tokens (
    id          text primary key default gen_random_uuid()::text,
    name        text constraint tokens_name_unique unique,
    scope       text not null constraint tokens_scope_known check (scope in ('read', 'write', 'admin')),
    sha256      text not null constraint tokens_sha256_unique unique,
    created_at  timestamptz not null default clock_timestamp()
);

create table idempotency_keys (
    scope           text not null, -- id of the token, or ''
    key             text not null,
    request_sha256  text not null,
    claimed_at      timestamptz not null default clock_timestamp(),
    http_status     integer,
    body            text,
    location        text,
    primary key (scope, key)
);
