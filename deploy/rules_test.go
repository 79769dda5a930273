package deploy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	rulesFile    = "prometheus/rules.yml"
	runbooksFile = "../docs/runbooks.md"
	runbooksURL  = "https://github.com/carillon/carillon/blob/main/docs/runbooks.md#"
)

var rulesTestsFiles = []string{"prometheus/rules_test.yml", "prometheus/rules_hours_test.yml"}

// rule is one of Prometheus' rules.
type rule struct {
	Alert       string            `yaml:"alert"`
	Record      string            `yaml:"record"`
	Expr        string            `yaml:"expr"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

func rules(t *testing.T) []rule {
	t.Helper()
	var file struct {
		Groups []struct {
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	readYAML(t, rulesFile, &file)
	var all []rule
	for _, group := range file.Groups {
		all = append(all, group.Rules...)
	}
	return all
}

func alerts(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(rules(t), func(r rule) bool { return r.Alert == "" })
}

func TestPromtoolAcceptsTheRulesAndTheirTests(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"check", "rules", "--lint-fatal", rulesFile},
		slices.Concat([]string{"test", "rules"}, rulesTestsFiles),
	} {
		if out, err := promtool(t, args...).CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestEveryAlertIsTestedToFireAndToStaySilent looks at what the tests of the
// rules promise; that they pass, promtool says.
func TestEveryAlertIsTestedToFireAndToStaySilent(t *testing.T) {
	t.Parallel()
	type testsFile struct {
		Tests []struct {
			Name  string `yaml:"name"`
			Exprs []struct {
				Expr    string `yaml:"expr"`
				Samples []struct {
					Labels string `yaml:"labels"`
				} `yaml:"exp_samples"`
			} `yaml:"promql_expr_test"`
		} `yaml:"tests"`
	}
	var all testsFile
	for _, path := range rulesTestsFiles {
		var file testsFile
		readYAML(t, path, &file)
		all.Tests = append(all.Tests, file.Tests...)
	}
	fires, silent := make(map[string]bool), make(map[string]bool)
	for _, test := range all.Tests {
		for _, e := range test.Exprs {
			if !strings.Contains(e.Expr, `alertname="`+test.Name+`"`) {
				t.Errorf("the test of %s asks for another alert: %s", test.Name, e.Expr)
			}
			fires[test.Name] = fires[test.Name] || len(e.Samples) > 0
			silent[test.Name] = silent[test.Name] || len(e.Samples) == 0
		}
	}
	for _, alert := range alerts(t) {
		if !fires[alert.Alert] || !silent[alert.Alert] {
			t.Errorf("%s: tested to fire: %v, to stay silent: %v; both belong in one of %s", alert.Alert, fires[alert.Alert], silent[alert.Alert], rulesTestsFiles)
		}
	}
}

func TestEveryAlertHasItsRunbookAndEveryRunbookItsAlert(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(runbooksFile)
	if err != nil {
		t.Fatal(err)
	}
	sections := make(map[string]string)
	for section := range strings.SplitSeq(string(text), "\n## ") {
		name, body, _ := strings.Cut(section, "\n")
		sections[name] = strings.TrimSpace(body)
	}
	known := make(map[string]bool)
	for _, alert := range alerts(t) {
		known[alert.Alert] = true
		if want := runbooksURL + strings.ToLower(alert.Alert); alert.Annotations["runbook_url"] != want {
			t.Errorf("%s links to %q, want %q", alert.Alert, alert.Annotations["runbook_url"], want)
		}
		if body := sections[alert.Alert]; !strings.Contains(body, "1. ") {
			t.Errorf("%s says nothing of what to do about %s", filepath.Base(runbooksFile), alert.Alert)
		}
		if s := alert.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q", alert.Alert, s)
		}
		if alert.Annotations["summary"] == "" || alert.Annotations["description"] == "" {
			t.Errorf("%s needs a summary and a description", alert.Alert)
		}
	}
	for name := range sections {
		if strings.HasPrefix(name, "Carillon") && !known[name] {
			t.Errorf("%s has a section for %s, which is no alert", filepath.Base(runbooksFile), name)
		}
	}
}
