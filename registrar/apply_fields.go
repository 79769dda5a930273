package registrar

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/carillon/carillon/internal/schedule"
)

// fieldText is one field of a definition by its name in the API.
type fieldText struct{ name, text string }

// fieldTexts are the fields of a definition in the order of the API.
func fieldTexts(d *schedule.Definition) []fieldText {
	number := func(n uint32) string { return strconv.FormatUint(uint64(n), 10) }
	interval := ""
	if d.IntervalMS > 0 {
		interval = number(d.IntervalMS)
	}
	return []fieldText{
		{"workflow_id", d.WorkflowID},
		{"version", fmt.Sprint(d.Version)},
		{"cron_expr", d.CronExpr},
		{"interval_ms", interval},
		{"once_at", instantText(d.OnceAt)},
		{"timezone", d.Timezone},
		{"start_at", instantText(d.StartAt)},
		{"end_at", instantText(d.EndAt)},
		{"jitter_ms", number(d.JitterMS)},
		{"dst", string(d.DST)},
		{"overlap_policy", string(d.OverlapPolicy)},
		{"overlap_key", d.OverlapKey},
		{"max_queued", number(d.MaxQueued)},
		{"catchup_policy", string(d.CatchupPolicy)},
		{"catchup_window_ms", number(d.CatchupWindowMS)},
		{"run_timeout_ms", number(d.RunTimeoutMS)},
		{"priority", fmt.Sprint(d.Priority)},
		{"input", inputText(d.Input)},
		{"execution_grant_id", d.ExecutionGrantID},
		{"labels", labelsText(d.Labels)},
		{"managed_by", d.ManagedBy},
		{"expect", d.Expect.Text()},
		{"launch_timeout_ms", number(d.LaunchTimeoutMS)},
		{"retry", d.Retry.Text()},
		{"queue_id", d.QueueID},
		{"limits", strings.Join(d.Limits, ", ")},
		{"webhook", d.Webhook},
		{"fair_key", d.FairKey},
		{"group", d.Group},
		{"max_run_ms", number(d.MaxRunMS)},
		{"expires_ms", number(d.ExpiresMS)},
		{"consume", d.Consume.Text()},
	}
}

// fieldChanges are the fields in which two definitions differ.
func fieldChanges(before, after *schedule.Definition) []FieldChange {
	var out []FieldChange
	old := fieldTexts(before)
	for i, f := range fieldTexts(after) {
		if old[i].text != f.text {
			out = append(out, FieldChange{Field: f.name, From: shortText(old[i].text), To: shortText(f.text)})
		}
	}
	return out
}

func instantText(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// inputText is JSON without its white space.
func inputText(raw json.RawMessage) string {
	var out bytes.Buffer
	if len(raw) == 0 || json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

func labelsText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, " ")
}

func shortText(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + fmt.Sprintf("… (%d bytes)", len(s))
}
