package server

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/cli/render"
	"github.com/carillon/carillon/schema"
)

func NewMigrateCommand(c *command.CLI) *cobra.Command {
	var roles bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Migrate the database to this binary's schema",
		Long: "Applies the migrations that the database does not have yet. --print-roles prints SQL instead: one Postgres role for\n" +
			"each role of Carillon, with least privileges. Run that SQL after every migrate.",
		Example: "  DATABASE_URL=postgres://… carillon migrate\n  carillon migrate --print-roles",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if roles {
				_, err := fmt.Fprint(cmd.OutOrStdout(), schema.PostgresRoles)
				return err
			}
			// roles=registrar: other roles require settings that a migration does not need.
			cfg, err := app.Load(cmd.Flags(), map[string]any{"roles": "registrar"})
			if err != nil {
				return err
			}
			m := render.NewProgress(c.Screen, "migrating the schema")
			defer m.End()
			applied, err := app.Migrate(cmd.Context(), cfg, app.NewLogger(m.EndBefore(cmd.ErrOrStderr()), cfg))
			m.End()
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %d migrations applied; the schema is up to date\n", cfg.DatabaseName(), applied)
			return err
		},
	}
	app.Flags(cmd.Flags(), nil)
	cmd.Flags().BoolVar(&roles, "print-roles", false, "only print the SQL of the Postgres roles")
	return cmd
}

// closeAfter closes c and returns both errors.
func closeAfter(c interface{ Close() error }, err error) error { return errors.Join(err, c.Close()) }
