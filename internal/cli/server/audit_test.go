package server_test

import (
	"testing"
	"time"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestTheAuditTrailIsListedNewestFirst(t *testing.T) {
	f := clitest.NewServer(t)
	f.Answer("ListAudit", &carillonv1.ListAuditResponse{Entries: []*carillonv1.AuditEntry{
		{Time: clitest.Time("2026-03-08T11:00:00Z"), Subject: "ada", Via: "jwt", Method: "UpsertSchedule", Target: "nightly", UserId: "ada", Code: "OK", RevisionBefore: 3, RevisionAfter: 4},
		{Time: clitest.Time("2026-03-08T10:00:00Z"), Subject: "bob", Via: "token", Method: "PauseSchedule", Target: "nightly", Code: "NotFound", RequestId: "r-1", Count: 12, OtherTargets: true},
		{Time: clitest.Time("2026-03-08T09:00:00Z"), Via: "open", Method: "TriggerSchedule", Target: "nightly", UserId: "ada", Code: "OK", RevisionBefore: 3, RevisionAfter: 3},
	}})
	got := f.Run(t, "audit", "list", "--target", "nightly", "--since", "1d")
	if got.Code != command.ExitOK {
		t.Fatal(got.ErrOut)
	}
	clitest.Golden(t, "audit-list", got.Out)
	req, _ := f.Requests()[0].(*carillonv1.ListAuditRequest)
	if req.GetTarget() != "nightly" || !req.GetFrom().AsTime().Equal(clitest.Noon.Add(-24*time.Hour)) {
		t.Errorf("asked: %v", req)
	}
}
