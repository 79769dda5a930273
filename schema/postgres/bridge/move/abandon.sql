-- Before the move is finished schedule_runs is still complete.
DROP TABLE open_runs, ended_runs;
DROP FUNCTION IF EXISTS carillon_add_partition, carillon_drop_partition;
DROP INDEX schedules_sid;
ALTER TABLE schedules DROP COLUMN sid, DROP COLUMN planned_until; -- the sequence goes with sid
