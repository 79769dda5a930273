package sqlite

import (
	"context"
	"fmt"

	"github.com/carillon/carillon/internal/ledger"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/revision"
)

// Reclaim.
const (
	sqlReclaim = `UPDATE open_runs SET epoch = ?1, send_after = ?2, updated_at = ?3
 WHERE idempotency_key = ?4 AND status = 2`
)

var (
	// sqlReclaimable finds runs that are still due: their answer may have come since
	// they were chosen. A run whose cancel is requested is not sent any more.
	sqlReclaimable = `SELECT ` + openRunColumns + ` FROM json_each(?3) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.status = 2 AND (o.epoch <> ?1 OR o.send_after IS NULL OR o.send_after <= ?2) AND o.cancel_requested_at IS NULL`

	sqlCancelRequests = `SELECT ` + openRunColumns + ` FROM json_each(?1) j CROSS JOIN open_runs o ON o.idempotency_key = unhex(j.value)` + ofOpen + `
 WHERE o.cancel_requested_at IS NOT NULL AND o.state = 3
 ORDER BY o.cancel_requested_at, o.idempotency_key`
)

// Reclaim sends runs again; see worker.FireStore.
func (s *Store) Reclaim(ctx context.Context, req ledger.ReclaimRequest) (ledger.Reclaimed, error) {
	var out ledger.Reclaimed
	err := s.write(ctx, func(ctx context.Context, t tx) (err error) {
		if err := fence(ctx, t, req.Term); err != nil {
			return err
		}
		out, err = s.reclaim(ctx, t, &req)
		return err
	})
	if err != nil {
		return ledger.Reclaimed{}, fmt.Errorf("reclaim runs: %w", err)
	}
	return out, nil
}

func (s *Store) reclaim(ctx context.Context, t tx, req *ledger.ReclaimRequest) (out ledger.Reclaimed, err error) {
	runs, err := readRuns(ctx, t, sqlReclaimable, req.Term.Epoch, req.Now.UnixMicro(), keyList(req.Keys))
	if err != nil {
		return out, err
	}
	ids := make([]revision.ID, len(runs))
	for i := range runs {
		r := &runs[i]
		ids[i] = revision.Of(r)
		r.Epoch, r.ClaimedUntil, r.UpdatedAt = req.Term.Epoch, req.Now.Add(req.Lease), req.Now
		if _, err := t.exec(ctx, sqlReclaim, r.Epoch, r.ClaimedUntil.UnixMicro(), r.UpdatedAt.UnixMicro(), keyArg(r.Key)); err != nil {
			return out, fmt.Errorf("run %s: %w", r.Key, err)
		}
	}
	definitions, err := s.definitionsOf(ctx, t, ids)
	if err != nil {
		return out, err
	}
	missing := out.Add(req, runs, func(r *schedule.Run) *schedule.Definition {
		d := definitions[revision.Of(r)]
		if d == nil {
			s.log.Error("definition unreadable", "schedule_id", r.ScheduleID, "revision", r.Revision, "key", r.Key)
		}
		return d
	})
	if len(missing) == 0 {
		return out, nil
	}
	o := openReader{q: t}
	o.first, o.last = req.Term.Buckets()
	if err := o.read(ctx, sqlOpenOfKeys, keyList(missing), o.first, o.last); err != nil {
		return out, fmt.Errorf("read runs that were not sent again: %w", err)
	}
	ended := make(map[schedule.Key]bool, len(missing))
	for _, k := range missing {
		ended[k] = true
	}
	for i := range o.runs {
		delete(ended, o.runs[i].Key)
	}
	out.Read.Runs = append(out.Read.Runs, o.runs...)
	for k := range ended {
		out.Read.Ended = append(out.Read.Ended, k)
	}
	return out, nil
}

// CancelRequests reads runs whose cancel is requested; see worker.FireStore.
func (s *Store) CancelRequests(ctx context.Context, keys []schedule.Key) ([]schedule.Run, error) {
	runs, err := readRuns(ctx, s.readers, sqlCancelRequests, keyList(keys))
	if err != nil {
		return nil, fmt.Errorf("read requested cancels: %w", err)
	}
	return runs, nil
}
