-- How long runs that succeeded took and how many tokens they read, by kind: added up where changes get their ids
-- (store/changes.c), like run_transitions, and so sums that only grow. `le`: the smallest bound of
-- store/run_durations.h that is not below the run's seconds.
create table run_durations (
    kind     text,
    le       double precision,
    count    bigint not null,
    seconds  double precision not null,
    tokens   bigint not null,
    primary key (kind, le)
);

-- Of what there is already. Runs whose end has no id yet are added up later.
insert into run_durations
select r.kind, (select min(b) from unnest(array[1, 10, 60, 300, 1800, 7200, 28800, 86400, 'Infinity']::float8[]) b
        where b >= r.usage_seconds), count(*), sum(r.usage_seconds),
    coalesce(sum((x.result ->> case r.kind when 'plan' then 'trained_tokens' else 'tokens' end)::numeric), 0)
from runs r left join run_results x on x.run = r.id and x.epoch = r.result_epoch
    and r.kind in ('evaluate', 'quantize', 'sharpness', 'attribution', 'train', 'plan')
where r.state = 'succeeded' and r.usage_seconds is not null and not exists (select from changes_pending p
    where p.kind = 'run' and p.run = r.id and p.data ->> 'to' = 'succeeded')
group by 1, 2;
