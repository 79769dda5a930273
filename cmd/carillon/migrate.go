package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/app"
)

func newMigrateCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "migrate",
		Short:   "Bring the database to this binary's schema",
		Example: "  DATABASE_URL=postgres://… carillon migrate",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The roles need settings that a migration does not.
			cfg, err := app.Load(cmd.Flags(), map[string]any{"roles": "registrar"})
			if err != nil {
				return err
			}
			applied, err := app.Migrate(cmd.Context(), cfg, app.NewLogger(cmd.ErrOrStderr(), cfg))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d migrations applied; the schema is up to date\n", applied)
			return err
		},
	}
	app.Flags(cmd.Flags(), nil)
	return cmd
}

// closing closes what ran and keeps both errors.
func closing(c interface{ Close() error }, err error) error { return errors.Join(err, c.Close()) }
