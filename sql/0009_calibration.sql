-- Which sequences a method was calibrated on is part of what a measurement of it is: an id of their tokens, and words for people. '' where
-- a method reads none, of full precision, and of what was measured before this was kept.
alter table measurements add column calibration text not null default '';
alter table measurements add column calibrated_on text not null default '';
