package registrar

import (
	"context"
	"errors"

	"github.com/carillon/carillon/internal/schedule"
)

// ShareInput names a share of a workflow: one owner, or all of them.
type ShareInput struct {
	WorkflowID string
	UserID     string
	AllOwners  bool
	Actor      string
}

// check is the user_id that the share is stored under.
func (in *ShareInput) check() (userID string, err error) {
	var c schedule.Collect
	checkID(&c, "workflow_id", in.WorkflowID)
	switch {
	case in.AllOwners && in.UserID != "":
		c.Add("user_id", in.UserID, "and all_owners are both set", "keep one")
	case in.AllOwners:
		return schedule.AllOwners, c.Err()
	case in.UserID == "":
		c.Note("user_id", "is required", "name an owner, or set all_owners")
	default:
		checkOwner(&c, in.UserID)
	}
	return in.UserID, c.Err()
}

// ShareWorkflow lets an owner run and read the versions of a workflow that are stored for all
// owners. It returns the share.
func (r *Registrar) ShareWorkflow(ctx context.Context, in ShareInput) (schedule.WorkflowShare, error) {
	userID, err := in.check()
	if err != nil {
		return schedule.WorkflowShare{}, err
	}
	now := r.now()
	share, err := r.shares.ShareWorkflow(ctx, schedule.WorkflowShare{WorkflowID: in.WorkflowID, UserID: userID, GivenBy: in.Actor, GivenAt: now})
	if err == nil && share.GivenAt.Equal(now) {
		r.log.InfoContext(ctx, "workflow shared", "workflow_id", in.WorkflowID, "user_id", userID, "actor", in.Actor)
	}
	return share, err
}

// UnshareWorkflow takes a share back. stillShared: the workflow is shared with
// all owners besides.
func (r *Registrar) UnshareWorkflow(ctx context.Context, in ShareInput) (stillShared bool, err error) {
	userID, err := in.check()
	if err != nil {
		return false, err
	}
	err = r.shares.UnshareWorkflow(ctx, in.WorkflowID, userID)
	if errors.Is(err, schedule.ErrNotFound) {
		with := "owner " + schedule.Quote(userID)
		if in.AllOwners {
			with = "all owners"
		}
		return false, schedule.Explain(schedule.ErrNotFound, "workflow %s is not shared with %s", schedule.Quote(in.WorkflowID), with)
	}
	if err != nil {
		return false, err
	}
	r.log.InfoContext(ctx, "workflow unshared", "workflow_id", in.WorkflowID, "user_id", userID, "actor", in.Actor)
	if in.AllOwners {
		return false, nil
	}
	first, err := r.shares.ListShares(ctx, in.WorkflowID, "", 1)
	return err == nil && len(first) == 1 && first[0].UserID == schedule.AllOwners, nil
}

// ListShares answers whom a workflow is shared with, in the order of user ids;
// schedule.AllOwners comes first.
func (r *Registrar) ListShares(ctx context.Context, workflowID, after string, limit int) ([]schedule.WorkflowShare, error) {
	return r.shares.ListShares(ctx, workflowID, after, limit)
}
