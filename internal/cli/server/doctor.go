package server

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
)

// errUnhealthy is the result of doctor if a check fails.
var errUnhealthy = command.Shown("something is broken")

func NewDoctorCommand(c *command.CLI) *cobra.Command {
	o := client.New(c)
	var dev bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the installation: database, schema, clock, leader, lag, launcher, settings",
		Long: "Checks everything that `carillon serve` needs with the same settings, and prints for each check the result and,\n" +
			"if there is a problem, what to do. It changes nothing. The exit code is 1 if a check fails (fail); a warning\n" +
			"(warn) is not a failure.",
		Example: "  DATABASE_URL=postgres://… carillon doctor\n  carillon doctor --dev -o json",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			overrides := map[string]any(nil)
			if dev {
				overrides = devSettings
			}
			cfg, err := app.Load(cmd.Flags(), overrides)
			findings := app.Examine(cmd.Context(), cfg, err)
			if err := showFindings(o, findings); err != nil {
				return err
			}
			if !app.Healthy(findings) {
				return errUnhealthy
			}
			return nil
		},
	}
	app.Flags(cmd.Flags(), nil)
	cmd.Flags().BoolVar(&dev, "dev", false, "use the settings of `carillon dev`")
	o.OutputFlag(cmd)
	return o.WithWatch(cmd)
}

// showFindings prints a line per check, followed by what to do if there is a problem.
func showFindings(c *client.Client, findings []app.Finding) error {
	if c.Format.ForPeople() {
		p := c.Page()
		for _, f := range findings {
			writeFinding(p, f)
		}
		return p.Print(c.Out)
	}
	document, err := json.Marshal(struct {
		Healthy  bool          `json:"healthy"`
		Findings []app.Finding `json:"findings"`
	}{app.Healthy(findings), findings})
	if err != nil {
		return err
	}
	return c.Document(document)
}

// oneLine joins the lines of an error, each once: drivers repeat the error for every
// address of a name.
func oneLine(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}

func writeFinding(p *render.Page, f app.Finding) {
	health := fmt.Sprintf("%-4s", f.Health)
	if p.Color {
		health = map[app.Health]render.Color{app.HealthOK: render.Green, app.HealthWarn: render.Yellow, app.HealthFail: render.Red}[f.Health].Paint(health)
	}
	p.Raw(health + "  " + render.Legible(fmt.Sprintf("%-13s  %s", f.Check, oneLine(f.Says))) + "\n")
	if f.Do != "" {
		p.Line("      %-13s  → %s", "", f.Do)
	}
}
