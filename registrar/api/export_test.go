package api_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// ledger fills a rig with n runs of schedule s1, more than two to a second.
func ledger(t *testing.T, n int) *rig {
	r := newRig(t)
	r.must("POST", "/v1/schedules", upsert())
	for i := range n {
		r.must("POST", "/v1/schedules/s1:trigger", fmt.Sprintf(`{"request_id":"r%d","overlap_policy":"allow"}`, i))
	}
	return r
}

// exported is the stream of an export until it ends.
func exported(t *testing.T, r *rig, req *carillonv1.ExportRunsRequest) (keys []string, err error) {
	t.Helper()
	stream, err := carillonv1.NewRunServiceClient(r.conn).ExportRuns(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	var before time.Time
	for {
		line, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return keys, nil
		}
		if err != nil {
			return keys, err
		}
		run := line.GetRun()
		if at := run.GetRunAt().AsTime(); at.Before(before) {
			t.Errorf("a run of %s comes after one of %s", at, before)
		}
		before = run.GetRunAt().AsTime()
		keys = append(keys, run.GetIdempotencyKey())
	}
}

func TestAnExportSendsEveryRunOnceAcrossItsPages(t *testing.T) {
	r := ledger(t, 0)
	// More than two pages of 500, written past the API for speed.
	s, err := r.store.GetSchedule(t.Context(), "s1")
	if err != nil {
		t.Fatal(err)
	}
	const many = 1203
	insert(t, r, s, many)
	all, err := exported(t, r, &carillonv1.ExportRunsRequest{})
	if err != nil || len(all) != many {
		t.Fatalf("%d runs, %v, want %d", len(all), err, many)
	}
	seen := slices.Clone(all)
	slices.Sort(seen)
	if len(slices.Compact(seen)) != many {
		t.Error("a run came twice")
	}
	for _, place := range []int{0, 1, 499, 500, 501, many - 1} {
		rest, err := exported(t, r, &carillonv1.ExportRunsRequest{After: all[place]})
		if err != nil || !slices.Equal(rest, all[place+1:]) {
			t.Errorf("after run %d come %d runs, %v, want the %d that came before", place, len(rest), err, many-place-1)
		}
	}
}

func TestAnExportIsAFileOfRunsOnREST(t *testing.T) {
	r := ledger(t, 3)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.base+"/v1/runs:export?schedule_id=s1&status=PLANNED", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%d %v %v", resp.StatusCode, resp.Header, err)
	}
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	if len(lines) != 3 {
		t.Fatalf("%d lines:\n%s", len(lines), text)
	}
	for _, line := range lines {
		if member(t, line, "schedule_id") != "s1" {
			t.Errorf("a line is %s", line)
		}
	}
	if code, rest := r.rest("GET", "/v1/runs:export?status=PLANNED&after="+member(t, lines[1], "idempotency_key"), ""); code != 200 || rest != lines[2]+"\n" {
		t.Errorf("after the second line: %d %s", code, rest)
	}
	if code, none := r.rest("GET", "/v1/runs:export?to=2020-01-01T00:00:00Z", ""); code != 200 || none != "" {
		t.Errorf("an export of nothing is %d %q", code, none)
	}
}

func TestAnExportRefusesInvalidRequests(t *testing.T) {
	r := ledger(t, 1)
	for _, tt := range []struct {
		name  string
		query string
		code  int
		says  string
	}{
		{name: "a status that is none", query: "status=DONE", code: 400, says: "status"},
		{name: "a place that is no key", query: "after=abc", code: 400, says: "after"},
		{name: "a place that is gone", query: "after=" + strings.Repeat("0", 64), code: 404, says: "continue with from = its run_at"},
		{name: "a schedule that never was", query: "schedule_id=nobody", code: 404, says: "not found"},
		{name: "a parameter that nobody knows", query: "page_size=5", code: 400, says: "page_size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if code, text := r.rest("GET", "/v1/runs:export?"+tt.query, ""); code != tt.code || !strings.Contains(text, tt.says) {
				t.Errorf("%d %s, want %d with %q", code, text, tt.code, tt.says)
			}
		})
	}
}

// insert adds runs of one schedule to the ledger, three of each second.
func insert(t *testing.T, r *rig, s *schedule.Schedule, n int) {
	t.Helper()
	change := schedule.Change{ScheduleID: s.ScheduleID, Now: time.Now()}
	began := time.Now().UTC().Truncate(time.Second).Add(-time.Hour)
	for i := range n {
		at := began.Add(time.Duration(i/3) * time.Second)
		change.Runs = append(change.Runs, schedule.Run{
			Key: schedule.ManualKey(s.ScheduleID, fmt.Sprint(i)), ScheduleID: s.ScheduleID, Revision: s.Revision, RunAt: at, FireAt: at,
			Status: schedule.StatusPlanned, Trigger: schedule.TriggerManual, Attempt: 1,
			OverlapKey: s.UserID + "/" + s.OverlapKey, OverlapPolicy: schedule.OverlapAllow,
		})
	}
	err := r.store.ChangeSchedules(t.Context(), schedule.ChangeRequest{ScheduleIDs: []string{s.ScheduleID}},
		func([]schedule.ChangeInput) ([]schedule.Change, error) { return []schedule.Change{change}, nil })
	if err != nil {
		t.Fatal(err)
	}
}
