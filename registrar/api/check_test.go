package api_test

import (
	"strings"
	"testing"

	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api"
)

// A text such as "x" is within 1 to 128 characters, so a hint about ids would mislead.
func TestARunningKeyIsRefusedWithTheFormOfKeys(t *testing.T) {
	t.Parallel()
	err := api.Check(&carillonv1.FetchRunsRequest{QueueId: "q", WorkerId: "w", Running: []string{"x"}})
	if err == nil || !strings.Contains(err.Error(), `running[0]: "x" is not a valid`) || !strings.Contains(err.Error(), "64 hex digits") {
		t.Errorf("got %v", err)
	}
}
