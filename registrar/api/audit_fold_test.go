package api_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/migrated"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api"
)

// audited is an Auditor over a real store with a test clock.
type audited struct {
	*testing.T
	*api.Auditor
	store *sqlite.Store
	away  bool // the store takes nothing
	now   time.Time
}

func (a *audited) AppendAudit(ctx context.Context, entries []schedule.AuditEntry) error {
	if a.away {
		return errors.New("the database is away")
	}
	return a.store.AppendAudit(ctx, entries)
}

func (a *audited) ListAudit(ctx context.Context, f schedule.AuditFilter) ([]schedule.AuditEntry, error) {
	return a.store.ListAudit(ctx, f)
}

func newAudited(t *testing.T) *audited {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	a := &audited{T: t, store: store, now: time.Date(2026, time.March, 8, 12, 0, 0, 0, time.UTC)}
	a.Auditor = api.NewAuditor(a, func() time.Time { return a.now }, quiet)
	return a
}

// pauses makes a call of the identity about the target, answered with the code.
func (a *audited) pauses(id auth.Identity, target string, code codes.Code) {
	a.Helper()
	const method = carillonv1.ScheduleService_PauseSchedule_FullMethodName
	ctx, call := auth.WithCall(a.Context(), method)
	call.Identity = id
	_, _ = a.Interceptors().Unary(ctx, &carillonv1.PauseScheduleRequest{ScheduleId: target}, &grpc.UnaryServerInfo{FullMethod: method},
		func(context.Context, any) (any, error) { return nil, status.Error(code, "as the test says") })
}

// rows are the trail, oldest first: subject, target, code, count.
func (a *audited) rows() (rows []string) {
	a.Helper()
	found, err := a.store.ListAudit(a.Context(), schedule.AuditFilter{Limit: 1000})
	if err != nil {
		a.Fatal(err)
	}
	for _, e := range slices.Backward(found) {
		others := ""
		if e.OtherTargets {
			others = " and others"
		}
		rows = append(rows, fmt.Sprintf("%s/%s %s%s %s ×%d at %s", e.Subject, e.Via, e.Target, others, e.Code, e.Count, e.Time.Format("15:04:05")))
	}
	return rows
}

func (a *audited) want(rows ...string) {
	a.Helper()
	if got := a.rows(); !slices.Equal(got, rows) {
		a.Errorf("the trail is\n%q, want\n%q", got, rows)
	}
}

var bob = auth.Identity{Subject: "bob", Via: "token", Owner: "bob", Roles: []auth.Role{auth.User}}

func TestEqualRefusalsShareARowAMinute(t *testing.T) {
	a := newAudited(t)
	for i := range 1000 {
		a.pauses(bob, fmt.Sprint("target-", i), codes.NotFound)
	}
	first := "bob/token target-0 NotFound ×1 at 12:00:00"
	a.want(first)
	a.now = a.now.Add(59 * time.Second)
	a.pauses(bob, "target-1000", codes.NotFound)
	a.WriteFolded(t.Context())
	a.want(first)
	a.now = a.now.Add(time.Second)
	a.WriteFolded(t.Context())
	second := "bob/token target-1 and others NotFound ×1000 at 12:00:59"
	a.want(first, second)

	a.pauses(bob, "same", codes.NotFound)
	a.pauses(bob, "same", codes.NotFound)
	a.now = a.now.Add(time.Minute)
	a.WriteFolded(t.Context())
	third := "bob/token same NotFound ×2 at 12:01:00"
	a.want(first, second, third)

	a.now = a.now.Add(time.Minute)
	a.WriteFolded(t.Context())
	a.pauses(bob, "after a quiet minute", codes.NotFound)
	a.want(first, second, third, "bob/token after a quiet minute NotFound ×1 at 12:03:00")
}

func TestDifferentRefusalsHaveSeparateRows(t *testing.T) {
	a := newAudited(t)
	byCertificate, eve := bob, bob
	byCertificate.Via, eve.Subject = "mtls", "eve"
	for range 2 {
		a.pauses(bob, "s", codes.NotFound)
		a.pauses(bob, "s", codes.PermissionDenied)
		a.pauses(eve, "s", codes.NotFound)
		a.pauses(byCertificate, "s", codes.NotFound)
	}
	a.want("bob/token s NotFound ×1 at 12:00:00", "bob/token s PermissionDenied ×1 at 12:00:00",
		"eve/token s NotFound ×1 at 12:00:00", "bob/mtls s NotFound ×1 at 12:00:00")
}

func TestCallsThatAreNotRefusedAreNotFolded(t *testing.T) {
	a := newAudited(t)
	for range 3 {
		a.pauses(bob, "s", codes.OK)
	}
	row := "bob/token s OK ×1 at 12:00:00"
	a.want(row, row, row)
}

func TestFoldedRowsAreWrittenAtShutdownAndAfterAnOutage(t *testing.T) {
	a := newAudited(t)
	a.away = true
	for range 3 {
		a.pauses(bob, "s", codes.NotFound)
	}
	a.now = a.now.Add(time.Minute)
	a.WriteFolded(t.Context())
	a.pauses(bob, "s", codes.NotFound)
	a.want()
	a.away = false
	a.Flush(t.Context())
	a.want("bob/token s NotFound ×4 at 12:01:00")
}

func TestAClockThatIsSetBackDoesNotHoldRowsBack(t *testing.T) {
	a := newAudited(t)
	a.pauses(bob, "s", codes.NotFound)
	a.pauses(bob, "s", codes.NotFound)
	a.now = a.now.Add(-time.Hour)
	a.WriteFolded(t.Context())
	row := "bob/token s NotFound ×1 at 12:00:00"
	a.want(row, row)
}

// counting counts rows, as a store would take too long to.
type counting struct{ rows, calls int64 }

func (c *counting) AppendAudit(_ context.Context, entries []schedule.AuditEntry) error {
	for i := range entries {
		c.rows++
		c.calls += max(entries[i].Count, 1)
	}
	return nil
}

func (*counting) ListAudit(context.Context, schedule.AuditFilter) ([]schedule.AuditEntry, error) {
	return nil, nil
}

func TestMoreCallersThanAreRememberedLoseNoRefusal(t *testing.T) {
	trail := &counting{}
	a := &audited{T: t, now: time.Unix(0, 0)}
	a.Auditor = api.NewAuditor(trail, func() time.Time { return a.now }, slog.New(slog.DiscardHandler))
	const callers = 12_000
	for range 3 {
		for i := range callers {
			a.pauses(auth.Identity{Subject: fmt.Sprint("caller-", i), Via: "jwt"}, "s", codes.NotFound)
		}
	}
	a.Flush(t.Context())
	if trail.calls != 3*callers || trail.rows >= 3*callers {
		t.Errorf("%d rows for %d refusals, want fewer rows for %d", trail.rows, trail.calls, 3*callers)
	}
}
