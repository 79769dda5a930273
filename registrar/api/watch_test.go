package api_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestWatchSendsOnlyChanges(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/v1/schedules", upsert())
	r.must("PUT", "/v1/schedules/other", upsert("schedule_id", "-"))
	r.must("POST", "/v1/schedules/s1:trigger", `{"request_id":"before"}`)

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	stream, err := carillonv1.NewRunServiceClient(r.conn).WatchRuns(ctx, &carillonv1.WatchRunsRequest{ScheduleId: "s1"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Header(); err != nil { // from now on it misses nothing
		t.Fatal(err)
	}
	r.must("POST", "/v1/schedules/other:trigger", `{"overlap_policy":"allow"}`)
	key := member(t, r.must("POST", "/v1/schedules/s1:trigger", `{"request_id":"after","overlap_policy":"allow"}`), "run", "idempotency_key")
	for _, want := range []string{"PLANNED", "CANCELLED"} {
		got, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if got.GetRun().GetIdempotencyKey() != key || got.GetRun().GetStatus() != want {
			t.Fatalf("got %v, want %s %s", got, key, want)
		}
		r.must("POST", "/v1/runs/"+key+":cancel", "")
	}
}

func TestWatchIsOneLineForEachChangeOnREST(t *testing.T) {
	r := newRig(t)
	r.must("POST", "/v1/schedules", upsert())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// The answer begins with the first change: go on triggering until it does.
	var triggering sync.WaitGroup
	defer triggering.Wait()
	answered := make(chan struct{})
	triggering.Go(func() {
		every := time.NewTicker(100 * time.Millisecond)
		defer every.Stop()
		for {
			select {
			case <-answered:
				return
			case <-every.C:
				r.must("POST", "/v1/schedules/s1:trigger", `{"overlap_policy":"allow"}`)
			}
		}
	})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.base+"/v1/runs:watch?schedule_id=s1", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	close(answered)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Fatalf("%q %v %v", line, resp.Header, err)
	}
	if member(t, line, "result", "run", "schedule_id") != "s1" || !strings.HasSuffix(line, "}}}\n") {
		t.Errorf("a line is %q", line)
	}
	cancel()
}

func TestWatchRefusesABadFilter(t *testing.T) {
	r := newRig(t)
	stream, err := carillonv1.NewRunServiceClient(r.conn).WatchRuns(t.Context(), &carillonv1.WatchRunsRequest{Status: []string{"DONE"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); err == nil || !strings.Contains(err.Error(), "SUCCESS") {
		t.Errorf("err = %v", err)
	}
	if code, text := r.rest("GET", "/v1/runs:watch?status=DONE", ""); code != http.StatusBadRequest || !strings.Contains(text, "status[0]") {
		t.Errorf("REST: %d %s", code, text)
	}
	if code, text := r.rest("GET", "/v1/runs:watch?stat=DONE", ""); code != http.StatusBadRequest || !strings.Contains(text, "stat") {
		t.Errorf("REST: %d %s", code, text)
	}
}
