package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func NewExportCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	filter := &carillonv1.ListSchedulesRequest{}
	var set, folder string
	cmd := &cobra.Command{
		Use:   "export [--set NAME] [-o DIR]",
		Short: "Write schedules as the files that apply reads",
		Long: "Writes each schedule as a YAML document to standard output, or with -o to one file per schedule in a folder\n" +
			"that is new or empty. Applying an exported set to the same set changes nothing. Every policy is written out,\n" +
			"so that it does not depend on the defaults of another server. Pauses, history and DAGs are not exported.",
		Example: "  carillon export --set billing -o schedules/\n  carillon export --user ada > ada.yaml\n  carillon export --label team=billing",
		Args:    command.ExactArgs(),
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			if set != "" {
				filter.ManagedBy = "set:" + set
			}
			read := 0
			found, _, err := client.Pages(0, func(size uint32, token string) ([]*carillonv1.Schedule, string, error) {
				filter.PageSize, filter.PageToken = size, token
				resp, err := client.Call(ctx, l, l.Schedules().ListSchedules, filter)
				read += len(resp.GetSchedules())
				l.Progress.Describe("%d schedules read", read)
				return resp.GetSchedules(), resp.GetNextPageToken(), err
			})
			if err != nil {
				return err
			}
			if len(found) == 0 && folder == "" {
				_, err = fmt.Fprintln(o.ErrOut, "nothing written: no schedule matches the filters")
				return err
			}
			if folder == "" {
				return exportStream(o, found)
			}
			return exportFolder(o, found, folder)
		}),
	}
	o.ServerFlags(cmd)
	f := cmd.Flags()
	f.StringVarP(&folder, "out", "o", "", "`DIR` for one file per schedule; it must be new or empty")
	f.StringVar(&set, "set", "", "only schedules of this set")
	f.StringVar(&filter.UserId, "user", "", "only of this owner `ID`")
	f.StringVar(&filter.WorkflowId, "workflow", "", "only of this workflow `ID`")
	f.StringVar(&filter.Label, "label", "", "only with this label: `NAME=VALUE`, or NAME for any value")
	return o.CompleteFlags(cmd)
}

// exportStream writes all schedules as documents of one stream.
func exportStream(c *client.Client, found []*carillonv1.Schedule) error {
	var out bytes.Buffer
	for i, s := range found {
		text, err := exportedYAML(s)
		if err != nil {
			return fmt.Errorf("export %s: %w", s.GetScheduleId(), err)
		}
		if i > 0 {
			out.WriteString("---\n")
		}
		out.Write(text)
	}
	_, err := c.Out.Write(out.Bytes())
	return err
}

// exportFolder writes one file per schedule. The folder must be empty: an older file
// in it would be applied together with the new ones.
func exportFolder(c *client.Client, found []*carillonv1.Schedule, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	there, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	if len(there) > 0 {
		return fmt.Errorf("the folder %s is not empty; name a new one", folder)
	}
	taken := make(map[string]bool)
	for _, s := range found {
		text, err := exportedYAML(s)
		if err != nil {
			return fmt.Errorf("export %s: %w", s.GetScheduleId(), err)
		}
		if err := writeNew(filepath.Join(folder, fileName(s.GetScheduleId(), taken)), text); err != nil {
			return err
		}
	}
	p := c.Page()
	p.Line("%d schedules written to %s", len(found), folder)
	return p.Print(c.Out)
}

func writeNew(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

// fileName is the file name of an id: without a colon, which some systems forbid, not
// hidden, and unique also on systems that ignore case.
func fileName(id string, taken map[string]bool) string {
	base := strings.ReplaceAll(id, ":", "_")
	if strings.HasPrefix(base, ".") {
		base = "_" + base[1:]
	}
	name := base
	for n := 2; taken[strings.ToLower(name)]; n++ {
		name = fmt.Sprintf("%s-%d", base, n)
	}
	taken[strings.ToLower(name)] = true
	return name + ".yaml"
}
