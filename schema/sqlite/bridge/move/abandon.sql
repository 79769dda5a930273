-- Before the move is finished schedule_runs is still complete.
DROP TABLE open_runs;
DROP TABLE ended_runs;
DROP INDEX schedules_sid;
ALTER TABLE schedules DROP COLUMN planned_until;
ALTER TABLE schedules DROP COLUMN sid;
