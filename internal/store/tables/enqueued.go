package tables

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// noteEnqueued keeps what a request with an id has made.
func noteEnqueued(ctx context.Context, q Queries, queueNo int32, req *schedule.EnqueueRequest, decided *schedule.Enqueue) error {
	var keys strings.Builder
	for _, key := range decided.Answer() {
		keys.WriteString(key.String())
	}
	n, err := q.Exec(ctx, sqlNoteEnqueued, queueNo, req.UserID, req.RequestID, schedule.Key(decided.BodyHash), keys.String(), decided.Now, orNull(string(decided.Marks)))
	if err == nil && n == 0 {
		err = errEnqueued
	}
	if err != nil {
		return fmt.Errorf("note the request: %w", err)
	}
	return nil
}

func enqueuedBefore(ctx context.Context, q Queries, queueNo int32, req *schedule.EnqueueRequest) (*schedule.EnqueueRecord, error) {
	var hash schedule.Key
	var keys string
	var marks schedule.Marks
	there, err := one(ctx, q, []any{&hash, &keys, &marks}, sqlEnqueuedBefore, queueNo, req.UserID, req.RequestID)
	if err != nil || !there {
		return nil, err
	}
	record := &schedule.EnqueueRecord{BodyHash: hash, Marks: marks}
	for ; len(keys) >= 2*len(hash); keys = keys[2*len(hash):] {
		key, err := schedule.ParseKey(keys[:2*len(hash)])
		if err != nil {
			return nil, err
		}
		record.Keys = append(record.Keys, key)
	}
	return record, nil
}
