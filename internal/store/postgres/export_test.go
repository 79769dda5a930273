package postgres

import "github.com/carillon/carillon/internal/schedule"

// Gathered is how many changes wait for the transaction after the present one.
func Gathered(s *Store) int { return s.changes.Waiting() }

// ListStatement is the statement of a list, and of one that is scattered the first of two.
func ListStatement(f *schedule.RunFilter) (statement string, args []any) {
	order, source := orderOf(f), sourceOf(f)
	if f.Scattered() {
		return order.recent(source), append(runFilterArgs(f), schedule.RecentRuns)
	}
	return order.list(source), runFilterArgs(f)
}

// ForgetPartitions lets the next Prune look after the partitions, however soon it comes.
func (s *Store) ForgetPartitions() { s.partitions.kept.Store(nil) }
