package postgres

// The lock of a queue keeps admissions and changes apart. Its class is 1667330673.
const sqlLockQueue = `SELECT pg_advisory_xact_lock(1667330673, $1)`
