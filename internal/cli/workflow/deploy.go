package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/rawjson"
	carillonv1 "github.com/carillon/carillon/proto/carillon/v1"
)

func newDeployCommand(o *client.Client) *cobra.Command {
	var files []string
	var user, request string
	var adopt bool
	cmd := &cobra.Command{
		Use:   "deploy -f FILE|DIR... --user USER",
		Short: "Store workflows and create schedules for their schedule_based triggers",
		Long: "Reads workflow_id and version from each DAG, stores it and creates schedules for its schedule_based triggers,\n" +
			"all or nothing for each workflow. In a folder, every *.json is read. A workflow that fails does not stop the\n" +
			"others. Deploying the same again changes nothing. Schedules that a file set or another deployment\n" +
			"manages are refused without --adopt.",
		Example: "  carillon workflow deploy -f report.json --user ada\n  carillon workflow deploy -f workflows/ --user ada",
		Args:    cobra.ArbitraryArgs, // a shell expands -f *.json to one flag and arguments
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if files = append(files, args...); len(files) == 0 {
				return command.Usage(cmd, "-f is required: a file or folder to deploy")
			}
			if len(files) > 1 && request != "" {
				return command.Usage(cmd, "--request-id is for one deploy; give one file with it")
			}
			if user == "" {
				return command.Usage(cmd, "--user is required: the owner of the schedules")
			}
			return nil
		},
		RunE: o.Ask(func(ctx context.Context, l *client.Link, _ []string) error {
			names, err := dagFiles(files)
			if err != nil {
				return err
			}
			var done []deployment
			var failed []error
			for i, name := range names {
				l.Progress.Set(i, len(names), "%d of %d workflows, %d refused", i, len(names), len(failed))
				d, err := deployFile(ctx, o, l, name, &carillonv1.DeployWorkflowRequest{UserId: user, Adopt: adopt, RequestId: request})
				if err != nil {
					failed = append(failed, fmt.Errorf("%s: %w", name, err))
					if len(names) == 1 || client.Unanswered(err) || ctx.Err() != nil {
						break
					}
					continue
				}
				done = append(done, d)
			}
			if len(done) > 0 || len(failed) == 0 {
				failed = append(failed, showDeployments(o, done))
			}
			return reportAllButLast(o.CLI, failed)
		}),
	}
	f := cmd.Flags()
	f.StringArrayVarP(&files, "file", "f", nil, "`FILE` with the DAG as JSON, or a folder of them; may be repeated; - is standard input")
	f.StringVar(&user, "user", "", "`ID` of the owner of the schedules")
	f.BoolVar(&adopt, "adopt", false, "take over schedules that a file set or another deployment manages")
	f.StringVar(&request, "request-id", "", "`ID` that makes a repeat safe even after another deploy")
	return cmd
}

// reportAllButLast prints all errors except the last one, which it returns.
func reportAllButLast(c *command.CLI, errs []error) error {
	var last error
	for _, err := range errs {
		if err == nil {
			continue
		}
		if last != nil {
			c.Report(nil, last)
		}
		last = err
	}
	return last
}

// dagFiles replaces folders with their files.
func dagFiles(names []string) ([]string, error) {
	var out []string
	for _, name := range names {
		if stat, err := os.Stat(name); name == "-" || err != nil || !stat.IsDir() {
			out = append(out, name) // reading reports a missing file
			continue
		}
		inside, err := os.ReadDir(name) // sorted by name
		if err != nil {
			return nil, err
		}
		before := len(out)
		for _, entry := range inside {
			if !entry.IsDir() && filepath.Ext(entry.Name()) == ".json" {
				out = append(out, filepath.Join(name, entry.Name()))
			}
		}
		if len(out) == before {
			return nil, fmt.Errorf("no *.json in the folder %s", name)
		}
	}
	return out, nil
}

// deployment is the result of deploying one DAG.
type deployment struct {
	workflow string
	version  int32
	answer   *carillonv1.DeployWorkflowResponse
}

func deployFile(ctx context.Context, c *client.Client, l *client.Link, name string, req *carillonv1.DeployWorkflowRequest) (deployment, error) {
	dag, err := c.ReadFile(name)
	if err != nil {
		return deployment{}, err
	}
	var named struct {
		WorkflowID *string `json:"workflow_id"`
		Version    *int32  `json:"version"`
	}
	if err := json.Unmarshal(dag, &named); err != nil {
		return deployment{}, fmt.Errorf("not a JSON object with workflow_id (text) and version (number): %w", err)
	}
	if named.WorkflowID == nil || named.Version == nil {
		return deployment{}, errors.New("the DAG does not name its workflow_id and version")
	}
	d := deployment{workflow: *named.WorkflowID, version: *named.Version}
	req.WorkflowId, req.Version, req.Dag = d.workflow, d.version, dag
	d.answer, err = client.Call(ctx, l, l.Workflows().DeployWorkflow, req)
	return d, err
}

// showDeployments prints the results, for programs as one document.
func showDeployments(c *client.Client, done []deployment) error {
	if !c.Format.ForPeople() {
		var text bytes.Buffer
		text.WriteString(`{"deployments":[`)
		for i, d := range done {
			answer, err := rawjson.Marshal(d.answer)
			if err != nil {
				return err
			}
			if i > 0 {
				text.WriteByte(',')
			}
			// The members of the answer follow workflow_id and version.
			fmt.Fprintf(&text, `{"workflow_id":%q,"version":%d,%s`, d.workflow, d.version, answer[1:])
		}
		text.WriteString(`]}`)
		return c.Document(text.Bytes())
	}
	p := c.Page()
	var rows [][]string
	for _, d := range done {
		name := fmt.Sprintf("%s@%d", d.workflow, d.version)
		if len(d.answer.GetSchedules()) == 0 {
			rows = append(rows, []string{name, "(no schedule)", "", ""})
		}
		for _, s := range d.answer.GetSchedules() {
			rows = append(rows, []string{name, s.GetScheduleId(), effect(s), p.When(s.GetNextRunAt())})
		}
	}
	p.Table([]string{"workflow", "schedule", "effect", "next run"}, rows)
	return p.Print(c.Out)
}

func effect(s *carillonv1.DeployedSchedule) string {
	switch {
	case s.GetCreated():
		return "created"
	case s.GetChanged():
		return "changed"
	}
	return "unchanged"
}
