package app_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// A watch does not end by itself, so it must not outlive its credentials.
func TestAWatchEndsWithTheTokenThatOpenedIt(t *testing.T) {
	t.Parallel()
	token, entry, err := tokenfile.New(tokenfile.Entry{Subject: "ada", Roles: []auth.Role{auth.User}, ExpiresAt: time.Now().Add(2 * time.Second)})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte("tokens:\n"+entry.Line()+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	g := newGuarded(t, map[string]any{"auth_tokens_file": path})
	rest := make(chan error, 1)
	go func() {
		req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+g.HTTPAddr()+"/v1/runs:watch", nil)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		rest <- err
	}()
	ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), 20*time.Second)
	defer cancel()
	stream, err := carillonv1.NewRunServiceClient(g.conn).WatchRuns(ctx, &carillonv1.WatchRunsRequest{})
	for err == nil {
		_, err = stream.Recv()
	}
	if status.Code(err) != codes.Unauthenticated {
		t.Errorf("gRPC: %v", err)
	}
	select {
	case err := <-rest: // the body has ended, with or without an error
		t.Logf("REST ends with %v", err)
	case <-time.After(20 * time.Second):
		t.Error("REST: it goes on")
	}
}
