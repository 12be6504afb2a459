-- Those that submit workers to a batch system: one at a time under each name; another waits until it is gone.
create table launchers (
    name          text primary key,
    owner         text not null,
    memory_bytes  bigint, -- the most that a run may get of a worker that it submits; null: not bounded
    seen_at       timestamptz not null default clock_timestamp()
);

-- What a launcher found of a queued run by its plan; null: nobody has looked.
alter table runs add column planned_at timestamptz;
alter table runs add column planned_seconds double precision; -- null: nobody knows
