package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/store/sqlite"
	"github.com/carillon/carillon/internal/test/services/leaks"
	"github.com/carillon/carillon/internal/test/services/migrated"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
)

func TestMain(m *testing.M) { leaks.Main(m) }

// rig is the whole of the registrar's side: both APIs over a real registrar
// over a real SQLite file.
type rig struct {
	t     testing.TB
	store *sqlite.Store
	conn  *grpc.ClientConn // gRPC, as the gateway uses it
	base  string           // REST

	gateway http.Handler // serves base
}

func newRig(t testing.TB, more ...func(*registrar.Options)) *rig {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	store, err := sqlite.Open(t.Context(), "sqlite:"+migrated.SQLite(t, filepath.Join(t.TempDir(), "carillon.db")), sqlite.Options{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	o := registrar.Options{Schedules: store, Runs: store, Outcomes: store, Backfills: store, Workflows: store, Shares: store, Grants: store, Queues: store, Entries: store, Copies: store, Limits: store, Groups: store, Events: store, Overlaps: store, Reservations: store, Terms: store, Sends: store, Logger: quiet}
	for _, change := range more {
		change(&o)
	}
	r := registrar.New(o)
	conn, base, gateway := serve(t, api.Services{Writer: r, Reader: r, Workflows: r, Grants: r, Runs: r, Backfills: r, Queues: r, Limits: r, Groups: r, Events: r, Overlaps: r, Workers: store})
	return &rig{t: t, store: store, conn: conn, base: base, gateway: gateway}
}

// serve puts services on a gRPC server and its gateway until the test ends.
func serve(t testing.TB, s api.Services) (*grpc.ClientConn, string, http.Handler) {
	t.Helper()
	server := api.NewServer(slog.New(slog.DiscardHandler), nil)
	api.Register(server, s)
	lis, conn, err := api.Loopback()
	if err != nil {
		t.Fatal(err)
	}
	gateway, err := api.NewGateway(context.Background(), conn, api.GatewayOptions{})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(gateway)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(lis) })
	t.Cleanup(func() {
		web.Close()
		_ = conn.Close()
		server.Stop()
		serving.Wait()
	})
	return conn, web.URL, gateway
}

// rest makes one call, as curl -d does it: with the content type of a form.
func (r *rig) rest(method, path, body string) (int, string) {
	r.t.Helper()
	return rest(r.t, r.base, method, path, body)
}

// restAnswer is rest with the headers of the answer.
func (r *rig) restAnswer(method, path, body string) (int, string, http.Header) {
	r.t.Helper()
	return restAnswer(r.t, r.base, method, path, body)
}

func rest(t testing.TB, base, method, path, body string) (int, string) {
	t.Helper()
	code, text, _ := restAnswer(t, base, method, path, body)
	return code, text
}

func restAnswer(t testing.TB, base, method, path, body string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text), resp.Header
}

// must is rest that has to succeed.
func (r *rig) must(method, path, body string) string {
	r.t.Helper()
	code, text := r.rest(method, path, body)
	if code != http.StatusOK {
		r.t.Fatalf("%s %s: %d %s", method, path, code, text)
	}
	return text
}

// message is an empty request or response of "ScheduleService/GetSchedule".
func message(t *testing.T, call string, request bool) proto.Message {
	t.Helper()
	service, method, _ := strings.Cut(call, "/")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName("carillon.v1." + service))
	if err != nil {
		t.Fatal(err)
	}
	md := d.(protoreflect.ServiceDescriptor).Methods().ByName(protoreflect.Name(method))
	name := md.Output().FullName()
	if request {
		name = md.Input().FullName()
	}
	mt, err := protoregistry.GlobalTypes.FindMessageByName(name)
	if err != nil {
		t.Fatal(err)
	}
	return mt.New().Interface()
}

// grpcCall makes one call with a request in JSON. carried: a gRPC message can carry that JSON.
func grpcCall(t *testing.T, conn *grpc.ClientConn, call, body string) (answer string, st *status.Status, carried bool) {
	t.Helper()
	req, resp := message(t, call, true), message(t, call, false)
	if err := rawjson.Unmarshal([]byte(body), req); err != nil {
		return "", nil, false
	}
	if err := conn.Invoke(t.Context(), "/carillon.v1."+call, req, resp); err != nil {
		return "", status.Convert(err), true
	}
	text, err := rawjson.Marshal(resp)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil, true
}

// refusal is the body of an error on REST.
type refusal struct {
	Code    int
	Message string
	Details []struct {
		Type       string `json:"@type"`
		Reason     string
		Violations []violation `json:"field_violations"`
	}
}

type violation struct{ Field, Description string }

func readRefusal(t *testing.T, text string) refusal {
	t.Helper()
	var out refusal
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func (r refusal) violations() (all []violation) {
	for _, d := range r.Details {
		all = append(all, d.Violations...)
	}
	return all
}

// member is one member of an object in JSON text.
func member(t testing.TB, text string, path ...string) string {
	t.Helper()
	raw := json.RawMessage(text)
	for _, name := range path {
		var object map[string]json.RawMessage
		if err := json.Unmarshal(raw, &object); err != nil {
			t.Fatalf("%s of %s: %v", path, text, err)
		}
		raw = object[name]
	}
	return strings.Trim(string(raw), `"`)
}
