-- The tables that the move fills: these columns, and what the core file marks as tables.
CREATE SEQUENCE schedules_sid_seq AS integer;
ALTER TABLE schedules ADD COLUMN sid integer, ADD COLUMN planned_until timestamptz;
UPDATE schedules s SET sid = n.sid FROM (SELECT schedule_id, row_number() OVER (ORDER BY created_at, schedule_id) AS sid FROM schedules) n
WHERE n.schedule_id = s.schedule_id;
SELECT setval('schedules_sid_seq', coalesce(max(sid), 0) + 1, false) FROM schedules;
ALTER TABLE schedules ALTER COLUMN sid SET NOT NULL, ALTER COLUMN sid SET DEFAULT nextval('schedules_sid_seq');
CREATE UNIQUE INDEX schedules_sid ON schedules (sid);
ALTER SEQUENCE schedules_sid_seq OWNED BY schedules.sid;
