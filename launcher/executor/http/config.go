package httpexecutor

import (
	"net/url"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// The dialects.
const (
	DialectCarillon = "carillon" // the contract of docs/executors.md
	DialectGraph    = "graph"    // an internal graph run API: …/api/internal/graphs/{workflow_id}/runs
)

// DefaultTimeout bounds one call.
const DefaultTimeout = 10 * time.Second

// Config configures the executor. Only URL is required.
type Config struct {
	URL       string        // EXECUTOR_URL, a template with {workflow_id}, {version} and {environment}
	CancelURL string        // EXECUTOR_CANCEL_URL, a template with {idempotency_key}, {run_id}, {schedule_id}, {scheduled_for}, {environment}; empty: cannot cancel
	Token     string        // EXECUTOR_TOKEN, sent as a bearer token; empty: none
	Dialect   string        // EXECUTOR_DIALECT; empty: carillon
	Timeout   time.Duration // of one call; 0: DefaultTimeout
	// Environment is ENVIRONMENT; empty: not set, and not sent.
	Environment string
}

// Validate returns all problems as one *schedule.InvalidError. Its fields are the
// names of the environment variables.
func (c Config) Validate() error {
	var bad schedule.Collect
	checkTemplate(&bad, "EXECUTOR_URL", c.URL, []string{workflowID, version, environment})
	if c.Environment == "" && strings.Contains(c.URL+c.CancelURL, environment) {
		bad.Note("ENVIRONMENT", "is not set, and the executor's address has "+environment, "set it, such as to prod")
	}
	if c.CancelURL != "" {
		checkTemplate(&bad, "EXECUTOR_CANCEL_URL", c.CancelURL, []string{idempotencyKey, runID, scheduleID, scheduledFor, environment})
		if !strings.Contains(c.CancelURL, idempotencyKey) && !strings.Contains(c.CancelURL, runID) {
			bad.Add("EXECUTOR_CANCEL_URL", c.CancelURL, "does not name a run", "put "+idempotencyKey+" or "+runID+" into it")
		}
	}
	switch c.Dialect {
	case "", DialectCarillon:
	case DialectGraph:
		if !strings.Contains(c.URL, workflowID) && strings.Contains(c.URL, "?") {
			bad.Add("EXECUTOR_URL", c.URL, "has a query, so the graph API's path cannot be put behind it", "write the whole address, with "+workflowID)
		}
	default:
		bad.Add("EXECUTOR_DIALECT", c.Dialect, "is not a dialect", "use carillon or graph")
	}
	if strings.ContainsAny(c.Token, "\r\n\x00") {
		bad.Note("EXECUTOR_TOKEN", "contains a line break or NUL", "remove it; a trailing line break often comes from reading a file")
	}
	if c.Timeout < 0 {
		bad.Add("EXECUTOR_TIMEOUT_MS", c.Timeout, "is negative", "give 0 for the default of "+DefaultTimeout.String())
	}
	return bad.Err()
}

// checkTemplate refuses templates that could send a run or the token to an
// unintended host.
func checkTemplate(bad *schedule.Collect, field, template string, placeholders []string) {
	if template == "" {
		bad.Note(field, "is empty", "give the executor's address, such as http://127.0.0.1:7000/run/"+placeholders[0])
		return
	}
	sample := template
	for _, p := range placeholders {
		sample = strings.ReplaceAll(sample, p, "x")
	}
	if strings.ContainsAny(sample, "{}") {
		bad.Add(field, template, "holds an unknown placeholder", "only "+strings.Join(placeholders, " and ")+" are replaced")
		return
	}
	u, err := url.Parse(sample)
	if err != nil {
		bad.Add(field, redact(template), "is not a URL", "write it as https://host/path")
		return
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		bad.Add(field, redact(template), "is not an absolute http or https URL", "write it as https://host/path")
	case u.User != nil:
		bad.Add(field, redact(template), "holds a user name or password", "use EXECUTOR_TOKEN, which is never logged")
	case u.Fragment != "" || strings.Contains(sample, "#"):
		bad.Add(field, template, "holds a fragment, which is never sent", "remove what follows #")
	case strings.Contains(authority(template), "{"):
		bad.Add(field, template, "holds a placeholder in its host", "placeholders are allowed in the path and the query")
	}
}

// authority is the part of a URL between its scheme and its path.
func authority(template string) string {
	_, rest, _ := strings.Cut(template, "://")
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		rest = rest[:end]
	}
	return rest
}

// redact hides the part before an @: it may be a password.
func redact(template string) string {
	head, rest, found := strings.Cut(template, "://")
	if !found {
		head, rest = "", template
	} else {
		head += "://"
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		rest = "…" + rest[at:]
	}
	return head + rest
}
