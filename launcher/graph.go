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

// GraphRun is a run that no schedule has planned: somebody who keeps time
// elsewhere puts the launcher's memory of keys in front of the executor. The
// ledger has no row of it, execution_requests has.
type GraphRun struct {
	Key              string // the caller's own
	WorkflowID       string
	UserID           string // of the grant; needed where several owners have one of this id
	Version          int32  // 0: the newest when it is sent
	ExecutionGrantID string
	Input            json.RawMessage
}

// Permit says whether a grant allows a workflow now. userID is the owner of the
// grant; refused is grant_expired, grant_revoked or grant_denied, or empty. Where
// ref names no owner and several have a grant of its id, the error is a
// schedule.InvalidError; any other error says that nobody knows.
type Permit func(ctx context.Context, ref schedule.GrantRef, workflowID string) (userID string, refused schedule.Reason, err error)

// GraphKey is the key of a graph run in execution_requests. What a caller
// names never meets the key of a slot, a retry or a backfill.
func GraphKey(key string) schedule.Key { return sha256.Sum256([]byte("graph:" + key)) }

// RunGraph starts a graph run, once in effect, with the outcomes of Start. The
// same key with another workflow, named version, grant or input is
// FAILED(key_conflict). A grant that does not allow it, while nothing was sent,
// is SKIPPED(grant_…) for good, as it is for a slot: a key stands for one slot,
// and whoever renews the grant starts the next one.
func (l *Launcher) RunGraph(ctx context.Context, g GraphRun) (schedule.StartReply, error) {
	req := schedule.StartRequest{
		Key: GraphKey(g.Key), WorkflowID: g.WorkflowID, UserID: g.UserID, Version: g.Version, Trigger: schedule.TriggerManual, Attempt: 1,
		ExecutionGrantID: g.ExecutionGrantID, Input: g.Input, RunTimeout: schedule.DefaultRunTimeout,
	}
	// Before it is known whose it is, which version is the newest and what time
	// it is: a repeat is the same request whatever those have become.
	hash, err := requestHash(req)
	if err != nil {
		return refuse(schedule.ReasonLaunchRefused, schedule.CodeInvalidInput, err.Error()), nil
	}
	req.ScheduledFor = l.now().UTC().Truncate(time.Second)
	s := &start{Launcher: l, req: req, hash: hash, graph: &g, span: l.tracer.Start(&req)}
	defer s.hangUp()
	reply, err := s.run(ctx)
	s.span.End(reply.Outcome, err)
	return reply, err
}

// permitted checks the grant of a graph run and finds its version; over =
// true: it may not be sent, or nobody knows whether. (The grants of the
// ledger's runs are checked where their keys are recorded.)
func (s *start) permitted(ctx context.Context, b begun) (reply schedule.StartReply, over bool, err error) {
	if s.graph == nil {
		return reply, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	refused := schedule.ReasonNone
	if s.permit != nil {
		s.req.UserID, refused, err = s.permit(ctx, s.req.GrantUse(false).Ref(), s.req.WorkflowID)
	}
	if err == nil && refused == "" {
		err = s.findVersion(ctx)
	}
	switch {
	case err == nil && refused == "":
		return reply, false, nil
	case err == nil && !b.Sent && s.leases.ours(s.lease):
		reply, err = s.finish(ctx, schedule.Outcome{
			Status: schedule.Ending(refused), Reason: refused, ErrorCode: string(refused),
			ErrorMessage: fmt.Sprintf("execution_grant_id %q does not allow %q: %s", s.req.ExecutionGrantID, s.req.WorkflowID, refused),
		}, time.Time{})
		return reply, true, err
	case err == nil:
		err = fmt.Errorf("%w: %s", ErrWithheld, refused)
	default:
		err = fmt.Errorf("check the grant of key %s: %w", s.req.Key, err)
		if b.Sent {
			err = fmt.Errorf("%w: %w", ErrWithheld, err)
		}
	}
	s.release(ctx, s.before)
	return reply, true, err
}

// findVersion is the one that was named, or the newest that the grant's owner may
// run. A workflow of which none is stored goes without a DAG: its executor may know it
// by its id. (After a crash a redelivery may carry a newer one than the send
// before it; the executor knows the key, and takes no second effect.)
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
		s.prepare(nil)
	}
	return nil
}
