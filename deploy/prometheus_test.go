package deploy_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/test/services/reserve"
)

// mayBeEmpty are queries without series in a healthy deployment, in addition to those
// of alerts: "> 0" filters and series that only a fault creates. All others must
// return series, those of a launch queue only with Redis.
var mayBeEmpty = []string{"> 0", "ALERTS{", "carillon_call_duration"}

// TestARealPrometheusAnswersEveryQuery scrapes a deployment at work, with the
// rules loaded, and asks what the dashboard asks.
func TestARealPrometheusAnswersEveryQuery(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.work(t)
	api := startPrometheus(t, s)
	eventually(t, "four scrapes of each process", func() bool {
		return len(ask(t, api, `count_over_time(up{job="carillon"}[5m]) >= 4`)) == len(s.apps)
	})
	for where, query := range dashboardQueries(t) {
		found := ask(t, api, query)
		empty := len(found) == 0 && (len(s.apps) > 1 || !strings.Contains(query, "carillon_launch_queue_"))
		for _, sign := range mayBeEmpty {
			empty = empty && !strings.Contains(query, sign)
		}
		if empty {
			t.Errorf("%s brings nothing: %s", where, query)
		}
	}
	var state struct {
		Data struct {
			Groups []struct {
				Rules []struct {
					Name, Health, LastError, State string
				}
			}
		}
	}
	eventually(t, "every rule is evaluated", func() bool {
		if err := json.Unmarshal([]byte(get(t, api+"/rules")), &state); err != nil {
			return false
		}
		for _, group := range state.Data.Groups {
			for _, r := range group.Rules {
				if r.Health == "unknown" {
					return false
				}
			}
		}
		return len(state.Data.Groups) > 0
	})
	for _, group := range state.Data.Groups {
		for _, r := range group.Rules {
			if r.Health != "ok" || r.LastError != "" {
				t.Errorf("rule %s is %s: %s", r.Name, r.Health, r.LastError)
			}
		}
	}
	if len(ask(t, api, `carillon:launch_lateness_seconds:p99_5m`)) == 0 {
		t.Error("the recording rules record nothing")
	}
}

// ask asks one query at an instant; an error of it fails the test.
func ask(t *testing.T, api, query string) []json.RawMessage {
	t.Helper()
	text := get(t, api+"/query?query="+url.QueryEscape(query))
	var answer struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
		t.Fatalf("%s answers %q", query, text)
	}
	return answer.Data.Result
}

// startPrometheus starts one that scrapes the site every second, and returns
// the address of its API. It ends with the test.
func startPrometheus(t *testing.T, s *site) string {
	t.Helper()
	program := prometheusProgram(t)
	rules, err := filepath.Abs(rulesFile)
	if err != nil {
		t.Fatal(err)
	}
	var targets []string
	for _, a := range s.apps {
		targets = append(targets, fmt.Sprintf("%q", a.HTTPAddr()))
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n  - job_name: carillon\n    static_configs: [{targets: [%s]}]\n",
		rules, strings.Join(targets, ", "))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	address := reserve.Addr(t)
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	var log strings.Builder
	command := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "tsdb"), "--web.listen-address="+address, "--log.level=warn")
	command.Stdout, command.Stderr = &log, &log
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	command.WaitDelay = 10 * time.Second
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		end()
		_ = command.Wait() // it was told to end
		if t.Failed() {
			t.Logf("Prometheus said:\n%s", &log)
		}
	})
	eventually(t, "Prometheus is ready", func() bool { return get(t, "http://"+address+"/-/ready") != "" })
	return "http://" + address + "/api/v1"
}
