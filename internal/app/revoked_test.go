package app_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth/authtest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// revokedWithin is the limit in docs/security.md.
const revokedWithin = 10 * time.Second

// opened is a stream that a test keeps open. ended receives its final status.
type opened struct {
	name  string
	want  string // the final status; empty: it stays open
	ended chan string
}

// watch opens WatchRuns over gRPC.
func (g *guarded) watch(name, who, want string) *opened {
	g.t.Helper()
	stream, err := carillonv1.NewRunServiceClient(g.conn).WatchRuns(g.as(who), &carillonv1.WatchRunsRequest{})
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		g.t.Fatal(name, err)
	}
	o := &opened{name, want, make(chan string, 1)}
	go func() {
		o.ended <- status.Code(untilEnd(stream)).String()
	}()
	return o
}

func untilEnd(stream grpc.ServerStreamingClient[carillonv1.WatchRunsResponse]) error {
	for {
		if _, err := stream.Recv(); err != nil {
			return err
		}
	}
}

// watchHTTP opens a stream over HTTP. Its last line is the final status. REST answers only with the
// first run.
func (g *guarded) watchHTTP(name, path, want string, headers ...string) *opened {
	g.t.Helper()
	req, err := http.NewRequestWithContext(g.t.Context(), http.MethodGet, "http://"+g.HTTPAddr()+path, nil)
	if err != nil {
		g.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req) //nolint:bodyclose // the goroutine below closes it
	if err != nil || resp.StatusCode != http.StatusOK {
		g.t.Fatal(name, resp, err)
	}
	o := &opened{name, want, make(chan string, 1)}
	go func() {
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		var last struct {
			Error struct{ Code codes.Code }
		}
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		_ = json.Unmarshal([]byte(lines[len(lines)-1]), &last)
		o.ended <- last.Error.Code.String()
	}()
	return o
}

// batch opens a StartBatch and does not close it on request.
func (g *guarded) batch(name, who, want string) *opened {
	g.t.Helper()
	stream, err := carillonv1.NewRunLauncherClient(g.conn).StartBatch(g.as(who))
	if err != nil {
		g.t.Fatal(name, err)
	}
	o := &opened{name, want, make(chan string, 1)}
	go func() {
		asked := ""
		for {
			msg, err := stream.Recv()
			if err != nil {
				o.ended <- asked + status.Code(err).String()
				return
			}
			if msg.GetClosing() {
				asked = "asked to close, then "
			}
		}
	}()
	return o
}

// end checks the end of the streams after their credentials were revoked.
func end(t *testing.T, streams []*opened) {
	t.Helper()
	over := time.After(revokedWithin)
	for _, o := range streams {
		if o.want == "" {
			continue
		}
		select {
		case got := <-o.ended:
			if got != o.want {
				t.Errorf("%s ends with %s, want %s", o.name, got, o.want)
			}
		case <-over:
			t.Fatalf("%s is still open %s after what opened it was revoked", o.name, revokedWithin)
		}
	}
	for _, o := range streams {
		if o.want != "" {
			continue
		}
		select {
		case got := <-o.ended:
			t.Errorf("%s ends with %s, though nothing of it was revoked", o.name, got)
		default:
		}
	}
}

// replace replaces a file atomically.
func replace(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestOpenStreamsEndWhenTheirCredentialsAreRevoked(t *testing.T) {
	t.Parallel()
	keys := filepath.Join(t.TempDir(), "keys.json")
	gone, stays := authtest.NewEd25519("gone"), authtest.NewEd25519("stays")
	replace(t, keys, authtest.Text(authtest.KeySet(gone, stays)))
	g := newGuarded(t, map[string]any{
		"auth_jwt_keys_file": keys, "auth_jwt_issuer": authtest.Issuer, "auth_jwt_audience": authtest.Audience,
	})
	if code, answer := g.send("compiler", "PUT", "/v1/schedules/s", `{"workflow_id":"w","version":1,"user_id":"ada","interval_ms":1000,"overlap_policy":"allow"}`); code != http.StatusOK {
		t.Fatal(code, answer)
	}
	claims := authtest.Claims(time.Now())
	byGone, byStays := gone.Token(gone.Header(), claims), stays.Token(stays.Header(), claims)
	cookie := func(who string) []string { return []string{"Cookie", "carillon_session=" + g.shown(who)} }
	shows := func(who string) []string { return []string{"Authorization", "Bearer " + g.shown(who)} }
	all := []*opened{
		g.watch("a watch of a token that is taken out", "user", "Unauthenticated"),
		g.watch("a watch of a token whose role is taken away", "viewer", "PermissionDenied"),
		g.watch("a watch of a token that gets another owner", "bob", "Unauthenticated"),
		g.watch("a watch of a key that is withdrawn", byGone, "Unauthenticated"),
		g.watchHTTP("a REST watch of a token that is taken out", "/v1/runs:watch", "Unauthenticated", shows("user")...),
		g.watchHTTP("a REST watch of a token whose role is taken away", "/v1/runs:watch", "PermissionDenied", shows("viewer")...),
		g.watchHTTP("a REST watch of a key that is withdrawn", "/v1/runs:watch", "Unauthenticated", shows(byGone)...),
		g.watchHTTP("a live page of a token that is taken out", "/ui/live", "OK", cookie("user")...),
		g.watchHTTP("a live page of a key that is withdrawn", "/ui/live", "OK", cookie(byGone)...),
		g.batch("a stream of launches of a token that is taken out", "worker", "asked to close, then Unauthenticated"),
		g.watch("a watch of a token that stays", "operator", ""),
		g.watch("a watch of a key that stays", byStays, ""),
		g.watchHTTP("a REST watch of a token that stays", "/v1/runs:watch", "", shows("operator")...),
		g.watchHTTP("a live page of a token that stays", "/ui/live", "", cookie("operator")...),
	}
	text, err := os.ReadFile(g.cfg.AuthTokensFile)
	if err != nil {
		t.Fatal(err)
	}
	lines := slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return strings.Contains(line, `"subject-user"`) || strings.Contains(line, `"subject-worker"`)
	})
	changed := strings.NewReplacer("roles: [viewer]", "roles: [executor]", `owner: "bob"`, `owner: "eve"`).Replace(strings.Join(lines, "\n"))
	replace(t, g.cfg.AuthTokensFile, []byte(changed))
	replace(t, keys, authtest.Text(authtest.KeySet(stays)))
	end(t, all)
}

func TestOpenStreamsEndWhenTheirCAIsRemoved(t *testing.T) {
	t.Parallel()
	p, other := newPKI(t), newPKI(t)
	ca := filepath.Join(t.TempDir(), "clients.pem")
	text, err := os.ReadFile(p.path("ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	replace(t, ca, text)
	g := newGuarded(t, p.settings(map[string]any{"tls_client_ca_file": ca}))
	conn, err := grpc.NewClient(g.GRPCAddr(), grpc.WithTransportCredentials(credentials.NewTLS(p.client("compiler"))))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	stream, err := carillonv1.NewRunServiceClient(conn).WatchRuns(context.Background(), &carillonv1.WatchRunsRequest{})
	if err == nil {
		_, err = stream.Header()
	}
	if err != nil {
		t.Fatal(err)
	}
	o := &opened{"a watch of a certificate", "Unauthenticated", make(chan string, 1)}
	go func() {
		o.ended <- status.Code(untilEnd(stream)).String()
	}()
	if text, err = os.ReadFile(other.path("ca.pem")); err != nil {
		t.Fatal(err)
	}
	replace(t, ca, text)
	end(t, []*opened{o})
}
