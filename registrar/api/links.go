package api

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxTemplate bounds LOG_URL_TEMPLATE and TRACE_URL_TEMPLATE.
const maxTemplate = 2048

// Links are the addresses of other systems that show a run. The zero value has none.
type Links struct {
	Log, Trace *LinkTemplate // nil: none
}

// LinkTemplate is a URL with placeholders.
type LinkTemplate struct{ text string }

var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// placeholders are the names in a template. Each is empty while a run has no value.
var placeholders = map[string]func(*carillonv1.Run) string{
	"{key}":           (*carillonv1.Run).GetIdempotencyKey,
	"{run_id}":        (*carillonv1.Run).GetRunId,
	"{trace_id}":      (*carillonv1.Run).GetTraceId,
	"{schedule_id}":   (*carillonv1.Run).GetScheduleId,
	"{workflow_id}":   (*carillonv1.Run).GetWorkflowId,
	"{user_id}":       (*carillonv1.Run).GetUserId,
	"{attempt}":       func(r *carillonv1.Run) string { return strconv.Itoa(int(r.GetAttempt())) },
	"{scheduled_for}": func(r *carillonv1.Run) string { return r.GetRunAt().AsTime().UTC().Format(time.RFC3339) },
}

// ParseLinkTemplate checks a template. An empty one is nil.
func ParseLinkTemplate(text string) (*LinkTemplate, error) {
	if text == "" {
		return nil, nil
	}
	if len(text) > maxTemplate {
		return nil, fmt.Errorf("has %d bytes, more than %d", len(text), maxTemplate)
	}
	for _, name := range placeholder.FindAllString(text, -1) {
		if placeholders[name] == nil {
			return nil, fmt.Errorf("%s is not a placeholder; use {key}, {run_id}, {trace_id}, {schedule_id}, {workflow_id}, {user_id}, {attempt} or {scheduled_for}", schedule.Quote(name))
		}
	}
	plain := placeholder.ReplaceAllString(text, "x")
	u, err := url.Parse(plain)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || strings.ContainsAny(plain, "{} \t\r\n\"<>") {
		return nil, fmt.Errorf("%s is not an absolute http or https URL", schedule.Quote(text))
	}
	if u.User != nil {
		return nil, fmt.Errorf("holds credentials, which everyone who sees a run could read")
	}
	_, rest, _ := strings.Cut(text, "://")
	if end := strings.IndexAny(rest, "/?#"); strings.Contains(rest[:max(end, 0)], "{") || end < 0 && strings.Contains(rest, "{") {
		return nil, fmt.Errorf("%s has a placeholder in its host; placeholders belong behind it", schedule.Quote(text))
	}
	return &LinkTemplate{text}, nil
}

// of is the address for a run; empty while the run lacks a value that the template needs.
func (t *LinkTemplate) of(run *carillonv1.Run) string {
	if t == nil {
		return ""
	}
	whole := true
	link := placeholder.ReplaceAllStringFunc(t.text, func(name string) string {
		value := placeholders[name](run)
		whole = whole && value != ""
		return strings.ReplaceAll(url.QueryEscape(value), "+", "%20") // right in paths and queries alike
	})
	if !whole {
		return ""
	}
	return link
}

// add sets the links of a run. A URL that was reported stays.
func (l Links) add(run *carillonv1.Run) {
	if link := l.Log.of(run); link != "" && run.LogUrl == nil {
		run.LogUrl = &link
	}
	if link := l.Trace.of(run); link != "" {
		run.TraceUrl = &link
	}
}
