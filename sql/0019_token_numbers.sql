-- The order in which tokens were made, for the pages of their list.
alter table tokens add column number bigint generated always as identity constraint tokens_number_unique unique;
