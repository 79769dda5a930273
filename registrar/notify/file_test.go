package notify_test

import (
	"encoding/base64"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
	"github.com/carillon/carillon/registrar/notify"
)

func read(t *testing.T, text string) (*notify.Routes, error) {
	t.Helper()
	folder := t.TempDir()
	for name, content := range map[string]string{
		"notify.yaml": text, "slack": "https://hooks.slack.example/services/T0/B0/XYZ\n", "key": "R0UT1NGKEY", "empty": "\n",
		"whsec":   "whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("k", 32))),
		"private": "http://10.0.0.1/secret-path",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return notify.Read(filepath.Join(folder, "notify.yaml"), nil, safehttp.Policy{})
}

const everyKind = `
targets:
  - name: mail
    kind: email
    smtp: smtp.example.org:587
    username: carillon
    password: {file: key}
    from: Carillon <carillon@example.org>
    to: ops@example.org
  - {name: owners, kind: email, smtp: "relay.internal:25", tls: none, from: carillon@example.org, to_label: mailto, allow_domains: [example.org]}
  - {name: team, kind: slack, url: {file: slack}}
  - {name: pager, kind: pagerduty, routing_key: {file: key}}
  - {name: teams, kind: teams, url: {file: slack}}
  - {name: phone, kind: ntfy, url: "https://ntfy.example/our-alerts"}
  - {name: hook, kind: webhook, url: "https://example.org/hook", secret: {file: whsec}}
`

const someRoutes = `
routes:
  - match: {severity: critical}
    to: pager
    continue: true
  - match: {labels: {team: [data, ml], mailto: "*"}}
    to: [team, owners]
  - match: {owner: bob, kind: [start, finish]}
    to: []
default: [mail]
`

func TestAnAlertGoesWhereItsRouteLeads(t *testing.T) {
	t.Parallel()
	routes, err := read(t, everyKind+someRoutes)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		alert notify.Alert
		want  []string
	}{
		{name: "what no route matches goes to the default", alert: notify.Alert{Owner: "ada", Severity: "error"}, want: []string{"mail"}},
		{name: "a route that continues does not keep from the default only if another matches", alert: notify.Alert{Severity: "critical"}, want: []string{"pager"}},
		{name: "a route that continues and the next", alert: notify.Alert{Severity: "critical", Labels: map[string]string{"team": "ml", "mailto": "x"}}, want: []string{"pager", "team", "owners"}},
		{name: "all labels must match", alert: notify.Alert{Labels: map[string]string{"team": "ml"}}, want: []string{"mail"}},
		{name: "one of the values must match", alert: notify.Alert{Labels: map[string]string{"team": "ops", "mailto": "x"}}, want: []string{"mail"}},
		{name: "a route to nobody", alert: notify.Alert{Owner: "bob", Kind: schedule.ExpectFinish}},
		{name: "all conditions must match", alert: notify.Alert{Owner: "bob", Kind: schedule.ExpectSuccess}, want: []string{"mail"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := routes.For(tt.alert); !slices.Equal(got, tt.want) {
				t.Errorf("it goes to %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWithoutRoutesEveryTargetIsNotified(t *testing.T) {
	t.Parallel()
	routes, err := read(t, everyKind)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"mail", "owners", "team", "pager", "teams", "phone", "hook"}
	if got := routes.For(notify.Alert{}); !slices.Equal(got, want) {
		t.Errorf("it goes to %v, want %v", got, want)
	}
	hosts := map[string]string{"mail": "smtp.example.org:587", "team": "hooks.slack.example", "pager": "events.pagerduty.com", "phone": "ntfy.example"}
	for name, host := range hosts {
		if got := routes.Target(name).Host; got != host {
			t.Errorf("the host of %s is %s, want %s", name, got, host)
		}
	}
}

func TestAFileIsRefusedByLineAndFieldWithoutItsSecrets(t *testing.T) {
	t.Setenv("NOTIFY_TEST_UNSET", "")
	for _, tt := range []struct{ name, file, want string }{
		{"no YAML", "targets: [", "line 1: did not find expected node content"},
		{"an unknown field", "targets:\n  - {name: a, kind: slack, colour: x}", "line 2: colour: is not a field here"},
		{"no name", "targets:\n  - kind: slack", `line 2: targets[0].name: "" is not a name`},
		{"a name with a comma", "targets: [{name: 'a,b', kind: slack}]", `targets[0].name: "a,b" is not a name`},
		{"a kind that there is not", "targets:\n\n  - name: a\n    kind: sms", `line 4: targets[0].kind: "sms" is not one of webhook, email, slack, pagerduty, teams, ntfy`},
		{"a name twice", everyKind + "  - {name: mail, kind: ntfy, url: https://ntfy.example/t}", `targets[7].name: "mail" is there twice`},
		{"a field of another kind", "targets:\n  - {name: a, kind: slack, url: {file: slack},\n     token: {file: key}}", "line 3: targets[0].token: has no meaning for the kind slack; it has url"},
		{"a field that is missing", "targets: [{name: a, kind: pagerduty}]", "targets[0].routing_key: is missing for the kind pagerduty"},
		{"a secret in the file", "targets: [{name: a, kind: pagerduty, routing_key: hidden}]", "targets[0].routing_key: is a secret, and does not belong in this file: write {env: NAME} or {file: PATH}"},
		{"a hook in the file", "targets: [{name: a, kind: slack, url: 'https://example.org/hidden'}]", "targets[0].url: is a secret"},
		{"a secret that is not there", "targets: [{name: a, kind: slack, url: {file: none}}]", "none: no such file"},
		{"a secret that is empty", "targets: [{name: a, kind: slack, url: {file: empty}}]", "empty is empty"},
		{"a variable that is not set", "targets: [{name: a, kind: slack, url: {env: NOTIFY_TEST_UNSET}}]", "targets[0].url: the environment variable NOTIFY_TEST_UNSET is not set"},
		{"a reference that is none", "targets: [{name: a, kind: slack, url: {path: x}}]", "line 1: is neither a text nor {env: NAME} or {file: PATH}"},
		{"an address in the private network", "targets: [{name: a, kind: teams, url: {file: private}}]", `targets[0].url: (host "10.0.0.1") is refused`},
		{"a topic that is missing", "targets: [{name: a, kind: ntfy, url: 'https://ntfy.sh/'}]", "targets[0].url: is not the URL of a topic"},
		{"a signing secret that is none", "targets: [{name: a, kind: webhook, url: 'https://example.org', secret: {file: key}}]", "targets[0].secret: is not whsec_"},
		{"a server without a port", "targets: [{name: a, kind: email, smtp: localhost, from: a@b.c, to: a@b.c}]", `targets[0].smtp: "localhost" is not host:port`},
		{"a protection that there is not", "targets: [{name: a, kind: email, smtp: 'h:1', tls: maybe, from: a@b.c, to: a@b.c}]", `targets[0].tls: "maybe" is not one of starttls, implicit, none`},
		{"a password without protection", "targets: [{name: a, kind: email, smtp: 'h:1', tls: none, username: u, password: {file: key}, from: a@b.c, to: a@b.c}]", "targets[0].tls: none would send the password unprotected"},
		{"a name without a password", "targets: [{name: a, kind: email, smtp: 'h:1', username: u, from: a@b.c, to: a@b.c}]", "targets[0].password: username and password go together"},
		{"nobody to send to", "targets: [{name: a, kind: email, smtp: 'h:1', from: a@b.c}]", "targets[0].to: is missing"},
		{"no address", "targets: [{name: a, kind: email, smtp: 'h:1', from: a@b.c, to: root}]", `targets[0].to: "root" is not an address`},
		{"a label that may send anywhere", "targets: [{name: a, kind: email, smtp: 'h:1', from: a@b.c, to_label: mailto}]", "targets[0].allow_domains: to_label and allow_domains go together"},
		{"certificates that are none", "targets: [{name: a, kind: email, smtp: 'h:1', from: a@b.c, to: a@b.c, ca_file: key}]", "holds no certificate"},
		{"a route to nowhere", everyKind + "routes:\n  - to: [mail, nobody]\ndefault: []", `routes[0].to: no target has the name "nobody"`},
		{"a route without targets", everyKind + "routes:\n  - match: {owner: x}\ndefault: []", "routes[0].to: is missing"},
		{"a severity that there is not", everyKind + "routes:\n  - match: {severity: [critical, bad]}\n    to: mail\ndefault: []", `line 17: routes[0].match.severity: "bad" is not one of critical, error, warning, info`},
		{"a kind of alert that there is not", everyKind + "routes:\n  - match: {kind: end}\n    to: mail\ndefault: []", `routes[0].match.kind: "end" is not one of start, finish, success`},
		{"routes without a default", everyKind + "routes:\n  - to: mail", "default: is missing"},
		{"a default that there is not", everyKind + "default: nobody", `default: no target has the name "nobody"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := read(t, tt.file)
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "notify.yaml: line ") ||
				strings.Contains(err.Error(), "hidden") || strings.Contains(err.Error(), "R0UT1NGKEY") || strings.Contains(err.Error(), "secret-path") {
				t.Errorf("refused with %v, want %q, the line and no secret", err, tt.want)
			}
		})
	}
}
