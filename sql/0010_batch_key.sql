-- Queued runs with one key may be members of one batch; the name says what the key is for.
alter table runs rename column companions to batch_key;
alter index runs_companions rename to runs_batch_key;
