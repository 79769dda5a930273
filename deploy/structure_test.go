package deploy_test

import (
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func byKind(t *testing.T, kind string) map[string]object {
	t.Helper()
	out := make(map[string]object)
	for _, o := range objects(t) {
		if o.Kind == kind {
			out[o.Metadata.Name] = o
		}
	}
	return out
}

// The namespace enforces the restricted standard, and probes watch the pods.
func TestPodsKeepTheRestrictedStandard(t *testing.T) {
	t.Parallel()
	deployments := byKind(t, "Deployment")
	for name, o := range deployments {
		c := o.containers()[0]
		ports := make(map[string]bool)
		for _, port := range c.Ports {
			ports[port.Name] = true
		}
		if c.LivenessProbe.HTTPGet.Path != "/healthz" || c.ReadinessProbe.HTTPGet.Path != "/readyz" ||
			!ports[c.LivenessProbe.HTTPGet.Port] || !ports[c.ReadinessProbe.HTTPGet.Port] {
			t.Errorf("%s is not watched: %+v %+v", name, c.LivenessProbe, c.ReadinessProbe)
		}
		p := o.Spec.Template.Spec
		if s := p.SecurityContext; !s.RunAsNonRoot || s.RunAsUser == 0 || s.SeccompProfile.Type != "RuntimeDefault" {
			t.Errorf("%s: %+v", name, s)
		}
		if p.AutomountServiceAccountToken == nil || *p.AutomountServiceAccountToken {
			t.Errorf("%s gets a token of the cluster's", name)
		}
		volumes := make(map[string]bool)
		for _, v := range p.Volumes {
			volumes[v.Name] = true
		}
		for _, c := range slices.Concat(p.InitContainers, p.Containers) {
			s := c.SecurityContext
			if s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || !s.ReadOnlyRootFilesystem || !slices.Equal(s.Capabilities.Drop, []string{"ALL"}) {
				t.Errorf("%s: %+v", name, s)
			}
			if c.Image != "carillon" || c.Resources.Requests["cpu"] == "" || c.Resources.Limits["memory"] == "" {
				t.Errorf("%s: image %q, resources %+v", name, c.Image, c.Resources)
			}
			writable := false
			for _, m := range c.VolumeMounts {
				writable = writable || m.MountPath == "/data" && !m.ReadOnly
				if !volumes[m.Name] {
					t.Errorf("%s mounts %s, which is no volume of the pod", name, m.Name)
				}
			}
			if !writable {
				t.Errorf("%s has nowhere to write: DATA_DIR is /data in the image", name)
			}
		}
	}
}

func selects(selector, labels map[string]string) bool {
	for name, value := range selector {
		if labels[name] != value {
			return false
		}
	}
	return len(selector) > 0
}

// TestWhatSelectsPodsFindsSome holds services, budgets, policies and monitors to
// the labels and ports of the pods.
func TestWhatSelectsPodsFindsSome(t *testing.T) {
	t.Parallel()
	pods := byKind(t, "Deployment")
	found := make(map[string]int)
	for _, o := range objects(t) {
		var selector map[string]string
		switch o.Kind {
		case "Service":
			if err := o.Spec.Selector.Decode(&selector); err != nil {
				t.Fatal(err)
			}
		case "Deployment", "PodDisruptionBudget", "PodMonitor":
			var s labels
			if err := o.Spec.Selector.Decode(&s); err != nil {
				t.Fatal(err)
			}
			selector = s.MatchLabels
		case "NetworkPolicy":
			selector = o.Spec.PodSelector.MatchLabels
		default:
			continue
		}
		found[o.Kind]++
		hit := 0
		for name, p := range pods {
			if !selects(selector, p.Spec.Template.Metadata.Labels) {
				continue
			}
			hit++
			var names []string
			for _, port := range p.containers()[0].Ports {
				names = append(names, port.Name)
			}
			for _, port := range o.Spec.Ports {
				if o.Kind == "Service" && !slices.Contains(names, port.TargetPort) {
					t.Errorf("Service %s: %s has no port %s", o.Metadata.Name, name, port.TargetPort)
				}
			}
			for _, e := range o.Spec.PodMetricsEndpoints {
				if !slices.Contains(names, e.Port) {
					t.Errorf("PodMonitor %s: %s has no port %s", o.Metadata.Name, name, e.Port)
				}
			}
		}
		if want := o.Kind == "Deployment" || o.Kind == "PodDisruptionBudget"; hit == 0 || want && hit != 1 {
			t.Errorf("%s %s selects %d Deployments", o.Kind, o.Metadata.Name, hit)
		}
	}
	if want := map[string]int{"Service": 1, "Deployment": 1, "PodDisruptionBudget": 1, "NetworkPolicy": 1, "PodMonitor": 1}; !maps.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
}

func TestKustomizeNamesEveryManifest(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, path := range paths {
		if base := filepath.Base(path); base != "kustomization.yaml" {
			want = append(want, base)
		}
	}
	if got := slices.Sorted(slices.Values(byKind(t, "Kustomization")[""].Resources)); !slices.Equal(got, want) {
		t.Errorf("kustomization.yaml names %v; there are %v", got, want)
	}
}

// TestPrometheusOfComposeScrapesItsServices holds the two files to each other.
func TestPrometheusOfComposeScrapesItsServices(t *testing.T) {
	t.Parallel()
	var config struct {
		RuleFiles []string `yaml:"rule_files"`
		Scrapes   []struct {
			Job     string `yaml:"job_name"`
			Statics []struct {
				Targets []string `yaml:"targets"`
			} `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, "prometheus/prometheus.yml", &config)
	if len(config.Scrapes) != 1 || config.Scrapes[0].Job != "carillon" {
		t.Fatalf("scrapes %+v", config.Scrapes)
	}
	var want []string
	for name, e := range composed(t) {
		if e.args[0] == "serve" {
			want = append(want, name+":8080")
		}
	}
	slices.Sort(want)
	if got := slices.Sorted(slices.Values(config.Scrapes[0].Statics[0].Targets)); !slices.Equal(got, want) {
		t.Errorf("scrapes %v, want %v", got, want)
	}
	if out, err := promtool(t, "check", "config", "--syntax-only", "prometheus/prometheus.yml").CombinedOutput(); err != nil {
		t.Errorf("promtool check config: %v\n%s", err, out)
	}
}

// TestSystemdAcceptsTheUnits asks systemd itself, where it is.
func TestSystemdAcceptsTheUnits(t *testing.T) {
	t.Parallel()
	program, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("SKIPPED: no systemd here")
	}
	folder := t.TempDir()
	for _, file := range []string{"carillon.service", "carillon-migrate.service", "tokens.conf"} {
		to := filepath.Join(folder, file)
		if file == "tokens.conf" {
			to = filepath.Join(folder, "carillon.service.d", file)
		}
		text := strings.Join(lines(t, filepath.Join("systemd", file)), "\n")
		if err := errors.Join(os.MkdirAll(filepath.Dir(to), 0o700), os.WriteFile(to, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, unit := range []string{"carillon.service", "carillon-migrate.service"} {
		// The only complaint may be that the binary is not installed here.
		out, _ := exec.CommandContext(t.Context(), program, "verify", filepath.Join(folder, unit)).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			if strings.Contains(line, "carillon") && !strings.Contains(line, "/usr/local/bin/carillon is not executable") {
				t.Errorf("systemd-analyze verify: %s", line)
			}
		}
		out, err := exec.CommandContext(t.Context(), program, "security", "--offline=true", "--threshold=20", filepath.Join(folder, unit)).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "unrecognized option") {
			t.Errorf("systemd-analyze security: %v\n%s", err, out)
		}
	}
}
