package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
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
	if err := r.store.Heartbeat(ctx, schedule.Instance{ID: "wa", Host: "box:4711", Version: "v1.2.3", Roles: []string{"registrar", "worker"}, Unhealthy: "no launcher", StartedAt: r.store.Now()}); err != nil {
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
		`"expired":false,"lock_held":true,"asked_to_resign":false,"lock_kind":"solo"}],"host":"box:4711","unhealthy":"no launcher","version":"v1.2.3","roles":"registrar,worker"}],"shards":2,`, `{"shard":1,"worker_id":"gone","epoch":2,`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}

	for range 2 { // a repeat is harmless
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

func TestAShardWithoutALeaderCannotBeAskedToResign(t *testing.T) {
	r := newRig(t)
	code, text := r.rest("POST", "/v1/workers:resign", `{"shard":1}`)
	if answer := readRefusal(t, text); code != http.StatusNotFound || answer.Code != int(codes.NotFound) || !strings.Contains(answer.Message, "no worker leads shard 1") {
		t.Errorf("%d %s", code, text)
	}
	if code, text := r.rest("POST", "/v1/workers:resign", `{"shard":64}`); code != http.StatusBadRequest || !strings.Contains(text, `"field":"shard"`) {
		t.Errorf("%d %s", code, text)
	}
}

func TestProcessesAreListedWithVersionAndRoles(t *testing.T) {
	r := newRig(t)
	if got := r.must("GET", "/v1/processes", ""); got != `{"processes":[]}` {
		t.Errorf("before the first process: %s", got)
	}
	started := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	for id, roles := range map[string][]string{"wa": {"registrar", "worker"}, "pl": {"launcher"}} {
		if err := r.store.Heartbeat(t.Context(), schedule.Instance{ID: id, Host: "box:1", Version: "v1.2.3", Roles: roles, StartedAt: started}); err != nil {
			t.Fatal(err)
		}
	}
	want := `{"processes":[{"process_id":"pl","host":"box:1","version":"v1.2.3","roles":"launcher","started_at":"2026-03-07T12:00:00Z","seen_at":"`
	if got := r.must("GET", "/v1/processes", ""); !strings.HasPrefix(got, want) {
		t.Errorf("%s does not begin with %s", got, want)
	}
	if got := r.must("GET", "/v1/workers", ""); strings.Contains(got, `"pl"`) || !strings.Contains(got, `"unhealthy":"","version":"v1.2.3","roles":"registrar,worker"}`) {
		t.Errorf("the workers, with version and roles, are %s", got)
	}
}

func TestLeaderTermsAreListed(t *testing.T) {
	r := newRig(t)
	if got := r.must("GET", "/v1/leader-terms", ""); got != `{"terms":[]}` {
		t.Errorf("before the first term: %s", got)
	}
	began := time.Date(2026, 3, 7, 12, 0, 0, 0, time.UTC)
	take := func(shard int, holder string, at time.Time) schedule.Term {
		t.Helper()
		term, won, err := r.store.Takeover(t.Context(), schedule.TakeoverRequest{
			Shard: shard, Shards: 2, Holder: holder, Host: holder + ":1", TTL: 10 * time.Second, LockHeld: true, Now: at,
		})
		if err != nil || !won {
			t.Fatalf("take over shard %d: %v %v", shard, won, err)
		}
		return term
	}
	first := take(0, "wa", began)
	take(0, "wb", began.Add(time.Minute))
	take(1, "wc", began.Add(2*time.Minute))
	if err := r.store.Resign(t.Context(), first, schedule.Resignation{Now: began, End: schedule.TermEnd{Reason: schedule.EndDatabase, Detail: "connection refused"}}); err != nil {
		t.Fatal(err)
	}
	want := `{"terms":[{"shard":0,"epoch":2,"worker_id":"wb","host":"wb:1","started_at":"2026-03-07T12:01:00Z","ended_at":null,"renewed_at":"2026-03-07T12:01:00Z","expired":true,"end_reason":"","end_detail":""},` +
		`{"shard":0,"epoch":1,"worker_id":"wa","host":"wa:1","started_at":"2026-03-07T12:00:00Z","ended_at":"2026-03-07T12:00:00Z","renewed_at":null,"expired":false,"end_reason":"database_unreachable","end_detail":"connection refused"}]}`
	if got := r.must("GET", "/v1/leader-terms?shard=0", ""); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := r.must("GET", "/v1/leader-terms?page_size=1", ""); !strings.Contains(got, `"worker_id":"wc"`) || strings.Contains(got, `"wb"`) {
		t.Errorf("the newest one: %s", got)
	}
	if code, text := r.rest("GET", "/v1/leader-terms?page_size=501", ""); code != http.StatusBadRequest || !strings.Contains(text, "page_size") {
		t.Errorf("%d %s", code, text)
	}
}

func TestEndReasonsOfTheAPIAreTheDomains(t *testing.T) {
	field := (&carillonv1.LeaderTerm{}).ProtoReflect().Descriptor().Fields().ByName("end_reason")
	rules, _ := proto.GetExtension(field.Options(), validate.E_Field).(*validate.FieldRules)
	got, want := slices.Clone(rules.GetString().GetIn()), append([]string{""}, words(schedule.EndReasons)...)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("end_reason is one of %v, want %v", got, want)
	}
}
