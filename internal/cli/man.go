package cli

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"github.com/carillon/carillon/internal/cli/command"
)

func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIR",
		Short:   "Write a man page for each command",
		Long:    "Writes a man page (section 1) for each command into a folder, and creates the folder if needed.",
		Example: "  carillon man /usr/local/share/man/man1",
		Args:    command.ExactArgs("DIR"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return err
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true // the tag has the date: pages must not change every day
			epoch := time.Unix(0, 0).UTC()
			if err := doc.GenManTree(root, &doc.GenManHeader{Title: "CARILLON", Section: "1", Source: "Carillon", Manual: "Carillon", Date: &epoch}, args[0]); err != nil {
				return fmt.Errorf("write man pages: %w", err)
			}
			pages, err := os.ReadDir(args[0])
			if err != nil {
				return err
			}
			n := 0
			for _, page := range pages {
				if strings.HasPrefix(page.Name(), "carillon") && strings.HasSuffix(page.Name(), ".1") {
					n++
				}
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d man pages in %s\n", n, args[0])
			return err
		},
	}
}
