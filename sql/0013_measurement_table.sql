-- Checkpoints of the same content share what was measured of it.
create index checkpoints_by_sha256 on checkpoints (sha256) where sha256 is not null;
