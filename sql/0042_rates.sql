-- The last runs that tell how fast a kind is on a device (run_rate); all of them are too many to read.
drop index runs_work;
create index runs_rates on runs (kind, device, finished_at)
  where state = 'succeeded' and usage_work > 0 and usage_seconds > 0;
