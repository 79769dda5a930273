package api

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/schedule"
)

// entered is a run that is known to have entered a queue. If there is no row of it, it has succeeded
// and its queue keeps only failures: all other runs have a row for at least as long as the request
// that put them there is remembered.
func (s *queueServer) entered(ctx context.Context, queueID string, key schedule.Key) (*schedule.Run, error) {
	run, err := s.runs.GetRun(ctx, key)
	if errors.Is(err, schedule.ErrNotFound) {
		return &schedule.Run{Key: key, Status: schedule.StatusSuccess, Queue: schedule.QueuePlace{ID: queueID}}, nil
	}
	return run, err
}
