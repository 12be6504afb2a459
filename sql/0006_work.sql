-- What a succeeded run computed, by its plan: with its seconds the measured rate that later plans are timed by.
alter table runs add column usage_work double precision;
create index runs_work on runs (kind, device) where state = 'succeeded' and usage_work is not null;
