package httpexecutor

import (
	"net/url"
	"strings"
)

// The placeholders.
const (
	workflowID     = "{workflow_id}"
	version        = "{version}"
	idempotencyKey = "{idempotency_key}"
	runID          = "{run_id}"
	scheduleID     = "{schedule_id}"
	scheduledFor   = "{scheduled_for}"
	environment    = "{environment}"
)

// expand replaces placeholders: escaped as one path segment before the first
// "?", as a query value after it.
func expand(template string, values map[string]string) string {
	path, query, hasQuery := strings.Cut(template, "?")
	for placeholder, value := range values {
		path = strings.ReplaceAll(path, placeholder, url.PathEscape(value))
		query = strings.ReplaceAll(query, placeholder, url.QueryEscape(value))
	}
	if !hasQuery {
		return path
	}
	return path + "?" + query
}

// climbs reports whether value is "." or "..": escaping keeps dots, so a workflow
// called ".." would name another resource.
func climbs(template, placeholder, value string) bool {
	path, _, _ := strings.Cut(template, "?")
	return (value == "." || value == "..") && strings.Contains(path, placeholder)
}
