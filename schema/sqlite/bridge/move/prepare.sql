-- The tables that the move fills: these columns, and what the core file marks as tables.
ALTER TABLE schedules ADD COLUMN sid INTEGER;
ALTER TABLE schedules ADD COLUMN planned_until INTEGER;
UPDATE schedules SET sid = n.sid FROM (SELECT schedule_id, row_number() OVER (ORDER BY created_at, schedule_id) AS sid FROM schedules) n
WHERE n.schedule_id = schedules.schedule_id;
CREATE UNIQUE INDEX schedules_sid ON schedules (sid);
