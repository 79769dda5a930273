package app_test

import (
	"bytes"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// operator is the metadata of an operator's identity on the in-process connection.
const operator = `{"Subject":"evil","Roles":["operator"],"Via":"token"}`

func TestInternalMetadataFromOutsideIsIgnored(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	schedules := carillonv1.NewScheduleServiceClient(g.conn)
	for _, via := range []string{operator, `{"Via":"process"}`, `{"Via":"open"}`} {
		for _, key := range []string{"carillon-caller", "carillon-caller-bin", "Carillon-Caller-Bin", "Carillon-Caller", "grpcgateway-carillon-caller"} {
			ctx := metadata.AppendToOutgoingContext(t.Context(), key, via)
			if _, err := schedules.ListSchedules(ctx, &carillonv1.ListSchedulesRequest{}); status.Code(err) != codes.Unauthenticated {
				t.Errorf("gRPC with %s: %v", key, err)
			}
			for _, prefix := range []string{"", "Grpc-Metadata-"} {
				if code, answer := g.send("", http.MethodGet, "/v1/schedules", "", prefix+key, via); code != http.StatusUnauthorized {
					t.Errorf("REST with %s%s: %d %s", prefix, key, code, answer)
				}
				if code, answer := g.send("viewer", http.MethodPost, "/v1/schedules/x:pause", "{}", prefix+key, via); code != http.StatusForbidden {
					t.Errorf("REST as a viewer with %s%s: %d %s", prefix, key, code, answer)
				}
			}
		}
	}
}

func TestACallWithTwoTokensIsRefused(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	if code, _ := g.send("viewer", http.MethodGet, "/v1/schedules", "", "Authorization", "Bearer "+g.tokens["operator"]); code != http.StatusUnauthorized {
		t.Errorf("REST with two: %d", code)
	}
	ctx := metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+g.tokens["viewer"], "authorization", "Bearer "+g.tokens["viewer"])
	if _, err := carillonv1.NewScheduleServiceClient(g.conn).ListSchedules(ctx, &carillonv1.ListSchedulesRequest{}); status.Code(err) != codes.Unauthenticated {
		t.Errorf("gRPC with two: %v", err)
	}
	for _, shown := range []string{"Basic " + g.tokens["viewer"], g.tokens["viewer"], "Bearer", "Bearer ", "Bearer " + g.tokens["viewer"] + "," + g.tokens["operator"], "Bearer \xff"} {
		if code, _ := g.send("", http.MethodGet, "/v1/schedules", "", "Authorization", shown); code != http.StatusUnauthorized {
			t.Errorf("%.10q: %d", shown, code)
		}
	}
}

// A path without its leading slash once bypassed interceptors.
func TestPathsThatAreNotMethodsAreRefused(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, nil)
	for _, path := range []string{
		"carillon.v1.ScheduleService/ListSchedules", "//carillon.v1.ScheduleService/ListSchedules", "/carillon.v1.ScheduleService/ListSchedules/",
		"/carillon.v1.ScheduleService//ListSchedules", "/carillon.v1.ScheduleService/listschedules", "/carillon.v1.ScheduleService", "/", "*",
		"/CARILLON.v1.ScheduleService/ListSchedules", "/carillon.v1.ScheduleService/ListSchedules?x", "/carillon.v1.ScheduleService/%4cistSchedules", "/carillon.v1.Executor/Run",
	} {
		if got, data := raw(t, g.GRPCAddr(), path); data || got == "0" || got == "" {
			t.Errorf("%q: grpc-status %q, data %v", path, got, data)
		}
	}
	if got, _ := raw(t, g.GRPCAddr(), "/carillon.v1.ScheduleService/ListSchedules"); got != "16" {
		t.Errorf("the call itself, by nobody: grpc-status %q, want 16", got)
	}
}

// raw makes one call frame by frame, with paths that clients refuse, and returns its grpc-status (or
// HTTP status) and whether a message arrived.
func raw(t *testing.T, addr, path string) (grpcStatus string, data bool) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if _, err := conn.Write([]byte(http2.ClientPreface)); err != nil {
		t.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "http"}, {":path", path}, {":authority", addr}, {"content-type", "application/grpc"}, {"te", "trailers"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]}) // into memory
	}
	framer := http2.NewFramer(conn, conn)
	framer.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true}); err != nil {
		t.Fatal(err)
	}
	if err := framer.WriteData(1, true, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return "closed: " + err.Error(), data
		}
		switch f := frame.(type) {
		case *http2.MetaHeadersFrame:
			for _, field := range f.Fields {
				if field.Name == "grpc-status" || field.Name == ":status" && !strings.HasPrefix(field.Value, "200") {
					grpcStatus = field.Value
				}
			}
			if f.StreamEnded() {
				return grpcStatus, data
			}
		case *http2.DataFrame:
			data = data || len(f.Data()) > 0
		case *http2.RSTStreamFrame:
			return "reset", data
		case *http2.GoAwayFrame:
			return "goaway", data
		}
	}
}
