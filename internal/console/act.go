package console

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/carillon/carillon/internal/schedule/describe"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

// maxForm is the limit of a form in bytes: an input of 64 KiB, the limit of the API,
// in the form's encoding.
const maxForm = 256 << 10

// changed is the event after an action. Parts of a page that the action may have
// changed listen to it and are fetched again.
const changed = "carillon:changed"

// toast is the message about the result of an action.
type toast struct {
	Bad   bool
	Title string
	Lines []string
	Fails []violation
	Link  string // to the created resource
	Label string
	Back  string // for browsers without scripts
	Still bool   // nothing was changed
	code  int
}

func failedToast(err error) toast {
	f := failureOf(err)
	t := toast{Bad: true, Title: f.Title, Fails: f.Violations, code: f.code}
	if f.Message != "" {
		t.Lines = []string{f.Message}
	}
	return t
}

// act answers a form: in place for htmx, otherwise as a page.
func (c *Console) act(do func(*visit) (toast, error)) http.Handler {
	return c.visited(func(w http.ResponseWriter, v *visit) {
		v.Body = http.MaxBytesReader(w, v.Body, maxForm)
		said := toast{}
		err := v.ParseForm()
		if err != nil {
			err = status.Errorf(codes.InvalidArgument, "the form cannot be read, or has more than %d bytes", maxForm)
		} else {
			said, err = do(v)
			c.counts.forget()
		}
		if err != nil {
			said = failedToast(err)
		}
		c.answerToast(w, v, said)
	})
}

func (c *Console) answerToast(w http.ResponseWriter, v *visit, t toast) {
	if t.code == 0 {
		t.code = http.StatusOK
	}
	if !v.fragment() {
		t.Back = ownPath(strings.TrimSuffix(v.URL.Path, "/"+lastOf(v.URL.Path)))
		c.render(w, v, page{name: "done", title: t.Title, view: t, code: t.code})
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if !t.Bad && !t.Still {
		w.Header().Set("HX-Trigger", changed)
	}
	w.WriteHeader(t.code)
	_ = c.pages["done"].ExecuteTemplate(w, "toast", t) // the client is gone; nothing to do
}

func lastOf(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

func (v *visit) field(name string) string { return strings.TrimSpace(v.PostFormValue(name)) }

// requestID is the id of the form, so that sending a form twice acts once.
func (v *visit) requestID() string {
	if id := v.field("request_id"); id != "" {
		return id
	}
	return rand.Text()
}

// until is the end of a pause: a duration from now, or a date and time in the viewer's
// zone; nil: none.
func (v *visit) until() (*timestamppb.Timestamp, error) {
	if text := v.field("until_at"); text != "" {
		t, err := parseLocal(text, v.zone)
		if err != nil {
			return nil, status.Errorf(codes.InvalidArgument, "until: %.40q is not a date and time", text)
		}
		return timestamppb.New(t), nil
	}
	text := v.field("until")
	if text == "" {
		return nil, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return nil, status.Errorf(codes.InvalidArgument, "until: %.40q is not a duration such as 2h", text)
	}
	return timestamppb.New(v.now.Add(d).Truncate(time.Second)), nil
}

// parseLocal parses the value of a datetime-local field, or a time with an offset.
func parseLocal(text string, zone *time.Location) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02 15:04:05", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, text, zone); err == nil {
			return t, nil
		}
	}
	return time.Parse(time.RFC3339, text)
}

func (c *Console) pause(v *visit) (toast, error) {
	until, err := v.until()
	if err != nil {
		return toast{}, err
	}
	id := v.PathValue("id")
	if _, err := c.schedules.PauseSchedule(v.Context(), &carillonv1.PauseScheduleRequest{
		ScheduleId: id, Note: v.field("note"), Until: until, RequestId: v.requestID(),
	}); err != nil {
		return toast{}, err
	}
	t := toast{Title: "Paused " + id, Lines: []string{"No more scheduled runs are launched; runs in flight continue."}}
	if until != nil {
		t.Lines = append(t.Lines, "It resumes automatically "+v.at(until).Full()+".")
	}
	return t, nil
}

func (c *Console) resume(v *visit) (toast, error) {
	id := v.PathValue("id")
	resp, err := c.schedules.ResumeSchedule(v.Context(), &carillonv1.ResumeScheduleRequest{
		ScheduleId: id, Note: v.field("note"), RequestId: v.requestID(),
	})
	if err != nil {
		return toast{}, err
	}
	t := toast{Title: "Resumed " + id}
	if next := v.at(resp.GetSchedule().GetNextRunAt()); next.Is() {
		t.Lines = []string{"Next run " + next.Relative() + ", " + next.Full() + ". Slots that fell into the pause do not run."}
	}
	return t, nil
}

func (c *Console) trigger(v *visit) (toast, error) {
	req := &carillonv1.TriggerScheduleRequest{ScheduleId: v.PathValue("id"), RequestId: v.requestID()}
	if input := v.field("input"); input != "" {
		req.Input = []byte(input)
	}
	if policy := v.field("overlap_policy"); policy != "" {
		req.OverlapPolicy = &policy
	}
	resp, err := c.schedules.TriggerSchedule(v.Context(), req)
	if err != nil {
		return toast{}, err
	}
	return toast{
		Title: "Triggered " + req.GetScheduleId(), Lines: []string{"The run was created."},
		Link: runPath(resp.GetRun().GetIdempotencyKey()), Label: "Show run",
	}, nil
}

// maxMany bounds the schedules of one bulk action: each is a separate call with an entry in the
// audit trail.
const maxMany = 200

// actOnMany pauses or resumes all selected schedules, and lists the refused ones with the reason.
// One refusal does not stop the others.
func (c *Console) actOnMany(v *visit) (toast, error) {
	ids, verb := v.PostForm["id"], v.field("do")
	switch {
	case len(ids) == 0:
		return toast{}, status.Error(codes.InvalidArgument, "no schedule is selected")
	case len(ids) > maxMany:
		return toast{}, status.Errorf(codes.InvalidArgument, "%d schedules are selected, more than %d", len(ids), maxMany)
	case verb != "pause" && verb != "resume":
		return toast{}, status.Errorf(codes.InvalidArgument, "do: %.20q is neither pause nor resume", verb)
	}
	until, err := v.until()
	if err != nil {
		return toast{}, err
	}
	var t toast
	done := 0
	for _, id := range ids {
		if verb == "pause" {
			_, err = c.schedules.PauseSchedule(v.Context(), &carillonv1.PauseScheduleRequest{ScheduleId: id, Note: v.field("note"), Until: until})
		} else {
			_, err = c.schedules.ResumeSchedule(v.Context(), &carillonv1.ResumeScheduleRequest{ScheduleId: id, Note: v.field("note")})
		}
		if err != nil {
			t.Fails = append(t.Fails, violation{id, status.Convert(err).Message()})
			continue
		}
		done++
	}
	t.Title = fmt.Sprintf("%sd %s", map[string]string{"pause": "Pause", "resume": "Resume"}[verb], describe.Count(done, "schedule"))
	if t.Bad = len(t.Fails) > 0; t.Bad {
		t.Lines = []string{fmt.Sprintf("%d refused:", len(t.Fails))}
	}
	return t, nil
}

func (c *Console) cancel(v *visit) (toast, error) {
	key := v.PathValue("key")
	resp, err := c.runs.CancelRun(v.Context(), &carillonv1.CancelRunRequest{IdempotencyKey: key, Note: v.field("note"), RequestId: v.requestID()})
	if err != nil {
		return toast{}, err
	}
	if resp.GetRun().GetStatus() == "CANCELLED" {
		return toast{Title: "Cancelled", Lines: []string{resp.GetEffect()}}, nil
	}
	return toast{Title: "Cancel requested", Lines: []string{resp.GetEffect()}}, nil
}

func (c *Console) retry(v *visit) (toast, error) {
	req := &carillonv1.RetryRunRequest{IdempotencyKey: v.PathValue("key"), RequestId: v.requestID()}
	if policy := v.field("overlap_policy"); policy != "" {
		req.OverlapPolicy = &policy
	}
	resp, err := c.runs.RetryRun(v.Context(), req)
	if err != nil {
		return toast{}, err
	}
	return toast{
		Title: fmt.Sprintf("Attempt %d created", resp.GetRun().GetAttempt()),
		Link:  runPath(resp.GetRun().GetIdempotencyKey()), Label: "Show run",
	}, nil
}
