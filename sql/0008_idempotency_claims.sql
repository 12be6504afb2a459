-- Whose a claim without an answer is: the database session that made it. When that session is gone, its server was
-- killed, and the same request may have the key at once.
alter table idempotency_keys add claimed_by integer, add claimed_session timestamptz;
