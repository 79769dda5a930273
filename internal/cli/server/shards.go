package server

import (
	"context"
	"fmt"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/app"
	"github.com/carillon/carillon/internal/cli/client"
	"github.com/carillon/carillon/internal/cli/command"
	"github.com/carillon/carillon/internal/schedule"
)

func NewShardsCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("shards", "The number of shards, as stored in the database")
	cmd.AddCommand(newShardsGetCommand(client.New(c)), newShardsSetCommand())
	return cmd
}

func newShardsGetCommand(o *client.Client) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "get",
		Short:   "Show the stored number of shards",
		Example: "  DATABASE_URL=postgres://… carillon shards get",
		Args:    command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return onStore(cmd, func(ctx context.Context, s app.Store) error {
				n, err := s.Shards(ctx)
				if err != nil {
					return err
				}
				if !o.Format.ForPeople() {
					return o.Document(fmt.Appendf(nil, `{"shards":%d}`, n))
				}
				p := o.Page()
				if n == 0 {
					p.Line("SHARDS is not set yet: the first worker sets it")
				} else {
					p.Line("%d", n)
				}
				return p.Print(o.Out)
			})
		},
	}
	app.Flags(cmd.Flags(), nil)
	o.OutputFlag(cmd)
	return o.WithWatch(cmd)
}

func newShardsSetCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set N",
		Short: "Store another number of shards; every worker must be restarted with it",
		Long: "Stores the number of shards and ends every leadership term immediately. Nothing is planned or launched until\n" +
			"workers run with SHARDS=N: workers with another number refuse to lead. Restart all of them right after this\n" +
			"command. Runs that fall due in between start late; none is lost or doubled.",
		Example: "  DATABASE_URL=postgres://… carillon shards set 4",
		Args:    command.ExactArgs("N"),
		PreRunE: func(cmd *cobra.Command, args []string) error {
			if _, err := shardCount(args[0]); err != nil {
				return command.Usage(cmd, "%w", err)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := shardCount(args[0])
			if err != nil {
				return err
			}
			return onStore(cmd, func(ctx context.Context, s app.Store) error {
				before, err := s.Shards(ctx)
				if err != nil {
					return err
				}
				if before == n {
					_, err := fmt.Fprintf(cmd.OutOrStdout(), "SHARDS is already %d; nothing changed\n", n)
					return err
				}
				if err := s.SetShards(ctx, n, s.Now()); err != nil {
					return err
				}
				_, err = fmt.Fprintf(cmd.OutOrStdout(), "SHARDS is now %d (was %s). Every leadership term has ended.\n"+
					"Restart every worker with SHARDS=%d now: nothing runs until then.\n", n, orNone(before), n)
				return err
			})
		},
	}
	app.Flags(cmd.Flags(), nil)
	return cmd
}

func shardCount(argument string) (int, error) {
	n, err := strconv.Atoi(argument)
	if err != nil || n < 1 || n > schedule.MaxShards {
		return 0, fmt.Errorf("the number of shards %q is not a whole number from 1 to %d", argument, schedule.MaxShards)
	}
	return n, nil
}

func orNone(n int) string {
	if n == 0 {
		return "none"
	}
	return strconv.Itoa(n)
}

// onStore runs a function with the database of the settings open.
func onStore(cmd *cobra.Command, do func(ctx context.Context, s app.Store) error) error {
	// roles=registrar: other roles require settings that this command does not need.
	cfg, err := app.Load(cmd.Flags(), map[string]any{"roles": "registrar"})
	if err != nil {
		return err
	}
	store, err := app.OpenStore(cmd.Context(), cfg, app.NewLogger(cmd.ErrOrStderr(), cfg), app.OpenOptions{})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "database: %s\n", cfg.DatabaseName()); err != nil {
		return closeAfter(store, err)
	}
	if err = store.CheckSchema(cmd.Context()); err == nil {
		err = do(cmd.Context(), store)
	}
	return closeAfter(store, err)
}
