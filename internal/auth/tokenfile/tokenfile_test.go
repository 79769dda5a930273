package tokenfile_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon/carillon/internal/auth"
	"github.com/carillon/carillon/internal/auth/tokenfile"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func write(t *testing.T, path string, lines ...string) {
	t.Helper()
	// Mounted secrets change this way: a new file replaces the old one.
	fresh := path + ".new"
	if err := os.WriteFile(fresh, []byte("tokens:\n"+strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(fresh, path); err != nil {
		t.Fatal(err)
	}
}

func made(t *testing.T, subject, owner string, expires time.Time, roles ...auth.Role) (token, line string) {
	t.Helper()
	token, entry, err := tokenfile.New(tokenfile.Entry{Subject: subject, Owner: owner, Roles: roles, ExpiresAt: expires})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(entry.Line(), token) {
		t.Fatal("the line holds the token")
	}
	return token, entry.Line()
}

func TestTheFileHoldsOnlyTheHashOfAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	ada, adaLine := made(t, "ada", "", time.Time{}, auth.User)
	ci, ciLine := made(t, "ci", "", noon.Add(time.Hour), auth.Compiler, auth.Viewer)
	app, appLine := made(t, "ada-app", "ada", time.Time{}, auth.User)
	write(t, path, adaLine, ciLine, appLine)
	now := noon
	file, err := tokenfile.Open(path, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, token string
		at          time.Time
		want        auth.Identity
		refused     bool
	}{
		{name: "a user acts as its subject", token: ada, at: noon, want: auth.Identity{Subject: "ada", Owner: "ada"}},
		{name: "or as the owner that the line names", token: app, at: noon, want: auth.Identity{Subject: "ada-app", Owner: "ada"}},
		{name: "a compiler acts for every owner", token: ci, at: noon, want: auth.Identity{Subject: "ci"}},
		{name: "until it expires", token: ci, at: noon.Add(time.Hour), refused: true},
		{name: "one letter less", token: ada[:len(ada)-1], at: noon, refused: true},
		{name: "one letter more", token: ada + "A", at: noon, refused: true},
		{name: "another case", token: strings.ToLower(ada), at: noon, refused: true},
		{name: "the hash itself", token: adaLine[strings.Index(adaLine, "sha256: ")+8:][:64], at: noon, refused: true},
		{name: "nothing", at: noon, refused: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			now = c.at
			got, err := file.Identify(c.token)
			if (err != nil) != c.refused || got.Subject != c.want.Subject || got.Owner != c.want.Owner {
				t.Errorf("%+v, %v", got, err)
			}
			if err == nil && got.Via != auth.ViaToken {
				t.Errorf("via %q", got.Via)
			}
		})
	}
}

func TestATokenListsTheAccountsOfItsUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	token, entry, err := tokenfile.New(tokenfile.Entry{Subject: "ada", Roles: []auth.Role{auth.User}, Accounts: []string{"acme", "12:30"}})
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, entry.Line())
	file, err := tokenfile.Open(path, slog.New(slog.DiscardHandler), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := file.Identify(token); err != nil || !slices.Equal(got.Accounts, []string{"acme", "12:30"}) {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestAChangedFileIsLoadedWithinASecondAndABrokenOneIsIgnored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	first, firstLine := made(t, "first", "", time.Time{}, auth.Operator)
	second, secondLine := made(t, "second", "", time.Time{}, auth.Operator)
	write(t, path, firstLine)
	now := noon
	file, err := tokenfile.Open(path, slog.New(slog.DiscardHandler), func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	knows := func(token string) bool { _, err := file.Identify(token); return err == nil }
	if !knows(first) || knows(second) {
		t.Fatal("the first file is not in force")
	}
	write(t, path, secondLine)
	now = now.Add(time.Second)
	if knows(first) || !knows(second) {
		t.Error("the second file is not in force a second later")
	}
	write(t, path, "  - nonsense")
	now = now.Add(time.Second)
	if knows(first) || !knows(second) {
		t.Error("a broken file replaced the last valid one")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Second)
	if !knows(second) {
		t.Error("a deleted file refuses all callers")
	}
	write(t, path, firstLine)
	now = now.Add(time.Second)
	if !knows(first) || knows(second) {
		t.Error("the mended file is not in force")
	}
}

func TestAnInvalidLineIsReportedWithItsPosition(t *testing.T) {
	hash := strings.Repeat("a", 64)
	for _, c := range []struct{ name, line, want string }{
		{"no hash", `  - {subject: a, roles: [user]}`, "tokens[0].sha256"},
		{"a short hash", `  - {subject: a, roles: [user], sha256: abcd}`, "not 64 hex digits"},
		{"no role", `  - {subject: a, sha256: ` + hash + `}`, "roles: a has none"},
		{"an unknown role", `  - {subject: a, roles: [root], sha256: ` + hash + `}`, `"root" is not one of compiler`},
		{"no subject", `  - {roles: [user], sha256: ` + hash + `}`, "subject"},
		{"an owner that can own nothing", `  - {subject: "*", roles: [user], sha256: ` + hash + `}`, "is not a user_id"},
		{"an owner without the role", `  - {subject: a, owner: b, roles: [viewer], sha256: ` + hash + `}`, "is not allowed without the role user"},
		{"accounts without the role", `  - {subject: a, accounts: [acme], roles: [viewer], sha256: ` + hash + `}`, "accounts: \"acme\" is not allowed"},
		{"an account that is none", `  - {subject: a, accounts: ["a b"], roles: [user], sha256: ` + hash + `}`, "is not a billing account"},
		{"an unknown member", `  - {subject: a, roles: [user], token: x, sha256: ` + hash + `}`, "token"},
		{"the same twice", `  - {subject: a, roles: [user], sha256: ` + hash + "}\n" + `  - {subject: b, roles: [user], sha256: ` + hash + `}`, "there twice"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "tokens.yaml")
			write(t, path, c.line)
			if _, err := tokenfile.Open(path, slog.New(slog.DiscardHandler), nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v; want it to say %q", err, c.want)
			}
		})
	}
}
