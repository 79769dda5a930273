package schedule

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/fieldmaskpb"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/internal/rawjson"
	"github.com/carillon/carillon/internal/schedule"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
	"github.com/carillon/carillon/registrar/api/editable"
)

func newEditCommand(o *client.Client) *cobra.Command {
	return &cobra.Command{
		Use:   "edit ID",
		Short: "Edit a schedule in an editor",
		Long: "Opens the definition as YAML in $VISUAL or $EDITOR (default vi) and sends the fields that changed. If the\n" +
			"server refuses them, or somebody else changed the schedule meanwhile, the editor opens again with the reason.\n" +
			"An empty file, or one that is closed unchanged, changes nothing.",
		Example: "  carillon schedule edit nightly\n  EDITOR='code --wait' carillon schedule edit nightly",
		Args:    command.ExactArgs("ID"),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, args []string) error {
			e := &edit{Client: o, Link: l, id: args[0]}
			return e.run(ctx)
		}),
	}
}

// edit is one session with an editor. The editor opens until the server accepts the
// text or the user cancels.
type edit struct {
	*client.Client
	*client.Link
	id       string
	revision uint32
	base     *carillonv1.UpsertScheduleRequest // the stored definition
	text     []byte                            // what the editor opens, without the comment above
}

func (e *edit) run(ctx context.Context) error {
	if err := e.read(ctx); err != nil {
		return err
	}
	var err error
	if e.text, err = definitionYAML(e.base); err != nil {
		return err
	}
	for problem := error(nil); ; {
		text, err := e.open(ctx, problem)
		switch {
		case err != nil:
			return err
		case len(withoutComments(text)) == 0:
			return e.unchanged("edit cancelled")
		case bytes.Equal(withoutComments(text), withoutComments(e.text)) && problem != nil:
			return fmt.Errorf("edit cancelled, nothing was changed: %w", problem)
		}
		e.text = text
		if problem = e.send(ctx); problem == nil {
			return nil
		}
	}
}

func (e *edit) read(ctx context.Context) error {
	found, err := client.Call(ctx, e.Link, e.Link.Schedules().GetSchedule, &carillonv1.GetScheduleRequest{ScheduleId: e.id})
	if err != nil {
		return err
	}
	e.base, e.revision = editable.Definition(found.GetSchedule()), found.GetSchedule().GetRevision()
	return nil
}

// send sends the fields that differ from base. With an error the editor opens again.
func (e *edit) send(ctx context.Context) error {
	edited := &carillonv1.UpsertScheduleRequest{}
	text, err := render.JSONFromYAML(e.text)
	if err == nil {
		err = rawjson.Unmarshal(text, edited)
	}
	if err != nil {
		return err
	}
	paths := changedFields(e.base, edited)
	if len(paths) == 0 {
		return e.unchanged("unchanged")
	}
	stale := false
	patch := func(ctx context.Context, req *carillonv1.PatchScheduleRequest, options ...grpc.CallOption) (*carillonv1.PatchScheduleResponse, error) {
		resp, err := e.Link.Schedules().PatchSchedule(ctx, req, options...)
		stale = status.Code(err) == codes.Aborted
		return resp, err
	}
	resp, err := client.Call(ctx, e.Link, patch, &carillonv1.PatchScheduleRequest{
		ScheduleId: e.id, Schedule: edited, UpdateMask: &fieldmaskpb.FieldMask{Paths: paths}, Etag: fmt.Sprint(e.revision),
	})
	if stale {
		return e.rebase(ctx, edited, paths, err)
	}
	if err != nil {
		return err
	}
	return showPatched(e.Client, resp)
}

// rebase applies the edited fields to a newer revision.
func (e *edit) rebase(ctx context.Context, edited *carillonv1.UpsertScheduleRequest, paths []string, why error) error {
	if err := e.read(ctx); err != nil {
		return err
	}
	merged := mergeFields(e.base, edited, paths)
	text, err := definitionYAML(merged)
	if err != nil {
		return err
	}
	e.text = text
	return fmt.Errorf("%w\nBelow is the schedule as it is now with your changes of %s. Check it, add a comment or a blank line, and save", why, strings.Join(paths, ", "))
}

// open runs the editor on the text, below a comment with the problem.
func (e *edit) open(ctx context.Context, problem error) ([]byte, error) {
	dir, err := os.MkdirTemp("", "carillon-edit-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	name := filepath.Join(dir, "schedule.yaml")
	var text bytes.Buffer
	fmt.Fprintf(&text, "# Schedule %s, revision %d. Only the fields that you change are sent.\n# Save an empty file to cancel.\n", e.id, e.revision)
	if problem != nil {
		for line := range strings.SplitSeq(problem.Error(), "\n") {
			fmt.Fprintf(&text, "# ERROR: %s\n", line)
		}
	}
	text.Write(bytes.TrimLeft(withoutLeadingComments(e.text), "\n"))
	if err := os.WriteFile(name, text.Bytes(), 0o600); err != nil {
		return nil, err
	}
	editor := cmp.Or(e.Env("VISUAL"), e.Env("EDITOR"), "vi")
	run := exec.CommandContext(ctx, "sh", "-c", editor+` "$1"`, "sh", name)
	run.Stdin, run.Stdout, run.Stderr = e.In, e.Out, e.ErrOut
	if err := run.Run(); err != nil {
		return nil, fmt.Errorf("editor %q: %w; set EDITOR to another one", editor, err)
	}
	edited, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return edited, nil
}

func (e *edit) unchanged(what string) error {
	_, err := fmt.Fprintf(e.Out, "%s: %s\n", e.id, what)
	return err
}

// withoutLeadingComments removes the comment lines at the beginning.
func withoutLeadingComments(text []byte) []byte {
	for bytes.HasPrefix(text, []byte("#")) {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text
}

// withoutComments is for comparing two texts: a change of comments is no edit.
func withoutComments(text []byte) []byte { return bytes.TrimSpace(withoutLeadingComments(text)) }

// changedFields are the fields in which two definitions differ. The layout of JSON
// does not count.
func changedFields(a, b *carillonv1.UpsertScheduleRequest) (names []string) {
	left, right := a.ProtoReflect(), b.ProtoReflect()
	fields := left.Descriptor().Fields()
	for i := range fields.Len() {
		field := fields.Get(i)
		same := left.Has(field) == right.Has(field) && left.Get(field).Equal(right.Get(field))
		if field.Kind() == protoreflect.BytesKind {
			same = schedule.SameJSON(left.Get(field).Bytes(), right.Get(field).Bytes())
		}
		if !same {
			names = append(names, string(field.Name()))
		}
	}
	return names
}

// mergeFields copies base with the named fields from edited.
func mergeFields(base, edited *carillonv1.UpsertScheduleRequest, names []string) *carillonv1.UpsertScheduleRequest {
	to, from := base.ProtoReflect(), edited.ProtoReflect()
	merged := to.New()
	to.Range(func(field protoreflect.FieldDescriptor, value protoreflect.Value) bool {
		merged.Set(field, value)
		return true
	})
	for _, name := range names {
		field := to.Descriptor().Fields().ByName(protoreflect.Name(name))
		if merged.Clear(field); from.Has(field) {
			merged.Set(field, from.Get(field))
		}
	}
	return merged.Interface().(*carillonv1.UpsertScheduleRequest)
}

// definitionYAML is an upsert as YAML: the fields that are set, in the order of the
// API.
func definitionYAML(req *carillonv1.UpsertScheduleRequest) ([]byte, error) {
	all, err := rawjson.Marshal(req)
	if err != nil {
		return nil, err
	}
	members := make(map[string]json.RawMessage)
	if err := json.Unmarshal(all, &members); err != nil {
		return nil, err
	}
	var d render.Object
	fields := req.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if field := fields.Get(i); req.ProtoReflect().Has(field) {
			d.Raw(string(field.Name()), members[string(field.Name())])
		}
	}
	return d.YAML()
}
