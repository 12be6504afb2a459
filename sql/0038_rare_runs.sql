-- For lists of what is rare among many runs, newest first: without these a list looks at every run. No beat changes
-- these columns.
create index runs_failed on runs (number) where state = 'failed';
create index runs_cancelled on runs (number) where state = 'cancelled';
create index runs_by_kind on runs (kind, number);
