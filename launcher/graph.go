package launcher

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// GraphRun is a run without a schedule, started by a scheduler outside of
// Carillon that needs the launcher's protection against double starts. It has a
// row in execution_requests and none in the ledger.
type GraphRun struct {
	Key              string // the caller's own
	WorkflowID       string
	UserID           string // owner of the grant; needed if several owners have a grant with this id
	Version          int32  // 0: the newest at the time of sending
	ExecutionGrantID string
	Input            json.RawMessage
}

// Permit checks whether a grant allows a workflow now. userID is the owner of the
// grant; refused is grant_expired, grant_revoked, grant_denied or empty. If ref
// names no owner and several have a grant with its id, the error is a
// schedule.InvalidError. Any other error means that the check failed.
type Permit func(ctx context.Context, ref schedule.GrantRef, workflowID string) (userID string, refused schedule.Reason, err error)

// GraphKey is the key of a graph run in execution_requests. The prefix keeps
// callers' keys apart from the keys of slots, retries and backfills.
func GraphKey(key string) schedule.Key { return sha256.Sum256([]byte("graph:" + key)) }

// RunGraph starts a graph run with one effect and the outcomes of Start. The same
// key with another workflow, version, grant or input is FAILED(key_conflict). If
// the grant does not allow the run and nothing was sent, it is SKIPPED(grant_…),
// final as for a slot: after the grant is renewed, a new run needs a new key.
func (l *Launcher) RunGraph(ctx context.Context, g GraphRun) (reply schedule.StartReply, err error) {
	req := schedule.StartRequest{
		Key: GraphKey(g.Key), WorkflowID: g.WorkflowID, UserID: g.UserID, Version: g.Version, Trigger: schedule.TriggerManual, Attempt: 1,
		ExecutionGrantID: g.ExecutionGrantID, Input: g.Input, RunTimeout: schedule.DefaultRunTimeout,
	}
	// Hash before owner, newest version and time are filled in: they may differ in
	// a repeat of the same request.
	s := &start{Launcher: l, graph: &g, span: l.tracer.Start(&req)}
	s.hash, s.invalid = requestHash(req)
	req.ScheduledFor = l.now().UTC().Truncate(time.Second)
	s.req = req
	l.startAll(ctx, []*start{s}, nil, func(_ int, r schedule.StartReply, e error) { reply, err = r, e })
	return reply, err
}

// permitted checks the grant of a graph run and finds its version. ok = false: the grant
// does not allow the run, or the check failed, and the start has ended. sent: an earlier
// call may have reached the executor. (Begin checks the grants of runs in the ledger.)
func (s *start) permitted(sent bool) (ok bool) {
	ctx, cancel := context.WithTimeout(s.sender, storeTimeout)
	defer cancel()
	refused, err := schedule.ReasonNone, error(nil)
	if s.permit != nil {
		s.req.UserID, refused, err = s.permit(ctx, s.req.GrantUse(false).Ref(), s.req.WorkflowID)
	}
	if err == nil && refused == "" {
		err = s.findVersion(ctx)
	}
	switch {
	case err == nil && refused == "":
		return true
	case err == nil && !sent && s.renewer.held(s.lease):
		s.finish(schedule.Outcome{
			Status: schedule.Ending(refused), Reason: refused, ErrorCode: string(refused),
			ErrorMessage: fmt.Sprintf("execution_grant_id %q does not allow %q: %s", s.req.ExecutionGrantID, s.req.WorkflowID, refused),
		}, time.Time{})
		return false
	case err == nil:
		err = fmt.Errorf("%w: %s", ErrWithheld, refused)
	default:
		err = fmt.Errorf("check the grant of key %s: %w", s.req.Key, err)
		if sent {
			err = fmt.Errorf("%w: %w", ErrWithheld, err)
		}
	}
	s.release(err)
	return false
}

// findVersion sets the newest version that the owner of the grant may run, if the
// request names none. A workflow without a stored version is sent without a DAG:
// the executor may know it by its id. After a crash a redelivery may have a newer
// version than the first send; the executor knows the key, so that has no effect.
func (s *start) findVersion(ctx context.Context) error {
	if s.req.Version != 0 || s.loaded {
		return nil
	}
	if s.latest != nil {
		version, err := s.latest(ctx, s.req.UserID, s.req.WorkflowID)
		if err != nil && !errors.Is(err, schedule.ErrNotFound) {
			return fmt.Errorf("find the newest version of %s: %w", s.req.WorkflowID, err)
		}
		s.req.Version = version
	}
	if s.loaded = s.req.Version == 0; s.loaded {
		s.prepare(nil, nil)
	}
	return nil
}
