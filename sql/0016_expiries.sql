-- A lease that ended without a sign of life is no crash: the worker may live (an outage, a suspended host) or its
-- node was taken away. `attempts` is what people see and only grows; tries, crashes, stalls and expiries are budgets,
-- and begin again when a run gets 5 % further than ever before. How far it ever got, for each unit of progress:
-- {"step": 0.35}.
alter table runs add column expiries integer not null default 0;
alter table runs add column attempts integer not null default 0;
alter table runs add column progress_marks jsonb not null default '{}';
update runs set attempts = tries + crashes + stalls where tries + crashes + stalls > 0;
