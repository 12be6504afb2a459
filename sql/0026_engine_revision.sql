-- The engine revision (base/version.h) of the newest deltaq that has brought this schema up: results of two revisions
-- are not compared, so workers of another one take no runs.
create table engine_revision (
    one       boolean primary key default true constraint engine_revision_one check (one),
    revision  integer not null
);

-- What a worker was built from; null: it did not say.
alter table workers add column version text;
alter table workers add column engine_revision integer;
