package api_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar"
	"github.com/carillon/carillon/registrar/api"
)

// failing answers every read with one error, or panics.
type failing struct {
	api.ScheduleReader
	err error
}

func (f *failing) Get(context.Context, string, int) (registrar.GetResult, error) {
	if f.err == nil {
		panic("a bug, with a secret in it")
	}
	return registrar.GetResult{}, f.err
}

func TestEveryErrorHasItsCodes(t *testing.T) {
	tests := []struct {
		sentinel string // its name in package schedule, if any
		err      error
		grpc     codes.Code
		http     int
		says     string
		reason   string
	}{
		{"ErrNotFound", schedule.Explain(schedule.ErrNotFound, "schedule %q", "s1"), codes.NotFound, http.StatusNotFound, `"s1"`, ""},
		{"ErrExists", schedule.ErrExists, codes.AlreadyExists, http.StatusConflict, "already exists", ""},
		{"ErrRepeated", schedule.ErrRepeated, codes.AlreadyExists, http.StatusConflict, "done before", ""},
		{"ErrPrecondition", schedule.ErrPrecondition, codes.FailedPrecondition, http.StatusConflict, "precondition failed", ""},
		{"ErrRunIDMismatch", schedule.ErrRunIDMismatch, codes.FailedPrecondition, http.StatusConflict, "run_id", "RUN_ID_MISMATCH"},
		{"ErrKeyConflict", schedule.ErrKeyConflict, codes.AlreadyExists, http.StatusUnprocessableEntity, "the key was used before", "KEY_CONFLICT"},
		{"ErrUnpayable", schedule.ErrUnpayable, codes.FailedPrecondition, http.StatusPaymentRequired, "payment required", "UNPAYABLE"},
		{"ErrUnauthenticated", schedule.ErrUnauthenticated, codes.Unauthenticated, http.StatusUnauthorized, "not authenticated", ""},
		{"ErrForbidden", schedule.Explain(schedule.ErrForbidden, "an operator gives no grant"), codes.PermissionDenied, http.StatusForbidden, "no grant", ""},
		{"ErrFenced", schedule.ErrFenced, codes.Unavailable, http.StatusServiceUnavailable, "leader", ""},
		{"ErrUnavailable", fmt.Errorf("read: %w", schedule.ErrUnavailable), codes.Unavailable, http.StatusServiceUnavailable, "unavailable", ""},
		{"ErrTemplateGone", schedule.ErrTemplateGone, codes.Unavailable, http.StatusServiceUnavailable, "try again", ""},
		{"ErrUnsupported", schedule.ErrUnsupported, codes.Unimplemented, http.StatusNotImplemented, "not supported", ""},
		{"ErrShardCount", schedule.ErrShardCount, codes.FailedPrecondition, http.StatusConflict, "number of shards", ""},
		{"ErrBusy", schedule.ErrBusy, codes.Aborted, http.StatusConflict, "is in progress", ""},
		{"ErrStale", schedule.ErrStale, codes.Aborted, http.StatusPreconditionFailed, "changed in the meantime", "REVISION_MISMATCH"},
		{"ErrMoveStale", schedule.ErrMoveStale, codes.Aborted, http.StatusConflict, "nothing was moved", ""},
		{"ErrExhausted", schedule.Explain(schedule.ErrExhausted, "1000 schedules"), codes.ResourceExhausted, http.StatusTooManyRequests, "1000", ""},
		{"ErrWithheld", schedule.ErrWithheld, codes.Unavailable, http.StatusServiceUnavailable, "not to be sent", ""},
		{"ErrOverdue", schedule.ErrOverdue, codes.Unavailable, http.StatusServiceUnavailable, "launch time is over", ""},
		{"ErrQueueAway", schedule.ErrQueueAway, codes.Unavailable, http.StatusServiceUnavailable, "queue", ""},
		{"", schedule.Invalid("cron_expr", "x", "is refused", ""), codes.InvalidArgument, http.StatusBadRequest, `cron_expr: "x" is refused`, ""},
		{"", context.DeadlineExceeded, codes.DeadlineExceeded, http.StatusGatewayTimeout, "deadline exceeded: the database did not answer in time; try again", ""},
		{"", context.Canceled, codes.Canceled, 499, "canceled", ""},
		{"", status.Error(codes.Aborted, "again"), codes.Aborted, http.StatusConflict, "again", ""},
		{"", errors.New("dial tcp 10.0.0.5: password=x"), codes.Internal, http.StatusInternalServerError, "internal error", ""},
		{"", nil, codes.Internal, http.StatusInternalServerError, "internal error", ""}, // a panic
	}
	fail := &failing{}
	conn, base, _ := serve(t, api.Services{Reader: fail})
	tested := make(map[string]bool)
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %v", tt.sentinel, tt.err), func(t *testing.T) {
			tested[tt.sentinel] = true
			fail.err = tt.err
			_, st, _ := grpcCall(t, conn, "ScheduleService/GetSchedule", `{"schedule_id":"s1"}`)
			if st.Code() != tt.grpc || !strings.Contains(st.Message(), tt.says) {
				t.Errorf("gRPC: %v, want %v with %q", st, tt.grpc, tt.says)
			}
			code, text := rest(t, base, "GET", "/v1/schedules/s1", "")
			answer := readRefusal(t, text)
			if code != tt.http || answer.Code != int(tt.grpc) || !strings.Contains(answer.Message, tt.says) {
				t.Errorf("REST: %d %s, want %d with code %d and %q", code, text, tt.http, tt.grpc, tt.says)
			}
			if tt.reason != "" && (len(answer.Details) != 1 || answer.Details[0].Reason != tt.reason) {
				t.Errorf("REST: %s, want the reason %s", text, tt.reason)
			}
			if strings.Contains(text+st.Message(), "password") || strings.Contains(text+st.Message(), "secret") {
				t.Errorf("the answer tells what only the log should: %s", text)
			}
		})
	}
	for _, name := range sentinels(t) {
		if !tested[name] {
			t.Errorf("schedule.%s has no case here: which codes does a client see?", name)
		}
	}
}

// sentinels are the names of package schedule's errors. isSentinel excludes ErrorCodes.
func isSentinel(name string) bool {
	return strings.HasPrefix(name, "Err") && !strings.HasPrefix(name, "Error")
}

func sentinels(t *testing.T) (names []string) {
	t.Helper()
	files, err := filepath.Glob("../../internal/schedule/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("package schedule: %d files, %v", len(files), err)
	}
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if spec, ok := n.(*ast.ValueSpec); ok && isSentinel(spec.Names[0].Name) {
				names = append(names, spec.Names[0].Name)
			}
			return true
		})
	}
	return names
}
