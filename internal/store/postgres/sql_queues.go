package postgres

// The lock of a queue keeps admissions and changes apart. Its class is 1667330673.
const sqlLockQueue = `SELECT pg_advisory_xact_lock(1667330673, $1)`

const (
	// shareQueue: a change of the queue waits, other entries do not.
	shareQueue = ` FOR SHARE`

	sqlDrawPositions = `SELECT nextval('queue_positions') FROM generate_series(1, $1::integer)`
)
