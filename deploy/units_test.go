package deploy_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// unit is a systemd unit as "section/key" to values in their order.
type unit map[string][]string

func readUnit(t *testing.T, name string) unit {
	t.Helper()
	u, section := make(unit), ""
	for _, line := range lines(t, filepath.Join("systemd", name)) {
		if strings.HasPrefix(line, "[") {
			section = strings.Trim(line, "[]")
		} else if key, value, ok := strings.Cut(line, "="); ok && !strings.HasPrefix(line, "#") {
			u[section+"/"+key] = append(u[section+"/"+key], value)
		}
	}
	return u
}

func (u unit) has(key, word string) bool {
	return slices.ContainsFunc(u[key], func(value string) bool { return slices.Contains(strings.Fields(value), word) })
}

// By default systemd gives a unit up after five failures in ten seconds, and a
// failed unit fails all units that require it.
func TestTheUnitsSurviveASlowDatabaseAtBoot(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"carillon.service", "carillon-migrate.service"} {
		t.Run(name, func(t *testing.T) {
			u := readUnit(t, name)
			if !u.has("Unit/StartLimitIntervalSec", "0") {
				t.Errorf("StartLimitIntervalSec is %v: systemd gives the unit up after five failures", u["Unit/StartLimitIntervalSec"])
			}
			if !u.has("Service/Restart", "on-failure") || len(u["Service/RestartSec"]) != 1 {
				t.Errorf("Restart is %v after %v: a database that is away for longer than DATABASE_WAIT_MS ends the unit", u["Service/Restart"], u["Service/RestartSec"])
			}
			// Type=exec has started once the binary runs; oneshot has no limit unless one is set.
			if limit := u["Service/TimeoutStartSec"]; limit != nil {
				t.Errorf("TimeoutStartSec is %v: it ends a process that waits for the database", limit)
			}
		})
	}
	u := readUnit(t, "carillon.service")
	for _, key := range []string{"Unit/Requires", "Unit/Requisite", "Unit/BindsTo"} {
		if u.has(key, "carillon-migrate.service") {
			t.Errorf("%s: one failed migration leaves carillon.service down until an operator starts it", key)
		}
	}
	if !u.has("Unit/Wants", "carillon-migrate.service") || !u.has("Unit/After", "carillon-migrate.service") {
		t.Error("carillon-migrate.service does not run before carillon.service")
	}
}

// A dynamic user has another number in each unit, unless both name it. systemd
// gives the state folder to the unit that started last.
func TestTheUnitsShareTheUserOfTheirStateFolder(t *testing.T) {
	t.Parallel()
	serve, migrate := readUnit(t, "carillon.service"), readUnit(t, "carillon-migrate.service")
	for _, key := range []string{"Service/User", "Service/StateDirectory", "Service/DynamicUser"} {
		if !slices.Equal(serve[key], migrate[key]) || len(serve[key]) != 1 {
			t.Errorf("%s: %v and %v", key, serve[key], migrate[key])
		}
	}
}

// The dynamic user may not read /etc/carillon: what it reads is a credential.
func TestEveryFileThatTheUnitsNameIsACredential(t *testing.T) {
	t.Parallel()
	for name, parts := range map[string][]string{
		"carillon.service":         {"carillon.service", "tokens.conf"},
		"carillon-migrate.service": {"carillon-migrate.service"},
	} {
		t.Run(name, func(t *testing.T) {
			loaded := make(map[string]bool)
			var settings []string
			for _, part := range parts {
				u := readUnit(t, part)
				for _, credential := range u["Service/LoadCredential"] {
					id, path, _ := strings.Cut(credential, ":")
					loaded["%d/"+id] = strings.HasPrefix(path, "/etc/carillon/")
				}
				settings = append(settings, u["Service/Environment"]...)
			}
			for _, line := range lines(t, "systemd/carillon.env") {
				settings = append(settings, strings.TrimPrefix(line, "#"))
			}
			for _, setting := range settings {
				if key, path, _ := strings.Cut(setting, "="); strings.HasSuffix(key, "_FILE") && !strings.Contains(key, " ") && !loaded[path] {
					t.Errorf("%s: %s is no credential of the unit, and its user may not read it", key, path)
				}
			}
			if name == "carillon.service" && !slices.Contains(settings, "AUTH_TOKENS_FILE=%d/tokens.yaml") {
				t.Error("no file shows how the unit reads AUTH_TOKENS_FILE")
			}
		})
	}
}

// systemd kills a process that takes longer to end.
func TestTheUnitLetsOpenCallsOfTheExecutorEnd(t *testing.T) {
	t.Parallel()
	assertGrace(t, "systemd carillon.service", strings.Join(readUnit(t, "carillon.service")["Service/TimeoutStopSec"], " ")+"s")
}
