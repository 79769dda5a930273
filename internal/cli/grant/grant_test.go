package grant_test

import (
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/carillon/carillon/internal/cli/clitest"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestGrantFlagsBecomeRequests(t *testing.T) {
	for _, tt := range []struct {
		name string
		args []string
		want proto.Message
	}{
		{
			name: "every flag of a new grant has its field",
			args: []string{
				"grant", "create", "--id", "g", "--user", "ada", "--account", "acme", "--scope", "graph:execute:a", "--scope", "graph:execute:*",
				"--allow-all-workflows", "--expires", "90d", "--request-id", "r",
			},
			want: &carillonv1.CreateGrantRequest{
				GrantId: "g", UserId: "ada", BillingAccountId: "acme", Scopes: []string{"graph:execute:a", "graph:execute:*"},
				AllowAllWorkflows: true, ExpiresAt: clitest.Time("2026-06-06T12:00:00Z"), RequestId: "r",
			},
		},
		{
			name: "a grant is asked for by its id",
			args: []string{"grant", "get", "g"},
			want: &carillonv1.GetGrantRequest{GrantId: "g"},
		},
		{
			name: "list takes all filters",
			args: []string{"grants", "list", "--user", "ada", "--account", "acme", "--state", "expired", "--limit", "7"},
			want: &carillonv1.ListGrantsRequest{UserId: "ada", BillingAccountId: "acme", State: clitest.Pointer("expired"), PageSize: 7},
		},
		{
			name: "a revocation says why",
			args: []string{"grant", "revoke", "g", "--note", "she left"},
			want: &carillonv1.RevokeGrantRequest{GrantId: "g", Note: "she left"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			clitest.CheckRequest(t, tt.want, tt.args...)
		})
	}
}
