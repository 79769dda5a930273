package console

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api/editable"
)

// maxRevisions is how many of the newest revisions are searched for the one that
// a form began with.
const maxRevisions = 200

// maxEdit bounds the form in bytes. An input of 64 KiB becomes many times larger in
// it: it is indented, and spaces and newlines are encoded.
const maxEdit = 4 << 20

// editField is a field of UpsertScheduleRequest that the form can change.
type editField struct {
	Name, Label, Help string
	Choices           []string
	Rows              int // of a text area; 0: one line
}

var editFields = []editField{
	{Name: "cron_expr", Label: "Cron expression", Help: "set one of cron expression, interval and once, or none for manual runs only"},
	{Name: "interval_ms", Label: "Interval", Help: "e.g. 15m"},
	{Name: "once_at", Label: "Once, at", Help: "e.g. 2027-03-01T08:30"},
	{Name: "timezone", Label: "Time zone", Help: "of the rule and of times without an offset"},
	{Name: "start_at", Label: "Starts"},
	{Name: "end_at", Label: "Ends"},
	{Name: "jitter_ms", Label: "Jitter ±"},
	{Name: "dst", Label: "Daylight saving", Choices: []string{"vixie", "literal"}},
	{Name: "workflow_id", Label: "Workflow"},
	{Name: "version", Label: "Version"},
	{Name: "overlap_policy", Label: "Overlap", Choices: texts(schedule.OverlapPolicies)},
	{Name: "overlap_key", Label: "Overlap key"},
	{Name: "max_queued", Label: "Max queued"},
	{Name: "catchup_policy", Label: "Catch-up", Choices: texts(schedule.CatchupPolicies)},
	{Name: "catchup_window_ms", Label: "Catch-up window"},
	{Name: "run_timeout_ms", Label: "Run timeout"},
	{Name: "max_run_ms", Label: "Longest run", Help: "from its acceptance on; 0: with a queue as the queue says, else any time"},
	{Name: "expires_ms", Label: "Expires", Help: "with a queue: a run that waits for so long ends; 0: as the queue says"},
	{Name: "launch_timeout_ms", Label: "Launch timeout", Help: "0: LAUNCH_RETRY_FOR_MS"},
	{Name: "retry_max_attempts", Label: "Attempts of a run", Help: "the first one included; more than 1 retries failed runs"},
	{Name: "retry_backoff_ms", Label: "Retry after", Help: "default 10s"},
	{Name: "retry_factor_percent", Label: "Retry factor %", Help: "of each wait to the one before; default 200"},
	{Name: "retry_max_backoff_ms", Label: "Longest wait", Help: "default 1h"},
	{Name: "retry_on", Label: "Retry on", Help: "failure classes, separated by commas; default transient, timeout, lost, deadline"},
	{Name: "priority", Label: "Priority"},
	{Name: "queue_id", Label: "Queue", Help: "the dispatch queue that its runs enter; empty: they are launched at once"},
	{Name: "limits", Label: "Limits", Help: "with a queue: ids, or ID=KEY, separated by commas"},
	{Name: "fair_key", Label: "Fair key", Help: "with a queue: what its runs count for while the queue is fair; default: the owner"},
	{Name: "group", Label: "Group", Help: "with a queue: the runs of one instant of all schedules with this group end together, with one message"},
	{Name: "webhook", Label: "Webhook", Help: "the target that is told of the ends of runs; default: with a queue that of the queue"},
	{Name: "execution_grant_id", Label: "Grant"},
	{Name: "labels", Label: "Labels", Help: "one per line, NAME=VALUE", Rows: 3},
	{Name: "input", Label: "Input", Help: "JSON", Rows: 6},
}

// editView is the form that edits a schedule.
type editView struct {
	ID        string
	Revision  uint32 // that the form changes
	ManagedBy string
	Fields    []editRow
	Fails     *failure      // of no field of the form
	Conflict  *editConflict // another revision was saved meanwhile
}

type editRow struct {
	editField
	Value, Problem string
}

// editConflict is what another writer saved while the form was open.
type editConflict struct {
	Base uint32 // the revision that the form began with
	By   string
	At   moment
	// Kept: the form has the new revision's values in all fields that this writer
	// left alone. Otherwise revision Base is not known any more, and the form has
	// all values as they were sent.
	Kept bool
	Rows []conflictRow
}

type conflictRow struct {
	Label, Was, Now, Yours string
	Changed                bool // by this writer
}

func (c *Console) showEdit(v *visit) (page, error) {
	s, err := c.schedule(v)
	if err != nil {
		return page{}, err
	}
	return editPage(newEditView(s, editTexts(editable.Definition(s))), 0), nil
}

func (c *Console) schedule(v *visit) (*carillonv1.Schedule, error) {
	resp, err := c.schedules.GetSchedule(v.Context(), &carillonv1.GetScheduleRequest{ScheduleId: v.PathValue("id")})
	return resp.GetSchedule(), err
}

func newEditView(s *carillonv1.Schedule, values map[string]string) editView {
	view := editView{ID: s.GetScheduleId(), Revision: s.GetRevision(), ManagedBy: s.GetManagedBy()}
	for _, f := range editFields {
		view.Fields = append(view.Fields, editRow{editField: f, Value: values[f.Name]})
	}
	return view
}

func editPage(view editView, code int) page {
	return page{name: "edit", title: "Edit " + view.ID, view: view, code: code}
}

// saveEdit changes the fields that differ from the revision that the form began
// with. Another revision is never overwritten: the writer sees both first.
func (c *Console) saveEdit(v *visit) (page, error) {
	v.Body = http.MaxBytesReader(nil, v.Body, maxEdit)
	if err := v.ParseForm(); err != nil {
		return page{}, status.Errorf(codes.InvalidArgument, "the form cannot be read, or has more than %d bytes", maxEdit)
	}
	base, err := strconv.ParseUint(v.field("revision"), 10, 32)
	if err != nil {
		return page{}, status.Error(codes.InvalidArgument, "revision: is missing; open the form again")
	}
	s, err := c.schedule(v)
	if err != nil {
		return page{}, err
	}
	was := editTexts(editable.Definition(s))
	sent := v.sentTexts(was)
	if s.GetRevision() != uint32(base) {
		return c.conflict(v, s, uint32(base), sent)
	}
	view := newEditView(s, sent)
	req, problems := v.patchOf(s, was, sent)
	switch {
	case len(problems) > 0:
		view.explain(&failure{Violations: problems})
		return editPage(view, http.StatusUnprocessableEntity), nil
	case len(req.GetUpdateMask().GetPaths()) == 0:
		return savedPage(s, false, ""), nil
	}
	resp, err := c.schedules.PatchSchedule(v.Context(), req)
	if status.Code(err) == codes.Aborted {
		if newest, again := c.schedule(v); again == nil && newest.GetRevision() != s.GetRevision() {
			return c.conflict(v, newest, uint32(base), sent)
		}
	}
	if err != nil {
		f := failureOf(err)
		view.explain(&f)
		return editPage(view, f.code), nil
	}
	c.counts.forget()
	return savedPage(resp.GetSchedule(), resp.GetChanged(), resp.GetWarning()), nil
}

func savedPage(s *carillonv1.Schedule, changed bool, warning string) page {
	t := toast{Title: fmt.Sprintf("Saved %s as revision %d", s.GetScheduleId(), s.GetRevision()), Back: schedulePath(s.GetScheduleId())}
	if !changed {
		t.Title = "No changes to " + s.GetScheduleId()
	}
	if warning != "" {
		t.Lines = []string{warning}
	}
	return page{name: "done", title: t.Title, view: t}
}

// explain puts each problem at its field, and others on top.
func (e *editView) explain(f *failure) {
	var others []violation
	for _, problem := range f.Violations {
		name, _, _ := strings.Cut(strings.TrimPrefix(problem.Field, "schedule."), "[") // labels[team] is in the field labels
		name = strings.Replace(name, "retry.", retryPrefix, 1)
		i := slices.IndexFunc(e.Fields, func(row editRow) bool { return row.Name == name })
		if i < 0 {
			others = append(others, problem)
			continue
		}
		e.Fields[i].Problem = problem.Problem
	}
	if f.Message != "" || len(others) > 0 {
		e.Fails = &failure{Title: f.Title, Message: f.Message, Violations: others}
	}
}

// sentTexts are the fields as the form sent them; those that it left out are
// unchanged.
func (v *visit) sentTexts(was map[string]string) map[string]string {
	sent := maps.Clone(was)
	for _, f := range editFields {
		if values, ok := v.PostForm[f.Name]; ok {
			sent[f.Name] = strings.TrimSpace(strings.ReplaceAll(values[0], "\r\n", "\n"))
		}
	}
	return sent
}

// patchOf changes the fields whose texts differ.
func (v *visit) patchOf(s *carillonv1.Schedule, was, sent map[string]string) (*carillonv1.PatchScheduleRequest, []violation) {
	zone, err := cronexpr.LoadLocation(sent["timezone"])
	if err != nil {
		zone = v.zone // the service reports the error
	}
	req := &carillonv1.PatchScheduleRequest{
		ScheduleId: s.GetScheduleId(), Schedule: &carillonv1.UpsertScheduleRequest{}, UpdateMask: &fieldmaskpb.FieldMask{},
		Etag: strconv.FormatUint(uint64(s.GetRevision()), 10),
	}
	var problems []violation
	retried := false
	for _, f := range editFields {
		if sent[f.Name] == was[f.Name] {
			continue
		}
		if strings.HasPrefix(f.Name, retryPrefix) {
			retried = true
			continue
		}
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, f.Name)
		if problem := setText(req.GetSchedule(), f.Name, sent[f.Name], zone); problem != "" {
			problems = append(problems, violation{f.Name, problem})
		}
	}
	if retried { // a policy is changed as a whole
		req.UpdateMask.Paths = append(req.UpdateMask.Paths, "retry")
		var wrong []violation
		req.Schedule.Retry, wrong = retryOf(sent)
		problems = append(problems, wrong...)
	}
	return req, problems
}

// conflict shows what another writer saved, and the form with this writer's
// changes applied to it. Nothing is saved until the form is sent again.
func (c *Console) conflict(v *visit, s *carillonv1.Schedule, base uint32, sent map[string]string) (page, error) {
	resp, err := c.schedules.ListRevisions(v.Context(), &carillonv1.ListRevisionsRequest{ScheduleId: s.GetScheduleId(), PageSize: maxRevisions})
	if err != nil {
		return page{}, err
	}
	now := editTexts(editable.Definition(s))
	met := editConflict{Base: base, At: v.at(s.GetRevisedAt())}
	var was map[string]string
	for _, r := range resp.GetRevisions() {
		switch r.GetRevision() {
		case s.GetRevision():
			met.By = r.GetChangedBy()
		case base:
			was, met.Kept = editTexts(r.GetDefinition()), true
		}
	}
	merged := maps.Clone(now)
	for _, f := range editFields {
		row := conflictRow{Label: f.Label, Was: was[f.Name], Now: now[f.Name], Yours: sent[f.Name], Changed: !met.Kept || sent[f.Name] != was[f.Name]}
		if row.Changed {
			merged[f.Name] = row.Yours
		}
		if row.Changed && row.Yours != row.Now || met.Kept && row.Was != row.Now {
			met.Rows = append(met.Rows, row)
		}
	}
	view := newEditView(s, merged)
	view.Conflict = &met
	return editPage(view, http.StatusConflict), nil
}

// editTexts are a definition's fields as the form shows them.
func editTexts(definition proto.Message) map[string]string {
	m := definition.ProtoReflect()
	all := make(map[string]string)
	for _, f := range editFields {
		if field := m.Descriptor().Fields().ByName(protoreflect.Name(f.Name)); field != nil {
			all[f.Name] = editText(m, field)
		}
	}
	maps.Copy(all, retryTexts(m))
	return all
}

func editText(m protoreflect.Message, field protoreflect.FieldDescriptor) string {
	value := m.Get(field)
	switch {
	case field.Name() == "interval_ms" && value.Uint() == 0:
		return "" // it has no interval
	case field.IsList():
		return strings.Join(listTexts(value.List()), ", ")
	case strings.HasSuffix(string(field.Name()), "_ms"):
		return lengthText(time.Duration(value.Uint()) * time.Millisecond)
	case field.Kind() == protoreflect.Int32Kind || field.Kind() == protoreflect.Uint32Kind:
		return fmt.Sprint(value.Interface())
	}
	return strings.TrimSpace(fieldText(m, field))
}

func listTexts(list protoreflect.List) (texts []string) {
	for i := range list.Len() {
		texts = append(texts, list.Get(i).String())
	}
	return texts
}

func lengthText(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	return schedule.ShortDuration(d)
}

// setText sets a field of a patch; an empty text leaves it out, which sets its
// default.
func setText(to *carillonv1.UpsertScheduleRequest, name, text string, zone *time.Location) (problem string) {
	if text == "" {
		return ""
	}
	if name == "labels" {
		to.Labels, problem = labelsOf(text)
		return problem
	}
	m := to.ProtoReflect()
	return setField(m, m.Descriptor().Fields().ByName(protoreflect.Name(name)), text, zone)
}

func setField(m protoreflect.Message, field protoreflect.FieldDescriptor, text string, zone *time.Location) (problem string) {
	switch {
	case field.IsList():
		list := m.Mutable(field).List()
		for part := range strings.SplitSeq(text, ",") {
			list.Append(protoreflect.ValueOfString(strings.TrimSpace(part)))
		}
	case strings.HasSuffix(string(field.Name()), "_ms"):
		var ms uint32
		ms, problem = milliseconds(text)
		m.Set(field, protoreflect.ValueOfUint32(ms))
	case field.Kind() == protoreflect.MessageKind:
		t, err := parseLocal(text, zone)
		if err != nil {
			return "is not a date and time; write 2027-03-01T08:30"
		}
		m.Set(field, protoreflect.ValueOfMessage(timestamppb.New(t).ProtoReflect()))
	case field.Kind() == protoreflect.BytesKind:
		m.Set(field, protoreflect.ValueOfBytes([]byte(text)))
	case field.Kind() == protoreflect.StringKind:
		m.Set(field, protoreflect.ValueOfString(text))
	default:
		n, err := strconv.ParseInt(text, 10, 32)
		switch {
		case err != nil || n < 0 && field.Kind() == protoreflect.Uint32Kind:
			return "is not a whole number"
		case field.Kind() == protoreflect.Uint32Kind:
			m.Set(field, protoreflect.ValueOfUint32(uint32(n)))
		default:
			m.Set(field, protoreflect.ValueOfInt32(int32(n)))
		}
	}
	return problem
}

func labelsOf(text string) (labels map[string]string, problem string) {
	labels = make(map[string]string)
	for line := range strings.SplitSeq(text, "\n") {
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		if _, twice := labels[name]; !ok || twice {
			return nil, fmt.Sprintf("%.40q is not NAME=VALUE with a name of its own", line)
		}
		labels[name] = strings.TrimSpace(value)
	}
	return labels, ""
}
