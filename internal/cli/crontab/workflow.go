package crontab

import (
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"strings"
)

// Naming has what all workflows of an import share.
type Naming struct {
	Prefix  string // of each workflow_id
	Version int32  // of each; a changed command needs another version
	Overlap string // cron starts a command even if the previous one still runs: allow
}

// Workflow is one entry as a DAG, as `carillon apply` takes it.
type Workflow struct {
	Entry *Entry
	ID    string
	DAG   json.RawMessage
}

// document is a DAG with its members in reading order.
type document struct {
	WorkflowID string    `json:"workflow_id"`
	Version    int32     `json:"version"`
	Comment    string    `json:"comment,omitempty"` // for people only
	Crontab    string    `json:"crontab"`           // the line in the crontab
	Triggers   []trigger `json:"triggers"`
	Steps      []step    `json:"steps"`
}

type trigger struct {
	Type          string            `json:"type"`
	Name          string            `json:"name"`
	CronExpr      string            `json:"cron_expr"`
	Timezone      string            `json:"timezone"`
	OverlapPolicy string            `json:"overlap_policy"`
	Labels        map[string]string `json:"labels,omitempty"`
}

type step struct {
	ID  string            `json:"id"`
	Run []string          `json:"run"`
	Env map[string]string `json:"env,omitempty"`
}

// mailToLabel is a label for routes of notifications. Targets of kind email can take
// their recipients from it (docs/notifications.md).
const mailToLabel = "mailto"

// maxLabel is the limit of a label's value, in bytes.
const maxLabel = 128

// Workflows makes a workflow from each entry, named after its command.
func (f *File) Workflows(n Naming) ([]Workflow, error) {
	ids := names{taken: make(map[string]bool), next: make(map[string]int)}
	out := make([]Workflow, len(f.Entries))
	for i := range f.Entries {
		e := &f.Entries[i]
		id := ids.unique(n.Prefix + e.name())
		labels := map[string]string{"imported": "crontab"}
		if e.User != "" {
			labels["crontab_user"] = e.User
		}
		if e.MailTo != "" && len(e.MailTo) <= maxLabel {
			labels[mailToLabel] = e.MailTo
		}
		dag, err := json.Marshal(document{
			WorkflowID: id, Version: n.Version, Comment: e.Comment, Crontab: fmt.Sprintf("line %d: %s", e.Line, e.Text),
			Triggers: []trigger{{
				Type: "schedule_based", Name: "cron", CronExpr: e.Expr, Timezone: e.Timezone, OverlapPolicy: n.Overlap, Labels: labels,
			}},
			Steps: []step{{ID: "run", Run: e.argv(), Env: e.Env}},
		})
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", e.Line, err)
		}
		out[i] = Workflow{Entry: e, ID: id, DAG: dag}
	}
	return out, nil
}

// argv runs the command like cron: in a shell, in the home of the user, with the text
// after the % as standard input.
func (e *Entry) argv() []string {
	script := e.Command
	if e.HasStdin {
		end := "CARILLON_INPUT"
		for strings.Contains("\n"+e.Stdin+"\n", "\n"+end+"\n") {
			end += "_"
		}
		script = "{ " + e.Command + "\n} <<'" + end + "'\n" + e.Stdin + "\n" + end
	}
	return []string{e.Shell, "-c", "cd \"${HOME:-/}\"\n" + script}
}

var (
	notOfIDs    = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
	assignments = regexp.MustCompile(`^(?:[A-Za-z_][A-Za-z0-9_]*=(?:'[^']*'|"[^"]*"|\S*)\s+)*`)
)

// wrappers are commands that run another.
var wrappers = map[string]bool{
	"sudo": true, "nice": true, "ionice": true, "env": true, "nohup": true, "time": true, "exec": true, "sh": true, "bash": true,
	"python": true, "python3": true, "perl": true, "ruby": true, "php": true, "cd": true, "test": true, "[": true, "flock": true, "timeout": true,
}

// name guesses the program that the command runs.
func (e *Entry) name() string {
	locks := false // the next word is a lock file
	for _, w := range strings.Fields(assignments.ReplaceAllString(e.Command, "")) {
		w = strings.Trim(w, `"'()[]{};&|!`)
		base := path.Base(w)
		if locks && w != "" && !strings.HasPrefix(w, "-") {
			locks = false
			continue
		}
		locks = locks || base == "flock"
		// A word in $( ) or after a + is the operand of a test.
		if w == "" || strings.HasPrefix(base, "$") || strings.HasPrefix(w, "+") || strings.HasPrefix(w, "-") || strings.Contains(w, "=") || wrappers[base] || !strings.ContainsFunc(base, isLetter) {
			continue
		}
		const most = 60
		if name := strings.Trim(notOfIDs.ReplaceAllString(base, "-"), "-._"); name != "" {
			return name[:min(len(name), most)]
		}
	}
	return fmt.Sprintf("line-%d", e.Line)
}

func isLetter(r rune) bool { return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' }

// names makes unique ids.
type names struct {
	taken map[string]bool
	next  map[string]int // the next suffix to try, by name
}

// unique adds -2, -3 and so on to a name that is taken.
func (n *names) unique(name string) string {
	id := name
	for number := max(n.next[name], 2); n.taken[id]; number++ {
		id = fmt.Sprintf("%s-%d", name, number)
		n.next[name] = number + 1
	}
	n.taken[id] = true
	return id
}
