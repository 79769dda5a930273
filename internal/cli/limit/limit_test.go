package limit_test

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestLimitFlagsBecomeRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "every flag of a limit has its field",
			args: []string{"limit", "upsert", "customer", "--user", "ada", "--shared", "--keyed", "--max", "2", "--rate", "10/1s", "--burst", "2", "--note", "contract"},
			want: &carillonv1.UpsertLimitRequest{
				LimitId: "customer", UserId: "ada", Shared: true, Keyed: true, MaxInFlight: clitest.Pointer[uint32](2),
				Rate: &carillonv1.Rate{Starts: 10, PerMs: 1000, Burst: 2}, Note: "contract",
			},
		},
		{
			name: "an ordered limit counts for each key",
			args: []string{"limit", "upsert", "account", "--user", "ada", "--ordered"},
			want: &carillonv1.UpsertLimitRequest{LimitId: "account", UserId: "ada", Keyed: true, Ordered: true},
		},
		{
			name: "a limit of 0 is said as it is",
			args: []string{"limit", "upsert", "gpu", "--max", "0"},
			want: &carillonv1.UpsertLimitRequest{LimitId: "gpu", MaxInFlight: clitest.Pointer[uint32](0)},
		},
		{
			name: "a limit is asked for by its id",
			args: []string{"limit", "get", "gpu", "--limit", "7"},
			want: &carillonv1.GetLimitRequest{LimitId: "gpu", PageSize: 7},
		},
		{
			name: "a list may be of one owner",
			args: []string{"limits", "list", "--user", "ada", "--limit", "7"},
			want: &carillonv1.ListLimitsRequest{UserId: "ada", PageSize: 7},
		},
		{
			name: "a key is stopped for a time",
			args: []string{"limit", "set-key", "customer", "a7", "--max", "0", "--note", "unpaid", "--until", "2h"},
			want: &carillonv1.SetLimitKeyRequest{LimitId: "customer", Key: "a7", MaxInFlight: clitest.Pointer[uint32](0), Note: "unpaid", Until: clitest.Time("2026-03-08T14:00:00Z")},
		},
		{
			name: "a key has a rate",
			args: []string{"limit", "set-key", "customer", "a7", "--rate", "100/h"},
			want: &carillonv1.SetLimitKeyRequest{LimitId: "customer", Key: "a7", Rate: &carillonv1.Rate{Starts: 100, PerMs: 3_600_000}},
		},
		{
			name: "the numbers of a key are taken away",
			args: []string{"limit", "set-key", "customer", "a7"},
			want: &carillonv1.SetLimitKeyRequest{LimitId: "customer", Key: "a7"},
		},
		{
			name: "a limit is deleted",
			args: []string{"limit", "delete", "gpu"},
			want: &carillonv1.DeleteLimitRequest{LimitId: "gpu"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}

func TestALimitIsShownWithItsUsers(t *testing.T) {
	f := clitest.NewAnsweringServer(t)
	customer := &carillonv1.Limit{LimitId: "customer", UserId: "ada", Keyed: true, Shared: true, MaxInFlight: clitest.Pointer[uint32](2), Used: 3, Revision: 5, Note: "contract"}
	api := &carillonv1.Limit{LimitId: "api", UserId: "ada", MaxInFlight: clitest.Pointer[uint32](4), Used: 1, Rate: &carillonv1.Rate{Starts: 10, PerMs: 1000, Burst: 2}}
	f.Answer("GetLimit", &carillonv1.GetLimitResponse{
		Limit: customer,
		Keys: []*carillonv1.LimitKey{
			{Key: "a7", MaxInFlight: clitest.Pointer[uint32](0), Until: clitest.Time("2026-03-08T13:00:00Z"), Note: "unpaid"},
			{Key: "b8", Rate: &carillonv1.Rate{Starts: 1, PerMs: 60_000, Burst: 1}, Used: 2},
		},
		Uses: []*carillonv1.LimitUse{{Key: "b8", Used: 2}, {Key: "c9", Used: 1}},
		Users: []*carillonv1.LimitUser{
			{Key: "b8", IdempotencyKey: clitest.KeyA, QueueId: "q", WorkflowId: "resize", UserId: "ada", Status: "STARTED"},
			{Key: "c9", IdempotencyKey: clitest.KeyA, QueueId: "q", WorkflowId: "resize", UserId: "ada", Status: "ENQUEUED", Kept: true},
		},
		MoreUsers: 2,
	})
	f.Answer("ListLimits", &carillonv1.ListLimitsResponse{Limits: []*carillonv1.Limit{api, customer}})
	warning := "3 runs in flight use gpu"
	f.Answer("UpsertLimit", &carillonv1.UpsertLimitResponse{Limit: api, Warning: &warning})
	f.Answer("SetLimitKey", &carillonv1.SetLimitKeyResponse{Key: &carillonv1.LimitKey{Key: "a7", Used: 1}, Warning: &warning})
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"limit", "get", "customer"}, []string{"counts for each key", "with all owners", "a7", "in 1h", "unpaid", "b8", "1/1m", "c9", clitest.KeyA[:8], "waits to be tried again", "and 2 runs more"}},
		{[]string{"limit", "list"}, []string{"1 of 4", "at most 4 in flight, starts 10/1s, burst 2", "at most 2 in flight for each key"}},
		{[]string{"limit", "list", "-o", "wide"}, []string{"contract"}},
		{[]string{"limit", "upsert", "api"}, []string{"warning: 3 runs in flight use gpu", "revision 0, at most 4 in flight"}},
		{[]string{"limit", "set-key", "customer", "a7"}, []string{"customer=a7: the numbers of the limit; 1 in flight now", "warning: "}},
	} {
		got := f.Run(t, c.args...)
		for _, want := range c.want {
			if !strings.Contains(got.Out+got.ErrOut, want) {
				t.Errorf("%v shows no %q:\n%s%s", c.args, want, got.Out, got.ErrOut)
			}
		}
	}
}
