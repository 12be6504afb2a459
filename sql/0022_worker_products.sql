-- Which products a worker makes, and why: {"verdict", "library", "core", "reason"}; null of one that does not say.
alter table workers add column blas jsonb;
