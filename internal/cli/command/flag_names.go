package command

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/schedule"
)

// flagOfField names the flags that set a field of the API, in the order in which
// they are tried: commands differ in what they call an id.
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
	"priority":           {"priority"},
	"input":              {"input"},
	"start_within_ms":    {"expect-start"},
	"finish_within_ms":   {"expect-finish"},
	"success_every_ms":   {"expect-success"},
	"alert_after":        {"alert-after"},
	"remind_every_ms":    {"remind-every"},
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
}

// argumentOfField names the arguments of use lines that set a field of the API.
var argumentOfField = map[string][]string{
	"schedule_id":     {"SCHEDULE", "ID"},
	"workflow_id":     {"WORKFLOW"},
	"version":         {"VERSION"},
	"idempotency_key": {"KEY"},
	"status":          {"STATUS"},
	"grant_id":        {"ID"},
	"backfill_id":     {"ID"},
	"alert_id":        {"ID"},
	"delivery_ids":    {"DELIVERY"},
	"time":            {"TIME"},
	"local":           {"TIME"},
}

// withFlagNames is a violation with the flags and arguments of cmd in place of the API's
// fields: "--workflow is required". A field that came from a file keeps its name.
func withFlagNames(cmd *cobra.Command, v schedule.Violation) schedule.Violation {
	if cmd == nil {
		return v
	}
	name := flagName(cmd, v.Field)
	if name == "" {
		return v
	}
	return schedule.Violation{Field: name, Problem: textWithFlagNames(cmd, v.Problem), Hint: textWithFlagNames(cmd, v.Hint)}
}

// flagName is what sets a field on the command line of cmd: a flag or an
// argument; empty: nothing does.
func flagName(cmd *cobra.Command, field string) string {
	if i := strings.LastIndexByte(field, '.'); i >= 0 && field[:i] != "labels" {
		field = field[i+1:]
	}
	field, _, _ = strings.Cut(field, "[")
	field, _, _ = strings.Cut(field, ".")
	file := cmd.Flags().Lookup("file")
	for _, name := range flagOfField[field] {
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
	fieldNames = regexp.MustCompile(`\b[a-z]+(_[a-z0-9]+)+\b`)
	// inMilliseconds is what that schedule.Milliseconds writes.
	inMilliseconds = regexp.MustCompile(`\b\d+ \(([0-9][0-9a-zµ.]*)\)`)
)

// textWithFlagNames names flags for fields, and durations without their milliseconds.
func textWithFlagNames(cmd *cobra.Command, text string) string {
	text = inMilliseconds.ReplaceAllString(text, "$1")
	return fieldNames.ReplaceAllStringFunc(text, func(field string) string {
		if name := flagName(cmd, field); name != "" {
			return name
		}
		return field
	})
}

// predicate is a problem that has the flag as its subject.
var predicate = regexp.MustCompile(`^(is|are|has|holds|contains|needs|must|would|never|makes|takes|contradicts|does|and) `)

// sentence is a violation as one line: "--every: 1.5s is not …" with a value,
// "--workflow is required" without one.
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
