package grpcexecutor_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/test/services/reserve"
	"github.com/carillon/carillon/launcher"
	grpcexecutor "github.com/carillon/carillon/launcher/executor/grpc"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// What the operator reads of a launch that failed: the code, whether the call
// reached the executor, and the text.
func TestAFailedLaunchSaysWhatItMet(t *testing.T) {
	inBothWays(t, func(t *testing.T, serve serving) {
		answers := func(resp *carillonv1.ExecutorRunResponse, err error) func(*testing.T) *grpcexecutor.Executor {
			return func(t *testing.T) *grpcexecutor.Executor {
				return serve(t, &service{run: func(context.Context, *carillonv1.ExecutorRunRequest) (*carillonv1.ExecutorRunResponse, error) {
					return resp, err
				}}, grpcexecutor.Config{})
			}
		}
		for _, c := range []struct {
			name     string
			executor func(*testing.T) *grpcexecutor.Executor
			code     schedule.ErrorCode
			reached  bool
			text     []string // in the error
		}{
			{
				"UNAVAILABLE is an answer of the executor", answers(nil, status.Error(codes.Unavailable, "draining")),
				schedule.CodeExecutorError, true,
				[]string{"unavailable", "draining"},
			},
			{
				"INTERNAL", answers(nil, status.Error(codes.Internal, `{"error":"database is full"}`)),
				schedule.CodeExecutorError, true,
				[]string{"internal", `{"error":"database is full"}`},
			},
			{
				"an error that is no status", answers(nil, errors.New("boom")),
				schedule.CodeExecutorError, true,
				[]string{"unknown", "boom"},
			},
			{
				"its own deadline was over", answers(nil, status.Error(codes.DeadlineExceeded, "my database")),
				schedule.CodeExecutorTimeout, true,
				[]string{"my database"},
			},
			{
				"a status that the contract does not have", answers(&carillonv1.ExecutorRunResponse{Status: "DONE"}, nil),
				schedule.CodeExecutorBadAnswer, true,
				[]string{`status "DONE"`, "ENQUEUED, SUCCESS, FAILED or SNOOZE"},
			},
			{
				"a run_id that cannot be stored", answers(&carillonv1.ExecutorRunResponse{RunId: "a\x00"}, nil),
				schedule.CodeExecutorBadAnswer, true,
				[]string{"run_id", "cannot be stored"},
			},
			{"a page of HTML over HTTP/2", webPage, schedule.CodeExecutorError, true, []string{"502", "text/html"}},
			{"an HTTP/1.1 server", oldServer, schedule.CodeExecutorUnreachable, false, []string{"not sent", "unavailable"}},
			{
				"nobody listens", func(t *testing.T) *grpcexecutor.Executor {
					return newExecutor(t, grpcexecutor.Config{Target: reserve.Addr(t), Timeout: 5 * time.Second})
				},
				schedule.CodeExecutorUnreachable, false,
				[]string{"not sent", "connection refused"},
			},
		} {
			t.Run(c.name, func(t *testing.T) {
				_, err := c.executor(t).Run(t.Context(), exampleCall())
				if err == nil {
					t.Fatal("it was accepted")
				}
				if code := launcher.CallCode(err); code != c.code {
					t.Errorf("the code is %s, want %s: %v", code, c.code, err)
				}
				if reached := !errors.Is(err, launcher.ErrNotSent); reached != c.reached {
					t.Errorf("reached is %t, want %t: %v", reached, c.reached, err)
				}
				for _, text := range c.text {
					if !strings.Contains(err.Error(), text) {
						t.Errorf("%q does not say %q", err, text)
					}
				}
			})
		}
	})
}

// webPage is an executor behind a proxy that answers every call with a page.
func webPage(t *testing.T) *grpcexecutor.Executor {
	t.Helper()
	return newExecutor(t, grpcexecutor.Config{Timeout: 5 * time.Second, Target: webServer(t, true)})
}

func oldServer(t *testing.T) *grpcexecutor.Executor {
	t.Helper()
	return newExecutor(t, grpcexecutor.Config{Timeout: 5 * time.Second, Target: webServer(t, false)})
}

// webServer speaks HTTP/2 without TLS, or HTTP/1.1 only.
func webServer(t *testing.T, http2 bool) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{
		ReadHeaderTimeout: 5 * time.Second, Protocols: new(http.Protocols),
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(http.StatusBadGateway)
			_, _ = w.Write([]byte("<html>bad gateway</html>"))
		}),
	}
	server.Protocols.SetHTTP1(!http2)
	server.Protocols.SetUnencryptedHTTP2(http2)
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener.Addr().String()
}
