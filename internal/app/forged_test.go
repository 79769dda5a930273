package app_test

import (
	"crypto/elliptic"
	"crypto/tls"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth/authtest"
	"github.com/carillon/carillon/internal/auth/gate"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// refused is the answer to every unidentified caller.
const refused = `{"code":16,"message":"` + "not authenticated: send a valid token (Authorization: Bearer …) or a known client certificate" + `","details":[]}`

func TestForgedTokensAreRefusedOverGRPCAndREST(t *testing.T) {
	t.Parallel()
	now := time.Now()
	right, tokens := authtest.Forged(now.Add(-time.Minute))
	for _, name := range []string{"nbf ahead", "iat ahead"} { // off by one second, which this test may take
		delete(tokens, name)
		claim, _, _ := strings.Cut(name, " ")
		tokens[name+" by minutes"] = right[0].Token(right[0].Header(), authtest.With(authtest.Claims(now), claim, now.Add(5*time.Minute).Unix()))
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, authtest.Text(authtest.KeySet(right...)), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGuarded(t, map[string]any{
		"auth_jwt_keys_file": path, "auth_jwt_issuer": authtest.Issuer, "auth_jwt_audience": authtest.Audience,
	})
	for _, p := range append(right[:0:0], right...) {
		if code, answer := g.send(p.Token(p.Header(), authtest.Claims(now)), http.MethodGet, "/v1/schedules", ""); code != http.StatusOK {
			t.Fatalf("a good token of %s: %d %s", p.Alg, code, answer)
		}
	}
	elsewhere := authtest.NewECDSA("ec", elliptic.P384())
	tokens["another curve"] = elsewhere.Token(elsewhere.Header(), authtest.Claims(now))
	schedules, tried := carillonv1.NewScheduleServiceClient(g.conn), 0
	for name, token := range tokens {
		if strings.ContainsAny(token, "\n\x00 ") || len(token) > 12<<10 {
			continue // neither protocol carries it as it is
		}
		tried++
		// The answer names a claim only if a trusted key has signed the token, and never its value.
		want, wantText := refused, gate.ErrUnauthenticated.Error()
		code, answer := g.send(token, http.MethodGet, "/v1/schedules", "")
		var said struct{ Message string }
		_ = json.Unmarshal([]byte(answer), &said)
		if claim := authtest.WrongClaim(name); claim != "" {
			if begin := wantText + `: claim "` + claim + `" of the token `; !strings.HasPrefix(said.Message, begin) {
				t.Errorf("%s: %s, want it to name the claim %s", name, answer, claim)
			}
			wantText = said.Message
			want = strings.Replace(refused, gate.ErrUnauthenticated.Error(), strings.ReplaceAll(wantText, `"`, `\"`), 1)
		}
		if code != http.StatusUnauthorized || strings.TrimSpace(answer) != want {
			t.Errorf("REST, %s: %d %s", name, code, answer)
		}
		ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token)
		_, err := schedules.ListSchedules(ctx, &carillonv1.ListSchedulesRequest{})
		if st := status.Convert(err); st.Code() != codes.Unauthenticated || st.Message() != wantText || len(st.Details()) > 0 {
			t.Errorf("gRPC, %s: %v", name, err)
		}
	}
	if tried < 120 {
		t.Errorf("only %d tokens were tried", tried)
	}
}

func TestInvalidCertificatesAreRefusedOverGRPCAndREST(t *testing.T) {
	t.Parallel()
	p := newPKI(t)
	g := newGuarded(t, p.settings(nil))
	ca := &authtest.Authority{Cert: p.cert, Key: p.key, Noon: time.Now()}
	try := func(pair tls.Certificate) (rest int, answer string, err error) {
		config := p.client("")
		config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: config, ForceAttemptHTTP2: true}}
		defer web.CloseIdleConnections()
		resp, err := web.Get("https://" + g.HTTPAddr() + "/v1/schedules")
		if err != nil {
			return 0, err.Error(), err
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		conn, err := grpc.NewClient(g.GRPCAddr(), grpc.WithTransportCredentials(credentials.NewTLS(config)))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = carillonv1.NewScheduleServiceClient(conn).ListSchedules(t.Context(), &carillonv1.ListSchedulesRequest{})
		return resp.StatusCode, string(text), err
	}
	if code, answer, err := try(ca.Pair()); code != http.StatusOK || err != nil {
		t.Fatalf("a good certificate: %d %s, %v", code, answer, err)
	}
	bad := ca.Bad()
	if len(bad) < 20 {
		t.Errorf("only %d certificates", len(bad))
	}
	for name, pair := range bad {
		code, answer, err := try(pair)
		st := status.Convert(err)
		if code != http.StatusUnauthorized || strings.TrimSpace(answer) != refused || st.Code() != codes.Unauthenticated || st.Message() != gate.ErrUnauthenticated.Error() {
			t.Errorf("%s: REST %d %s, gRPC %v", name, code, answer, err)
		}
	}
	for name, pair := range ca.Broken() {
		if code, answer, err := try(pair); err == nil {
			t.Errorf("%s: %d %s", name, code, answer)
		}
	}
}
