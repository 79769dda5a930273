package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar"
)

const (
	scheduleBased = "schedule_based" // the type of the triggers that become schedules
	maxTriggers   = 200
)

// dagMembers are the members of a DAG, by their exact names. (Decoding into a
// struct would also take "Triggers" for "triggers".)
type dagMembers map[string]json.RawMessage

func readDAG(dag []byte) (dagMembers, error) {
	var members dagMembers
	if err := json.Unmarshal(dag, &members); err != nil || members == nil {
		return nil, &schedule.InvalidError{Violations: []schedule.Violation{{Field: "dag", Problem: "is not a JSON object"}}}
	}
	return members, nil
}

// deployment makes each schedule_based trigger of the DAG an upsert. Violations are listed with
// the trigger's place in the DAG.
func deployment(req *carillonv1.DeployWorkflowRequest, actor string) (registrar.DeployInput, error) {
	in := registrar.DeployInput{
		WorkflowID: req.GetWorkflowId(), Version: req.GetVersion(), UserID: req.GetUserId(), DAG: req.GetDag(),
		Adopt: req.GetAdopt(), RequestID: req.GetRequestId(), Actor: actor,
	}
	upserts, fields, err := scheduleTriggers(req, "", "workflow:"+req.GetWorkflowId())
	for _, u := range upserts {
		in.Triggers = append(in.Triggers, upsertOf(u, actor))
	}
	in.Fields = fields
	return in, err
}

// scheduleTriggers are the upserts of a deploy's DAG, and the prefixes of their fields. prefix is
// the deploy's place in the call.
func scheduleTriggers(req *carillonv1.DeployWorkflowRequest, prefix, managedBy string) (upserts []*carillonv1.UpsertScheduleRequest, fields []string, err error) {
	var found schedule.InvalidError
	refused := func(err error) bool {
		var invalid *schedule.InvalidError
		if errors.As(err, &invalid) {
			found.Violations = append(found.Violations, invalid.Violations...)
			return true
		}
		return false
	}
	members, err := readDAG(req.GetDag())
	if err != nil {
		return nil, nil, behind(prefix, err)
	}
	var triggers []json.RawMessage
	if raw, ok := members["triggers"]; ok && json.Unmarshal(raw, &triggers) != nil {
		return nil, nil, &schedule.InvalidError{Violations: []schedule.Violation{{Field: prefix + "dag.triggers", Problem: "is not a list"}}}
	}
	names := make(map[string]int)
	for i, raw := range triggers {
		t := trigger{req: req, index: i, prefix: fmt.Sprintf("%sdag.triggers[%d].", prefix, i), managedBy: managedBy}
		upsert, err := t.upsert(raw, names)
		switch {
		case refused(err):
		case err != nil:
			return nil, nil, err
		case upsert != nil:
			upserts, fields = append(upserts, upsert), append(fields, t.prefix)
		}
	}
	if len(upserts) > maxTriggers {
		found.Violations = append(found.Violations, schedule.Violation{
			Field: prefix + "dag.triggers", Problem: fmt.Sprintf("has %d of type %s, more than %d", len(upserts), scheduleBased, maxTriggers),
		})
	}
	if len(found.Violations) > 0 {
		return nil, nil, &found
	}
	return upserts, fields, nil
}

// behind puts prefix before the names of the refused fields.
func behind(prefix string, err error) error {
	var invalid *schedule.InvalidError
	if prefix == "" || !errors.As(err, &invalid) {
		return err
	}
	out := &schedule.InvalidError{}
	for _, v := range invalid.Violations {
		v.Field = prefix + v.Field
		out.Violations = append(out.Violations, v)
	}
	return out
}

// trigger is one trigger of a DAG that is deployed.
type trigger struct {
	req    *carillonv1.DeployWorkflowRequest
	index  int
	prefix string

	managedBy string
}

// upsert is nil for a trigger of another type, which may look as it likes.
func (t trigger) upsert(raw json.RawMessage, names map[string]int) (*carillonv1.UpsertScheduleRequest, error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil || !isWord(members["type"], scheduleBased) {
		return nil, nil
	}
	req := &carillonv1.UpsertScheduleRequest{}
	if err := (rawjson.Decoder{Prefix: t.prefix, Allow: []string{"type", "name"}}).Unmarshal(raw, req); err != nil {
		return nil, err
	}
	var c schedule.Collect
	name := t.name(&c, members["name"])
	if first, taken := names[name]; taken {
		c.Add(t.prefix+"name", name, fmt.Sprintf("is also the name of trigger %d", first), "names must differ")
	}
	names[name] = t.index
	t.fill(&c, req, name)
	if err := c.Err(); err != nil {
		return nil, err
	}
	return req, validate(req, t.prefix)
}

// name is the trigger's name, else its index.
func (t trigger) name(c *schedule.Collect, raw json.RawMessage) string {
	if raw == nil {
		return strconv.Itoa(t.index)
	}
	var name string
	if json.Unmarshal(raw, &name) != nil || !schedule.ValidID(t.req.GetWorkflowId()+"."+name) || name == "" {
		room := schedule.MaxIDLength - len(t.req.GetWorkflowId()) - 1
		c.Add(t.prefix+"name", strings.Trim(string(raw), `"`), "does not make a valid id after \""+t.req.GetWorkflowId()+".\"",
			fmt.Sprintf("use 1 to %d of A–Z a–z 0–9 . _ : -", room))
	}
	return name
}

// fill sets the fields that come from the call, and refuses a trigger that contradicts them.
func (t trigger) fill(c *schedule.Collect, req *carillonv1.UpsertScheduleRequest, name string) {
	set := func(field string, to *string, value string) {
		if *to != "" && *to != value {
			c.Add(t.prefix+field, *to, "contradicts the deployment, which sets it to "+schedule.Quote(value), "leave it out")
		}
		*to = value
	}
	set("schedule_id", &req.ScheduleId, t.req.GetWorkflowId()+"."+name)
	set("workflow_id", &req.WorkflowId, t.req.GetWorkflowId())
	set("user_id", &req.UserId, t.req.GetUserId())
	set("managed_by", &req.ManagedBy, t.managedBy)
	if req.GetAdopt() {
		c.Add(t.prefix+"adopt", true, "is not allowed for one trigger", "set adopt for the whole call")
	}
	if req.Version != 0 && req.Version != t.req.GetVersion() {
		c.Add(t.prefix+"version", req.Version, fmt.Sprintf("contradicts the deployment of version %d", t.req.GetVersion()), "leave it out")
	}
	req.Version = t.req.GetVersion()
}

func isWord(raw json.RawMessage, word string) bool {
	var s string
	return raw != nil && json.Unmarshal(raw, &s) == nil && s == word
}
