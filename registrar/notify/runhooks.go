package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
)

// Retries of a message about a run.
const (
	defaultRetries = 3
	maxRetries     = 20
)

// RunHook is a target of messages about the ends of runs.
type RunHook struct {
	Target  // its ID is schedule.WebhookTarget of the name
	Name    string
	Owners  []string // that may use it; empty: every owner
	Retries int      // after the first attempt
}

// Allows reports whether an owner may use the target.
func (h *RunHook) Allows(owner string) bool {
	return len(h.Owners) == 0 || slices.Contains(h.Owners, owner)
}

// RunHooks are the targets in WEBHOOK_TARGETS_FILE.
type RunHooks struct{ hooks []RunHook }

// All are in the order of the file.
func (r *RunHooks) All() []RunHook {
	if r == nil {
		return nil
	}
	return r.hooks
}

// Named is the target with this name; nil: there is none.
func (r *RunHooks) Named(name string) *RunHook {
	for i, h := range r.All() {
		if h.Name == name {
			return &r.hooks[i]
		}
	}
	return nil
}

// runHooksFile is WEBHOOK_TARGETS_FILE; docs/queues.md.
type runHooksFile struct {
	Targets []runHookEntry `yaml:"targets"`
}

type runHookEntry struct {
	Name       string `yaml:"name"`
	URL        source `yaml:"url"`
	SecretFile string `yaml:"secret_file"`
	Owners     *words `yaml:"owners"`
	Retries    *int   `yaml:"retries"`
}

// ReadRunHooks reads a WEBHOOK_TARGETS_FILE. An error names the file, the line and the field, and
// no secret.
func ReadRunHooks(path string, policy safehttp.Policy) (*RunHooks, error) {
	if path == "" {
		return &RunHooks{}, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var f runHooksFile
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&f); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, yamlError(err))
	}
	var root yaml.Node
	_ = yaml.Unmarshal(text, &root) // it was read a moment ago; this time for the lines
	if len(f.Targets) > maxTargets {
		return nil, fmt.Errorf("%s: targets: has %d entries, more than %d", path, len(f.Targets), maxTargets)
	}
	r := &RunHooks{}
	for i := range f.Targets {
		h, name, err := f.Targets[i].hook(filepath.Dir(path), policy)
		if err == nil && r.Named(h.Name) != nil {
			name, err = "name", fmt.Errorf("%s is there twice", schedule.Quote(h.Name))
		}
		if err != nil {
			field := []string{"targets", fmt.Sprint(i), name}
			return nil, fmt.Errorf("%s: line %d: %s: %w", path, lineOf(&root, field), fieldName(field), err)
		}
		r.hooks = append(r.hooks, h)
	}
	return r, nil
}

// hook makes a target of its entry, or says which field is wrong.
func (e *runHookEntry) hook(folder string, policy safehttp.Policy) (h RunHook, field string, err error) {
	if !targetName.MatchString(e.Name) {
		return h, "name", fmt.Errorf("%s is not a name: 1 to 63 of a–z 0–9 _ -, the first a letter or digit", schedule.Quote(e.Name))
	}
	if e.URL.file != "" && !filepath.IsAbs(e.URL.file) {
		e.URL.file = filepath.Join(folder, e.URL.file)
	}
	if !e.URL.set() {
		return h, "url", errors.New("is missing")
	}
	address, err := e.URL.read()
	if err != nil {
		return h, "url", err
	}
	u, err := parseURL(address, policy)
	if err != nil {
		return h, "url", err
	}
	if e.SecretFile == "" {
		return h, "secret_file", errors.New("is missing: name a file with " + secretHint)
	}
	secrets := source{file: e.SecretFile}
	if !filepath.IsAbs(secrets.file) {
		secrets.file = filepath.Join(folder, secrets.file)
	}
	keys, err := secrets.read()
	if err == nil {
		_, err = parseSecrets(keys)
	}
	if err != nil {
		return h, "secret_file", err
	}
	h = RunHook{Name: e.Name, Retries: defaultRetries, Target: Target{
		ID: schedule.WebhookTarget(e.Name), Kind: KindWebhook, Host: u.Host, sender: &webhook{url: e.URL, secrets: secrets},
	}}
	if e.Retries != nil {
		if h.Retries = *e.Retries; h.Retries < 0 || h.Retries > maxRetries {
			return h, "retries", fmt.Errorf("%d is not within 0 to %d", h.Retries, maxRetries)
		}
	}
	if e.Owners == nil {
		return h, "", nil
	}
	for _, owner := range *e.Owners {
		if !schedule.ValidOwner(owner) {
			return h, "owners", fmt.Errorf("%s is not a user_id: %s", schedule.Quote(owner), schedule.OwnerHint)
		}
	}
	if h.Owners = *e.Owners; len(h.Owners) == 0 {
		return h, "owners", errors.New("is empty; leave it out for every owner")
	}
	return h, "", nil
}
