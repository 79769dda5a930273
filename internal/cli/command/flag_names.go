package command

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/schedule"
)

// flagOfField lists the flags that set a field of the API. The first one that the
// command has counts: commands have different names for an id.
var flagOfField = map[string][]string{
	"schedule_id":        {"id", "schedule"},
	"dag":                {"file"},
	"workflow_id":        {"workflow"},
	"version":            {"version"},
	"user_id":            {"user"},
	"labels":             {"label"},
	"label":              {"label"},
	"execution_grant_id": {"grant"},
	"grant_id":           {"id"},
	"billing_account_id": {"account"},
	"scopes":             {"scope"},
	"expires_at":         {"expires"},
	"managed_by":         {"managed-by"},
	"request_id":         {"request-id"},
	"cron_expr":          {"cron"},
	"interval_ms":        {"every"},
	"once_at":            {"at"},
	"timezone":           {"tz"},
	"start_at":           {"start-at"},
	"end_at":             {"end-at"},
	"jitter_ms":          {"jitter"},
	"dst":                {"dst"},
	"overlap_policy":     {"overlap"},
	"overlap_key":        {"overlap-key"},
	"max_queued":         {"max-queued"},
	"catchup_policy":     {"catchup"},
	"catchup_window_ms":  {"catchup-window"},
	"run_timeout_ms":     {"run-timeout"},
	"launch_timeout_ms":  {"launch-timeout"},
	"max_run_ms":         {"max-run"},
	"expires_ms":         {"expires"},
	"priority":           {"priority"},
	"limits":             {"limit"},
	"webhook":            {"webhook"},
	"consume":            {"consume"},
	"topics":             {"consume"},
	"max_events":         {"max-events"},
	"event_id":           {"id"},
	"source":             {"source"},
	"type":               {"type"},
	"subject":            {"subject"},
	"data":               {"data"},
	"time":               {"time"},
	"filter":             {"filter"},
	"fair_key":           {"fair-key"},
	"fair":               {"fair"},
	"delivery":           {"delivery"},
	"workers":            {"workers"},
	"heartbeat_ms":       {"heartbeat"},
	"history":            {"history"},
	"wait_within_ms":     {"expect-wait-within"},
	"dead_at_most":       {"expect-dead-at-most"},
	"slots":              {"slots"},
	"worker_id":          {"worker"},
	"weights":            {"weight"},
	"queued":             {"queued"},
	"input":              {"input"},
	"start_within_ms":    {"expect-start"},
	"finish_within_ms":   {"expect-finish"},
	"success_every_ms":   {"expect-success"},
	"alert_after":        {"alert-after"},
	"remind_every_ms":    {"remind-every"},
	"max_attempts":       {"retry-attempts", "max-attempts"},
	"backoff_ms":         {"retry-backoff"},
	"factor_percent":     {"retry-factor"},
	"max_backoff_ms":     {"retry-max-backoff"},
	"from":               {"from", "since"},
	"to":                 {"to", "until"},
	"until":              {"until"},
	"reprocess":          {"reprocess"},
	"order":              {"order"},
	"concurrency":        {"concurrency"},
	"rate_per_minute":    {"rate"},
	"cancel_runs":        {"runs"},
	"duration_ms":        {"duration"},
	"p95_ms":             {"p95"},
	"failure_percent":    {"failures"},
	"outages":            {"outage"},
	"executor_outages":   {"executor-outage"},
	"pauses":             {"pause"},
	"error_code":         {"error-code"},
	"failure_class":      {"failure-class"},
	"error_message":      {"error-message"},
	"run_id":             {"run-id"},
	"alert_id":           {"alert"},
	"allow_empty":        {"allow-empty"},
	"all_owners":         {"all-owners"},
	"shard":              {"shard"},
	"peaks":              {"peaks"},
	"contributors":       {"contributors"},
	"status":             {"status"},
	"reason":             {"reason"},
	"trigger":            {"trigger"},
	"kind":               {"kind"},
	"state":              {"state"},
	"note":               {"note"},
	"seed":               {"seed"},
	"queue_id":           {"queue"},
	"max_in_flight":      {"max-in-flight", "max"},
	"starts":             {"rate"},
	"per_ms":             {"rate"},
	"burst":              {"burst"},
	"max_waiting":        {"max-waiting"},
	"backpressure":       {"backpressure"},
	"position":           {"position"},
	"next":               {"next"},
	"run_at":             {"at"},
	"delay_ms":           {"in"},
	"force":              {"force"},
	"unique":             {"unique"},
	"key":                {"unique"},
	"scope":              {"unique-scope"},
	"period_ms":          {"unique-period"},
	"on_duplicate":       {"on-duplicate"},
	"debounce":           {"debounce"},
	"quiet_ms":           {"debounce"},
	"max_ms":             {"debounce-max"},
	"promote_after_ms":   {"promote-after"},
	"for_ms":             {"for"},
	"backlog":            {"backlog"},
}

// flagOfMember lists the flags of members of lists: their names alone mean
// other flags.
var flagOfMember = map[string]string{
	"arrivals.every_ms":    "arrive-every",
	"arrivals.runs":        "arrive-runs",
	"arrivals.limits":      "arrive-limit",
	"limits.limit":         "limit",
	"limits.max_in_flight": "limit",
}

// argumentOfField lists the arguments that set a field of the API, as in use lines.
var argumentOfField = map[string][]string{
	"schedule_id":     {"SCHEDULE", "ID"},
	"workflow_id":     {"WORKFLOW"},
	"version":         {"VERSION"},
	"idempotency_key": {"KEY"},
	"keys":            {"KEY"},
	"status":          {"STATUS"},
	"grant_id":        {"ID"},
	"queue_id":        {"QUEUE", "ID"},
	"limit_id":        {"ID"},
	"key":             {"KEY"},
	"backfill_id":     {"ID"},
	"alert_id":        {"ID"},
	"event_id":        {"ID"},
	"overlap_key":     {"KEY"},
	"delivery_ids":    {"DELIVERY"},
	"time":            {"TIME"},
	"local":           {"TIME"},
}

// withFlagNames replaces fields of the API with the flags and arguments of cmd:
// "--workflow is required". A field that came from a file keeps its name.
func withFlagNames(cmd *cobra.Command, v schedule.Violation) schedule.Violation {
	if cmd == nil {
		return v
	}
	name := flagName(cmd, v.Field)
	if name == "" {
		return v
	}
	problem := textWithFlagNames(cmd, v.Problem)
	if strings.HasSuffix(v.Field, "_ms") {
		problem = withDurations(problem)
	}
	return schedule.Violation{Field: name, Problem: problem, Hint: textWithFlagNames(cmd, v.Hint)}
}

// flagName is the flag or argument of cmd that sets a field; "" if there is none.
func flagName(cmd *cobra.Command, field string) string {
	var flags []string
	if name, ok := flagOfMember[listIndex.ReplaceAllString(field, "")]; ok {
		flags = []string{name}
	} else {
		if i := strings.LastIndexByte(field, '.'); i >= 0 && field[:i] != "labels" {
			field = field[i+1:]
		}
		field, _, _ = strings.Cut(field, "[")
		field, _, _ = strings.Cut(field, ".")
		flags = flagOfField[field]
	}
	file := cmd.Flags().Lookup("file")
	for _, name := range flags {
		if f := cmd.Flags().Lookup(name); f != nil && (f.Changed || file == nil || !file.Changed) {
			return "--" + name
		}
	}
	for _, word := range argumentOfField[field] {
		if slices.ContainsFunc(strings.Fields(cmd.Use)[1:], func(arg string) bool { return strings.Trim(arg, "[]|.") == word }) {
			return word
		}
	}
	return ""
}

var (
	listIndex  = regexp.MustCompile(`\[\d+\]`)
	fieldNames = regexp.MustCompile(`\b[a-z]+(_[a-z0-9]+)+\b`)
	// inMilliseconds matches the output of schedule.Milliseconds: 1000 (1s).
	inMilliseconds = regexp.MustCompile(`\b\d+ \(([0-9][0-9a-zµ.]*)\)`)
)

// textWithFlagNames replaces fields with flags, and "1000 (1s)" with "1s".
func textWithFlagNames(cmd *cobra.Command, text string) string {
	text = inMilliseconds.ReplaceAllString(text, "$1")
	return fieldNames.ReplaceAllStringFunc(text, func(field string) string {
		if name := flagName(cmd, field); name != "" {
			return name
		}
		return field
	})
}

// inBounds matches the value that a problem begins with, and the bounds that it names.
var inBounds = regexp.MustCompile(`(^|\b(?:to|than|within|below|above|over) )(\d[0-9a-zµ]*(?:\.[0-9a-zµ]+)*)`)

// withDurations writes the milliseconds in the problem of a field as durations.
func withDurations(problem string) string {
	return inBounds.ReplaceAllStringFunc(problem, func(found string) string {
		at := strings.LastIndexByte(found, ' ') + 1
		ms, err := strconv.ParseUint(found[at:], 10, 32)
		if err != nil {
			return found
		}
		return found[:at] + schedule.ShortDuration(time.Duration(ms)*time.Millisecond)
	})
}

// predicate matches a problem that continues a sentence that begins with the flag.
var predicate = regexp.MustCompile(`^(is|are|has|holds|contains|needs|must|would|never|makes|takes|contradicts|does|and) `)

// sentence is a violation as one line: "--every: 1.5s is not …" if the problem
// begins with the value, else "--workflow is required".
func sentence(v schedule.Violation) string {
	if !strings.HasPrefix(v.Field, "--") || !predicate.MatchString(v.Problem) {
		return v.String()
	}
	text := v.Field + " " + v.Problem
	if v.Hint != "" {
		text += "; " + v.Hint
	}
	return text
}
