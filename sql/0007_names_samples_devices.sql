-- The hash of what decides a run's result with ids in place of content. Content that is hashed by the first run that reads it changes
-- the other key (dedupe_key) and not this one, so that the same request finds the run that was made of it before.
alter table runs add column named_key text;
create index runs_named on runs (named_key) where named_key is not null;

-- Sizes and samples of a dataset's files; null: inline, or registered before there was one. Large ones are hashed by their first run.
alter table datasets add column fingerprint text constraint datasets_fingerprint_form check (fingerprint ~ '^[0-9a-f]{64}$');

-- The kind of device that a run needs ("cuda" for cuda:0, cuda:1, ...); null: any.
alter table runs add column device_wanted text;
