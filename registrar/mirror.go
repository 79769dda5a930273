package registrar

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/internal/schedule"
)

// mirrorTimeout bounds the work of one call in the mirror.
const mirrorTimeout = 10 * time.Second

// mirroredAtOnce is how many versions are on their way at once: an apply may
// bring 500, and one after the other they would outlast any timeout.
const mirroredAtOnce = 16

// The database is written first: a version of a refused deploy could not be removed from the
// mirror. If the process dies in between, launchers find the version in the database, and the same
// call completes the mirror.

// checkMirror refuses versions that the mirror holds with another DAG, before anything is written.
func (r *Registrar) checkMirror(ctx context.Context, versions ...*schedule.WorkflowVersion) error {
	return r.eachMirrored(ctx, versions, "nothing changed; send the request again", WorkflowMirror.CheckDAG)
}

// copyToMirror writes the stored versions to the mirror.
func (r *Registrar) copyToMirror(ctx context.Context, versions ...*schedule.WorkflowVersion) error {
	return r.eachMirrored(ctx, versions, "stored in the database, but not yet in the bucket; send the same request again", WorkflowMirror.PutDAG)
}

func (r *Registrar) eachMirrored(ctx context.Context, versions []*schedule.WorkflowVersion, stands string, do func(WorkflowMirror, context.Context, *schedule.WorkflowVersion) error) error {
	if r.mirror == nil || len(versions) == 0 {
		return nil
	}
	within := mirrorTimeout
	if deadline, there := ctx.Deadline(); there { // leave time to answer the caller
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
