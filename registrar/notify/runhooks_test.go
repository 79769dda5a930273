package notify_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/registrar/notify"
)

func readHooks(t *testing.T, text string) (*notify.RunHooks, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"targets.yaml": text, "whsec": "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))), "short": "whsec_c2hvcnQ=",
		"address": "https://example.org/from-a-file\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return notify.ReadRunHooks(filepath.Join(folder, "targets.yaml"), safehttp.Policy{})
}

func TestTargetsOfRunsHaveOwnersAndRetries(t *testing.T) {
	t.Parallel()
	hooks, err := readHooks(t, `
targets:
  - {name: all, url: "https://example.org/hook", secret_file: whsec}
  - {name: some, url: {file: address}, secret_file: whsec, owners: [ada, bob], retries: 0}
`)
	if err != nil {
		t.Fatal(err)
	}
	all, some := hooks.Named("all"), hooks.Named("some")
	if all == nil || some == nil || hooks.Named("none") != nil || len(hooks.All()) != 2 {
		t.Fatalf("the targets are %+v", hooks.All())
	}
	if all.Retries != 3 || !all.Allows("anyone") || all.ID != "webhook:all" || all.Host != "example.org" {
		t.Errorf("the first one is %+v", all)
	}
	if some.Retries != 0 || some.Allows("eve") || !some.Allows("bob") || !slices.Equal(some.Owners, []string{"ada", "bob"}) {
		t.Errorf("the second one is %+v", some)
	}
	empty, err := notify.ReadRunHooks("", safehttp.Policy{})
	if err != nil || len(empty.All()) != 0 {
		t.Errorf("without a file there are %+v (%v)", empty, err)
	}
}

func TestAFileOfTargetsOfRunsIsRefusedByLineAndField(t *testing.T) {
	t.Parallel()
	const rest = `url: "https://example.org/hook", secret_file: whsec`
	for _, tt := range []struct{ name, file, want string }{
		{"no YAML", "targets: [", "did not find expected node content"},
		{"an unknown field", "targets:\n  - {name: a, kind: webhook, " + rest + "}", "line 2: kind: is not a field here"},
		{"no name", "targets:\n  - {" + rest + "}", `line 2: targets[0].name: "" is not a name`},
		{"a name in capitals", "targets: [{name: A, " + rest + "}]", `targets[0].name: "A" is not a name`},
		{"a name twice", "targets:\n  - {name: a, " + rest + "}\n  - {name: a, " + rest + "}", `line 3: targets[1].name: "a" is there twice`},
		{"no URL", "targets: [{name: a, secret_file: whsec}]", "targets[0].url: is missing"},
		{"an address in the private network", "targets: [{name: a, url: 'https://10.0.0.1/x', secret_file: whsec}]", `targets[0].url: (host "10.0.0.1") is refused`},
		{"no secret", "targets: [{name: a, url: 'https://example.org'}]", "targets[0].secret_file: is missing"},
		{"a secret that is not there", "targets: [{name: a, url: 'https://example.org', secret_file: none}]", "none: no such file"},
		{"a secret that is too short", "targets: [{name: a, url: 'https://example.org', secret_file: short}]", "targets[0].secret_file: is not whsec_"},
		{"too many retries", "targets: [{name: a, retries: 21, " + rest + "}]", "targets[0].retries: 21 is not within 0 to 20"},
		{"fewer than none", "targets: [{name: a, retries: -1, " + rest + "}]", "targets[0].retries: -1 is not within 0 to 20"},
		{"owners that are none", "targets: [{name: a, owners: [], " + rest + "}]", "targets[0].owners: is empty"},
		{"an owner that is none", "targets: [{name: a, owners: ['a b '], " + rest + "}]", `targets[0].owners: "a b " is not a user_id`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := readHooks(t, tt.file)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "targets.yaml: line ") || strings.Contains(err.Error(), "c2hvcnQ") {
				t.Errorf("refused with %v, want %q, the line and no secret", err, tt.want)
			}
		})
	}
}
