package registrar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
)

// mirrorTimeout bounds what one call does in the mirror.
const mirrorTimeout = 10 * time.Second

// mirroredAtOnce is how many versions are on their way at once: an apply may
// bring 500, and one after the other they would outlast any timeout.
const mirroredAtOnce = 16

// The database comes first and the mirror after it: what a refused deploy would
// have left in the mirror could never be taken back. If the process dies in
// between, launchers find the version in the database, and the same call
// completes the mirror.

// checkMirror refuses, before anything is written, versions of which the mirror
// holds another DAG.
func (r *Registrar) checkMirror(ctx context.Context, versions ...*schedule.WorkflowVersion) error {
	return r.eachMirrored(ctx, versions, "nothing changed; send the request again", WorkflowMirror.CheckDAG)
}

// copyToMirror writes what the database now has.
func (r *Registrar) copyToMirror(ctx context.Context, versions ...*schedule.WorkflowVersion) error {
	return r.eachMirrored(ctx, versions, "stored in the database, but not yet in the bucket; send the same request again", WorkflowMirror.PutDAG)
}

func (r *Registrar) eachMirrored(ctx context.Context, versions []*schedule.WorkflowVersion, stands string, do func(WorkflowMirror, context.Context, *schedule.WorkflowVersion) error) error {
	if r.mirror == nil || len(versions) == 0 {
		return nil
	}
	within := mirrorTimeout
	if deadline, there := ctx.Deadline(); there { // whoever waits is told, rather than left without an answer
		within = min(within, time.Until(deadline)*3/4)
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	each, ctx := errgroup.WithContext(ctx)
	each.SetLimit(mirroredAtOnce)
	for _, w := range versions {
		each.Go(func() error {
			err := do(r.mirror, ctx, w)
			if err == nil || errors.Is(err, schedule.ErrExists) {
				return err
			}
			return fmt.Errorf("%s version %d: %w", w.WorkflowID, w.Version, err)
		})
	}
	err := each.Wait()
	if err == nil || errors.Is(err, schedule.ErrExists) {
		return err
	}
	r.log.WarnContext(ctx, "workflow bucket unavailable", "err", err)
	return schedule.Explain(schedule.ErrUnavailable, "the workflow bucket: %s", stands)
}
