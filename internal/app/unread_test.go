package app_test

import (
	"context"
	"encoding/binary"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// strangersWait is longer than the read timeout of unidentified callers.
const strangersWait = 3 * time.Second

// announced makes a call that announces a message and never completes it. It returns the grpc-status,
// or "" if none arrived in time.
func announced(t *testing.T, addr, path string, size uint32, within time.Duration, headers ...string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(within))
	framer := openCall(t, conn, append([]string{":method", "POST", ":scheme", "http", ":path", path, ":authority", addr, "content-type", "application/grpc", "te", "trailers"}, headers...)...)
	if err := framer.WriteData(1, false, append(binary.BigEndian.AppendUint32([]byte{0}, size), "begun"...)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return ""
		}
		if f, ok := frame.(*http2.MetaHeadersFrame); ok {
			for _, field := range f.Fields {
				if field.Name == "grpc-status" {
					return field.Value
				}
			}
		}
	}
}

func TestUnidentifiedCallersAreRefusedBeforeTheMessageIsRead(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	const apply, report, check = "/carillon.v1.ScheduleService/ApplySchedules", "/carillon.v1.RunService/ReportRun", "/grpc.health.v1.Health/Check"
	hex := strings.Repeat("a", 64)
	for _, c := range []struct {
		name, path, shown string
		want              string
	}{
		{name: "nobody", path: apply, want: "16"},
		{name: "a wrong token", path: apply, shown: "carillon_none", want: "16"},
		{name: "what looks like a run's own token", path: apply, shown: hex, want: "16"},
		{name: "nobody, to a call that is none", path: "/carillon.v1.ScheduleService/None", want: "16"},
		{name: "nobody, to a stream", path: "/carillon.v1.RunLauncher/StartBatch", want: "16"},
		{name: "who is known is waited for", path: apply, shown: g.tokens["compiler"], want: ""},
		{name: "a report must be read, and is not waited for long", path: report, shown: hex, want: "4"},
		{name: "so must a health check", path: check, want: "4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			within, headers := 10*time.Second, []string{}
			if c.shown != "" {
				headers = append(headers, "authorization", "Bearer "+c.shown)
			}
			if c.want == "" {
				within = strangersWait
			}
			if got := announced(t, g.GRPCAddr(), c.path, 1000, within, headers...); got != c.want {
				t.Errorf("grpc-status %q, want %q", got, c.want)
			}
		})
	}
	if log := g.logged(); !strings.Contains(log, `"method":"`+apply+`","code":"Unauthenticated"`) {
		t.Error("the access log has no line of what was refused")
	}
}

func TestABodyWithAnUncheckedReportTokenIsNotRead(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	hex := strings.Repeat("a", 64)
	for _, path := range []string{"/v1/schedules:apply", "/v1/schedules/x:pause", "/v1/nothing", "/v1/runs/" + hex + ":cancel"} {
		if code, answer := g.send(hex, http.MethodPost, path, "{ this is no JSON"); code != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", path, code, answer)
		}
	}
}

// Reading messages of unidentified callers is limited, and identified callers do not wait for them.
func TestUnidentifiedCallersDoNotDelayIdentifiedOnes(t *testing.T) {
	g := newGuarded(t, nil)
	ended := make(chan string)
	const strangers = 150
	for range strangers {
		go func() {
			ended <- announced(t, g.GRPCAddr(), "/grpc.health.v1.Health/Check", 1000, 20*time.Second)
		}()
	}
	for range 5 {
		ctx, cancel := context.WithTimeout(metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.tokens["viewer"]), 10*time.Second)
		if _, err := carillonv1.NewScheduleServiceClient(g.conn).ListSchedules(ctx, &carillonv1.ListSchedulesRequest{}); err != nil {
			t.Errorf("who is known: %v", err)
		}
		cancel()
	}
	for range strangers {
		if got := <-ended; got != "4" && got != "14" {
			t.Errorf("a stranger's call ends with grpc-status %q", got)
		}
	}
	if _, err := carillonv1.NewRunServiceClient(g.conn).GetRun(t.Context(), &carillonv1.GetRunRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("nobody reads a run: %v", err)
	}
}
