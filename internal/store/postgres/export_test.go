package postgres

// Gathered is how many changes wait for the transaction after the present one.
func Gathered(s *Store) int { return s.changes.Waiting() }
