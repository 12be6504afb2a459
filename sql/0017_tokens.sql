-- When a token ends, when it was taken back, and when it was last used (to the minute: a write for each request would
-- be too much).
alter table tokens add column expires_at timestamptz;
alter table tokens add column revoked_at timestamptz;
alter table tokens add column last_used_at timestamptz;
