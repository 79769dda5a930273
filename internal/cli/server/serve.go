package server

import (
	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/command"
)

func NewServeCommand(c *command.CLI) *cobra.Command {
	var migrate, reflection bool
	cmd := &cobra.Command{
		Use:     "serve",
		Short:   "Run the roles of this process: registrar, worker, launcher",
		Long:    "Runs until it is stopped. Settings come from flags, the environment (TICK_MS for --tick-ms), a YAML file (--config) and defaults, in this order.",
		Example: "  DATABASE_URL=postgres://… carillon serve --executor http --executor-url http://127.0.0.1:7000/run/{workflow_id}",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := app.Load(cmd.Flags(), nil)
			if err != nil {
				return err
			}
			if err := cfg.CheckServe(); err != nil {
				return err
			}
			log := app.NewLogger(cmd.ErrOrStderr(), cfg)
			a, err := app.New(cmd.Context(), cfg, app.Options{Logger: log, Migrate: migrate, Reflection: reflection, Version: c.Version})
			if err != nil {
				return err
			}
			err = a.Run(cmd.Context())
			return closeAfter(a, err)
		},
	}
	app.Flags(cmd.Flags(), nil)
	cmd.Flags().BoolVar(&migrate, "migrate", false, "migrate the database to this binary's schema first")
	cmd.Flags().BoolVar(&reflection, "reflection", false, "enable gRPC reflection")
	return cmd
}
