package server_test

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/cli/clitest"
	"github.com/carillon/carillon/internal/cli/command"
)

func TestTokenNewPrintsTheTokenOnceAndTheLineThatKnowsIt(t *testing.T) {
	got := clitest.Run(t, clitest.Env{}, "token", "new", "--subject", "ada", "--role", "user", "--expires", "24h")
	lines := strings.Split(got.Out, "\n")
	if got.Code != command.ExitOK || len(lines) < 6 {
		t.Fatalf("exit %d: %s%s", got.Code, got.Out, got.ErrOut)
	}
	token := strings.TrimSpace(lines[1])
	sum := sha256.Sum256([]byte(token))
	want := `  - {subject: "ada", roles: [user], sha256: ` + hex.EncodeToString(sum[:]) + `, expires_at: 2026-03-09T12:00:00Z}`
	if !strings.HasPrefix(token, "carillon_") || lines[5] != want || strings.Count(got.Out, token) != 1 {
		t.Errorf("got\n%s\nwant the line\n%s", got.Out, want)
	}
	for want, args := range map[string][]string{
		"--subject": {"--role", "user"}, "--role is required": {"--subject", "ada"}, `--role "root" is not one of`: {"--subject", "ada", "--role", "root"},
		"is not a user_id": {"--subject", "*", "--role", "user"}, "is not allowed without": {"--subject", "ci", "--role", "compiler", "--owner", "ada"},
	} {
		if got := clitest.Run(t, clitest.Env{}, append([]string{"token", "new"}, args...)...); got.Code != command.ExitUsage || !strings.Contains(got.ErrOut, want) {
			t.Errorf("%v: exit %d: %s; want %q", args, got.Code, got.ErrOut, want)
		}
	}
}
