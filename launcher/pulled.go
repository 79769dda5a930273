package launcher

import (
	"context"
	"fmt"
	"strings"

	"github.com/carillon/carillon/internal/schedule"
)

// Prepare builds the call of a run that a worker has fetched. verdict, if it is not nil, is how a run
// ends that can never be called; an error may pass.
func (l *Launcher) Prepare(ctx context.Context, req schedule.StartRequest) (call Call, verdict *schedule.Outcome, err error) {
	ctx, cancel := context.WithTimeout(ctx, l.loads.after)
	defer cancel()
	s := &start{Launcher: l, req: req}
	dag, err := l.workflows.LoadDAG(ctx, req.UserID, req.WorkflowID, req.Version)
	if err != nil {
		if reply, definite := s.unloadable(err); definite {
			return Call{}, &reply.Outcome, nil
		}
		return Call{}, nil, fmt.Errorf("load workflow %s version %d: %w", req.WorkflowID, req.Version, err)
	}
	events, err := s.events(ctx)
	if err != nil {
		return Call{}, nil, err
	}
	if s.state, err = s.store.GetState(ctx, req.ScheduleID); err != nil {
		return Call{}, nil, err
	}
	s.prepare(dag, events)
	return s.prepared, nil, nil
}

// reportURL is where the executor reports a run over REST.
func (c *Config) reportURL(key schedule.Key) string {
	return strings.TrimRight(c.PublicURL, "/") + "/v1/runs/" + key.String() + ":report"
}
