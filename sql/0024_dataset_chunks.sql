-- Tokens given inline lie in chunks of at most 1 MiB, so that neither the server nor a session of the database ever
-- holds a dataset whole, and each chunk has a statement, with its deadline, of its own. The numbers are int32,
-- little-endian: `lengths` of the sequences, and their `tokens`, one sequence after another. Chunks count from 0.
create table dataset_chunks (
    dataset  text not null constraint dataset_chunks_dataset references datasets (id) on delete cascade,
    part     text not null constraint dataset_chunks_part check (part in ('lengths', 'tokens')),
    number   integer not null,
    numbers  bytea not null constraint dataset_chunks_size check (length(numbers) between 4 and 1048576),
    primary key (dataset, part, number)
);
alter table dataset_chunks alter column numbers set storage external;

insert into dataset_chunks (dataset, part, number, numbers)
select c.dataset, 'lengths', n, substring(c.lengths from n * 1048576 + 1 for 1048576)
from dataset_contents c cross join lateral generate_series(0, (length(c.lengths) - 1) / 1048576) n;

insert into dataset_chunks (dataset, part, number, numbers)
select c.dataset, 'tokens', n, substring(c.tokens from n * 1048576 + 1 for 1048576)
from dataset_contents c cross join lateral generate_series(0, (length(c.tokens) - 1) / 1048576) n;

drop table dataset_contents;
