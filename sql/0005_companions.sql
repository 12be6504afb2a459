-- Runs that one worker may take together: the same work but for what is theirs alone (a quantization's method).
alter table runs add column companions text;
create index runs_companions on runs (companions) where state = 'queued' and companions is not null;
