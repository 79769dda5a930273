package memory

import (
	"slices"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

type deployID struct {
	managed   schedule.Managed
	requestID string
}

type deploy struct {
	hash      [32]byte
	appliedAt time.Time
}

// beginDeploy checks whether a request was handled before, and stores its workflow
// versions.
func (t *tx) beginDeploy(req schedule.ChangeRequest) error {
	if d := req.Deploy; d != nil {
		id := deployID{req.Managed, d.RequestID}
		if known, there := t.deploys[id]; there {
			return schedule.RepeatedDeploy(d, known.hash[:])
		}
		t.deploys[id] = deploy{hash: d.Hash, appliedAt: at(d.Now)}
		t.undo = append(t.undo, func() { delete(t.deploys, id) })
	}
	for _, w := range slices.SortedFunc(slices.Values(req.Workflows), schedule.CompareVersions) {
		if err := t.putWorkflow(w, t.Now()); err != nil {
			return err
		}
	}
	for i := range req.Grants {
		if err := t.putGrant(&req.Grants[i], t.Now()); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) pruneDeploys(before time.Time, limit int) (pruned int) {
	var old []deployID
	for id, d := range t.deploys {
		if d.appliedAt.Before(before) {
			old = append(old, id)
		}
	}
	slices.SortFunc(old, func(a, b deployID) int { return t.deploys[a].appliedAt.Compare(t.deploys[b].appliedAt) })
	old = old[:min(len(old), limit)]
	for _, id := range old {
		delete(t.deploys, id)
	}
	return len(old)
}
