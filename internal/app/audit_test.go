package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// as is a context for gRPC calls with the token of who.
func (g *guarded) as(who string) context.Context {
	return metadata.AppendToOutgoingContext(g.t.Context(), "authorization", "Bearer "+g.shown(who))
}

// Each refused call names a different target, so that they cannot be merged.
func TestRefusedCallsDoNotFillTheAuditTrail(t *testing.T) {
	t.Parallel()
	// One per second, so that the limit also applies on a machine that makes only ten calls per second.
	onBothStoresWith(t, map[string]any{"caller_refusals_per_s": 1}, func(t *testing.T, g *guarded) {
		const each = 300 // over REST and over gRPC
		answers := map[string]map[codes.Code]int64{}
		for who, want := range map[string]codes.Code{"bob": codes.NotFound, "compiler": codes.NotFound, "worker": codes.PermissionDenied, "executor": codes.PermissionDenied} {
			got := map[codes.Code]int64{}
			answers[who] = got
			for i := range each {
				switch code, answer := g.send(who, "POST", fmt.Sprintf("/v1/schedules/none-%d:pause", i), "{}"); code {
				case http.StatusNotFound:
					got[codes.NotFound]++
				case http.StatusForbidden:
					got[codes.PermissionDenied]++
				case http.StatusTooManyRequests:
					got[codes.ResourceExhausted]++
				default:
					t.Fatalf("%s: %d %s", who, code, answer)
				}
				_, err := carillonv1.NewScheduleServiceClient(g.conn).PauseSchedule(g.as(who), &carillonv1.PauseScheduleRequest{ScheduleId: fmt.Sprint("none-", i)})
				got[status.Code(err)]++
				if status.Code(err) == codes.ResourceExhausted {
					if details := status.Convert(err).Details(); len(details) != 1 || details[0].(*errdetails.RetryInfo).GetRetryDelay().AsDuration() <= 0 {
						t.Fatalf("%s is not told when to come again: %v", who, err)
					}
				}
			}
			if got[want] < 2 || got[codes.ResourceExhausted] == 0 || got[want]+got[codes.ResourceExhausted] != 2*each {
				t.Errorf("%s is answered %v, want %s and then RESOURCE_EXHAUSTED", who, got, want)
			}
			if rows := strings.Count(second(g.send("operator", "GET", "/v1/audit?page_size=200&subject=subject-"+who, "")), `"subject"`); rows < 1 || rows > 5 {
				t.Errorf("%s has %d rows in the trail, want one a minute", who, rows)
			}
		}
		if code, answer := g.send("compiler", "GET", "/v1/schedules", ""); code != http.StatusOK {
			t.Errorf("who was refused too often cannot read: %d %s", code, answer)
		}
		g.stop()
		for who, got := range answers {
			delete(got, codes.ResourceExhausted)
			if in := g.trailOf(who); fmt.Sprint(in) != fmt.Sprint(got) {
				t.Errorf("%s was refused %v, the trail has %v", who, got, in)
			}
		}
	})
}

// trailOf counts the refusals in the audit trail of a stopped process.
func (g *guarded) trailOf(who string) map[codes.Code]int64 {
	g.t.Helper()
	store, err := app.OpenStore(context.Background(), g.cfg, slog.New(slog.DiscardHandler), app.OpenOptions{})
	if err != nil {
		g.t.Fatal(err)
	}
	defer store.Close()
	rows, err := store.ListAudit(context.Background(), schedule.AuditFilter{Subject: "subject-" + who, Limit: 100})
	if err != nil {
		g.t.Fatal(err)
	}
	counts := map[codes.Code]int64{}
	for _, e := range rows {
		for _, code := range []codes.Code{codes.NotFound, codes.PermissionDenied} {
			if e.Code == code.String() {
				counts[code] += e.Count
			}
		}
	}
	return counts
}
