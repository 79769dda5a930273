package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// firstMinute is what the README promises.
const firstMinute = time.Minute

// example is what a file of docs/examples says of its schedules.
type example struct {
	WorkflowID string `json:"workflow_id"`
	Triggers   []struct {
		Name string `json:"name"`
	} `json:"triggers"`
}

func examples(t *testing.T) []example {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(), "docs", "examples", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/examples holds no workflows (%v)", err)
	}
	var all []example
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var e example
		if err := json.Unmarshal(text, &e); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		all = append(all, e)
	}
	return all
}

func TestDevRunsTheExamplesWithinAMinute(t *testing.T) {
	if testing.Short() {
		t.Skip("takes up to a minute")
	}
	t.Parallel()
	began := time.Now()
	p := newProcess(t, "carillon dev", []string{"dev"}, nil)
	p.startReady()
	api := newREST(t, p)
	for _, e := range examples(t) {
		var key string
		eventually(t, time.Until(began.Add(firstMinute)), e.WorkflowID+" has run", func() (err error) {
			key, err = successOf(p, e.WorkflowID)
			return err
		})
		t.Logf("%s had run %s after the start", e.WorkflowID, time.Since(began).Round(time.Millisecond))
		if !listedForASchedule(api, e, key) {
			t.Errorf("the run %s of %s stands in the list of none of its schedules", key, e.WorkflowID)
		}
	}
	if took := p.terminate(drainBound); took > 10*time.Second {
		t.Errorf("dev took %s to end", took)
	}
}

// TestDevStartsWhereEveryScheduleNeedsAGrant: the examples have none.
func TestDevStartsWhereEveryScheduleNeedsAGrant(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a process")
	}
	t.Parallel()
	p := newProcess(t, "carillon dev", []string{"dev"}, []string{"REQUIRE_GRANT=true"})
	p.startReady()
	if out, errs, code := p.command("", "grant", "create", "--user", "dev", "--account", "a", "--scope", "graph:execute:w"); code != 0 {
		t.Errorf("grant create ends with %d: %s%s", code, out, errs)
	}
	p.terminate(drainBound) // which fails if it has ended by itself
}

// successOf is the key of a run of the workflow that succeeded, as
// `carillon run list -o json` shows it.
func successOf(p *process, workflowID string) (key string, err error) {
	out, errs, code := p.command("", "run", "list", "--workflow", workflowID, "-o", "json")
	if code != 0 {
		return "", fmt.Errorf("run list ends with %d: %s", code, errs)
	}
	var list struct {
		Runs []run `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		return "", fmt.Errorf("run list -o json: %w in %s", err, out)
	}
	var ends []string
	for _, r := range list.Runs {
		if r.Status == "SUCCESS" {
			return r.Key, nil
		}
		ends = append(ends, r.Status+"("+r.Reason+" "+r.ErrorCode+")")
	}
	return "", fmt.Errorf("no run has succeeded so far: %s", strings.Join(ends, " "))
}

func listedForASchedule(api *rest, e example, key string) bool {
	api.t.Helper()
	for _, trigger := range e.Triggers {
		path := "/v1/schedules/" + e.WorkflowID + "." + trigger.Name + "/runs"
		if slices.ContainsFunc(api.runs(path, url.Values{}), func(r run) bool { return r.Key == key && r.Status == "SUCCESS" }) {
			return true
		}
	}
	return false
}
