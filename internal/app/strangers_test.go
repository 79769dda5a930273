package app_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// frameClient speaks HTTP/2 frame by frame, as an attacker does.
type frameClient struct {
	t       *testing.T
	conn    net.Conn
	framer  *http2.Framer
	block   bytes.Buffer
	encoder *hpack.Encoder
	stream  uint32 // the last one
}

func newFrameClient(t *testing.T, addr string) *frameClient {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(30 * time.Second))
	c := &frameClient{t: t, conn: conn, framer: http2.NewFramer(conn, conn)}
	c.framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	c.encoder = hpack.NewEncoder(&c.block)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	if err := c.framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return c
}

// call starts a call; headers are names and values.
func (c *frameClient) call(path string, headers ...string) error {
	c.block.Reset()
	fields := append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", "carillon", "content-type", "application/grpc", "te", "trailers"}, headers...)
	for i := 0; i < len(fields); i += 2 {
		_ = c.encoder.WriteField(hpack.HeaderField{Name: fields[i], Value: fields[i+1]}) // into memory
	}
	if c.stream == 0 {
		c.stream = 1
	} else {
		c.stream += 2
	}
	return c.framer.WriteHeaders(http2.HeadersFrameParam{StreamID: c.stream, BlockFragment: c.block.Bytes(), EndHeaders: true})
}

// empty sends an empty message and the end of the call's stream.
func (c *frameClient) empty() error { return c.framer.WriteData(c.stream, true, make([]byte, 5)) }

// answers reads until n calls have ended or sent a first message, and returns the joined header fields
// of each.
func (c *frameClient) answers(n int) map[uint32]string {
	c.t.Helper()
	out, done := make(map[uint32]string), make(map[uint32]bool)
	for len(done) < n {
		frame, err := c.framer.ReadFrame()
		if err != nil {
			c.t.Fatalf("%d of %d calls are answered: %v", len(done), n, err)
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				out[f.StreamID] += field.Name + ": " + field.Value + "\n"
			}
			if f.StreamEnded() {
				done[f.StreamID] = true
			}
		case *http2.DataFrame:
			out[f.StreamID] += "a message\n"
			done[f.StreamID] = true
		}
	}
	maps.DeleteFunc(out, func(stream uint32, _ string) bool { return !done[stream] })
	return out
}

func TestHealthWatchesOfUnidentifiedCallersAreLimited(t *testing.T) {
	t.Parallel()
	const watches, ofOnePeer = 300, 16
	for _, c := range []struct {
		name     string
		settings map[string]any
		who      string
		want     int // watches that stay open
	}{
		{"nobody", nil, "", ofOnePeer},
		{"a wrong token", nil, "carillon_none", ofOnePeer},
		{"nobody where authentication is off", map[string]any{"auth_tokens_file": "", "auth": "off"}, "", ofOnePeer},
		{"a worker", nil, "worker", watches},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuarded(t, c.settings)
			client := newFrameClient(t, g.GRPCAddr())
			var headers []string
			if c.who != "" {
				headers = []string{"authorization", "Bearer " + g.shown(c.who)}
			}
			for range watches {
				if err := errors.Join(client.call(healthWatch, headers...), client.empty()); err != nil {
					t.Fatal(err)
				}
			}
			open := 0
			for _, answer := range client.answers(watches) {
				if strings.Contains(answer, "a message") {
					open++
				} else if !strings.Contains(answer, "grpc-status: 8\n") {
					t.Errorf("a refused watch is answered %s", answer)
				}
			}
			if open != c.want {
				t.Errorf("%d watches are open, want %d", open, c.want)
			}
		})
	}
}

// Calls without a message fill the pools of unidentified callers.
func TestReportsAreAcceptedWhileUnidentifiedCallersKeepCallsOpen(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, method string
		calls        int
	}{
		{"health checks", healthCheck, 1500},
		{"reports with a bad token", reportRun, 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuarded(t, nil)
			if code, answer := g.send("user", "PUT", "/v1/schedules/s", `{"workflow_id":"w","version":1}`); code != http.StatusOK {
				t.Fatalf("%d %s", code, answer)
			}
			key := g.launched("s", "one")
			token := schedule.ReportToken([]byte(reportSecret), key)
			attacker := newFrameClient(t, g.GRPCAddr())
			go func() { _, _ = io.Copy(io.Discard, attacker.conn) }()
			for range c.calls {
				if err := attacker.call(c.method, "authorization", "Bearer "+strings.Repeat("b", 64)); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+token), 10*time.Second)
			defer cancel()
			for range 10 {
				_, err := carillonv1.NewRunServiceClient(g.conn).ReportRun(ctx, &carillonv1.ReportRunRequest{IdempotencyKey: key.String(), Status: "STARTED"})
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestAConnectionThatResetsManyStreamsIsClosed(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	for _, c := range []struct {
		name, shown string
		resets      int
		wantClosed  bool
	}{
		{name: "a stranger that gives up a few calls", resets: 100},
		{name: "a stranger that does nothing else", resets: 1500, wantClosed: true},
		{name: "a worker that gives up a thousand calls at once", shown: g.tokens["worker"], resets: 1500},
	} {
		t.Run(c.name, func(t *testing.T) {
			client := newFrameClient(t, g.GRPCAddr())
			headers := []string{"authorization", "Bearer " + c.shown}
			// The first call is answered before the resets, so that a worker is identified.
			if err := errors.Join(client.call(healthCheck, headers...), client.empty()); err != nil {
				t.Fatal(err)
			}
			client.answers(1)
			var err error
			for i := 0; i < c.resets && err == nil; i++ {
				err = errors.Join(client.call(healthWatch, headers...), client.framer.WriteRSTStream(client.stream, http2.ErrCodeCancel))
			}
			if err == nil {
				err = client.framer.WritePing(false, [8]byte{1})
			}
			for err == nil {
				var frame http2.Frame
				if frame, err = client.framer.ReadFrame(); err == nil {
					if ping, ok := frame.(*http2.PingFrame); ok && ping.IsAck() && ping.Data == [8]byte{1} {
						break
					}
				}
			}
			if errors.Is(err, os.ErrDeadlineExceeded) || (err != nil) != c.wantClosed {
				t.Errorf("closed is %v (%v)", err != nil, err)
			}
		})
	}
	if _, metrics := g.send("operator", http.MethodGet, "/metrics", ""); !strings.Contains(metrics, `carillon_connections_closed_total{listener="grpc",reason="too_many_resets"} 1`) {
		t.Error("the closed connection is not counted")
	}
}

func TestIdleConnectionsOfUnidentifiedCallersAreClosedForNewOnes(t *testing.T) {
	t.Parallel()
	const limit = 20
	g := newGuarded(t, map[string]any{"max_connections_per_peer": limit})
	if _, err := healthv1.NewHealthClient(g.conn).Check(g.as("worker"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		listener, addr string
		want           int // unidentified connections that stay
	}{
		{"gRPC, where a worker is connected", g.GRPCAddr(), limit},
		{"HTTP", g.HTTPAddr(), limit},
	} {
		t.Run(c.listener, func(t *testing.T) {
			ended := make(chan struct{}, 5*limit)
			for range 5 * limit {
				conn, err := net.Dial("tcp", c.addr)
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close()
				go func() { _, _ = io.Copy(io.Discard, conn); ended <- struct{}{} }()
			}
			for range 5*limit - c.want {
				<-ended
			}
			if len(ended) > 0 {
				t.Error("more connections are closed than the limit asks for")
			}
		})
	}
	if _, err := healthv1.NewHealthClient(g.conn).Check(g.as("worker"), &healthv1.HealthCheckRequest{}); err != nil {
		t.Errorf("the worker: %v", err)
	}
	if code, answer := g.send("viewer", http.MethodGet, "/v1/schedules", ""); code != http.StatusOK {
		t.Errorf("a new caller: %d %s", code, answer)
	}
	if strings.Count(g.logged(), "connection closed by a limit") > 10 {
		t.Error("the log has a line for each connection")
	}
}

// The answer must not reveal which calls exist.
func TestUnidentifiedCallersGetTheSameAnswerForUnknownCalls(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	paths := []string{
		"/carillon.v1.ScheduleService/GetSchedule", "/carillon.v1.RunService/WatchRuns", "/carillon.v1.RunLauncher/StartBatch", reportRun,
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
		"/carillon.v1.ScheduleService/None", "/carillon.v1.None/None", "/none/none", "/grpc.health.v1.Health/None", "//", "/carillon.v1.ScheduleService/",
	}
	for _, shown := range [][]string{nil, {"authorization", "Bearer carillon_none"}, {"authorization", "Basic x"}, {"authorization", "Bearer " + strings.Repeat("a", 64)}} {
		answers := make(map[string][]string)
		for _, path := range paths {
			if path == reportRun && len(shown) > 0 && strings.HasSuffix(shown[1], "aa") {
				continue // the token is checked against the message
			}
			client := newFrameClient(t, g.GRPCAddr())
			if err := errors.Join(client.call(path, shown...), client.empty()); err != nil {
				t.Fatal(err)
			}
			answer := client.answers(1)[1]
			answers[answer] = append(answers[answer], path)
			if !strings.Contains(answer, fmt.Sprintf("grpc-status: %d\n", codes.Unauthenticated)) {
				t.Errorf("%s by %v: %s", path, shown, answer)
			}
		}
		if len(answers) != 1 {
			t.Errorf("%v: the answers differ: %q", shown, answers)
		}
	}
	// Identified callers learn that the call does not exist.
	err := g.conn.Invoke(g.as("viewer"), "/carillon.v1.ScheduleService/None", &healthv1.HealthCheckRequest{}, &healthv1.HealthCheckResponse{})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a viewer: %v", err)
	}
}
