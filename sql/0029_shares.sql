-- Whose a run is: the id of the token that it was first asked for with, '' of who needs none. A sweep's runs to come
-- are its requester's too.
alter table runs add column requester text not null default '';
alter table sweeps add column requester text not null default '';
-- When a worker got it last: of two requesters with equally many workers the one comes first that was served before.
alter table runs add column leased_at timestamptz;

-- One entry for each requester and priority is read of it, and then the first that waits of one of them.
create index runs_queued_shares on runs (requester desc, priority desc, run_at, number) where state = 'queued';
create index runs_running_shares on runs (requester, owner) where state = 'running';
create index runs_leased on runs (requester, leased_at) where leased_at is not null;
