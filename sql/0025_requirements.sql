-- What a worker is and has, and what a run requires of its worker (store/run_fits.h compares the two).
alter table workers add column labels jsonb not null default '[]'
    constraint workers_labels_form check (jsonb_typeof(labels) = 'array');
-- Memory of the host that a run may take there; null: the worker does not say.
alter table workers add column memory_bytes bigint;

-- {"device": "cuda", "labels": ["gpu=h100"], "memory_bytes": 8589934592}, each where it is required; null: nothing.
alter table runs add column requires jsonb
    constraint runs_requires_form check (jsonb_typeof(requires) = 'object');
-- Of all runs of a sweep, those of later checkpoints too.
alter table sweeps add column requires jsonb
    constraint sweeps_requires_form check (jsonb_typeof(requires) = 'object');
-- More than a worker had that could not plan the run within its memory; null: none has said so.
alter table runs add column memory_wanted bigint;
