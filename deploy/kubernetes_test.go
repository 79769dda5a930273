package deploy_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func kustomization(t *testing.T) object {
	t.Helper()
	return byKind(t, "Kustomization")[""]
}

// settings are those of a generated ConfigMap.
func (o object) settings(t *testing.T, name string) map[string]string {
	t.Helper()
	for _, g := range o.ConfigMapGenerator {
		if g.Name == name {
			var all []string
			for _, file := range g.Envs {
				all = append(all, lines(t, filepath.Join("kubernetes", file))...)
			}
			return assignments(slices.DeleteFunc(all, func(line string) bool { return strings.HasPrefix(line, "#") }))
		}
	}
	t.Fatalf("kustomization.yaml generates no ConfigMap %s: a change of settings would not replace the pods", name)
	return nil
}

// mounted is the file of a generated Secret that a container finds at a path.
func (o object) mounted(t *testing.T, p pod, c container, at string) string {
	t.Helper()
	for _, m := range c.VolumeMounts {
		if m.MountPath != path.Dir(at) || !m.ReadOnly {
			continue
		}
		for _, v := range p.Volumes {
			for _, g := range o.SecretGenerator {
				if file := "secrets/" + path.Base(at); v.Name == m.Name && v.Secret.SecretName == g.Name && slices.Contains(g.Files, file) {
					return filepath.Join("kubernetes", file)
				}
			}
		}
	}
	t.Errorf("container %s has no %s: no generated Secret with that file is mounted there", c.Name, at)
	return ""
}

// docs/operations.md recommends two or three processes with all roles on Postgres.
func TestPodsHaveAllRolesAndAStandby(t *testing.T) {
	t.Parallel()
	deployments := byKind(t, "Deployment")
	if got := slices.Sorted(maps.Keys(deployments)); !slices.Equal(got, []string{"carillon"}) {
		t.Fatalf("the Deployments are %v", got)
	}
	e, d := podEnvironments(t)["carillon"], deployments["carillon"]
	if !slices.Equal(e.args, []string{"serve"}) || e.env["ROLES"] != "" {
		t.Errorf("%v with ROLES %q does not have all roles", e.args, e.env["ROLES"])
	}
	if e.env["LAUNCH_QUEUE"]+e.env["LEADER_LOCK"]+e.env["REDIS_URL"] != "" {
		t.Error("pods with all roles need no Redis")
	}
	if !strings.HasPrefix(e.env["DATABASE_URL"], "postgres://") {
		t.Errorf("DATABASE_URL is %q", e.env["DATABASE_URL"])
	}
	if d.Spec.Replicas < 2 {
		t.Errorf("%d replicas: no standby", d.Spec.Replicas)
	}
	if u, err := url.Parse(e.env["PUBLIC_URL"]); err != nil || u.Hostname() != fmt.Sprintf("carillon.%s.svc", kustomization(t).Namespace) || u.Port() != strconv.Itoa(byKind(t, "Service")["carillon"].Spec.Ports[0].Port) {
		t.Errorf("PUBLIC_URL is %s: executors do not reach the Service there", e.env["PUBLIC_URL"])
	}
}

// Pods have to migrate before they serve, and with the same database.
func TestPodsMigrateFirst(t *testing.T) {
	t.Parallel()
	all := podEnvironments(t)
	p := byKind(t, "Deployment")["carillon"].Spec.Template.Spec
	if len(p.InitContainers) != 1 || !slices.Equal(p.InitContainers[0].Args, []string{"migrate"}) {
		t.Fatalf("the init containers are %+v", p.InitContainers)
	}
	if a, b := all["migrate"].env["DATABASE_URL"], all["carillon"].env["DATABASE_URL"]; a != b || a == "" {
		t.Errorf("migrate opens %q and serve %q", a, b)
	}
}

// The environment of a process can be read for as long as it runs.
func TestSecretsOfPodsAreFiles(t *testing.T) {
	t.Parallel()
	settings := kustomization(t).settings(t, "carillon")
	for _, name := range []string{"DATABASE_URL", "REPORT_SECRET", "EXECUTOR_TOKEN", "METRICS_TOKEN", "AUTH_TOKENS"} {
		if settings[name] != "" || settings[name+"_FILE"] == "" {
			t.Errorf("%s is not read from a file", name)
		}
	}
	for _, v := range byKind(t, "Deployment")["carillon"].Spec.Template.Spec.Volumes {
		if v.Secret.SecretName != "" && v.Secret.DefaultMode != 0o440 {
			t.Errorf("volume %s has mode %o: fsGroup may read it, and others not", v.Name, v.Secret.DefaultMode)
		}
	}
}

// Until startupProbe has succeeded, livenessProbe does not count.
func TestProbesAllowForTheWaitForTheDatabase(t *testing.T) {
	t.Parallel()
	c := byKind(t, "Deployment")["carillon"].containers()[0]
	wait, err := time.ParseDuration(podEnvironments(t)["carillon"].env["DATABASE_WAIT_MS"] + "ms")
	if err != nil {
		t.Fatal(err)
	}
	if got := time.Duration(c.StartupProbe.PeriodSeconds*c.StartupProbe.FailureThreshold) * time.Second; got <= wait || c.StartupProbe.HTTPGet != c.LivenessProbe.HTTPGet {
		t.Errorf("the startup probe ends a pod after %s, and it waits for the database for %s", got, wait)
	}
}

func TestPodsLetOpenCallsOfTheExecutorEnd(t *testing.T) {
	t.Parallel()
	p := byKind(t, "Deployment")["carillon"].Spec.Template.Spec
	assertGrace(t, "kubernetes carillon", strconv.Itoa(p.TerminationGracePeriod)+"s")
}

// TestAChangeOfSettingsReplacesPods asks kustomize for the names that it makes.
func TestAChangeOfSettingsReplacesPods(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("kubectl")
	if err != nil {
		t.Skip("SKIPPED: no kubectl here")
	}
	folder := filepath.Join(t.TempDir(), "kubernetes")
	if err := os.CopyFS(folder, os.DirFS("kubernetes")); err != nil {
		t.Fatal(err)
	}
	template := func() string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), program, "kustomize", folder).CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		_, deployment, _ := strings.Cut(string(out), "kind: Deployment")
		deployment, _, _ = strings.Cut(deployment, "\n---")
		return deployment
	}
	before := template()
	if again := template(); again != before {
		t.Error("without a change the pods are replaced too")
	}
	for _, file := range []string{"config.env", "secrets/report-secret", "secrets/metrics-token", "secrets/tokens.yaml"} {
		whole := filepath.Join(folder, file)
		text := strings.Join(lines(t, filepath.Join("kubernetes", file)), "\n")
		if err := os.WriteFile(whole, []byte(text+"\n# changed\nLOG_LEVEL=debug\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		after := template()
		if after == before {
			t.Errorf("a change of %s does not replace the pods", file)
		}
		before = after
	}
}
