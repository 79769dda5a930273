package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

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
			"each role of Carillon, with least privileges. Run that SQL after every migrate.\n\n" +
			"A database of version 27 or older is moved to new tables of runs. Stop every Carillon process first: migrate refuses\n" +
			"while it sees one. It can be interrupted, and goes on when it is run again.",
		Example: "  DATABASE_URL=postgres://… carillon migrate\n  carillon migrate --print-roles",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if roles {
				_, err := fmt.Fprint(cmd.OutOrStdout(), schema.PostgresRoles)
				return err
			}
			return migrate(c, cmd, "migrating the schema", func(ctx context.Context, cfg app.Config, log *slog.Logger, m *render.Progress) (string, error) {
				applied, err := app.Migrate(ctx, cfg, log, func(moved, total int) {
					m.Set(moved, total, "moving history, %d of %d runs", moved, total)
				})
				return fmt.Sprintf("%d migrations applied; the schema is up to date", applied), err
			})
		},
	}
	app.Flags(cmd.Flags(), nil)
	cmd.Flags().BoolVar(&roles, "print-roles", false, "only print the SQL of the Postgres roles")
	cmd.AddCommand(newMigrateDownCommand(c))
	return cmd
}

func newMigrateDownCommand(c *command.CLI) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Take the database back to schema version 27",
		Long: "Takes the database back to version 27 with all its runs, for the Carillon before this one. Stop every Carillon\n" +
			"process first. It is one transaction and needs disk space for a second copy of history.",
		Example: "  DATABASE_URL=postgres://… carillon migrate down",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return migrate(c, cmd, "taking the schema back", func(ctx context.Context, cfg app.Config, log *slog.Logger, _ *render.Progress) (string, error) {
				return "the schema is at version 27; use the carillon before this one", app.MigrateDown(ctx, cfg, log)
			})
		},
	}
	app.Flags(cmd.Flags(), nil)
	return cmd
}

// migrate calls do with the configuration and shows its progress and result.
func migrate(c *command.CLI, cmd *cobra.Command, title string, do func(context.Context, app.Config, *slog.Logger, *render.Progress) (string, error)) error {
	// roles=registrar: other roles require settings that a migration does not need.
	cfg, err := app.Load(cmd.Flags(), map[string]any{"roles": "registrar"})
	if err != nil {
		return err
	}
	m := render.NewProgress(c.Screen, "%s", title)
	defer m.End()
	result, err := do(cmd.Context(), cfg, app.NewLogger(m.EndBefore(cmd.ErrOrStderr()), cfg), m)
	m.End()
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: %s\n", cfg.DatabaseName(), result)
	return err
}

// closeAfter closes c and returns both errors.
func closeAfter(c interface{ Close() error }, err error) error { return errors.Join(err, c.Close()) }
