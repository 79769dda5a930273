package apply

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// fileSet collects the content of files as a request, and the place of each part.
type fileSet struct {
	req       *carillonv1.ApplySchedulesRequest
	user      string // the owner of schedules without user_id
	schedules []origin
	workflows []origin
	problems  schedule.Collect
}

// origin is the place of a schedule or workflow in a file.
type origin struct {
	file     string
	line     int        // its first line
	document int        // from 1; 0: the file has only one
	node     *yaml.Node // nil for JSON
}

// place is FILE:LINE, in YAML the line of the field.
func (o origin) place(field string) string {
	line := o.line
	if o.node != nil {
		line = lineOf(o.node, field)
	}
	place := fmt.Sprintf("%s:%d", o.file, line)
	if o.document > 0 {
		place += fmt.Sprintf(" (document %d)", o.document)
	}
	if field != "" {
		place += ": " + field
	}
	return place
}

// lineOf is the line of a path such as triggers[0].cron_expr, or of its longest part
// that exists.
func lineOf(n *yaml.Node, path string) int {
	line := n.Line
	for path != "" {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		name, rest := path, ""
		if end := strings.IndexAny(path[1:], ".["); end >= 0 {
			name, rest = path[:end+1], strings.TrimPrefix(path[end+1:], ".")
		}
		below := member(n, name)
		if below == nil {
			break
		}
		n, line, path = below, below.Line, rest
	}
	return line
}

func member(n *yaml.Node, name string) *yaml.Node {
	if index, isIndex := strings.CutPrefix(name, "["); isIndex {
		i, err := strconv.Atoi(strings.TrimSuffix(index, "]"))
		if err != nil || n.Kind != yaml.SequenceNode || i >= len(n.Content) {
			return nil
		}
		return n.Content[i]
	}
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == name {
			return n.Content[i+1]
		}
	}
	return nil
}

// read adds the content of one file. Errors are collected in problems.
func (s *fileSet) read(name string, text []byte) {
	if isJSON(name, text) {
		s.readJSON(name, text)
		return
	}
	documents, err := render.YAMLDocuments(text)
	if err != nil {
		s.problems.Note(name, err.Error(), "")
		return
	}
	for i, d := range documents {
		o := origin{file: name, document: i + 1}
		if len(documents) == 1 {
			o.document = 0
		}
		s.readNode(o, d.Content[0])
	}
}

// isJSON decides by the name of the file, else by the text: JSON with tabs is not
// valid YAML.
func isJSON(name string, text []byte) bool {
	switch filepath.Ext(name) {
	case ".json":
		return true
	case ".yaml", ".yml":
		return false
	}
	return json.Valid(text)
}

func (s *fileSet) readNode(o origin, n *yaml.Node) {
	o.node, o.line = n, n.Line
	switch {
	case n.ShortTag() == "!!null": // an empty document, such as after the last ---
		return
	case n.Kind == yaml.SequenceNode:
		for _, element := range n.Content {
			s.readNode(o, element)
		}
		return
	}
	text, err := render.JSONFromNode(n)
	if err != nil {
		s.problems.Note(o.file, err.Error(), "")
		return
	}
	s.add(o, text)
}

func (s *fileSet) readJSON(name string, text []byte) {
	o := origin{file: name, line: 1}
	var list []json.RawMessage
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		var wrong *json.SyntaxError
		if errors.As(err, &wrong) {
			o.line = lineAt(text, int(wrong.Offset))
		}
		s.problems.Note(o.place(""), "not JSON: "+err.Error(), "")
		return
	}
	if err := json.Unmarshal(text, &list); err != nil { // not a list
		s.add(o, bytes.TrimSpace(text))
		return
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	_, _ = decoder.Token() // the opening [
	for decoder.More() {
		var element json.RawMessage
		_ = decoder.Decode(&element)
		o.line = lineAt(text, int(decoder.InputOffset())-len(element))
		s.add(o, element)
	}
}

func lineAt(text []byte, offset int) int {
	return 1 + bytes.Count(text[:min(offset, len(text))], []byte("\n"))
}

// add adds one schedule or workflow.
func (s *fileSet) add(o origin, text []byte) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		s.problems.Note(o.place(""), "is not an object", "write a schedule, a workflow, or a list of them")
		return
	}
	switch {
	case members["schedule_id"] != nil:
		s.addSchedule(o, text)
	case members["triggers"] != nil:
		s.addWorkflow(o, text)
	default:
		s.problems.Note(o.place(""), "is neither a schedule nor a workflow", "a schedule has schedule_id, a workflow's DAG has triggers")
	}
}

func (s *fileSet) addSchedule(o origin, text []byte) {
	req := &carillonv1.UpsertScheduleRequest{}
	var invalid *schedule.InvalidError
	if err := rawjson.Unmarshal(text, req); errors.As(err, &invalid) {
		for _, v := range invalid.Violations {
			s.problems.Note(o.place(strings.TrimPrefix(v.Field, "body")), v.Problem, v.Hint)
		}
		return
	}
	if req.UserId == "" {
		if req.UserId = s.user; s.user == "" {
			s.problems.Note(o.place("user_id"), "is required", "add it, or give --user for all schedules without it")
		}
	}
	s.schedules = append(s.schedules, o)
	s.req.Schedules = append(s.req.Schedules, req)
}

func (s *fileSet) addWorkflow(o origin, dag []byte) {
	var named struct {
		WorkflowID string `json:"workflow_id"`
		Version    int32  `json:"version"`
	}
	switch err := json.Unmarshal(dag, &named); {
	case err != nil:
		s.problems.Note(o.place(""), "is not a workflow with workflow_id (text) and version (number): "+err.Error(), "")
		return
	case named.WorkflowID == "" || named.Version == 0:
		s.problems.Note(o.place(""), "is a workflow that does not name its workflow_id and version", "")
		return
	case s.user == "":
		s.problems.Note(o.place(""), "is a workflow: its schedules need an owner", "give --user")
		return
	}
	s.workflows = append(s.workflows, o)
	s.req.Workflows = append(s.req.Workflows, &carillonv1.DeployWorkflowRequest{
		WorkflowId: named.WorkflowID, Version: named.Version, UserId: s.user, Dag: dag,
	})
}

// fieldPath matches paths of the request, such as schedules[3].cron_expr.
var fieldPath = regexp.MustCompile(`(schedules|workflows)\[(\d+)\](?:\.([A-Za-z0-9_.\[\]"-]+))?`)

// locateError replaces the paths in a server's error with places in the files.
func (s *fileSet) locateError(err error) error {
	var refused *client.CallError
	var invalid *schedule.InvalidError
	if !errors.As(err, &refused) || !errors.As(err, &invalid) {
		return err
	}
	out := &schedule.InvalidError{}
	for _, v := range invalid.Violations {
		out.Violations = append(out.Violations, schedule.Violation{Field: s.locate(v.Field), Problem: s.locate(v.Problem), Hint: v.Hint})
	}
	return &client.CallError{Code: refused.Code, Err: out}
}

// LocateWorkflows replaces the paths in a server's error with lines of one file. The
// workflow with index i is from lines[i].
func LocateWorkflows(err error, file string, lines []int) error {
	s := &fileSet{}
	for _, line := range lines {
		s.workflows = append(s.workflows, origin{file: file, line: line})
	}
	return s.locateError(err)
}

func (s *fileSet) locate(text string) string {
	return fieldPath.ReplaceAllStringFunc(text, func(part string) string {
		m := fieldPath.FindStringSubmatch(part)
		from := s.schedules
		if m[1] == "workflows" {
			from = s.workflows
		}
		i, err := strconv.Atoi(m[2])
		if err != nil || i >= len(from) {
			return part
		}
		return from[i].place(strings.TrimPrefix(m[3], "dag."))
	})
}
