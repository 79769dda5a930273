package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func TestReplayedReportsWriteOneEventOfEachKind(t *testing.T) {
	onBothStores(t, func(t *testing.T, g *guarded) {
		if code, answer := g.send("user", "PUT", "/v1/schedules/s", `{"workflow_id":"w","version":1}`); code != http.StatusOK {
			t.Fatal(code, answer)
		}
		key := g.launched("s", "one")
		token := schedule.ReportToken([]byte(reportSecret), key)
		client := carillonv1.NewRunServiceClient(g.conn)
		limited := 0
		for i := range 60 {
			says := []string{"SUCCESS", "FAILED", "STARTED"}[i/3%3]
			var code codes.Code
			var moved, open bool
			if i%2 == 0 {
				var answer string
				var httpCode int
				httpCode, answer = g.send(token, "POST", "/v1/runs/"+key.String()+":report", `{"status":"`+says+`"}`)
				code = map[int]codes.Code{http.StatusOK: codes.OK, http.StatusTooManyRequests: codes.ResourceExhausted}[httpCode]
				moved, open = strings.Contains(answer, `"moved":true`), httpCode == http.StatusOK && !strings.Contains(answer, `"status":"SUCCESS"`)
			} else {
				resp, err := client.ReportRun(g.as(token), &carillonv1.ReportRunRequest{IdempotencyKey: key.String(), Status: says})
				code, moved, open = status.Code(err), resp.GetMoved(), err == nil && resp.GetRun().GetStatus() != "SUCCESS"
			}
			switch {
			case code == codes.ResourceExhausted:
				limited++
			case code != codes.OK || moved != (i == 0) || open:
				t.Fatalf("report %d of %s: %s, moved %v, answered as it is %v", i, says, code, moved, !open)
			}
		}
		if limited == 0 {
			t.Error("sixty reports of one run at once are not limited")
		}
		if n := strings.Count(second(g.send("operator", "GET", "/v1/schedules/s/events?page_size=200", "")), "report_ignored"); n != 2 {
			t.Errorf("%d events of reports that moved nothing, want one of FAILED and one of STARTED", n)
		}
		if other := g.launched("s", "two"); !g.reported(other) {
			t.Error("another run cannot be reported")
		}
	})
}

// launched is a run that the executor has received.
func (g *guarded) launched(id, requestID string) schedule.Key {
	g.t.Helper()
	_, answer := g.send("user", "POST", "/v1/schedules/"+id+":trigger", `{"request_id":"`+requestID+`"}`)
	var triggered struct {
		Run struct {
			Key string `json:"idempotency_key"`
		} `json:"run"`
	}
	if err := json.Unmarshal([]byte(answer), &triggered); err != nil {
		g.t.Fatal(answer, err)
	}
	key, err := schedule.ParseKey(triggered.Run.Key)
	if err != nil {
		g.t.Fatal(answer, err)
	}
	for deadline := time.Now().Add(30 * time.Second); !strings.Contains(second(g.send("operator", "GET", "/v1/runs/"+key.String(), "")), "ENQUEUED"); {
		if time.Now().After(deadline) {
			g.t.Fatal("the run is not launched")
		}
	}
	return key
}

func (g *guarded) reported(key schedule.Key) bool {
	code, _ := g.send(schedule.ReportToken([]byte(reportSecret), key), "POST", "/v1/runs/"+key.String()+":report", `{"status":"SUCCESS"}`)
	return code == http.StatusOK
}
