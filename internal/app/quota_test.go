package app_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/carillon/carillon/internal/app"
)

func TestOwnerMaxSchedulesLimitsAnOwner(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	app.Flags(fs, nil)
	cfg, err := app.Load(fs, map[string]any{
		"http_addr": "127.0.0.1:0", "grpc_addr": "127.0.0.1:0", "data_dir": t.TempDir(), "roles": "registrar", "owner_max_schedules": "2",
	})
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(t.Context(), cfg, app.Options{Logger: slog.New(slog.DiscardHandler), Migrate: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	for i, want := range []int{200, 200, 429, 200} {
		owner := "ada"
		if i == 3 {
			owner = "bob"
		}
		body := fmt.Sprintf(`{"workflow_id":"w","version":1,"user_id":%q,"cron_expr":"@daily"}`, owner)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://%s/v1/schedules/s%d", a.HTTPAddr(), i), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if resp.StatusCode != want || want == 429 && !strings.Contains(string(text), `quota exhausted: owner \"ada\" would have 3 schedules, more than 2; delete some, or ask the operator to raise OWNER_MAX_SCHEDULES`) {
			t.Errorf("schedule %d of %s: %d %s, want %d", i, owner, resp.StatusCode, text, want)
		}
	}
	end()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := a.Close(); err != nil {
		t.Error(err)
	}
}
