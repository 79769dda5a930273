package deploy_test

import (
	"bytes"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/app"
)

// environment is what one process is started with.
type environment struct {
	args []string
	env  map[string]string
}

// environments are all processes of all manifests, by where they stand.
func environments(t *testing.T) map[string]environment {
	t.Helper()
	all := make(map[string]environment)
	image := make(map[string]string)
	for _, line := range lines(t, "docker/Dockerfile") {
		if rest, ok := strings.CutPrefix(line, "ENV "); ok {
			maps.Copy(image, assignments(strings.Fields(rest)))
		}
	}
	for name, e := range composed(t) {
		maps.Copy(e.env, missing(image, e.env))
		all["compose "+name] = e
	}
	all["systemd carillon.service"] = unitEnvironment(t, "carillon.service", "tokens.conf")
	all["systemd carillon-migrate.service"] = unitEnvironment(t, "carillon-migrate.service")
	for name, e := range podEnvironments(t) {
		maps.Copy(e.env, missing(image, e.env))
		all["kubernetes "+name] = e
	}
	return all
}

func missing(from, in map[string]string) map[string]string {
	out := maps.Clone(from)
	maps.DeleteFunc(out, func(name, _ string) bool { _, has := in[name]; return has })
	return out
}

func lines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(string(text), "\n")
}

func assignments(words []string) map[string]string {
	out := make(map[string]string)
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok {
			out[name] = value
		}
	}
	return out
}

// composed are the services of compose that run our image.
func composed(t *testing.T) map[string]environment {
	t.Helper()
	var file struct {
		Services map[string]struct {
			Image       string            `yaml:"image"`
			Command     []string          `yaml:"command"`
			Environment map[string]string `yaml:"environment"`
		} `yaml:"services"`
	}
	readYAML(t, "compose/compose.yaml", &file)
	fallback := regexp.MustCompile(`\$\{[A-Z_]+:-([^}]*)\}`)
	required := regexp.MustCompile(`^\$\{[A-Z_]+:\?[^}]*\}$`)
	out := make(map[string]environment)
	for name, s := range file.Services {
		if s.Image != "carillon" {
			continue
		}
		e := environment{args: s.Command, env: make(map[string]string)}
		for key, value := range s.Environment {
			e.env[key] = fallback.ReplaceAllString(value, "$1")
			if required.MatchString(value) { // the operator gives it
				e.env[key] = ownSecret
			}
		}
		out[name] = e
	}
	return out
}

// ownSecret is what an operator puts in the place of a secret.
const ownSecret = "8d1f0c6b2e9a47538d1c0e6b2f9a4735"

// unitEnvironment is the environment of a unit and its drop-ins, with its
// credentials in a temporary folder.
func unitEnvironment(t *testing.T, parts ...string) environment {
	t.Helper()
	credentials := t.TempDir()
	e := environment{env: make(map[string]string)}
	var text []string
	for _, part := range parts {
		text = append(text, lines(t, filepath.Join("systemd", part))...)
	}
	for _, line := range text {
		key, value, _ := strings.Cut(line, "=")
		switch key {
		case "ExecStart":
			e.args = strings.Fields(value)[1:]
		case "Environment":
			maps.Copy(e.env, assignments([]string{strings.ReplaceAll(value, "%d", credentials)}))
		case "EnvironmentFile":
			for _, setting := range lines(t, filepath.Join("systemd", filepath.Base(value))) {
				// What is commented out is an example, and is to be right too.
				if setting = strings.TrimPrefix(setting, "#"); !strings.HasPrefix(setting, " ") {
					maps.Copy(e.env, assignments([]string{setting}))
				}
			}
		case "LoadCredential":
			name, _, _ := strings.Cut(value, ":")
			if err := os.WriteFile(filepath.Join(credentials, name), []byte("postgres://u:p@127.0.0.1/carillon"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e
}

// podEnvironments are the containers of the Deployments. A secret file that a pod
// mounts is read from the folder that kustomize makes the Secret of.
func podEnvironments(t *testing.T) map[string]environment {
	t.Helper()
	k := kustomization(t)
	out := make(map[string]environment)
	for _, o := range byKind(t, "Deployment") {
		for _, c := range slices.Concat(o.Spec.Template.Spec.InitContainers, o.containers()) {
			e := environment{args: c.Args, env: make(map[string]string)}
			for _, from := range c.EnvFrom {
				maps.Copy(e.env, k.settings(t, from.ConfigMapRef.Name))
			}
			for _, v := range c.Env {
				e.env[v.Name] = v.Value
			}
			for name, path := range e.env {
				if !strings.HasSuffix(name, "_FILE") {
					continue
				}
				source := k.mounted(t, o.Spec.Template.Spec, c, path)
				if e.env[name] = source; name != "AUTH_TOKENS_FILE" && source != "" {
					delete(e.env, name)
					e.env[strings.TrimSuffix(name, "_FILE")] = strings.Join(lines(t, source), "")
				}
			}
			out[c.Name] = e
		}
	}
	return out
}

// TestEverySettingInTheManifestsIsOne starts no process, but has each process'
// settings read as it would read them.
func TestEverySettingInTheManifestsIsOne(t *testing.T) {
	known := map[string]bool{"PATH": true, "GOMEMLIMIT": true} // of the image, and of Go
	secret := make(map[string]bool)
	for _, s := range app.Settings() {
		known[s.Name], secret[s.Name] = true, s.Secret
		known[s.Name+"_FILE"] = s.Secret
	}
	all := environments(t)
	if len(all) < 9 {
		t.Fatalf("only %d processes found: %v", len(all), slices.Sorted(maps.Keys(all)))
	}
	for where, e := range all {
		t.Run(where, func(t *testing.T) {
			var examples []string // secrets that the operator replaces
			for name, value := range e.env {
				if !known[name] && !strings.HasPrefix(name, "OTEL_") {
					t.Errorf("%s is no setting", name)
				}
				if secret[name] && value != "" && value != ownSecret && !strings.Contains(value, "://") {
					examples = append(examples, name)
				}
				if name != "PATH" {
					t.Setenv(name, value)
				}
			}
			for _, name := range examples {
				if _, err := loadWith(t, e.args); err == nil || !strings.Contains(err.Error(), name+": is a placeholder") {
					t.Errorf("%s: the example's value is not refused: %v", name, err)
				}
			}
			for _, name := range examples {
				t.Setenv(name, ownSecret)
			}
			cfg, err := loadWith(t, e.args)
			if err == nil {
				err = cfg.CheckServe()
			}
			if err != nil || !cfg.OnPostgres() {
				t.Errorf("%v is refused: %v", e.args, err)
			}
		})
	}
	for name := range kustomization(t).settings(t, "carillon") {
		if secret[name] {
			t.Errorf("%s is a secret, and stands in a ConfigMap", name)
		}
	}
}

// loadWith reads a process' settings from its arguments and the environment.
func loadWith(t *testing.T, args []string) (app.Config, error) {
	t.Helper()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	overrides := map[string]any{}
	if args[0] == "migrate" {
		overrides["roles"] = "registrar"
	}
	app.Flags(fs, overrides)
	if err := fs.Parse(args[1:]); err != nil {
		t.Fatal(err)
	}
	return app.Load(fs, overrides)
}

// assertGrace checks the time that a process has to end. It waits for one call of
// the executor and 2 s for what follows.
func assertGrace(t *testing.T, where, grace string) {
	t.Helper()
	got, err := time.ParseDuration(grace)
	if err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	e, ok := environments(t)[where]
	if !ok {
		t.Fatalf("there is no process %s", where)
	}
	call := 10 * time.Second // the default of EXECUTOR_TIMEOUT_MS
	if set := e.env["EXECUTOR_TIMEOUT_MS"]; set != "" {
		if call, err = time.ParseDuration(set + "ms"); err != nil {
			t.Fatal(err)
		}
	}
	if drain := call + 2*time.Second; got <= drain {
		t.Errorf("%s has %s to end, and its open calls may take %s", where, got, drain)
	}
}

// A GOMEMLIMIT that is close to the container's limit, or above it, lets the
// kernel end the process before the garbage collector works harder.
func TestTheGoMemoryLimitFitsTheContainer(t *testing.T) {
	t.Parallel()
	limits := make(map[string]string) // by where GOMEMLIMIT is set
	for _, o := range byKind(t, "Deployment") {
		limits["kubernetes carillon"] = o.containers()[0].Resources.Limits["memory"]
	}
	var file struct {
		Services map[string]struct {
			Image, Command any
			MemLimit       string `yaml:"mem_limit"`
		}
	}
	readYAML(t, "compose/compose.yaml", &file)
	for _, name := range []string{"registrar", "worker-1", "worker-2", "launcher"} {
		limits["compose "+name] = file.Services[name].MemLimit
	}
	all := environments(t)
	if len(limits) != 5 {
		t.Fatalf("limits of %v", limits)
	}
	for where, container := range limits {
		whole, err := strconv.Atoi(strings.TrimRight(container, "Mim"))
		ours, err2 := strconv.Atoi(strings.TrimSuffix(all[where].env["GOMEMLIMIT"], "MiB"))
		if err := errors.Join(err, err2); err != nil {
			t.Errorf("%s: %v", where, err)
		}
		if ours > whole*9/10 || ours < whole*8/10 {
			t.Errorf("%s: GOMEMLIMIT is %d MiB, and the container's limit %d", where, ours, whole)
		}
	}
}

// object is what the manifests use of Kubernetes' types; a member that is not
// here is taken for a mistake.
type object struct {
	APIVersion string   `yaml:"apiVersion"`
	Kind       string   `yaml:"kind"`
	Metadata   metadata `yaml:"metadata"`
	Spec       struct {
		Replicas int
		Selector yaml.Node
		Strategy yaml.Node
		Template struct {
			Metadata metadata
			Spec     pod
		}
		MaxUnavailable      int       `yaml:"maxUnavailable"`
		Ports               []port    `yaml:"ports"`
		PodSelector         labels    `yaml:"podSelector"`
		PolicyTypes         []string  `yaml:"policyTypes"`
		Ingress             yaml.Node `yaml:"ingress"`
		PodMetricsEndpoints []struct {
			Port, Path, Interval string
			Authorization        struct{ Credentials key }
			Relabelings          yaml.Node
		} `yaml:"podMetricsEndpoints"`
	} `yaml:"spec"`

	// Of a Kustomization. Options that turn the hash off are not here.
	Namespace          string
	Resources          []string
	Components         []string
	Configurations     []string
	ConfigMapGenerator []generator `yaml:"configMapGenerator"`
	SecretGenerator    []generator `yaml:"secretGenerator"`
	Images             yaml.Node
	NameReference      yaml.Node `yaml:"nameReference"`
}

type generator struct {
	Name        string
	Envs, Files []string
}

type metadata struct {
	Name   string
	Labels map[string]string
}

type labels struct {
	MatchLabels map[string]string `yaml:"matchLabels"`
}

type key struct{ Name, Key string }

type port struct {
	Name          string
	Port          int
	TargetPort    string `yaml:"targetPort"`
	ContainerPort int    `yaml:"containerPort"`
}

type pod struct {
	TerminationGracePeriod       int   `yaml:"terminationGracePeriodSeconds"`
	AutomountServiceAccountToken *bool `yaml:"automountServiceAccountToken"`
	SecurityContext              struct {
		RunAsNonRoot   bool                  `yaml:"runAsNonRoot"`
		RunAsUser      int                   `yaml:"runAsUser"`
		RunAsGroup     int                   `yaml:"runAsGroup"`
		FSGroup        int                   `yaml:"fsGroup"`
		SeccompProfile struct{ Type string } `yaml:"seccompProfile"`
	} `yaml:"securityContext"`
	TopologySpreadConstraints []struct {
		MaxSkew           int    `yaml:"maxSkew"`
		TopologyKey       string `yaml:"topologyKey"`
		WhenUnsatisfiable string `yaml:"whenUnsatisfiable"`
		LabelSelector     labels `yaml:"labelSelector"`
	} `yaml:"topologySpreadConstraints"`
	InitContainers []container `yaml:"initContainers"`
	Containers     []container
	Volumes        []struct {
		Name     string
		EmptyDir yaml.Node `yaml:"emptyDir"`
		Secret   struct {
			SecretName  string `yaml:"secretName"`
			DefaultMode int    `yaml:"defaultMode"`
		} `yaml:"secret"`
	}
}

type probe struct {
	HTTPGet          struct{ Path, Port string } `yaml:"httpGet"`
	PeriodSeconds    int                         `yaml:"periodSeconds"`
	TimeoutSeconds   int                         `yaml:"timeoutSeconds"`
	FailureThreshold int                         `yaml:"failureThreshold"`
}

type container struct {
	Name, Image string
	Args        []string
	EnvFrom     []struct {
		ConfigMapRef struct{ Name string } `yaml:"configMapRef"`
	} `yaml:"envFrom"` // no secretRef and no valueFrom: secrets are files
	Env             []struct{ Name, Value string }
	Ports           []port
	StartupProbe    probe `yaml:"startupProbe"`
	LivenessProbe   probe `yaml:"livenessProbe"`
	ReadinessProbe  probe `yaml:"readinessProbe"`
	SecurityContext struct {
		AllowPrivilegeEscalation *bool `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool  `yaml:"readOnlyRootFilesystem"`
		Capabilities             struct{ Drop []string }
	} `yaml:"securityContext"`
	Resources    struct{ Requests, Limits map[string]string }
	VolumeMounts []struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	} `yaml:"volumeMounts"`
}

func (o object) containers() []container { return o.Spec.Template.Spec.Containers }

func objects(t *testing.T) []object {
	t.Helper()
	paths, err := filepath.Glob("kubernetes/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	more, err := filepath.Glob("kubernetes/monitoring/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var all []object
	for _, path := range append(paths, more...) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		decoder := yaml.NewDecoder(bytes.NewReader(text))
		decoder.KnownFields(true)
		for {
			var o object
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			all = append(all, o)
		}
	}
	return all
}
