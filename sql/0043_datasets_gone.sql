-- What a deleted dataset was, so that another one does not take its name while measurements know it by that name:
-- numbers of two texts would be one series. Of those that were deleted before, what was measured on them tells id and
-- name.
create table datasets_gone (
    id           text primary key,
    name         text not null,
    format       text,
    definition   json,
    sha256       text,
    fingerprint  text,
    deleted_at   timestamptz not null default clock_timestamp()
);
create index datasets_gone_by_name on datasets_gone (name);
create index run_inputs_by_gone on run_inputs (gone) where gone is not null;

insert into datasets_gone (id, name) select distinct i.gone, i.gone_name from run_inputs i join measurements m
    on m.run = i.run and m.dataset = i.gone_name where i.gone is not null on conflict do nothing;

create or replace function dataset_gone() returns trigger language plpgsql as $$
begin
    insert into datasets_gone (id, name, format, definition, sha256, fingerprint)
        select old.id, old.name, old.format, old.definition, old.sha256, old.fingerprint
        where exists (select from run_inputs where dataset = old.id);
    update run_inputs set dataset = null, gone = old.id, gone_name = old.name where dataset = old.id;
    return old;
end $$;
