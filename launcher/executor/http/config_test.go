package httpexecutor_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	httpexecutor "github.com/carillon/carillon/launcher/executor/http"
)

func TestValidate(t *testing.T) {
	tests := []struct {
		name string
		cfg  httpexecutor.Config
		want []string // part of each violation, in order; none: valid
	}{
		{name: "a plain address is enough", cfg: httpexecutor.Config{URL: "http://127.0.0.1:7000/run"}},
		{
			name: "placeholders may stand in path and query",
			cfg: httpexecutor.Config{
				URL: "https://e.example/w/{workflow_id}/run?v={version}", Token: "t", Timeout: time.Second,
				CancelURL: "https://e.example/runs/{run_id}?key={idempotency_key}",
			},
		},
		{name: "an IPv6 address is an address", cfg: httpexecutor.Config{URL: "http://[::1]:7000/"}},
		{name: "no address", cfg: httpexecutor.Config{}, want: []string{"EXECUTOR_URL: is empty"}},
		{name: "a host alone", cfg: httpexecutor.Config{URL: "127.0.0.1:7000"}, want: []string{`"127.0.0.1:7000" is not a URL`}},
		{name: "a path alone", cfg: httpexecutor.Config{URL: "/run"}, want: []string{"is not an absolute http or https URL"}},
		{name: "another scheme", cfg: httpexecutor.Config{URL: "ftp://e/run"}, want: []string{"is not an absolute http or https URL"}},
		{name: "a password, which is not repeated", cfg: httpexecutor.Config{URL: "http://u:hidden@e/run"}, want: []string{"holds a user name or password"}},
		{name: "a fragment", cfg: httpexecutor.Config{URL: "http://e/run#x"}, want: []string{"holds a fragment"}},
		{name: "an unknown placeholder", cfg: httpexecutor.Config{URL: "http://e/{workflow}"}, want: []string{"unknown placeholder; only {workflow_id} and {version}"}},
		{name: "a placeholder of the other address", cfg: httpexecutor.Config{URL: "http://e/{run_id}"}, want: []string{"unknown placeholder"}},
		{name: "an environment that is not set", cfg: httpexecutor.Config{URL: "http://e/{environment}/run"}, want: []string{"ENVIRONMENT: is not set, and the executor's address has {environment}"}},
		{name: "an open brace", cfg: httpexecutor.Config{URL: "http://e/{workflow_id"}, want: []string{"unknown placeholder"}},
		{name: "a workflow may not choose the host", cfg: httpexecutor.Config{URL: "http://{workflow_id}.e/run"}, want: []string{"holds a placeholder in its host"}},
		{
			name: "everything is said at once",
			cfg:  httpexecutor.Config{CancelURL: "http://e/cancel", Dialect: "soap", Token: "a\n", Timeout: -1},
			want: []string{
				"EXECUTOR_URL: is empty", "EXECUTOR_CANCEL_URL: \"http://e/cancel\" does not name a run",
				"EXECUTOR_DIALECT: \"soap\" is not a dialect", "EXECUTOR_TOKEN: contains a line break", "EXECUTOR_TIMEOUT_MS",
			},
		},
		{name: "the graph dialect adds its path", cfg: httpexecutor.Config{URL: "http://e", Dialect: "graph"}},
		{name: "the graph dialect cannot add its path behind a query", cfg: httpexecutor.Config{URL: "http://e?x=1", Dialect: "graph"}, want: []string{"has a query"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.cfg.Validate()
			if len(tt.want) == 0 {
				if err != nil {
					t.Fatalf("Validate() = %v, want it valid", err)
				}
				return
			}
			var invalid *schedule.InvalidError
			if !errors.As(err, &invalid) {
				t.Fatalf("Validate() = %v, want an InvalidError", err)
			}
			if len(invalid.Violations) != len(tt.want) {
				t.Fatalf("violations:\n%v\nwant %d", invalid, len(tt.want))
			}
			for i, want := range tt.want {
				if got := invalid.Violations[i].String(); !strings.Contains(got, want) {
					t.Errorf("violation %d: %s\nwant it to contain %q", i, got, want)
				}
			}
			if strings.Contains(err.Error(), "hidden") {
				t.Errorf("the password is shown: %v", err)
			}
			if _, err := httpexecutor.New(tt.cfg); err == nil {
				t.Error("New accepts it")
			}
		})
	}
}
