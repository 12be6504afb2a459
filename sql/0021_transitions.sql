-- How often runs of a kind went from one state to another, and why: added up where changes get their ids
-- (store/changes.c), by one transaction at a time, so that no writer waits for another one's counts. The runs in a
-- state are what came into it less what left it. What /metrics counts are sums that only grow, whatever is deleted
-- and however short the change log is kept.
create table run_transitions (
    kind        text,
    from_state  text, -- '': it was made, or was there before this table
    to_state    text, -- 'deleted': it is gone
    reason      text, -- of the event: 'crashed', 'expired', 'stalled', 'released'; 'error': it has one; '': none
    count       bigint not null,
    primary key (kind, from_state, to_state, reason)
);

-- Changes that have no id yet are added up later, and are in the states of runs already.
insert into run_transitions
select kind, from_state, to_state, reason, sum(count) from (
    select kind, '' as from_state, state as to_state, '' as reason, 1 as count from runs
    union all
    select data ->> 'run_kind', coalesce(data ->> 'from', ''), data ->> 'to',
        coalesce(data ->> 'reason', case when data ? 'error' then 'error' else '' end), -1
    from changes_pending where kind = 'run') t
group by 1, 2, 3, 4;

-- How old the oldest queued run of a kind is.
create index runs_queued_by_kind on runs (kind, run_at) where state = 'queued';

-- How tries of webhooks ended, also those whose rows were removed for their age.
create table webhook_outcomes (
    outcome  text primary key,
    count    bigint not null
);
insert into webhook_outcomes select outcome, count(*) from webhook_deliveries group by 1;

create function count_webhook_outcomes() returns trigger language plpgsql as $$
begin
    insert into webhook_outcomes select outcome, count(*) from made group by 1 order by 1
    on conflict (outcome) do update set count = webhook_outcomes.count + excluded.count;
    return null;
end $$;
create trigger outcomes after insert on webhook_deliveries referencing new table as made
    for each statement execute function count_webhook_outcomes();
