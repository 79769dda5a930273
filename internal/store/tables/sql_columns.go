package tables

// Columns of events and wake rows.
const (
	// EventColumns are read into eventFields, in their order.
	EventColumns = `e.seq, e.user_id, e.topic, e.source, e.event_id, e.type, e.subject, e.time, e.data_hash, e.fanout, e.published_by, e.published_at, e.caused_by, e.hops`

	// WakeColumns are read into wakeFields; the definition comes after them.
	WakeColumns = `w.sid, s.schedule_id, s.revision, w.fire_at, s.deleted_at IS NOT NULL, s.paused, s.pause_note, s.paused_by, s.paused_until,
s.user_id || '/' || s.overlap_key, s.priority`
)
