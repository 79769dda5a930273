package cli

import (
	"encoding/json"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule/cronexpr"
)

// release is the version of this binary. Without a linked version it is the
// module's version in the build info.
func release(linked string) string {
	if linked != "" {
		return linked
	}
	if build, ok := debug.ReadBuildInfo(); ok && build.Main.Version != "" {
		return build.Main.Version
	}
	return "(unknown)"
}

func newVersionCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Version of this binary and of the time zone data in it",
		Example: "  carillon version -o json",
		Args:    command.ExactArgs(),
		RunE: func(*cobra.Command, []string) error {
			v := struct {
				Version  string `json:"version"`
				TZData   string `json:"tzdata"`
				Go       string `json:"go"`
				Platform string `json:"platform"`
			}{c.Version, cronexpr.TZDataVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH}
			if !o.Format.ForPeople() {
				text, err := json.Marshal(v)
				if err != nil {
					return err
				}
				return o.Document(text)
			}
			p := o.Page()
			p.Fields([2]string{"carillon", v.Version}, [2]string{"tzdata", v.TZData}, [2]string{"go", v.Go}, [2]string{"platform", v.Platform})
			return p.Print(c.Out)
		},
	}
	o.OutputFlag(cmd)
	return cmd
}
