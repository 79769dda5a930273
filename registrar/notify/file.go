package notify

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/carillon/carillon/internal/safehttp"
	"github.com/carillon/carillon/internal/schedule"
)

// The bounds of the file.
const (
	maxFile    = 1 << 20
	maxTargets = 100
	maxRoutes  = 1000
)

// document is NOTIFY_FILE; docs/notifications.md.
type document struct {
	Targets []targetEntry `yaml:"targets"`
	Routes  []routeEntry  `yaml:"routes"`
	Default *words        `yaml:"default"`

	GroupWait     *span `yaml:"group_wait"`
	GroupInterval *span `yaml:"group_interval"`
}

type targetEntry struct {
	Name string `yaml:"name"`
	Kind Kind   `yaml:"kind"`

	URL        source `yaml:"url"`
	Secret     source `yaml:"secret"`
	RoutingKey source `yaml:"routing_key"`
	Token      source `yaml:"token"`

	SMTP         string `yaml:"smtp"`
	TLS          string `yaml:"tls"`
	CAFile       string `yaml:"ca_file"`
	Username     string `yaml:"username"`
	Password     source `yaml:"password"`
	From         string `yaml:"from"`
	To           words  `yaml:"to"`
	ToLabel      string `yaml:"to_label"`
	AllowDomains words  `yaml:"allow_domains"`
}

type routeEntry struct {
	Match    matchEntry `yaml:"match"`
	To       words      `yaml:"to"`
	Continue bool       `yaml:"continue"`
}

type matchEntry struct {
	Labels   map[string]words `yaml:"labels"`
	Owner    words            `yaml:"owner"`
	Severity words            `yaml:"severity"`
	Kind     words            `yaml:"kind"`
}

// span is a duration such as 30s or 5m.
type span time.Duration

// UnmarshalYAML takes Go's notation.
func (s *span) UnmarshalYAML(n *yaml.Node) error {
	d, err := time.ParseDuration(n.Value)
	if err != nil {
		return fmt.Errorf("line %d: %s is not a duration such as 30s or 5m", n.Line, schedule.Quote(n.Value))
	}
	*s = span(d)
	return nil
}

// words are one word or a list of them.
type words []string

// UnmarshalYAML takes both.
func (w *words) UnmarshalYAML(n *yaml.Node) error {
	list := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		list = n.Content
	}
	*w = words{}
	for _, item := range list {
		if item.Kind != yaml.ScalarNode {
			return fmt.Errorf("line %d: is not a word or a list of words", item.Line)
		}
		*w = append(*w, item.Value)
	}
	return nil
}

// UnmarshalYAML takes a text, {env: NAME} or {file: PATH}.
func (s *source) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		s.text = n.Value
		return nil
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 2 && n.Content[1].Kind == yaml.ScalarNode && n.Content[1].Value != "" {
		switch n.Content[0].Value {
		case "env":
			s.env = n.Content[1].Value
			return nil
		case "file":
			s.file = n.Content[1].Value
			return nil
		}
	}
	return fmt.Errorf("line %d: is neither a text nor {env: NAME} or {file: PATH}", n.Line)
}

// Read reads a NOTIFY_FILE and adds the targets of ALERT_WEBHOOK_URL. An error
// names the file, the line and the field, and no secret.
func Read(path string, always []Target, policy safehttp.Policy) (*Routes, error) {
	r := &Routes{targets: slices.Clone(always), grouping: Grouping{Wait: defaultGroupWait, Interval: defaultGroupInterval}}
	for i := range always {
		r.always = append(r.always, always[i].ID)
	}
	if path == "" {
		return r, nil
	}
	text, err := readFile(path)
	if err != nil {
		return nil, err
	}
	var d document
	dec := yaml.NewDecoder(bytes.NewReader(text))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("%s: %w", path, yamlError(err))
	}
	var root yaml.Node
	_ = yaml.Unmarshal(text, &root) // it was read a moment ago; this time for the lines
	p := parser{routes: r, policy: policy, folder: filepath.Dir(path)}
	if field, err := p.parse(&d); err != nil {
		return nil, fmt.Errorf("%s: line %d: %s: %w", path, lineOf(&root, field), fieldName(field), err)
	}
	return r, nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(text) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return text, err
}

var unknownField = regexp.MustCompile(`field (\S+) not found in type \S+`)

// yamlError shortens the library's error to one line without names of Go types.
func yamlError(err error) error {
	var wrong *yaml.TypeError
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	if errors.As(err, &wrong) {
		text = strings.Join(wrong.Errors, "; ")
	}
	return errors.New(unknownField.ReplaceAllString(text, "$1: is not a field here"))
}

// fieldName writes targets, 0, password as targets[0].password.
func fieldName(field []string) string {
	var b strings.Builder
	for i, name := range field {
		switch _, err := strconv.Atoi(name); {
		case err == nil:
			b.WriteString("[" + name + "]")
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// lineOf finds the line of a field such as targets, 0, password. A missing field has the line of
// its parent.
func lineOf(n *yaml.Node, field []string) int {
	if n.Kind == yaml.DocumentNode && len(n.Content) == 1 {
		n = n.Content[0]
	}
	for _, name := range field {
		next := (*yaml.Node)(nil)
		for i := range n.Content {
			switch {
			case n.Kind == yaml.SequenceNode && fmt.Sprint(i) == name:
				next = n.Content[i]
			case n.Kind == yaml.MappingNode && i%2 == 0 && i+1 < len(n.Content) && n.Content[i].Value == name:
				next = n.Content[i+1]
			}
		}
		if next == nil {
			break
		}
		n = next
	}
	return max(n.Line, 1)
}

// parser checks a document, and makes routes of it.
type parser struct {
	routes *Routes
	policy safehttp.Policy
	folder string // what paths in the file are relative to
}

// parse returns the field that is wrong with its error.
func (p *parser) parse(d *document) (field []string, err error) {
	if len(d.Targets) > maxTargets {
		return []string{"targets"}, fmt.Errorf("has %d entries, more than %d", len(d.Targets), maxTargets)
	}
	if len(d.Routes) > maxRoutes {
		return []string{"routes"}, fmt.Errorf("has %d entries, more than %d", len(d.Routes), maxRoutes)
	}
	if field, err := p.grouping(d); err != nil {
		return []string{field}, err
	}
	for i := range d.Targets {
		at := []string{"targets", fmt.Sprint(i)}
		t, name, err := p.target(&d.Targets[i])
		if err != nil {
			return append(at, name), err
		}
		if p.routes.Target(t.ID) != nil {
			return append(at, "name"), fmt.Errorf("%s is there twice", schedule.Quote(t.ID))
		}
		p.routes.targets = append(p.routes.targets, t)
	}
	for i := range d.Routes {
		at := []string{"routes", fmt.Sprint(i)}
		route, under, err := p.route(&d.Routes[i])
		if err != nil {
			return append(at, under...), err
		}
		p.routes.routes = append(p.routes.routes, route)
	}
	switch {
	case d.Default != nil:
		p.routes.rest = *d.Default
		return []string{"default"}, p.known(*d.Default)
	case len(d.Routes) > 0:
		return []string{"default"}, errors.New("is missing: name the targets of alerts that no route matches; [] for none")
	}
	for i := range d.Targets {
		p.routes.rest = append(p.routes.rest, d.Targets[i].Name)
	}
	return nil, nil
}

func (p *parser) grouping(d *document) (field string, err error) {
	g := &p.routes.grouping
	for _, f := range []struct {
		name        string
		value       *span
		least, most time.Duration
		to          *time.Duration
	}{
		{"group_wait", d.GroupWait, 0, mostGroupWait, &g.Wait},
		{"group_interval", d.GroupInterval, leastGroupInterval, mostGroupInterval, &g.Interval},
	} {
		if f.value == nil {
			continue
		}
		if *f.to = time.Duration(*f.value); *f.to < f.least || *f.to > f.most {
			return f.name, fmt.Errorf("%s is not within %s and %s", *f.to, f.least, f.most)
		}
	}
	return "", nil
}

func (p *parser) route(e *routeEntry) (route, []string, error) {
	r := route{to: e.To, onwards: e.Continue, match: matcher{owners: e.Match.Owner, severities: e.Match.Severity, kinds: e.Match.Kind}}
	if len(e.Match.Labels) > 0 {
		r.match.labels = make(map[string][]string)
	}
	for name, values := range e.Match.Labels {
		if len(values) == 0 {
			return r, []string{"match", "labels", name}, errors.New(`has no value; "*" matches any`)
		}
		r.match.labels[name] = values
	}
	if err := oneOf(e.Match.Severity, Severities); err != nil {
		return r, []string{"match", "severity"}, err
	}
	if err := oneOf(e.Match.Kind, schedule.ExpectationKinds); err != nil {
		return r, []string{"match", "kind"}, err
	}
	if e.To == nil {
		return r, []string{"to"}, errors.New("is missing: name targets; [] for none")
	}
	return r, []string{"to"}, p.known(e.To)
}

// oneOf refuses words outside a closed set.
func oneOf[T ~string](found []string, known []T) error {
	for _, word := range found {
		if !slices.Contains(known, T(word)) {
			return fmt.Errorf("%s is not one of %s", schedule.Quote(word), join(known))
		}
	}
	return nil
}

func join[T ~string](set []T) string {
	all := make([]string, len(set))
	for i := range set {
		all[i] = string(set[i])
	}
	return strings.Join(all, ", ")
}

// known refuses names that no target of the file has.
func (p *parser) known(names []string) error {
	for _, name := range names {
		if t := p.routes.Target(name); t == nil || slices.Contains(p.routes.always, name) {
			return fmt.Errorf("no target has the name %s", schedule.Quote(name))
		}
	}
	return nil
}
