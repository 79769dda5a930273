package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
	"github.com/carillon/carillon/internal/cli/command"
)

func NewTokenCommand(c *command.CLI) *cobra.Command {
	cmd := command.Group("token", "Create static tokens for AUTH_TOKENS_FILE")
	cmd.AddCommand(newTokenNewCommand(c))
	return cmd
}

func newTokenNewCommand(c *command.CLI) *cobra.Command {
	var (
		entry   tokenfile.Entry
		roles   []string
		expires time.Duration
	)
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Create a token and its line for AUTH_TOKENS_FILE",
		Long: "Creates a token and prints it once, with the line to add below \"tokens:\" in AUTH_TOKENS_FILE. The line holds\n" +
			"only the token's hash; the token itself is not stored. A running server loads a changed file within a second.",
		Example: "  carillon token new --subject ci --role compiler\n" +
			"  carillon token new --subject ada --role user --expires 2160h\n" +
			"  carillon token new --subject ada-notebook --role user --owner ada --account acme",
		Args: command.ExactArgs(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			entry.Roles = make([]auth.Role, len(roles))
			for i, role := range roles {
				if entry.Roles[i] = auth.Role(role); !slices.Contains(auth.Roles, entry.Roles[i]) {
					return command.Usage(cmd, "--role %q is not one of %s", role, strings.Join(roleNames(), ", "))
				}
			}
			if len(roles) == 0 {
				return command.Usage(cmd, "--role is required; give at least one of %s", strings.Join(roleNames(), ", "))
			}
			if expires < 0 {
				return command.Usage(cmd, "--expires %s is in the past", expires)
			}
			if expires > 0 {
				entry.ExpiresAt = c.Now().Add(expires).Truncate(time.Second)
			}
			token, made, err := tokenfile.New(entry)
			if err != nil {
				return command.Usage(cmd, "--%w", err)
			}
			_, err = fmt.Fprintf(c.Out, "token, shown this once:\n  %s\n\nin AUTH_TOKENS_FILE:\ntokens:\n%s\n", token, made.Line())
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&entry.Subject, "subject", "", "`NAME` that logs, events and the audit trail show")
	f.StringSliceVar(&roles, "role", nil, "`ROLE` of the caller; may be repeated: "+strings.Join(roleNames(), ", "))
	f.StringVar(&entry.Owner, "owner", "", "role user or publisher: `USER_ID` that it acts as (default the subject)")
	f.StringSliceVar(&entry.Accounts, "account", nil, "role user: billing account `ID` that it may create grants on, in addition to its own user_id; may be repeated")
	f.DurationVar(&expires, "expires", 0, "`DURATION` after which it expires (default: never)")
	command.CompleteValues(cmd, "role", auth.Roles)
	return cmd
}

func roleNames() []string {
	out := make([]string, len(auth.Roles))
	for i, role := range auth.Roles {
		out[i] = string(role)
	}
	return out
}
