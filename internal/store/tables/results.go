package tables

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// InsertResults writes the results of runs in history, in the transaction of their ends. ended is the
// i-th of n. A run without a result costs nothing.
func InsertResults(ctx context.Context, q Queries, n int, ended func(i int) (schedule.Key, *schedule.RunResult)) error {
	var calls []Call
	for i := range n {
		key, r := ended(i)
		if r == nil {
			continue
		}
		var artifacts []byte
		if len(r.Artifacts) > 0 {
			text, err := json.Marshal(r.Artifacts)
			if err != nil {
				return fmt.Errorf("write the artifacts of run %s: %w", key, err)
			}
			artifacts = text
		}
		calls = append(calls, Call{sqlInsertResult, []any{key, orNull(string(r.Result)), orNull(string(artifacts)), orNull(r.Problem), r.ExpiresAt}})
	}
	if len(calls) == 0 {
		return nil
	}
	if err := q.ExecAll(ctx, calls); err != nil {
		return fmt.Errorf("write results of %d runs: %w", len(calls), err)
	}
	return nil
}

// RunResult returns what the executor returned with the end of a run; nil: nothing, or it was
// deleted.
func (t *Tables) RunResult(ctx context.Context, key schedule.Key) (*schedule.RunResult, error) {
	var r schedule.RunResult
	var artifacts string
	there, err := one(ctx, t.read, []any{&r.Result, &artifacts, &r.Problem, &r.ExpiresAt}, sqlGetResult, key)
	if err == nil && artifacts != "" {
		err = json.Unmarshal([]byte(artifacts), &r.Artifacts)
	}
	if err != nil {
		return nil, fmt.Errorf("read the result of run %s: %w", key, err)
	}
	if !there {
		return nil, nil
	}
	return &r, nil
}

// PruneRunResults deletes up to limit results that expire before now; 0: none is left.
func (t *Tables) PruneRunResults(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = t.write(ctx, func(ctx context.Context, q Queries) error {
		n, err = q.Exec(ctx, sqlPruneResults, now, limit)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("prune results of runs: %w", err)
	}
	return n, nil
}
