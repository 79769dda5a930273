package api_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/carillon/carillon/internal/schedule"
)

func TestWorkersAndTheirShardsAreListed(t *testing.T) {
	r := newRig(t)
	if got := r.must("GET", "/v1/workers", ""); got != `{"workers":[],"shards":0,"leaderships":[]}` {
		t.Errorf("before the first worker: %s", got)
	}
	ctx := t.Context()
	if _, err := r.store.RecordShards(ctx, 2); err != nil {
		t.Fatal(err)
	}
	if err := r.store.Heartbeat(ctx, schedule.WorkerSeen{WorkerID: "wa", Host: "box:4711", Unfit: "no launcher", StartedAt: r.store.Now()}); err != nil {
		t.Fatal(err)
	}
	for shard, holder := range []string{"wa", "gone"} {
		_, won, err := r.store.Takeover(ctx, schedule.TakeoverRequest{
			Shard: shard, Shards: 2, Holder: holder, TTL: 10 * time.Second, LockHeld: true, LockKind: "solo", Now: r.store.Now(),
		})
		if err != nil || !won {
			t.Fatalf("take over shard %d: %v %v", shard, won, err)
		}
	}
	got := r.must("GET", "/v1/workers", "")
	for _, want := range []string{
		`{"workers":[{"worker_id":"wa","started_at":"`, `"leads":[{"shard":0,"worker_id":"wa","epoch":1,"expires_at":"`,
		`"expired":false,"lock_held":true,"asked_to_resign":false,"lock_kind":"solo"}],"host":"box:4711","unfit":"no launcher"}],"shards":2,`, `{"shard":1,"worker_id":"gone","epoch":2,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}

	for range 2 { // to ask twice is harmless
		if answer := r.must("POST", "/v1/workers:resign", `{"shard":1}`); !strings.Contains(answer, `{"leadership":{"shard":1,"worker_id":"gone","epoch":2,`) {
			t.Errorf("resign answers %s", answer)
		}
	}
	if got := r.must("GET", "/v1/workers", ""); strings.Count(got, `"asked_to_resign":true`) != 1 {
		t.Errorf("one of the leaders was asked: %s", got)
	}
	if answer := r.must("POST", "/v1/workers:resign", `{}`); !strings.Contains(answer, `"worker_id":"wa"`) {
		t.Errorf("resign of shard 0 answers %s", answer)
	}
}

func TestAShardBeyondTheRecordedNumberIsRefusedWithThatNumber(t *testing.T) {
	r := newRig(t)
	if _, err := r.store.RecordShards(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	code, text := r.rest("POST", "/v1/workers:resign", `{"shard":9}`)
	if code != http.StatusBadRequest || !strings.Contains(text, "9 is not one of the 4 shards") || !strings.Contains(text, "from 0 to 3") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := r.rest("POST", "/v1/workers:resign", `{"shard":3}`); code != http.StatusNotFound {
		t.Errorf("the last shard, which nobody leads: %d %s", code, text)
	}
}

func TestNobodyCanBeAskedToResignWhereNobodyLeads(t *testing.T) {
	r := newRig(t)
	code, text := r.rest("POST", "/v1/workers:resign", `{"shard":1}`)
	if answer := readRefusal(t, text); code != http.StatusNotFound || answer.Code != int(codes.NotFound) || !strings.Contains(answer.Message, "nobody leads shard 1") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := r.rest("POST", "/v1/workers:resign", `{"shard":64}`); code != http.StatusBadRequest || !strings.Contains(text, `"field":"shard"`) {
		t.Errorf("%d %s", code, text)
	}
}
