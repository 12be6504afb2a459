-- Which choice was made on every item of a task. A question is one record of one file (by content) and is kept once.
create table task_questions (
    id        bigint generated always as identity primary key,
    sha256    text not null constraint task_questions_sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
    task      text not null,
    doc       integer not null constraint task_questions_doc_positive check (doc >= 0),
    question  text not null,
    gold      smallint not null,
    constraint task_questions_once unique (sha256, task, doc)
);

create table task_runs (
    run         text constraint task_runs_run references runs (id) on delete cascade,
    epoch       bigint,
    checkpoint  text not null constraint task_runs_checkpoint references checkpoints (id) on delete cascade,
    label       text not null, -- of the quantized model, '' without
    shots       integer not null,
    primary key (run, epoch)
);
create index task_runs_by_checkpoint on task_runs (checkpoint);

-- A choice of -1: no log-likelihood was a number. _q: of the quantized model.
create table task_items (
    run            text constraint task_items_run references runs (id) on delete cascade,
    epoch          bigint,
    question       bigint constraint task_items_question references task_questions (id),
    choice         smallint not null,
    choice_norm    smallint not null,
    choice_q       smallint,
    choice_norm_q  smallint,
    primary key (run, epoch, question)
);
