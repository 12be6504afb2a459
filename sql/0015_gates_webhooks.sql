-- Budgets on measurements, and who is told of changes by HTTP.

create table gates (
    id          text primary key default gen_random_uuid()::text,
    number      bigint generated always as identity unique,
    name        text not null constraint gates_name_unique unique
                constraint gates_name_form check (name ~ '^[^/[:cntrl:]]{1,200}$'),
    trajectory  text not null constraint gates_trajectory references trajectories (id) on delete cascade,
    rules       json not null,
    created_at  timestamptz not null default clock_timestamp()
);
create index gates_by_trajectory on gates (trajectory);

-- The verdict that was told last.
create table gate_verdicts (
    gate        text constraint gate_verdicts_gate references gates (id) on delete cascade,
    checkpoint  text constraint gate_verdicts_checkpoint references checkpoints (id) on delete cascade,
    verdict     text not null constraint gate_verdicts_known check (verdict in ('pass', 'fail', 'pending')),
    at          timestamptz not null default clock_timestamp(),
    primary key (gate, checkpoint)
);

-- Up to which change someone has done its work, in the transaction of that work.
create table followers (
    name   text primary key,
    after  bigint not null
);
insert into followers (name, after) values ('gates', 0);

create table webhooks (
    id            text primary key default gen_random_uuid()::text,
    number        bigint generated always as identity unique,
    url           text not null,
    events        json not null, -- kinds; empty: all
    secret        text not null,
    after         bigint not null, -- the last change that is done with
    tries         integer not null default 0, -- of the change after that
    due_at        timestamptz not null default clock_timestamp(),
    lease         bigint not null default 0, -- grows with each taking: the fence
    leased_until  timestamptz,
    created_at    timestamptz not null default clock_timestamp()
);

-- One row a try.
create table webhook_deliveries (
    number       bigint generated always as identity primary key,
    webhook      text not null constraint webhook_deliveries_webhook references webhooks (id) on delete cascade,
    event        bigint not null,
    kind         text not null,
    try          integer not null,
    at           timestamptz not null default clock_timestamp(),
    seconds      double precision,
    http_status  integer,
    outcome      text not null constraint webhook_deliveries_outcome_known
        check (outcome in ('delivered', 'retry', 'given_up', 'lost')),
    error        text
);
create index webhook_deliveries_by_webhook on webhook_deliveries (webhook, number);
