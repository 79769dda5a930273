package cli

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func adasGrant() *carillonv1.Grant {
	return &carillonv1.Grant{
		GrantId: "ada-reports", UserId: "ada", BillingAccountId: "acme", Scopes: []string{"graph:execute:langgraph:*", "graph:execute:report"},
		ExpiresAt: at("2026-06-01T00:00:00Z"), RevokedAt: at("2026-03-08T11:00:00Z"), RevokedBy: "bob", RevokeNote: "she left",
		CreatedBy: "ada", CreatedAt: at("2026-03-01T09:00:00Z"), State: "revoked",
	}
}

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
				AllowAllWorkflows: true, ExpiresAt: at("2026-06-06T12:00:00Z"), RequestId: "r",
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
			want: &carillonv1.ListGrantsRequest{UserId: "ada", BillingAccountId: "acme", State: pointer("expired"), PageSize: 7},
		},
		{
			name: "a revocation says why",
			args: []string{"grant", "revoke", "g", "--note", "she left"},
			want: &carillonv1.RevokeGrantRequest{GrantId: "g", Note: "she left"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := answering(t)
			if got := f.run(t, tt.args...); got.code != command.ExitOK {
				t.Fatalf("exit %d: %s", got.code, got.errs)
			}
			if d := cmp.Diff(tt.want, f.requests()[0], protocmp.Transform()); d != "" {
				t.Errorf("the request differs (- want, + got):\n%s", d)
			}
		})
	}
}
