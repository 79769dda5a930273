package registrar_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
)

// mirror records its calls and answers as configured.
type mirror struct {
	mu         sync.Mutex
	takes      time.Duration // a call of it
	asked      []string
	check, put error
	stored     func() bool // whether the database has it already
}

// work is the time that a call takes.
func (m *mirror) work(ctx context.Context) {
	select {
	case <-ctx.Done():
	case <-time.After(m.takes):
	}
}

func (m *mirror) CheckDAG(ctx context.Context, w *schedule.WorkflowVersion) error {
	m.work(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprintf("check %s@%d", w.WorkflowID, w.Version))
	return errors.Join(m.check, ctx.Err())
}

func (m *mirror) PutDAG(ctx context.Context, w *schedule.WorkflowVersion) error {
	m.work(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, fmt.Sprintf("put %s@%d", w.WorkflowID, w.Version))
	if !m.stored() {
		m.asked = append(m.asked, "before the database")
	}
	return errors.Join(m.put, ctx.Err())
}

func newMirrored(t *testing.T, m *mirror) *rig {
	r := newRig(t, registrar.Config{})
	m.stored = func() bool { return len(r.page.workflows) > 0 }
	r.Registrar = registrar.New(registrar.Options{
		Schedules: r.page, Runs: r.page, Workflows: r.page, Shares: r.page, Mirror: m,
		Now: func() time.Time { return r.page.now }, Logger: slog.New(slog.DiscardHandler),
	})
	return r
}

func TestADeploysVersionIsCopiedToTheMirrorBehindTheDatabase(t *testing.T) {
	away := errors.New("dial tcp: secret")
	for _, tt := range []struct {
		name       string
		check, put error
		want       error
		asked      []string
		written    bool
	}{
		{name: "all goes well", asked: []string{"check w@3", "put w@3"}, written: true},
		{name: "the mirror holds another DAG", check: schedule.ErrExists, want: schedule.ErrExists, asked: []string{"check w@3"}},
		{name: "the mirror is away before", check: away, want: schedule.ErrUnavailable, asked: []string{"check w@3"}},
		{name: "the mirror is away after", put: away, want: schedule.ErrUnavailable, asked: []string{"check w@3", "put w@3"}, written: true},
		{name: "somebody else was faster in the mirror", put: schedule.ErrExists, want: schedule.ErrExists, asked: []string{"check w@3", "put w@3"}, written: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := &mirror{check: tt.check, put: tt.put}
			r := newMirrored(t, m)
			_, err := r.DeployWorkflow(t.Context(), registrar.DeployInput{WorkflowID: "w", Version: 3, DAG: json.RawMessage(`{"steps":[]}`), UserID: "u"})
			if !errors.Is(err, tt.want) || errors.Is(err, away) {
				t.Errorf("err = %v, want %v without its cause", err, tt.want)
			}
			if !slices.Equal(m.asked, tt.asked) {
				t.Errorf("the mirror was asked %v, want %v", m.asked, tt.asked)
			}
			if written := len(r.page.workflows) > 0; written != tt.written {
				t.Errorf("the database has it: %v, want %v", written, tt.written)
			}
		})
	}
}

func TestARefusedDeployLeavesNothingInTheMirror(t *testing.T) {
	m := &mirror{}
	r := newMirrored(t, m)
	bad := registrar.UpsertInput{Definition: schedule.Definition{ScheduleID: "s", WorkflowID: "w", Version: 3, UserID: "u", CronExpr: "never"}}
	_, err := r.DeployWorkflow(t.Context(), registrar.DeployInput{
		WorkflowID: "w", Version: 3, DAG: json.RawMessage(`{"steps":[]}`), UserID: "u", Triggers: []registrar.UpsertInput{bad},
	})
	if err == nil || len(m.asked) != 0 {
		t.Errorf("err = %v, the mirror was asked %v", err, m.asked)
	}
}

// A store that takes 100 ms is an ordinary one: 500 versions one after the
// other would never be done in time, however often the apply is sent again.
func TestASetOfManyWorkflowsReachesASlowMirrorInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &mirror{takes: 100 * time.Millisecond}
		r := newMirrored(t, m)
		in := registrar.ApplyInput{Set: "x"}
		for i := range 500 {
			in.Workflows = append(in.Workflows, registrar.WorkflowInput{
				WorkflowID: fmt.Sprintf("w%d", i), Version: 1, DAG: json.RawMessage(`{"triggers":[]}`), Field: fmt.Sprintf("workflows[%d].", i),
			})
		}
		if _, err := r.ApplySchedules(t.Context(), in); err != nil {
			t.Error(err)
		}
		if len(m.asked) != 1000 {
			t.Errorf("the mirror was asked %d times, want 500 checks and 500 copies", len(m.asked))
		}
	})
}

// A slow mirror must leave the caller time to learn that nothing was written.
func TestASlowMirrorIsReportedBeforeTheCallersDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newMirrored(t, &mirror{takes: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err := r.DeployWorkflow(ctx, registrar.DeployInput{WorkflowID: "w", Version: 3, DAG: json.RawMessage(`{"steps":[]}`), UserID: "u"})
		if !errors.Is(err, schedule.ErrUnavailable) || ctx.Err() != nil {
			t.Errorf("err = %v, the caller's time: %v", err, ctx.Err())
		}
	})
}
