package server

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/carillon/carillon/docs/examples"
	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/command"
)

// devSettings run everything on one machine.
var devSettings = map[string]any{
	"executor":             "local",
	"allow_local_executor": "true",
	"log_format":           "text",
	// No loss of safety: workflows can run commands on this machine anyway.
	"allow_egress": "loopback,private",
}

func NewDevCommand(c *command.CLI) *cobra.Command {
	var withExamples bool
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process: SQLite, all roles, workflows run on this machine",
		Long: "Starts all roles with SQLite in DATA_DIR and the local executor, and deploys the example workflows.\n" +
			"REST and gRPC listen on loopback without authentication. Ctrl-C stops it. Data is in DATA_DIR (./.carillon).",
		Example: "  carillon dev\n  carillon run list",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags(), devSettings)
			if err != nil {
				return err
			}
			if err := cfg.CheckDev(); err != nil {
				return err
			}
			log := app.NewLogger(cmd.ErrOrStderr(), cfg)
			a, err := app.New(cmd.Context(), cfg, app.Options{Logger: log, Dev: true, Migrate: true, Reflection: true, Version: c.Version})
			if err != nil {
				return err
			}
			if withExamples && cfg.RequireGrant && !cmd.Flags().Changed("examples") {
				withExamples = false
				log.Warn("the examples are not deployed: REQUIRE_GRANT is set, and they have no execution grant")
			}
			g, ctx := errgroup.WithContext(cmd.Context())
			g.Go(func() error { return a.Run(ctx) })
			if withExamples {
				g.Go(func() error { return deployExamples(ctx, a, cmd.OutOrStdout()) })
			}
			return closeAfter(a, g.Wait())
		},
	}
	app.Flags(cmd.Flags(), devSettings)
	cmd.Flags().BoolVar(&withExamples, "examples", true, "deploy the example workflows")
	return cmd
}

// deployExamples deploys the workflows of docs/examples as user dev. A repeated deploy
// changes nothing.
func deployExamples(ctx context.Context, a *app.App, out io.Writer) error {
	deployed, err := examples.Deploy(ctx, a.Conn(), "dev")
	if err != nil {
		return fmt.Errorf("deploy the examples: %w", err)
	}
	_, err = fmt.Fprintf(out, banner, a.HTTPAddr(), a.GRPCAddr(), deployed, os.Args[0])
	return err
}

const banner = `
Carillon is up.
  console  http://%[1]s/
  REST     http://%[1]s/v1/schedules
  metrics  http://%[1]s/metrics
  gRPC     %[2]s

%[3]d example schedules are deployed and run within a minute. In another terminal:
  %[4]s schedule list
  %[4]s run list
  %[4]s run watch

`
